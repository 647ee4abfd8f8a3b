"""The translator of group requests: member ids, generations and epochs, assignments, owned partitions.

    classic groups        `classic`, `rejoins`, `assignments`
    all other groups      `modern_groups`
    commits               `commits`
    made requests         `mending`
    state                 `members`, `member_states`

Every rule of these rooms is about one recorded group and its members. This module finds the room of an API.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from proxy.wire.errors import WireError
from recorder.replay.groups.classic import ClassicGroups
from recorder.replay.groups.commits import Commits
from recorder.replay.groups.members import Memberships
from recorder.replay.groups.mending import Mending
from recorder.replay.groups.modern_groups import ModernGroups
from recorder.replay.mapping import Pairs
from recorder.replay.names import Names
from recorder.replay.options import Options
from recorder.replay.plan import Exchange, MadeRequest, NotSent, Resend, Values
from recorder.replay.translator import Translator


class Groups(Translator):
    """The groups of one replay.

    Args:
        on_made_heartbeat: called with API, group and answer of each made heartbeat.
        is_unassigned: recorded group, generation -> True if the recording lacks its assignment.
    """

    def __init__(
        self,
        pairs: Pairs,
        names: Names,
        options: Options,
        on_made_heartbeat: Callable[[int, str, Values], None] = lambda api_key, group, answer: None,
        is_unassigned: Callable[[str, int], bool] = lambda group, generation: False,
    ) -> None:
        self._state = Memberships(pairs, names, options)
        self._state.on_made_heartbeat, self._state.is_unassigned = on_made_heartbeat, is_unassigned
        self._mending = Mending(self._state)
        self._classic = ClassicGroups(self._state)
        rooms = (self._classic, ModernGroups(self._state), Commits(self._state))
        self._rooms: dict[int, ClassicGroups | ModernGroups | Commits] = {
            key: room for room in rooms for key in room.API_KEYS
        }

    def was_read(self, exchange: Exchange) -> None:
        """A request was read. Its recorded answer may not be known yet."""
        self._note(exchange, self._classic.was_read)

    def will_not_leave(self, exchange: Exchange) -> None:
        """A request is withheld, because the recorded cluster refused it."""
        self._note(exchange, self._classic.will_not_leave)

    def due(self, exchange: Exchange) -> None:
        """A request is due, whatever it waits for. At `max` it is due as soon as it was read."""
        self._note(exchange, self._classic.due)

    def _note(self, exchange: Exchange, note: Callable[[Exchange], None]) -> None:
        if exchange.api_key in self._classic.API_KEYS and exchange.fault is None:
            with suppress(WireError):
                note(exchange)

    def concerns(self, api_key: int, version: int) -> bool:
        """True for APIs that this room translates."""
        return api_key in self._rooms

    def request(self, exchange: Exchange, values: Values, now: int) -> NotSent | None:
        """Translates `values`, or says why the request is not sent."""
        self._state.now = now
        room = self._rooms.get(exchange.api_key)
        return room.request(exchange, values) if room else None

    def sent(self, exchange: Exchange, values: Values, now: int) -> None:
        """The request leaves now."""
        self._state.now = now
        room = self._rooms.get(exchange.api_key)
        if room:
            room.sent(exchange, values)

    def answered(self, exchange: Exchange, values: Values, answer: Values, now: int) -> Resend | None:
        """Learns what the target assigned. Sends the request again after a refusal that can be mended."""
        self._state.now = now
        room = self._rooms.get(exchange.api_key)
        again = room.answered(exchange, values, answer) if room else None
        if room and not again:
            self._state.forget(exchange)
        return again

    def lost(self, exchange: Exchange, values: Values | None) -> None:
        """No answer will come."""
        room = self._rooms.get(exchange.api_key)
        if room:
            # a request that can't be read was never translated
            with suppress(WireError):
                room.lost(exchange)
            self._state.forget(exchange)

    def closed(self, connection: tuple[str, int]) -> None:
        """A recorded connection ended: its members fall silent, as in the recording."""
        self._state.close(connection)

    @property
    def touched(self) -> bool:
        """True if a group has changed since the last `tick`."""
        return self._state.touched

    def tick(self, now: int) -> tuple[list[MadeRequest], int | None]:
        """Made requests that are due, and when to ask next."""
        self._state.now = now
        return self._mending.tick(now)

    def finish(self, *, at_once: bool) -> list[MadeRequest]:
        """Departures of all members, each once. `at_once`: also of members with a request in flight."""
        return self._mending.finish(at_once=at_once)

    def departure_failures(self) -> list[str]:
        """Members that could not leave at the end, and why."""
        return self._mending.departure_failures()
