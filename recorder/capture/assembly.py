"""Makes frames of the log's entries again: frames and pairs them offline, by the same code as the proxy.

Knows entries and rows; never files. It follows the tap's verdicts on logins and never decides again, because the tokens
have been masked by then. Where the record of a connection breaks off (a hole), the frames that are arriving there are
dropped. The resync entry carries the state to go on with; the distance from the state at the hole is what was lost.

A damaged log lacks entries where there is no hole. Then a connection's entry numbers, or its stream offsets, don't
follow each other: its record breaks off there, and goes on at the next checkpoint. Other connections don't notice. The
roll at a segment's beginning names connections that have no other entry left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from itertools import chain
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
from recorder.capture.rows import RowMaker, RowSink
from recorder.capture.spool import MAX_OPEN, NO_CONNECTION, NUMBERS, Entry, EntryKind, size_of
from recorder.capture.streams import Streams
from recorder.capture.unknown_connections import UnknownConnections

Action = Callable[..., None]

# the cause of closing for connections that are open at the log's end
SESSION_ENDED = "session_ended"
# entries whose bytes are no frame -> the note of their row
NOTES = {EntryKind.UNFRAMED: "it can't be told what this is"} | {
    kind: cause.value for cause, kind in UNREADABLE.items()
}
# a length and a correlation id: no response made by the proxy is shorter
SHORTEST_MADE = 8
# the account of a gap in which the tap counted nothing
NOTHING_COUNTED: dict[str, Any] = {"early": [], "requests": {}, "responses": {}}


class Assembly:
    """All connections of a session, as the log describes them. Call `begin_range` before the first entry.

    `senseless_bytes`: size of the entries that have a right checksum and yet make no sense. `torn_bytes`: size of the
    unreadable end of a log that was not closed in order.
    """

    def __init__(self) -> None:
        self.routes: dict[Dialect, Routes] = {one.dialect: one for one in (Routes(), Routes07())}
        # number of an open connection -> its state, called a track
        self.tracks: dict[int, ConnectionState] = {}
        self.unknown = UnknownConnections()
        self.clock_ns = 0
        self.last_mono_ns = 0
        # `begun`: the session has its `started` event; `ended`: the log was closed in order
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
            EntryKind.BYTES: self._streams.arrived,
            EntryKind.OMITTED: self._omitted,
            EntryKind.HOLE: self._hole,
            EntryKind.MADE: self._made,
            EntryKind.LOGIN: self._login,
            EntryKind.END_OF_STREAM: self._end_of_stream,
            EntryKind.RESYNC: self._resync,
            EntryKind.CLOSED: self._closed,
            EntryKind.CHECKPOINT: self._checkpoint,
            **dict.fromkeys(NOTES, self._leftover),
        }
        self._session_actions: Mapping[int, Action] = {
            EntryKind.HOLE: self._connections_unlogged,
            EntryKind.CLOCK: self._clock,
            EntryKind.NODE: self._node,
            EntryKind.ROLL: self._roll,
            EntryKind.END: self._end,
        }

    def begin_range(self, sink: RowSink, clock_ns: int) -> None:
        """Directs all further rows to the files of a new range."""
        self.clock_ns = clock_ns
        self.rows = self._streams.rows = RowMaker(sink, clock_ns)
        self.events = Events(sink, clock_ns)
        self.senseless_bytes = 0
        for track in self.tracks.values():
            self.rows.describe(track)

    def begin_segment(self, mono_ns: int, spool_format: int) -> None:
        """Begins a segment; the first readable segment begins the session too."""
        self.last_mono_ns = self.last_mono_ns or mono_ns
        if not self.begun:
            self.begun = True
            self.events.session("started", mono_ns, {"spool_format": spool_format})

    def feed(self, entry: Entry) -> None:
        """Takes the next entry of the log."""
        connection = entry.connection
        try:
            if connection == NO_CONNECTION:
                self.last_mono_ns = entry.mono_ns
                _action(self._session_actions, entry)(entry)
                return
            track = self.tracks.get(connection)
            if track is None:
                self._feed_unknown(entry)
                return
            if entry.number != track.next_entry and entry.number >= 0:
                track.break_off(c.GAP_DAMAGE, self._streams.damaged_since_ns)
            # a checkpoint has the number of the entry that follows it
            track.next_entry = (entry.number + (entry.kind != EntryKind.CHECKPOINT)) % NUMBERS
            self.last_mono_ns = entry.mono_ns
            _action(self._actions, entry)(track, entry)
        except SenselessEntryError:
            self._pass_over(entry)

    def _feed_unknown(self, entry: Entry) -> None:
        """Takes an entry of a connection without a track: the entry is its opening, or the opening is lost."""
        connection = entry.connection
        if connection not in self.unknown:
            if len(self.tracks) + len(self.unknown) >= MAX_OPEN:
                raise SenselessEntryError("more connections than any proxy has")
            self.unknown.add(connection, 0, self._streams.damaged_since_ns, is_new=self._ledger.totals is not None)
        track = self.tracks[connection] = self.unknown.pop_track(connection)
        track.next_entry = (entry.number + (entry.kind != EntryKind.CHECKPOINT)) % NUMBERS
        self.last_mono_ns = entry.mono_ns
        try:
            _action(self._actions, entry)(track, entry)
        finally:
            if self.tracks.get(connection) is track and self.unknown.add_if_unknown(track):
                del self.tracks[connection]

    def damage(self) -> None:
        """Notes that entries are missing behind the last one. Without entry numbers, any connection may lack some."""
        self._streams.damaged_since_ns = self.last_mono_ns
        if not self.is_numbered:
            for track in self.tracks.values():
                track.break_off(c.GAP_DAMAGE, self.last_mono_ns)

    def forget(self) -> None:
        """Forgets all connections: the log up to here has become rows, but the state to go on with is lost."""
        self.tracks.clear()
        self.unknown.clear()
        self.begun = True
        self._ledger.totals = None

    def finish(self) -> None:
        """Ends the session and all connections that are still open."""
        for connection in [*self.tracks, *self.unknown]:
            self._close(self._pop(connection), self.last_mono_ns, SESSION_ENDED, {})
        cause, detail = (ENDED, {}) if self.ended else (DIED, {"torn_bytes": self.torn_bytes})
        self.events.session(cause, self.last_mono_ns, detail)

    def _pass_over(self, entry: Entry) -> None:
        """Counts a senseless entry's bytes, and breaks off the record of its connection."""
        self.senseless_bytes += size_of(entry)
        track = self.tracks.get(entry.connection)
        if track is not None:
            track.break_off(c.GAP_DAMAGE, self.last_mono_ns)

    # bytes of a stream

    def _omitted(self, track: ConnectionState, entry: Entry) -> None:
        fields = facts(entry)
        self._streams.omitted(track, entry, fields["length"], is_frame=fields.get("frame", False))

    def _leftover(self, track: ConnectionState, entry: Entry) -> None:
        if track.conversation is not None:
            self._streams.unframed(track, entry, NOTES[EntryKind(entry.kind)])

    # facts of a connection

    def _opened(self, track: ConnectionState, entry: Entry) -> None:
        if track.facts:
            raise SenselessEntryError("a connection is opened once")
        known = self._learn_opening(track, facts(entry), entry.mono_ns)
        known.broken = None
        known.conversation = Conversation(self.routes[known.dialect], known.limits, decides=False)

    def _learn_opening(self, track: ConnectionState, opened: dict[str, Any], opened_ns: int) -> ConnectionState:
        """Replaces a track without facts by one with the facts of the connection's opening."""
        known = self.tracks[track.connection] = track.with_opening(opened)
        self.rows.describe(known)
        self.events.opened(known, opened_ns)
        return known

    def _made(self, track: ConnectionState, entry: Entry) -> None:
        if len(entry.data) < SHORTEST_MADE:
            raise SenselessEntryError("the proxy's answers have heads")
        if track.conversation is not None:
            # LookupError: a checkpoint's state holds this answer already
            with suppress(LookupError):
                track.conversation.answer(track.answered_by_proxy(entry.offset), entry.data)
                self._streams.own_answers_due(track, track.conversation, entry.mono_ns)

    def _login(self, track: ConnectionState, entry: Entry) -> None:
        fields = facts(entry)
        if "principal" in fields:
            track.principal = fields["principal"]
            self.rows.describe(track)
        elif "token" not in fields or "ended" not in fields:
            raise SenselessEntryError("a login names a principal, or says what follows")
        elif track.conversation is not None:
            direction = Direction(entry.direction)
            verdict = Verdict(direction, entry.offset, fields["token"], fields["mechanism"], fields["ended"])
            track.conversation.follow(verdict)
        self.events.login(track, entry.mono_ns, fields | {"by": c.BY_BROKER if entry.direction else c.BY_CLIENT})

    def _end_of_stream(self, track: ConnectionState, entry: Entry) -> None:
        self.events.half_closed(track, entry.mono_ns, entry.direction)

    def _hole(self, track: ConnectionState, entry: Entry) -> None:
        track.break_off(facts(entry)["reason"], entry.mono_ns)

    def _resync(self, track: ConnectionState, entry: Entry) -> None:
        fields = facts(entry)
        if track.facts:
            # the hole may be missing where entries have no numbers
            track.break_off(c.GAP_DAMAGE, self._streams.damaged_since_ns)
            conversation = self._restored(track, entry.mono_ns, fields["state"], fields["account"])
            track.resume(conversation, fields.get("unwanted", ()))
            # an answer of the proxy may have waited for its turn
            self._streams.own_answers_due(track, conversation, entry.mono_ns)

    def _checkpoint(self, track: ConnectionState, entry: Entry) -> None:
        fields = facts(entry)
        if track.conversation is not None:
            return
        if not track.facts:
            track = self._learn_opening(track, fields["opened"], fields["opened_ns"])
        conversation = self._restored(track, entry.mono_ns, fields["state"], NOTHING_COUNTED)
        track.resume(conversation, fields["unwanted"], fields["arriving"])
        track.principal = fields["principal"]
        self.rows.describe(track)

    def _restored(
        self, track: ConnectionState, mono_ns: int, state: dict[str, Any], account: dict[str, Any]
    ) -> Conversation:
        """Writes the gap's event, and returns the conversation to go on with. `account`: what the tap counted."""
        try:
            conversation = Conversation.from_state(self.routes[track.dialect], state, track.limits)
        except ValueError as error:
            raise SenselessEntryError(f"no conversation's state: {error}") from error
        self.events.gap(track, mono_ns, conversation.sequence, sum(conversation.offsets), account)
        return conversation

    def _closed(self, track: ConnectionState, entry: Entry) -> None:
        fields = facts(entry)
        if "offsets" in fields and "sequence" in fields and self._ledger.totals is not None:
            self._ledger.totals.add_closed(fields["sequence"], fields["offsets"])
        del self.tracks[entry.connection]
        self._close(track, entry.mono_ns, fields["cause"], fields)

    def _close(self, track: ConnectionState, mono_ns: int, cause: str, fields: dict[str, Any]) -> None:
        conversation, frames, size = track.conversation, None, None
        if conversation is not None:
            self._streams.cut_off(track, conversation, mono_ns)
            frames, size = track.sequence, sum(conversation.offsets)
        elif "offsets" in fields and "sequence" in fields:
            frames, size = fields["sequence"], sum(fields["offsets"])
            self.events.gap(track, mono_ns, frames, size, fields.get("account", NOTHING_COUNTED))
        else:
            self.events.gap(track, mono_ns, None, sum(track.reached) if track.reached else None, None)
        self.events.closed(track, mono_ns, cause, frames, size, () if conversation is None else conversation.in_flight)

    # facts of the session

    def _connections_unlogged(self, entry: Entry) -> None:
        fields = facts(entry)
        if self._ledger.totals is not None:
            self._ledger.totals.add_unlogged(fields)
        missed = Missed(fields["connections"], fields["frames"], fields["bytes"])
        self.events.connections_lost(entry.mono_ns, fields["reason"], missed)

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
        fields = facts(entry)
        numbers = dict(fields["open"])
        ended = sorted({*self.tracks, *self.unknown} - numbers.keys())
        # before `missed` replaces the reader's totals: a reader that has lost them can't tell which connections are new
        is_new = self._ledger.totals is not None
        self._close_unseen(ended, self._ledger.missed(fields["closed"]), entry.mono_ns)
        for connection, number in numbers.items():
            self._stays_open(connection, number, is_new=is_new)

    def _stays_open(self, connection: int, number: int, *, is_new: bool) -> None:
        """Notes that a connection is open and that its next entry will have this number."""
        track, since_ns = self.tracks.get(connection), self._streams.damaged_since_ns
        if track is None:
            if connection in self.unknown:
                self.unknown.set_next_entry(connection, number)
            else:
                self.unknown.add(connection, number, since_ns, is_new=is_new)
            return
        if track.next_entry != number:
            track.break_off(c.GAP_DAMAGE, since_ns)
        track.next_entry = number

    def _pop(self, connection: int) -> ConnectionState:
        """Removes and returns the track of a connection that has ended."""
        return self.tracks.pop(connection) if connection in self.tracks else self.unknown.pop_track(connection)

    def _close_unseen(self, ended: list[int], missed: Missed | None, mono_ns: int) -> None:
        """Closes connections whose closing entries are lost. `missed`: the sum over all such connections."""
        since_ns = self._streams.damaged_since_ns
        is_single = missed is not None and missed.connections == len(ended) == 1
        recorded: list[tuple[int, int | None]] = []
        for connection in ended:
            track = self._pop(connection)
            track.break_off(c.GAP_DAMAGE, since_ns)
            if missed is not None and is_single:
                fields = {"sequence": missed.frames, "offsets": (missed.bytes, 0)}
                self._close(track, mono_ns, c.GAP_DAMAGE, fields)
                return
            recorded.append((track.sequence, None if track.broken is None else track.broken["behind"]))
            # its losses are counted in the event below, which is of all lost connections
            track.reached = None
            self._close(track, mono_ns, c.GAP_DAMAGE, {})
        if missed is not None and missed.connections:
            self.events.connections_lost(since_ns, c.GAP_DAMAGE, missed.without(recorded), ended)

    # state

    def state(self, blob: bytearray) -> dict[str, Any]:
        """The state behind this range, ready for JSON; bytes of unfinished frames are appended to `blob`."""
        totals = self._ledger.totals
        # one by one: a track takes much more memory than an unknown connection
        tracks = chain(self.tracks.values(), map(self.unknown.track, self.unknown))
        return {
            "clock_ns": self.clock_ns,
            "last_mono_ns": self.last_mono_ns,
            "since_ns": self._streams.damaged_since_ns,
            "begun": self.begun,
            "ended": self.ended,
            "is_numbered": self.is_numbered,
            "closed": None if totals is None else asdict(totals),
            "tracks": [track.state(blob) for track in tracks],
        }

    def restore(self, state: dict[str, Any], blob: bytes | memoryview) -> None:
        """Restores the result of `state`, with the blob that it appended to."""
        self.clock_ns, self.last_mono_ns = state["clock_ns"], state["last_mono_ns"]
        self.begun, self.ended = state["begun"], state["ended"]
        self._streams.damaged_since_ns, self.is_numbered = state["since_ns"], state["is_numbered"]
        self._ledger.totals = None if state["closed"] is None else Totals(**state["closed"])
        for saved in state["tracks"]:
            track = ConnectionState.from_state(self.routes, saved, blob)
            if not self.unknown.add_if_unknown(track):
                self.tracks[track.connection] = track


def _action(actions: Mapping[int, Action], entry: Entry) -> Action:
    action = actions.get(entry.kind)
    if action is None:
        raise SenselessEntryError("entries of this kind have a connection, or must have none")
    return action
