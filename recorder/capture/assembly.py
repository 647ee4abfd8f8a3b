"""The log's entries made into frames again: framed and paired by the same rooms as in the proxy, offline.

Knows entries and rows; never files. It follows the tap's verdicts on logins and never decides again, because the tokens
have been masked by then. Where the record of a connection breaks off (a hole) it drops what has come of the frames
there and goes on with the state that the resync entry carries; the numbers of both say how much was lost.

Entries may be missing without a hole: a damaged log. Then the numbers of a connection's entries and the offsets of its
streams don't follow each other; its record breaks off, and goes on at the next checkpoint. Connections that have lost
nothing don't notice. What no connection can tell any more, the roll at a segment's beginning does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from proxy.conversation.conversation import Conversation
from proxy.conversation.exchange import Direction
from proxy.conversation.kafka07 import Routes07
from proxy.conversation.routes import Routes
from proxy.conversation.step import Verdict
from proxy.wire.dialects import Dialect
from recorder.capture import frames as c
from recorder.capture.connection_recorder import UNREADABLE
from recorder.capture.connection_state import ConnectionState
from recorder.capture.events import Events
from recorder.capture.facts import SenselessEntryError, facts
from recorder.capture.ledger import Ledger, Missed
from recorder.capture.outcome import DIED, ENDED
from recorder.capture.roll import Totals
from recorder.capture.rows import RowMaker, Sink
from recorder.capture.spool import MOST_OPEN, NO_CONNECTION, NUMBERS, Entry, EntryKind, size_of
from recorder.capture.streams import Streams
from recorder.capture.unknown import Unknown

Action = Callable[..., None]

# the cause of connections that the log's end leaves open
SESSION_ENDED = "session_ended"
# entries whose bytes are no frame -> the note of their row
NOTES = {EntryKind.UNFRAMED: "it can't be told what this is"} | {
    kind: cause.value for cause, kind in UNREADABLE.items()
}
# a length and a correlation id: no answer of the proxy is shorter
SHORTEST_MADE = 8
# an account of a gap that nobody counted in
NOTHING_COUNTED: dict[str, Any] = {"early": [], "requests": {}, "responses": {}}


class Assembly:
    """All connections of a session, as the log tells of them. `begin_range` comes before the first entry.

    `senseless_bytes`: of entries with the right checksum that no tap wrote; `torn_bytes`: at the end of a log that was
    not closed in order.
    """

    def __init__(self) -> None:
        self.routes: dict[Dialect, Routes] = {one.dialect: one for one in (Routes(), Routes07())}
        self.tracks: dict[int, ConnectionState] = {}
        self.unknown = Unknown()
        self.clock_ns = 0
        self.last_mono_ns = 0
        # whether the session's beginning has been said, and whether it was closed in order
        self.begun = self.ended = False
        # whether the log's entries have numbers: those of format 1 have none
        self.is_numbered = True
        self.senseless_bytes = self.torn_bytes = 0
        self.rows: RowMaker
        self.events: Events
        self._streams = Streams()
        self._ledger = Ledger()
        self._actions: Mapping[int, Action] = {
            EntryKind.OPENED: self._opened,
            EntryKind.BYTES: self._bytes,
            EntryKind.OMITTED: self._omitted,
            EntryKind.HOLE: self._hole,
            EntryKind.MADE: self._made,
            EntryKind.LOGIN: self._login,
            EntryKind.END_OF_STREAM: self._end_of_stream,
            EntryKind.RESYNC: self._resync,
            EntryKind.CLOSED: self._closed,
            EntryKind.CHECKPOINT: self._checkpoint,
            **dict.fromkeys(NOTES, self._left_over),
        }
        self._actions_of_none: Mapping[int, Action] = {
            EntryKind.HOLE: self._unsaid,
            EntryKind.CLOCK: self._clock,
            EntryKind.NODE: self._node,
            EntryKind.ROLL: self._roll,
            EntryKind.END: self._end,
        }

    def begin_range(self, sink: Sink, clock_ns: int) -> None:
        """From here on rows go to this range's files."""
        self.clock_ns = clock_ns
        self.rows = self._streams.rows = RowMaker(sink, clock_ns)
        self.events = Events(sink, clock_ns)
        self.senseless_bytes = 0
        for track in self.tracks.values():
            self.rows.describe(track)

    def begin_session(self, mono_ns: int, spool_format: int) -> None:
        """A segment begins; the first one that can be read begins the session too."""
        self.last_mono_ns = self.last_mono_ns or mono_ns
        if not self.begun:
            self.begun = True
            self.events.session("started", mono_ns, {"spool_format": spool_format})

    def feed(self, entry: Entry) -> None:
        """One entry, in the log's order."""
        connection = entry.connection
        try:
            if connection == NO_CONNECTION:
                self.last_mono_ns = entry.mono_ns
                _action(self._actions_of_none, entry)(entry)
                return
            track = self.tracks.get(connection)
            if track is None:
                self._feed_unknown(entry)
                return
            if entry.number != track.next_entry and entry.number >= 0:
                track.break_off(c.GAP_DAMAGE, self._streams.since_ns)
            track.next_entry = (entry.number + (entry.kind != EntryKind.CHECKPOINT)) % NUMBERS
            self.last_mono_ns = entry.mono_ns
            _action(self._actions, entry)(track, entry)
        except SenselessEntryError:
            self._pass_over(entry)

    def _feed_unknown(self, entry: Entry) -> None:
        """An entry of a connection that has no track: this one opens it, or its opening is lost."""
        connection = entry.connection
        if connection not in self.unknown:
            self._meet(connection)
        track = self.tracks[connection] = self.unknown.take(connection)
        track.next_entry = (entry.number + (entry.kind != EntryKind.CHECKPOINT)) % NUMBERS
        self.last_mono_ns = entry.mono_ns
        try:
            _action(self._actions, entry)(track, entry)
        finally:
            if self.tracks.get(connection) is track and self.unknown.keep(track):
                del self.tracks[connection]

    def _meet(self, connection: int) -> None:
        if len(self.tracks) + len(self.unknown) >= MOST_OPEN:
            raise SenselessEntryError("more connections than any proxy has")
        is_new = self._ledger.closed is not None
        self.unknown.meet(connection, 0, self._streams.since_ns, is_new=is_new)

    def damage(self) -> None:
        """Entries are missing here, nobody knows which. Without numbers it may be any connection's."""
        self._streams.since_ns = self.last_mono_ns
        if not self.is_numbered:
            for track in self.tracks.values():
                track.break_off(c.GAP_DAMAGE, self.last_mono_ns)

    def forget(self) -> None:
        """What the log held up to here has become rows, and what was known of its connections is lost."""
        self.tracks.clear()
        self.unknown.clear()
        self.begun = True
        self._ledger.closed = None

    def finish(self) -> None:
        """The log has ended; so have all connections."""
        for connection in [*self.tracks, *self.unknown]:
            self._close(self._pop(connection), self.last_mono_ns, SESSION_ENDED, {})
        cause, detail = (ENDED, {}) if self.ended else (DIED, {"torn_bytes": self.torn_bytes})
        self.events.session(cause, self.last_mono_ns, detail)

    def _pass_over(self, entry: Entry) -> None:
        """Whatever an entry should have said of its connection is lost."""
        self.senseless_bytes += size_of(entry)
        track = self.tracks.get(entry.connection)
        if track is not None:
            track.break_off(c.GAP_DAMAGE, self.last_mono_ns)

    # bytes of a stream

    def _bytes(self, track: ConnectionState, entry: Entry) -> None:
        self._streams.arrived(track, entry)

    def _omitted(self, track: ConnectionState, entry: Entry) -> None:
        told = facts(entry)
        self._streams.omitted(track, entry, told["length"], is_frame=told.get("frame", False))

    def _left_over(self, track: ConnectionState, entry: Entry) -> None:
        if track.talk is not None:
            self._streams.unframed(track, entry, NOTES[EntryKind(entry.kind)])

    # facts of a connection

    def _opened(self, track: ConnectionState, entry: Entry) -> None:
        if track.facts:
            raise SenselessEntryError("a connection is opened once")
        known = self._introduce(track, facts(entry), entry.mono_ns)
        known.broken = None
        known.talk = Conversation(self.routes[known.dialect], known.limits, decides=False)

    def _introduce(self, track: ConnectionState, opened: dict[str, Any], opened_ns: int) -> ConnectionState:
        """Takes the place of a connection of which nothing was known."""
        known = self.tracks[track.connection] = track.introduced(opened)
        self.rows.describe(known)
        self.events.opened(known, opened_ns)
        return known

    def _made(self, track: ConnectionState, entry: Entry) -> None:
        if len(entry.data) < SHORTEST_MADE:
            raise SenselessEntryError("the proxy's answers have heads")
        if track.talk is not None:
            # one that a checkpoint has told already
            with suppress(LookupError):
                track.talk.made(track.answered_by_proxy(entry.offset), entry.data)
                self._streams.due(track, track.talk, entry.mono_ns)

    def _login(self, track: ConnectionState, entry: Entry) -> None:
        told = facts(entry)
        if "principal" in told:
            track.principal = told["principal"]
            self.rows.describe(track)
        elif "token" not in told or "ended" not in told:
            raise SenselessEntryError("a login says who it is, or what follows")
        elif track.talk is not None:
            direction = Direction(entry.direction)
            track.talk.follow(Verdict(direction, entry.offset, told["token"], told["mechanism"], told["ended"]))
        self.events.login(track, entry.mono_ns, told | {"by": c.BY_BROKER if entry.direction else c.BY_CLIENT})

    def _end_of_stream(self, track: ConnectionState, entry: Entry) -> None:
        self.events.half_closed(track, entry.mono_ns, entry.direction)

    def _hole(self, track: ConnectionState, entry: Entry) -> None:
        track.break_off(facts(entry)["reason"], entry.mono_ns)

    def _resync(self, track: ConnectionState, entry: Entry) -> None:
        told = facts(entry)
        if track.facts:
            # of a log without numbers the hole may be missing
            track.break_off(c.GAP_DAMAGE, self._streams.since_ns)
            talk = self._restored(track, entry.mono_ns, told["state"], told["account"])
            track.resume(talk, told.get("unwanted", ()))
            # an answer of the proxy that waited for its turn
            self._streams.due(track, talk, entry.mono_ns)

    def _checkpoint(self, track: ConnectionState, entry: Entry) -> None:
        told = facts(entry)
        if track.talk is not None:
            return
        if not track.facts:
            track = self._introduce(track, told["opened"], told["opened_ns"])
        talk = self._restored(track, entry.mono_ns, told["state"], NOTHING_COUNTED)
        track.resume(talk, told["unwanted"], told["arriving"])
        track.principal = told["principal"]
        self.rows.describe(track)

    def _restored(
        self, track: ConnectionState, mono_ns: int, state: dict[str, Any], account: dict[str, Any]
    ) -> Conversation:
        """What a record goes on with that had broken off; the gap is said."""
        try:
            talk = Conversation.from_state(self.routes[track.dialect], state, track.limits)
        except ValueError as error:
            raise SenselessEntryError(f"no conversation's state: {error}") from error
        self.events.gap(track, mono_ns, talk.sequence, sum(talk.offsets), account)
        return talk

    def _closed(self, track: ConnectionState, entry: Entry) -> None:
        told = facts(entry)
        if "offsets" in told and "sequence" in told and self._ledger.closed is not None:
            self._ledger.closed.closed(told["sequence"], told["offsets"])
        del self.tracks[entry.connection]
        self._close(track, entry.mono_ns, told["cause"], told)

    def _close(self, track: ConnectionState, mono_ns: int, cause: str, told: dict[str, Any]) -> None:
        talk, frames, size = track.talk, None, None
        if talk is not None:
            self._streams.cut_off(track, talk, mono_ns)
            frames, size = track.sequence, sum(talk.offsets)
        elif "offsets" in told and "sequence" in told:
            frames, size = told["sequence"], sum(told["offsets"])
            self.events.gap(track, mono_ns, frames, size, told.get("account", NOTHING_COUNTED))
        else:
            self.events.gap(track, mono_ns, None, sum(track.reached) if track.reached else None, None)
        self.events.closed(track, mono_ns, cause, frames, size, () if talk is None else talk.in_flight)

    # facts of no connection

    def _unsaid(self, entry: Entry) -> None:
        told = facts(entry)
        if self._ledger.closed is not None:
            self._ledger.closed.unsaid(told)
        missed = Missed(told["connections"], told["frames"], told["bytes"])
        self.events.connections_lost(entry.mono_ns, told["reason"], missed)

    def _clock(self, entry: Entry) -> None:
        self.events.clock(entry.mono_ns, entry.offset - self.clock_ns)
        self.clock_ns = self.events.clock_ns = entry.offset
        self.rows.set_clock(entry.offset)

    def _node(self, entry: Entry) -> None:
        self.events.node(entry.mono_ns, facts(entry))

    def _end(self, entry: Entry) -> None:
        # format 1 has no roll at its end
        if entry.data:
            self._roll(entry)
        self.ended = True

    def _roll(self, entry: Entry) -> None:
        told = facts(entry)
        numbers = dict(told["open"])
        ended = sorted({*self.tracks, *self.unknown} - numbers.keys())
        # asked before the roll's account becomes the reader's: who has lost their own can't tell whether one is new
        is_new = self._ledger.closed is not None
        self._end_unseen(ended, self._ledger.missed(told["closed"]), entry.mono_ns)
        for connection, number in numbers.items():
            self._goes_on(connection, number, is_new=is_new)

    def _goes_on(self, connection: int, number: int, *, is_new: bool) -> None:
        """A connection is open, and its next entry will have this number."""
        track, since_ns = self.tracks.get(connection), self._streams.since_ns
        if track is None:
            if connection in self.unknown:
                self.unknown.goes_on(connection, number)
            else:
                self.unknown.meet(connection, number, since_ns, is_new=is_new)
            return
        if track.next_entry != number:
            track.break_off(c.GAP_DAMAGE, since_ns)
        track.next_entry = number

    def _pop(self, connection: int) -> ConnectionState:
        """A connection's track, which has ended."""
        return self.tracks.pop(connection) if connection in self.tracks else self.unknown.take(connection)

    def _end_unseen(self, ended: list[int], missed: Missed | None, mono_ns: int) -> None:
        """Connections whose ends are lost, and `missed`: what all those held whose ends are, these among them."""
        since_ns, is_told = self._streams.since_ns, missed is not None and missed.connections == len(ended) == 1
        had: list[tuple[int, int | None]] = []
        for connection in ended:
            track = self._pop(connection)
            track.break_off(c.GAP_DAMAGE, since_ns)
            if missed is not None and is_told:
                told = {"sequence": missed.frames, "offsets": (missed.bytes, 0)}
                self._close(track, mono_ns, c.GAP_DAMAGE, told)
                return
            had.append((track.sequence, None if track.broken is None else track.broken["behind"]))
            # all that is missing of it is told with the others'
            track.reached = None
            self._close(track, mono_ns, c.GAP_DAMAGE, {})
        if missed is not None and missed.connections:
            self.events.connections_lost(since_ns, c.GAP_DAMAGE, missed.without(had), ended)

    # to go on elsewhere

    def state(self, blob: bytearray) -> dict[str, Any]:
        """Everything needed to go on behind this range, as JSON has it; bytes go into `blob`."""
        closed = self._ledger.closed
        return {
            "clock_ns": self.clock_ns,
            "last_mono_ns": self.last_mono_ns,
            "since_ns": self._streams.since_ns,
            "begun": self.begun,
            "ended": self.ended,
            "is_numbered": self.is_numbered,
            "closed": None if closed is None else asdict(closed),
            "tracks": [track.state(blob) for track in self._all_tracks()],
        }

    def restore(self, state: dict[str, Any], blob: bytes | memoryview) -> None:
        """Goes on from what `state` gave: the JSON-able part, and the bytes beside it."""
        self.clock_ns, self.last_mono_ns = state["clock_ns"], state["last_mono_ns"]
        self.begun, self.ended = state["begun"], state["ended"]
        self._streams.since_ns, self.is_numbered = state["since_ns"], state["is_numbered"]
        self._ledger.closed = None if state["closed"] is None else Totals(**state["closed"])
        for saved in state["tracks"]:
            track = ConnectionState.from_state(self.routes, saved, blob)
            if not self.unknown.keep(track):
                self.tracks[track.connection] = track

    def _all_tracks(self) -> Iterator[ConnectionState]:
        yield from self.tracks.values()
        for connection in [*self.unknown]:
            track = self.unknown.take(connection)
            yield track
            self.unknown.keep(track)


def _action(actions: Mapping[int, Action], entry: Entry) -> Action:
    action = actions.get(entry.kind)
    if action is None:
        raise SenselessEntryError("entries of this kind are of a connection, or those are of none")
    return action
