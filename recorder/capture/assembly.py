"""Turns the log's entries into rows of frames and events. Used by `compaction`, one `Assembly` for each session.

Knows entries and rows, never files. The proxy's own `conversation` makes frames and exchanges of the bytes again. Login
tokens are masked in the log, so the assembly follows the verdicts on logins that the tap has logged.

A GAP entry breaks off the record of its connection: frames that are arriving there are dropped. The RESYNC entry holds
the state with which the record resumes. If frame 7 is the next one at the gap's beginning, and frame 12 at its end,
five frames are lost.

A damaged log lacks entries without a GAP entry. The assembly notices that a connection's entry numbers, or its stream
offsets, are not consecutive. It breaks off the record of that connection, and resumes it at the next CHECKPOINT or
RESYNC entry. Other connections are not affected. The inventory of open connections, at a segment's beginning, shows
if all entries of a connection are lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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
from recorder.capture.cipher import ENCRYPTED_KINDS
from recorder.capture.closed_connections import MissedConnections, ReaderTotals
from recorder.capture.connection_recorder import UNREADABLE
from recorder.capture.connection_state import ConnectionState
from recorder.capture.entry_json import InvalidEntryError, decoded
from recorder.capture.events import Events
from recorder.capture.gap import COUNTED
from recorder.capture.inventory import ClosedTotals, Identities
from recorder.capture.outcome import DIED, ENDED, IMPORTED
from recorder.capture.record_hashing import RecordHashing
from recorder.capture.rows import RowMaker, RowSink
from recorder.capture.spool import (
    MAX_OPEN,
    NO_CONNECTION,
    NUMBERS,
    OF_STREAMS,
    SPOOL_FORMAT,
    Entry,
    EntryKind,
    parts,
    size_of,
)
from recorder.capture.streams import Streams
from recorder.capture.told_by_brokers import ToldByBrokers
from recorder.capture.unknown_connections import UnknownConnections

Action = Callable[..., None]

# the cause of closing for connections that are open at the log's end
SESSION_ENDED = "session_ended"
# entries whose bytes are no frame -> the note of their row
NOTES = {EntryKind.UNFRAMED: "it can't be told what this is"} | {
    kind: cause.value for cause, kind in UNREADABLE.items()
}
# a length and a correlation id: no answer of the proxy is shorter
SHORTEST_OWN_ANSWER = 8
# the account of a gap that the tap did not see
NOTHING_COUNTED: dict[str, Any] = {"early": [], "early_responses": [], **{name: {} for name in COUNTED}}


class Assembly:
    """All connections of a session, as the log describes them.

    The rows of one segment are a *range*: call `begin_range` before the first entry of each segment.

    Attributes:
        lost_bytes: the bytes of streams in entries of which only the heads can be read (`lose_key`).
        invalid_bytes: the size of this segment's entries with a right checksum and impossible contents.
        torn_bytes: the size of the unreadable end of a log whose writer was killed.
    """

    def __init__(self, hashing: RecordHashing | None = None) -> None:
        """`hashing`: what hashes records; None if no rule does."""
        self._hashing = hashing
        self.routes: dict[Dialect, Routes] = {routes.dialect: routes for routes in (Routes(), Routes07())}
        # number of an open connection -> its state; `unknown` has the connections whose opening is lost
        self.connections: dict[int, ConnectionState] = {}
        self.unknown = UnknownConnections()
        self.clock_offset_ns = 0
        self.last_mono_ns = 0
        # `begun`: the session has its `started` event; `ended`: the log was closed in order
        self.begun = self.ended = False
        self.invalid_bytes = self.torn_bytes = self.lost_bytes = 0
        self.rows: RowMaker
        self.events: Events
        self._streams = Streams(hashing)
        self._reader_totals = ReaderTotals()
        self._identities = Identities()
        self._told = ToldByBrokers()
        # the contents of the newest SETTINGS entry; None: unknown
        self._in_force: dict[str, Any] | None = None
        self._actions: Mapping[int, Action] = {
            EntryKind.OPENED: self._opened,
            EntryKind.BYTES: self._streams.arrived,
            EntryKind.OMITTED: self._omitted,
            EntryKind.CUT: self._cut,
            EntryKind.GAP: self._gap,
            EntryKind.OWN_ANSWER: self._own_answer,
            EntryKind.LOGIN: self._login,
            EntryKind.END_OF_STREAM: self._end_of_stream,
            EntryKind.RESYNC: self._resync,
            EntryKind.CLOSED: self._closed,
            EntryKind.CHECKPOINT: self._checkpoint,
            **dict.fromkeys(NOTES, self._leftover),
        }
        self._session_actions: Mapping[int, Action] = {
            EntryKind.GAP: self._connections_unlogged,
            EntryKind.CLOCK: self._clock,
            EntryKind.NODE: self._node,
            EntryKind.CLUSTER: self._cluster,
            EntryKind.SETTINGS: self._settings,
            EntryKind.IMPORTED: self._imported,
            EntryKind.INVENTORY: self._inventory,
            EntryKind.END: self._end,
        }

    def begin_range(self, sink: RowSink, clock_offset_ns: int) -> None:
        """Directs all further rows to `sink`. `clock_offset_ns`: wall clock minus monotonic clock."""
        self.clock_offset_ns = clock_offset_ns
        self.rows = self._streams.rows = RowMaker(sink, clock_offset_ns, self._told.add)
        self.events = Events(sink, clock_offset_ns)
        self.invalid_bytes = 0
        for conn in self.connections.values():
            self.rows.update_shared_values(conn)

    def begin_segment(self, mono_ns: int) -> None:
        """Notes the beginning of a segment; the first readable one adds the session's `started` event."""
        self.last_mono_ns = self.last_mono_ns or mono_ns
        if not self.begun:
            self.begun = True
            key = {} if self._hashing is None else {c.HASH_KEY: self._hashing.fingerprint}
            self.events.session("started", mono_ns, {"spool_format": SPOOL_FORMAT} | key)

    def feed(self, entry: Entry) -> None:
        """Takes the next entry of the log. An invalid entry is only counted, in `invalid_bytes`."""
        connection = entry.connection
        try:
            if connection == NO_CONNECTION:
                self.last_mono_ns = entry.mono_ns
                _action(self._session_actions, entry)(entry)
                return
            conn = self.connections.get(connection)
            if conn is None:
                self._feed_unknown(entry)
                return
            if entry.number != conn.next_entry:
                conn.break_off(c.GAP_DAMAGE, self._streams.damaged_since_ns)
            # a checkpoint has the number of the entry that follows it
            conn.next_entry = (entry.number + (entry.kind != EntryKind.CHECKPOINT)) % NUMBERS
            self.last_mono_ns = entry.mono_ns
            _action(self._actions, entry)(conn, entry)
        except InvalidEntryError:
            self._pass_over(entry)

    def _feed_unknown(self, entry: Entry) -> None:
        """Takes an entry of a connection that isn't in `connections`: its opening, or an entry after a lost opening."""
        connection = entry.connection
        if connection not in self.unknown:
            if len(self.connections) + len(self.unknown) >= MAX_OPEN:
                raise InvalidEntryError("more connections than any proxy has")
            self.unknown.add(
                connection, 0, self._streams.damaged_since_ns, is_new=self._reader_totals.totals is not None
            )
        conn = self.connections[connection] = self.unknown.pop_state(connection)
        conn.next_entry = (entry.number + (entry.kind != EntryKind.CHECKPOINT)) % NUMBERS
        self.last_mono_ns = entry.mono_ns
        try:
            _action(self._actions, entry)(conn, entry)
        finally:
            if self.connections.get(connection) is conn and self.unknown.add_if_unknown(conn):
                del self.connections[connection]

    def damage(self) -> None:
        """Notes that entries are missing after the last one. Entry numbers show which connections lack some."""
        self._streams.damaged_since_ns = self.last_mono_ns

    def lose_key(self) -> None:
        """Notes that the log's key is gone: from here on, of entries that hold traffic only the heads can be read."""
        self._actions = {**self._actions, **dict.fromkeys(ENCRYPTED_KINDS, self._unreadable)}

    def forget(self) -> None:
        """Forgets all connections: the log up to here has become rows, but the state after these rows is lost."""
        self.connections.clear()
        self.unknown.clear()
        self.begun = True
        self._reader_totals.totals = None

    def finish(self) -> None:
        """Ends the session and all connections that are still open."""
        for connection in [*self.connections, *self.unknown]:
            self._close(self._pop(connection), self.last_mono_ns, SESSION_ENDED, {})
        cause, detail = (ENDED, {}) if self.ended else (DIED, {"torn_bytes": self.torn_bytes})
        self.events.session(cause, self.last_mono_ns, detail)

    def end_range(self, hours: Iterable[int]) -> None:
        """Adds to each of these hours, which have rows, what is in force, and what the clusters can be known by."""
        for hour in hours:
            if self._in_force is not None:
                self.events.in_force(hour, self.last_mono_ns, self._in_force)
            for known in self._identities.values():
                self.events.cluster(hour, self.last_mono_ns, known | self._told.of(known["cluster"]))

    def _pass_over(self, entry: Entry) -> None:
        """Counts an invalid entry's bytes, and breaks off the record of its connection."""
        self.invalid_bytes += size_of(entry)
        conn = self.connections.get(entry.connection)
        if conn is not None:
            conn.break_off(c.GAP_DAMAGE, self.last_mono_ns)

    # a connection's bytes

    def _unreadable(self, conn: ConnectionState, entry: Entry) -> None:
        """Takes the head of an entry that can't be decrypted: the connection's record breaks off before its bytes."""
        if entry.kind == EntryKind.CHECKPOINT:
            return
        conn.break_off(c.GAP_KEY, entry.mono_ns)
        if conn.broken is not None and entry.kind == EntryKind.RESYNC:
            # what would have been recorded again is lost as well
            conn.broken["reason"] = c.GAP_KEY
        if entry.kind in OF_STREAMS:
            self.lost_bytes += len(entry.data)
            left_out = sum(length for _, length in entry.spans) if entry.kind == EntryKind.CUT else 0
            conn.reach(entry.direction, entry.offset + len(entry.data) + left_out)

    def _omitted(self, conn: ConnectionState, entry: Entry) -> None:
        fields = decoded(entry)
        is_left_out, counted = fields.get("frame", False), fields.get("counted", ())
        self._streams.omitted(conn, entry, fields["length"], begins_left_out_frame=is_left_out, counted=counted)

    def _cut(self, conn: ConnectionState, entry: Entry) -> None:
        try:
            found = [*parts(entry)]
        except ValueError as error:
            raise InvalidEntryError(str(error)) from error
        direction, mono_ns = entry.direction, entry.mono_ns
        for offset, data, absent, left_out in found:
            arrived = Entry(EntryKind.BYTES, direction, entry.connection, offset, mono_ns, data)
            if data:
                self._streams.arrived(conn, arrived, absent)
            if left_out:
                behind = arrived._replace(offset=offset + len(data))
                self._streams.omitted(conn, behind, left_out, are_records=True)

    def _leftover(self, conn: ConnectionState, entry: Entry) -> None:
        if conn.conversation is not None:
            self._streams.unframed(conn, entry, NOTES[EntryKind(entry.kind)])

    # a connection's control entries

    def _opened(self, conn: ConnectionState, entry: Entry) -> None:
        if conn.opening:
            raise InvalidEntryError("a connection is opened twice")
        known = self._learn_opening(conn, decoded(entry), entry.mono_ns)
        known.broken = None
        known.conversation = Conversation(self.routes[known.dialect], known.limits, decides=False)

    def _learn_opening(self, conn: ConnectionState, opened: dict[str, Any], opened_ns: int) -> ConnectionState:
        """Replaces the state of a connection whose opening was unknown by one that knows it; returns the new state."""
        known = self.connections[conn.connection] = conn.with_opening(opened)
        self.rows.update_shared_values(known)
        self.events.opened(known, opened_ns)
        return known

    def _own_answer(self, conn: ConnectionState, entry: Entry) -> None:
        if len(entry.data) < SHORTEST_OWN_ANSWER:
            raise InvalidEntryError("an answer of the proxy is too short for its head")
        if conn.conversation is not None:
            # LookupError: the state of a checkpoint holds this answer already
            with suppress(LookupError):
                conn.conversation.answer(conn.answered_by_proxy(entry.offset), entry.data)
                self._streams.own_answers_due(conn, conn.conversation, entry.mono_ns)

    def _login(self, conn: ConnectionState, entry: Entry) -> None:
        fields = decoded(entry)
        if "principal" in fields:
            conn.principal = fields["principal"]
            self.rows.update_shared_values(conn)
        elif "token" not in fields or "ended" not in fields:
            raise InvalidEntryError("a login without a principal and without a verdict")
        elif conn.conversation is not None:
            direction = Direction(entry.direction)
            verdict = Verdict(direction, entry.offset, fields["token"], fields["mechanism"], fields["ended"])
            conn.conversation.follow(verdict)
        self.events.login(conn, entry.mono_ns, fields | {"by": c.BY_BROKER if entry.direction else c.BY_CLIENT})

    def _end_of_stream(self, conn: ConnectionState, entry: Entry) -> None:
        conn.reach(entry.direction, entry.offset)
        self.events.half_closed(conn, entry.mono_ns, entry.direction)

    def _gap(self, conn: ConnectionState, entry: Entry) -> None:
        conn.break_off(decoded(entry)["reason"], entry.mono_ns)

    def _resync(self, conn: ConnectionState, entry: Entry) -> None:
        fields = decoded(entry)
        if conn.opening:
            # a log that nobody's tap has written may lack the GAP entry
            conn.break_off(c.GAP_DAMAGE, self._streams.damaged_since_ns)
            conversation = self._restored(conn, entry.mono_ns, fields["state"], fields["account"])
            conn.resume(conversation, fields["left_out_responses"])
            # the restored state may hold an answer of the proxy that is due
            self._streams.own_answers_due(conn, conversation, entry.mono_ns)

    def _checkpoint(self, conn: ConnectionState, entry: Entry) -> None:
        fields = decoded(entry)
        if conn.conversation is not None:
            return
        if not conn.opening:
            conn = self._learn_opening(conn, fields["opened"], fields["opened_ns"])
        conversation = self._restored(conn, entry.mono_ns, fields["state"], NOTHING_COUNTED)
        conn.resume(conversation, fields["left_out_responses"], fields["arriving"])
        conn.principal = fields["principal"]
        self.rows.update_shared_values(conn)

    def _restored(
        self, conn: ConnectionState, mono_ns: int, state: dict[str, Any], account: dict[str, Any]
    ) -> Conversation:
        """Adds the event of a gap; returns the conversation in `state`. `account`: the tap's counts of the losses."""
        try:
            conversation = Conversation.from_state(self.routes[conn.dialect], state, conn.limits)
        except ValueError as error:
            raise InvalidEntryError(f"not the state of a conversation: {error}") from error
        self.events.gap(conn, mono_ns, conversation.sequence, sum(conversation.offsets), account)
        return conversation

    def _closed(self, conn: ConnectionState, entry: Entry) -> None:
        fields = decoded(entry)
        if self._reader_totals.totals is not None:
            self._reader_totals.totals.add_closed(fields["sequence"], fields["offsets"])
        del self.connections[entry.connection]
        self._close(conn, entry.mono_ns, fields["cause"], fields)

    def _close(self, conn: ConnectionState, mono_ns: int, cause: str, fields: dict[str, Any]) -> None:
        conversation, frames, size = conn.conversation, None, None
        if conversation is not None:
            self._streams.add_incomplete_frames(conn, conversation, mono_ns)
            frames, size = conn.sequence, sum(conversation.offsets)
        elif fields:
            frames, size = fields["sequence"], sum(fields["offsets"])
            self.events.gap(conn, mono_ns, frames, size, fields.get("account", NOTHING_COUNTED))
        else:
            self.events.gap(conn, mono_ns, None, sum(conn.reached) if conn.reached else None, None)
        unfinished = () if conversation is None else conversation.in_flight
        self.events.closed(conn, mono_ns, cause, frames, size, unfinished, fields.get("decision", {}))

    # entries without a connection

    def _connections_unlogged(self, entry: Entry) -> None:
        fields = decoded(entry)
        if self._reader_totals.totals is not None:
            self._reader_totals.totals.add_unlogged(fields)
        missed = MissedConnections(fields["connections"], fields["frames"], fields["bytes"])
        self.events.connections_lost(entry.mono_ns, fields["reason"], missed)

    def _clock(self, entry: Entry) -> None:
        self.events.clock(entry.mono_ns, entry.offset - self.clock_offset_ns)
        self.clock_offset_ns = self.events.clock_offset_ns = entry.offset
        self.rows.set_clock(entry.offset)

    def _node(self, entry: Entry) -> None:
        self.events.node(entry.mono_ns, decoded(entry))

    def _cluster(self, entry: Entry) -> None:
        self._identities.add(decoded(entry))

    def _settings(self, entry: Entry) -> None:
        fields, before = decoded(entry), self._in_force
        self._in_force = fields
        if before is None:
            self.events.settings(entry.mono_ns, fields, None)
            return
        old, new = before.get(c.SETTINGS, {}), fields.get(c.SETTINGS, {})
        changed = sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
        self.events.settings(entry.mono_ns, fields, changed)

    def _imported(self, entry: Entry) -> None:
        self.events.session(IMPORTED, entry.mono_ns, decoded(entry))

    def _end(self, entry: Entry) -> None:
        self._inventory(entry)
        self.ended = True

    def _inventory(self, entry: Entry) -> None:
        fields = decoded(entry)
        for known in fields["clusters"]:
            self._identities.add(known)
        self._in_force = self._in_force or fields.get("in_force")
        numbers = dict(fields["open"])
        ended = sorted({*self.connections, *self.unknown} - numbers.keys())
        # set before `adopt` replaces the totals: without totals, an unknown connection may have rows already
        is_new = self._reader_totals.totals is not None
        self._close_unseen(ended, self._reader_totals.adopt(fields["closed"]), entry.mono_ns)
        for connection, number in numbers.items():
            self._stays_open(connection, number, is_new=is_new)

    def _stays_open(self, connection: int, number: int, *, is_new: bool) -> None:
        """Notes that a connection is open and that its next entry has this number."""
        conn, since_ns = self.connections.get(connection), self._streams.damaged_since_ns
        if conn is None:
            if connection in self.unknown:
                self.unknown.set_next_entry(connection, number)
            else:
                self.unknown.add(connection, number, since_ns, is_new=is_new)
            return
        if conn.next_entry != number:
            conn.break_off(c.GAP_DAMAGE, since_ns)
        conn.next_entry = number

    def _pop(self, connection: int) -> ConnectionState:
        """Removes and returns the state of a connection that has ended."""
        return (
            self.connections.pop(connection) if connection in self.connections else self.unknown.pop_state(connection)
        )

    def _close_unseen(self, ended: list[int], missed: MissedConnections | None, mono_ns: int) -> None:
        """Closes the connections `ended`, whose closing entries are lost.

        `missed`: the totals of all connections whose closing is lost, not only of `ended`; None: unknown.
        """
        since_ns = self._streams.damaged_since_ns
        is_single = missed is not None and missed.connections == len(ended) == 1
        recorded: list[tuple[int, int | None]] = []
        for connection in ended:
            conn = self._pop(connection)
            conn.break_off(c.GAP_DAMAGE, since_ns)
            if missed is not None and is_single:
                fields = {"sequence": missed.frames, "offsets": (missed.bytes, 0)}
                self._close(conn, mono_ns, c.GAP_DAMAGE, fields)
                return
            recorded.append((conn.sequence, None if conn.broken is None else conn.broken["behind"]))
            # the event below has the losses of all connections, so this connection's own gap has none
            conn.reached = None
            self._close(conn, mono_ns, c.GAP_DAMAGE, {})
        if missed is not None and missed.connections:
            self.events.connections_lost(since_ns, c.GAP_DAMAGE, missed.without(recorded), ended)

    # state

    def state(self, blob: bytearray) -> dict[str, Any]:
        """The state after this range as JSON values; bytes of unfinished frames are appended to `blob`."""
        return self._state(lambda conn: conn.state(blob))

    def state_in_clear(self) -> dict[str, Any]:
        """As `state`, without a byte of traffic: all that is known where the key of an encrypted state is gone."""
        return self._state(lambda conn: conn.state_in_clear(c.GAP_KEY, self.last_mono_ns))

    def _state(self, state_of: Callable[[ConnectionState], dict[str, Any]]) -> dict[str, Any]:
        totals = self._reader_totals.totals
        # made one by one: a ConnectionState takes much more memory than an unknown connection
        connections = chain(self.connections.values(), map(self.unknown.state_of, self.unknown))
        return {
            "clock_ns": self.clock_offset_ns,
            "last_mono_ns": self.last_mono_ns,
            "damaged_since_ns": self._streams.damaged_since_ns,
            "begun": self.begun,
            "ended": self.ended,
            "closed": None if totals is None else asdict(totals),
            "clusters": self._identities.values(),
            **({} if self._in_force is None else {"in_force": self._in_force}),
            "topics": [] if self._hashing is None else self._hashing.state(),
            "connections": [state_of(conn) for conn in connections],
        }

    def restore(self, state: dict[str, Any], blob: bytes | memoryview) -> None:
        """Restores the result of `state`. `blob`: the bytes that `state` appended. Raises ValueError."""
        self.clock_offset_ns, self.last_mono_ns = state["clock_ns"], state["last_mono_ns"]
        self.begun, self.ended = state["begun"], state["ended"]
        self._streams.damaged_since_ns = state["damaged_since_ns"]
        self._reader_totals.totals = None if state["closed"] is None else ClosedTotals(**state["closed"])
        for known in state["clusters"]:
            self._identities.add(known)
        self._in_force = state.get("in_force")
        if self._hashing is not None:
            self._hashing.restore(state["topics"])
        for saved in state["connections"]:
            conn = ConnectionState.from_state(self.routes, saved, blob)
            if not self.unknown.add_if_unknown(conn):
                self.connections[conn.connection] = conn


def _action(actions: Mapping[int, Action], entry: Entry) -> Action:
    action = actions.get(entry.kind)
    if action is None:
        raise InvalidEntryError("the kind of the entry does not fit its connection")
    return action
