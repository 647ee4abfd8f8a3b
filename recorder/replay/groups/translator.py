"""The translator of group requests: member ids, generations and epochs, assignments, what members own.

    classic groups        `classic`, `rejoins`, `assignments`
    all other groups      `modern_groups`
    commits               `commits`
    requests made         `mending`
    the state of them     `members`

Every rule of these rooms is about one recorded group and its members; this module finds the room of an API.
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
from recorder.replay.mapping import Pairs, What
from recorder.replay.names import Names
from recorder.replay.options import Options
from recorder.replay.plan import Again, Exchange, Made, Refusal, Values


class Groups:
    """The groups of one replay. `beaten`: told the API, group and answer of heartbeats that the replay makes."""

    def __init__(
        self,
        pairs: Pairs,
        names: Names,
        options: Options,
        beaten: Callable[[int, str, Values], None] = lambda api_key, group, answer: None,
    ) -> None:
        self._state = Memberships(pairs, names, options)
        self._state.beaten = beaten
        self._mending = Mending(self._state)
        self._classic = ClassicGroups(self._state)
        rooms = (self._classic, ModernGroups(self._state), Commits(self._state))
        self._rooms: dict[int, ClassicGroups | ModernGroups | Commits] = {
            key: room for room in rooms for key in room.API_KEYS
        }

    def due(self, exchange: Exchange) -> None:
        """A request's time has come (at `max`: it was read), whatever else it waits for."""
        if exchange.api_key in self._classic.API_KEYS and exchange.fault is None:
            with suppress(WireError):
                self._classic.due(exchange)

    def concerns(self, api_key: int, version: int) -> bool:
        """True for APIs that these rules are about: nothing else is asked here."""
        return api_key in self._rooms

    def request(self, exchange: Exchange, values: Values, now: int) -> Refusal | None:
        """Rewrites `values`, or says why not."""
        self._state.now = now
        room = self._rooms.get(exchange.api_key)
        return room.request(exchange, values) if room else None

    def sent(self, exchange: Exchange, values: Values, now: int) -> None:
        """The request leaves now."""
        self._state.now = now
        room = self._rooms.get(exchange.api_key)
        if room:
            room.sent(exchange, values)

    def answered(self, exchange: Exchange, values: Values, answer: Values, now: int) -> Again | None:
        """Learns what the target assigned; sends the request again where a refusal can be mended."""
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
            # one that can't be read was never asked for
            with suppress(WireError):
                room.lost(exchange)
            self._state.forget(exchange)

    def closed(self, connection: tuple[str, int]) -> None:
        """A recorded connection ended: its members fall silent, as they did."""
        self._state.close(connection)

    @property
    def touched(self) -> bool:
        """True if something happened to a group since the last `tick`."""
        return self._state.touched

    def tick(self, now: int) -> tuple[list[Made], int | None]:
        """Made requests that are due, and when to ask next."""
        self._state.now = now
        return self._mending.tick(now)

    def finish(self, *, at_once: bool) -> list[Made]:
        """Members leave, once. `at_once`: those too of which a request is on its way."""
        return self._mending.finish(at_once=at_once)

    def left_in(self) -> list[str]:
        """Members whose departure at the end did not succeed, and why."""
        return self._mending.left_in()

    # -- for the comparison -----------------------------------------------------------------------------------------

    def expected(self, what: What, scope: tuple[str, str] | str, recorded: str | int) -> object | None:
        """The target's value for a recorded one; None where no answer gave it.

        Args:
            scope: of a member id its recorded group; of a generation or member epoch, (recorded group, member id).
        """
        return self._state.pairs.target(what, recorded, scope)

    def leader(self, group: str) -> str | None:
        """The recorded id of the member that the target elected last; None while it is no member of the recording."""
        found = self._state.groups.get(group)
        members = found.members.values() if found and found.leader else ()
        return next((member.id for member in members if found and member.target == found.leader), None)
