"""The proxy's observer: takes each chunk when it arrives, before it is sent on, and queues it for the writer's thread.

An ordinary chunk costs one tuple: a reference to its bytes, with the place and the time of their arrival. Chunks with
frames to mask, logins or unclassified bytes go through `ConnectionRecorder`. If the queue is full, chunks are not
recorded (a *gap*), and the log accounts for them as soon as there is room again; or, by a setting, the traffic waits.
The queue's size is the memory that it takes: the entries' bytes, and ENTRY_COST for each entry.
"""

from __future__ import annotations

import json
import platform
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from itertools import islice
from logging import ERROR, WARNING
from pathlib import Path
from types import MappingProxyType
from typing import Any

from proxy.conversation.conversation import Conversation
from proxy.conversation.exchange import Cause, Direction, Exchange
from proxy.conversation.step import Step
from proxy.files import Folder
from proxy.log import log
from proxy.observer import OpenedConnection
from proxy.schema.faults import KeyPath
from proxy.schema.flags import CLUSTERS
from proxy.schema.toml import dotted
from proxy.version import program_version
from recorder.capture import frames as c
from recorder.capture import redaction
from recorder.capture import session as sessions
from recorder.capture.cipher import LogCipher
from recorder.capture.connection_recorder import ConnectionRecorder
from recorder.capture.frame_filter import FrameFilter, Omission, UnrecordedConnection
from recorder.capture.gap import Gap
from recorder.capture.handover import Handover
from recorder.capture.keep import KeepSettings, RoomWatch, declare
from recorder.capture.lag import CompactorMetrics
from recorder.capture.lock import Lock
from recorder.capture.record_rules import hash_key_of
from recorder.capture.selection import UNMATCHED_SECONDS, LeftOutBy, MatchWatch, Selection
from recorder.capture.session import FolderError, RecordSettings, WhenFull
from recorder.capture.session_topics import SessionTopics
from recorder.capture.spool import (
    DATA,
    KIND,
    LONGEST_NAME,
    MAX_SETTINGS,
    MONO_NS,
    NO_CONNECTION,
    OF_STREAMS,
    EntryKind,
    Item,
    Spans,
    data_size,
    short_name,
    without,
)
from recorder.capture.topic_ids import TopicIds
from recorder.capture.writer import ENTRY_COST, MACHINE_CLOCK, Clock, Log, Writer

# bytes by which openings and closings may exceed the queue's limit: a disk may fail for hours
MAX_CONTROL_WAITING = 8 * 1024 * 1024
# requests in flight that a checkpoint may hold: a connection with more gets its checkpoint later
MAX_SAVED_REQUESTS = 1000

_BYTES, _CUT = int(EntryKind.BYTES), int(EntryKind.CUT)
# the number of a cause's left-out frames is named so, and then by the cause
LEFT_OUT_FRAMES = "left_out_frames."
# a limit that is always exceeded
NO_ROOM = -1
# the log's line for a fault of the recorder, which costs a recording and no connection
FAULT = "recording of a connection broke off"


class Tap:
    """One session's observer; see `proxy.observer.Observer` for what each call means."""

    def __init__(
        self,
        session: Folder,
        settings: RecordSettings,
        writer: Writer,
        lock: Lock,
        room: RoomWatch,
        handover: Handover | None = None,
    ) -> None:
        self.session = session.path.name
        # None: the log is not encrypted
        self._handover = handover
        self._folder = session
        self._clock = writer.log.clock
        self._compactor_metrics = CompactorMetrics(session, writer.log.arrival_times)
        self.settings = settings
        self._writer = writer
        self._lock = lock
        self._append = writer.queue.append
        # the newest segment seen here: in each, a connection that speaks gets a checkpoint
        self._seen_segment = writer.segment
        self._recorders: dict[int, ConnectionRecorder] = {}
        # connections whose chunks all go through `_handle_special`
        self._special: set[int] = set()
        # those of them that are special only because rules for topics leave something out of them
        self._watched: dict[int, FrameFilter] = {}
        self._selection = Selection(settings)
        # what each cluster has told of its topics
        self._topic_ids = defaultdict[str | None, TopicIds](TopicIds)
        # the sessions with each broker: by cluster and address
        self._sessions = defaultdict[tuple[str | None, str | None], SessionTopics](SessionTopics)
        # connections that are not recorded; they have no recorder
        self._unrecorded: dict[int, UnrecordedConnection] = {}
        # each cause is there from the start: the writer's thread and metrics add them up
        self._left_out_frames = dict.fromkeys(LeftOutBy, 0)
        self._left_out_bytes = 0
        # connections that are selected, with all of their frames
        self._recorded_whole: set[int] = set()
        self._match_watch = MatchWatch()
        writer.when_idle = self._watch_selection
        # looks at the volume in the writer's thread, and stops the recording while there is no room
        self._room = room
        writer.when_due = self._look_at_room
        # what the session keeps, and what it has declared that it keeps
        self._keeps: KeepSettings = settings
        self._declared_keeps: KeepSettings = settings
        # the size of everything queued so far; `Writer.written` is the part of it that has left the queue
        self._queued = 0
        self._waits = settings.when_full is WhenFull.WAIT
        self._limit = self._usual_limit = sys.maxsize if self._waits else settings.queue
        self._control_limit = settings.queue + MAX_CONTROL_WAITING
        self._dropped = 0
        self._gaps = 0
        # connections that were opened and closed without an entry in the log, by the reason
        self._unlogged = defaultdict[str, Counter[str]](Counter)
        # cluster -> the entries on it, as long as none of its connections is recorded
        self._of_unselected: dict[str, list[tuple[EntryKind, bytes]]] = {}
        self._closed = False
        # the newest SETTINGS entry
        self._told_in_force: dict[str, Any] = {}
        self._in_force = settings.in_force
        self._put_in_force()

    # the traffic

    def arrived(self, connection: int, direction: Direction, chunk: bytes, at_ns: int, step: Step) -> None:
        """Records a chunk; `step` is the conversation's result for it."""
        try:
            writer = self._writer
            data = step.data
            if (
                (step.marks and not redaction.mask_nothing(step.marks))
                or step.verdicts
                or step.stop != len(data)
                or self._queued - writer.written > self._limit
                or writer.segment != self._seen_segment
            ):
                self._handle_special(connection, direction, chunk, at_ns, step)
                return
            left_out: Spans | None = ()
            if connection in self._special:
                watch = self._watched.get(connection)
                left_out = None if watch is None else watch.plain_spans(direction, step)
                if left_out is None:
                    self._handle_special(connection, direction, chunk, at_ns, step)
                    return
                # all frames of the chunk are recorded
                self._match_watch.matched += 1
            size = len(chunk)
            if left_out:
                kept = without(data, left_out)
                self._left_out_bytes += size - len(kept)
                size = len(kept)
                self._append((_CUT, direction, connection, step.offset, at_ns, kept, left_out))
            else:
                self._append((_BYTES, direction, connection, step.offset + len(data) - size, at_ns, chunk, ()))
            self._queued += size + ENTRY_COST
            if writer.idle:
                self._wake()
        except Exception:
            self._break_off_by_fault(connection, direction, chunk, at_ns, step)

    def opened(self, facts: OpenedConnection, conversation: Conversation) -> None:
        """Records the opening of a connection."""
        try:
            self._open(facts, conversation)
        except Exception:
            # nobody can tell what of the connection the settings leave out, so nothing of it is recorded
            self._lose_by_fault(facts.connection, conversation)

    def _open(self, facts: OpenedConnection, conversation: Conversation) -> None:
        opening = {
            "listener": facts.listener,
            "client": facts.client,
            "node": facts.node,
            "upstream": facts.upstream,
            "tls": facts.tls,
            "cluster": facts.cluster,
            "dialect": conversation.dialect.value,
            "principal": facts.principal,
            "limits": [conversation.limits.request, conversation.limits.response],
        }
        entry = (int(EntryKind.OPENED), 0, facts.connection, 0, facts.at_ns, _json(opening), ())
        if not self._selection.selects(facts.cluster, facts.listener):
            self._leave_unrecorded(facts.connection, UnrecordedConnection(conversation))
            return
        recorder = self._recorders[facts.connection] = ConnectionRecorder(
            facts.connection, conversation, entry, facts.principal, facts.client, facts.upstream
        )
        recorder.cluster_and_listener, recorder.checkpoint_segment = (facts.cluster, facts.listener), self._seen_segment
        self._apply_selection(recorder)
        if self._is_overfull:
            self._break_off(recorder, self._gap_reason, facts.at_ns)
        else:
            self._put_opened(recorder)

    def _leave_unrecorded(self, connection: int, unrecorded: UnrecordedConnection) -> None:
        self._unrecorded[connection] = unrecorded
        self._special.add(connection)

    def answered(self, connection: int, correlation_id: int, frame: bytes, at_ns: int) -> None:
        """Records the proxy's own answer. `frame`: its bytes, the length field included."""
        recorder = self._recorders.get(connection)
        if recorder is not None and recorder.gap is None:
            with self._fault_as_gap(recorder, at_ns):
                self._put_all(recorder.add(EntryKind.OWN_ANSWER, Direction.RESPONSE, correlation_id, at_ns, frame))

    def half_closed(self, connection: int, direction: Direction, at_ns: int) -> None:
        """Records the end of one direction's stream."""
        recorder = self._recorders.get(connection)
        if recorder is not None and recorder.unwritten_opened is None:
            offset = recorder.conversation.offsets[direction]
            with self._fault_as_gap(recorder, at_ns):
                self._put_all(recorder.add(EntryKind.END_OF_STREAM, direction, offset, at_ns, b""))

    def lost(
        self,
        connection: int,
        direction: Direction,
        reason: str,
        at_ns: int,
        *,
        finished: Iterable[Exchange] = (),
        one_way: Iterable[Exchange] = (),
        is_counted: bool = True,
    ) -> None:
        """Begins a gap where the conversation has passed over bytes that nobody has seen; goes on with one that lasts.

        Bytes of a frame that the last gap has counted as lost begin none. The gap ends with the next chunk that leaves
        the conversation between frames, or with `resumed`.

        Args:
            direction: that of the bytes.
            reason: the cause of the gap's event, if one begins here.
            finished, one_way: the exchanges that ended in these bytes.
            is_counted: False if nobody knows how many frames are in them.
        """
        recorder = self._recorders.get(connection)
        if recorder is None:
            return
        is_counted_before = recorder.resume_at[direction] >= recorder.conversation.offsets[direction] > 0
        if recorder.gap is None and is_counted and is_counted_before:
            return
        self._break_off(recorder, reason, at_ns)
        assert recorder.gap is not None
        recorder.gap.count_ended(finished, one_way)
        recorder.gap.is_counted = recorder.gap.is_counted and is_counted
        if recorder.frame_filter is not None:
            recorder.frame_filter.resume()

    def resumed(self, connection: int, at_ns: int) -> None:
        """Ends the gap that `lost` has begun, before the next chunk: the conversation is where frames begin."""
        recorder = self._recorders.get(connection)
        if recorder is not None and recorder.gap is not None:
            self._end_gap_if_there_is_room(recorder, recorder.gap, at_ns)

    def imported(self, source: Mapping[str, Any]) -> None:
        """Records what the session is made of, if not of live traffic. `source`: as `entry_json.ImportedJson`."""
        self._put((int(EntryKind.IMPORTED), 0, NO_CONNECTION, 0, self._clock.now_ns(), _json(source), ()))

    def closed(
        self, connection: int, cause: StrEnum, at_ns: int, decision: Mapping[str, str | int] = MappingProxyType({})
    ) -> None:
        """Records the end of a connection; the last call for it. `decision`: what was seen, if the proxy ended it."""
        recorder = self._recorders.pop(connection, None)
        with _fault_logged(FAULT, connection=connection):
            if recorder is not None:
                self._close(recorder, cause, at_ns, decision)
        # a fault may have made it special just now, or lost it
        self._special.discard(connection)
        self._watched.pop(connection, None)
        self._recorded_whole.discard(connection)
        unrecorded = self._unrecorded.pop(connection, None)
        if unrecorded is not None and unrecorded.is_lost:
            self._count_unlogged(unrecorded.conversation, c.GAP_FAULT)

    def _close(
        self, recorder: ConnectionRecorder, cause: StrEnum, at_ns: int, decision: Mapping[str, str | int]
    ) -> None:
        if recorder.unwritten_opened is not None and self._is_overfull:
            self._count_unlogged(recorder.conversation, self._gap_reason)
            return
        self._put_opened(recorder)
        if recorder.gap is None:
            with self._fault_as_gap(recorder, at_ns):
                self._put_all(recorder.finish())
        ending = _closing_fields(recorder, cause) | ({"decision": dict(decision)} if decision else {})
        self._put((int(EntryKind.CLOSED), 0, recorder.connection, 0, at_ns, _json(ending), ()))

    def node(self, node_id: int, upstream: str, listener: str, cluster: str) -> None:
        """Records a broker's node that was found or has moved."""
        with _fault_logged("a node is not recorded", cluster=cluster, node=node_id):
            node = _json({"node_id": node_id, "upstream": upstream, "listener": listener, "cluster": cluster})
            self._put_of_cluster(cluster, EntryKind.NODE, node)

    def identified(
        self, cluster: str, *, ids: Iterable[str] = (), upstreams: Iterable[str] = (), listeners: Iterable[str] = ()
    ) -> None:
        """Records more by which a cluster can be known again."""
        facts = {c.CLUSTER_IDS: ids, c.UPSTREAMS: upstreams, c.LISTENERS: listeners}
        with _fault_logged("what a cluster is known by is not recorded", cluster=cluster):
            # a broker's text may be longer than readers of the log accept
            entry = _json({"cluster": cluster} | {kind: [*map(short_name, values)] for kind, values in facts.items()})
            self._put_of_cluster(cluster, EntryKind.CLUSTER, entry)

    def _put_of_cluster(self, cluster: str, kind: EntryKind, entry: bytes) -> None:
        """Records what is known of a cluster, as soon as the selection lets its connections be recorded."""
        if self._selection.selects_cluster(cluster):
            self._put((int(kind), 0, NO_CONNECTION, 0, self._clock.now_ns(), entry, ()))
        else:
            # a replay may write to a cluster beside the recorded one
            self._of_unselected.setdefault(cluster, []).append((kind, entry))

    # the choices that may change

    def selection_change(self, recording: RecordSettings) -> tuple[Callable[[], None], Callable[[], None]]:
        """Two functions: one applies new choices, one restores the present ones.

        A new selection applies to all later frames. A connection that has no recorder never gets one.
        """
        apply = partial(self._choose, Selection(recording), recording, recording.in_force)
        return apply, partial(self._choose, self._selection, self._keeps, self._in_force)

    def _choose(self, selection: Selection, keeps: KeepSettings, in_force: Mapping[KeyPath, str] | None) -> None:
        # the writer's thread declares it: the event loop waits for no disk
        self._keeps = keeps
        if not selection.follows_sessions_as(self._selection):
            for sessions in self._sessions.values():
                sessions.clear()
        self._selection, self._in_force = selection, in_force
        self._put_in_force()
        self._match_watch = MatchWatch(sum(self._left_out_frames.values()))
        self._recorded_whole.clear()
        self._watched.clear()
        for cluster in [*filter(selection.selects_cluster, self._of_unselected)]:
            for kind, entry in self._of_unselected.pop(cluster):
                self._put_of_cluster(cluster, kind, entry)
        for recorder in self._recorders.values():
            self._apply_selection(recorder)

    def _apply_selection(self, recorder: ConnectionRecorder) -> None:
        is_selected = self._selection.selects(*recorder.cluster_and_listener)
        if recorder.frame_filter is not None:
            recorder.frame_filter.select(self._selection, is_selected=is_selected)
        elif not (is_selected and self._selection.selects_everything):
            recorder.frame_filter = FrameFilter(
                recorder.conversation,
                self._selection,
                self._topic_ids[recorder.cluster_and_listener[0]],
                self._sessions[recorder.cluster_and_listener[0], recorder.upstream],
                self._left_out_frames,
                is_selected=is_selected,
                principal=recorder.principal,
                client=recorder.client,
            )
            self._special.add(recorder.connection)
        elif is_selected:
            self._record_whole(recorder)

    def _record_whole(self, recorder: ConnectionRecorder) -> None:
        self._recorded_whole.add(recorder.connection)
        self._match_watch.matched += 1

    def _watch_selection(self) -> None:
        """Logs a selection that matches nothing while frames pass. Called by the writer's thread."""
        matches_now = bool(self._recorded_whole)
        left_out = sum(self._left_out_frames.values())
        frames = self._match_watch.frames_without_match(left_out, time.monotonic(), matches_now=matches_now)
        if frames:
            only: dict[str, Any] = {f"only.{name}": patterns for name, patterns in self._selection.lists.items()}
            seconds = int(UNMATCHED_SECONDS)
            log(WARNING, "capture.only has matched nothing", seconds=seconds, frames_left_out=frames, **only)

    def _put_in_force(self) -> None:
        """Records what is in force from now on, if that is new. Of clusters that are left out, nothing is told."""
        told: dict[str, Any] = {c.VERSIONS: {"kafka-wiretap": program_version(), "python": platform.python_version()}}
        if self._in_force is not None:
            of_selected = (
                (dotted(place)[:LONGEST_NAME], value[:LONGEST_NAME])
                for place, value in self._in_force.items()
                if place[0] != CLUSTERS or self._selection.selects_cluster(str(place[1]))
            )
            told[c.SETTINGS] = dict(islice(of_selected, MAX_SETTINGS))
        if told != self._told_in_force:
            self._told_in_force = told
            self._put((int(EntryKind.SETTINGS), 0, NO_CONNECTION, 0, self._clock.now_ns(), _json(told), ()))

    # the limit

    @property
    def must_wait(self) -> bool:
        """True if the traffic must wait until there is room in the queue."""
        return self._waits and not self._writer.ended and self._queue_size > self.settings.queue

    def when_not_full(self, call: Callable[[], None]) -> None:
        """Calls `call`, in any thread, once the queue is half empty."""
        self._writer.call_when(lambda: self._queue_size <= self.settings.queue // 2, call)

    def flush(self) -> None:
        """Blocks until all queued entries are written, or a write has failed."""
        self._writer.flush()

    @property
    def unwritten(self) -> int:
        """Bytes of traffic in the queue."""
        return data_size(item for item in list(self._writer.queue) if item[KIND] in OF_STREAMS)

    @property
    def losses(self) -> Mapping[str, Any]:
        """See `Observer`."""
        # what the writer's thread has left in the queue stays there
        lost = self._dropped + (self.unwritten if self._writer.ended else 0)
        return {"gaps": self._gaps, "bytes": lost} if self._gaps or lost else {}

    def counters(self) -> Mapping[str, float]:
        """The recorder's metrics, by the names of the metrics' table: sums since the start, and current values."""
        return {
            "recorded_bytes": self._writer.written_bytes,
            "recorded_chunks": self._writer.written_items,
            "dropped_bytes": self._dropped,
            "gaps": self._gaps,
            **{LEFT_OUT_FRAMES + cause: frames for cause, frames in self._left_out_frames.items()},
            "left_out_bytes": self._left_out_bytes,
            "queue_bytes": self._queue_size,
            "spool_bytes": self._writer.log.spool_bytes,
            "failed": float(self._writer.failed or self._writer.hangs),
            # not `_room.is_low`, which turns a moment before the limit does
            "stopped": float(self._limit == NO_ROOM),
            # not known before the first look at the volume
            **({"room_bytes": self._room.room} if self._room.free else {}),
            **self._compactor_metrics.counters(),
        }

    @property
    def child_input(self) -> bytes:
        """What the compactor is given on its standard input (`handover`); nothing if the log is in clear."""
        return self._handover.encoded() if self._handover is not None else b""

    def child_ended(self) -> None:
        """Notes that the compactor's process has ended; the proxy starts it again."""
        self._compactor_metrics.compactor_ended()

    def close(self) -> None:
        """Closes the open connections, writes the queue and ends the session. Blocks; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        now = self._clock.now_ns()
        for connection in list(self._recorders):
            self.closed(connection, Cause.DRAIN_DEADLINE, now)
        self._put_unlogged(now)
        self._put((int(EntryKind.END), 0, NO_CONNECTION, 0, now, b"", ()))
        self._writer.close()
        self._lock.release()
        self._folder.close()

    # chunks that are not ordinary, and gaps

    def _handle_special(self, connection: int, direction: Direction, chunk: bytes, at_ns: int, step: Step) -> None:
        if self._writer.segment != self._seen_segment:
            self._seen_segment = self._writer.segment
            self._special.update(self._recorders)
            self._watched.clear()
        recorder = self._recorders.get(connection)
        if recorder is None:
            self._pass_over(self._unrecorded[connection], len(chunk))
            return
        self._record(recorder, direction, chunk, at_ns, step)
        if recorder.checkpoint_segment != self._seen_segment and step.cause is None:
            self._put_checkpoint(recorder, at_ns)
        self._watched.pop(connection, None)
        if not (recorder.is_settled and recorder.checkpoint_segment == self._seen_segment):
            self._special.add(connection)
        elif recorder.frame_filter is None:
            self._special.discard(connection)
        else:
            self._special.add(connection)
            if recorder.frame_filter.is_of_topics:
                self._watched[connection] = recorder.frame_filter

    def _pass_over(self, unrecorded: UnrecordedConnection, size: int) -> None:
        if unrecorded.is_lost:
            self._dropped += size
            return
        self._left_out_frames[LeftOutBy.CONNECTIONS] += unrecorded.more_frames()
        self._left_out_bytes += size

    def _put_checkpoint(self, recorder: ConnectionRecorder, at_ns: int) -> None:
        """Queues a checkpoint, if the connection's state can be saved now; otherwise its next chunk tries again."""
        conversation = recorder.conversation
        may_save = recorder.is_settled and len(conversation.in_flight) <= MAX_SAVED_REQUESTS
        state = conversation.boundary_state() if may_save else None
        if state is None:
            return
        left_out_responses = recorder.frame_filter.left_out_responses if recorder.frame_filter is not None else []
        opened = recorder.opened_entry
        checkpoint = {"opened": json.loads(opened[DATA]), "opened_ns": opened[MONO_NS], "principal": recorder.principal}
        arriving = bool(conversation.requests_side.bytes_left), bool(conversation.responses_side.bytes_left)
        checkpoint |= {"state": state, "arriving": arriving, "left_out_responses": left_out_responses}
        self._put((int(EntryKind.CHECKPOINT), 0, recorder.connection, 0, at_ns, _json(checkpoint), ()))
        recorder.checkpoint_segment = self._seen_segment

    def _record(self, recorder: ConnectionRecorder, direction: Direction, chunk: bytes, at_ns: int, step: Step) -> None:
        gap = recorder.gap
        if gap is not None:
            gap.count_ended(step.finished, step.one_way)
            self._dropped += len(chunk)
        omissions = (
            [] if recorder.frame_filter is None else self._omissions(recorder, recorder.frame_filter, direction, step)
        )
        if gap is not None:
            if step.cause is None:
                self._end_gap_if_there_is_room(recorder, gap, at_ns)
            return
        offset = step.offset + len(step.data) - len(chunk)
        if self._queued - self._writer.written > self._limit:
            gap = self._break_off_at(recorder, self._gap_reason, direction, offset, at_ns)
            gap.count_ended(step.finished, step.one_way)
            return
        arrived = len(chunk)
        offset, chunk = recorder.skip_gap(direction, offset, chunk)
        self._dropped += arrived - len(chunk)
        self._put_all(recorder.take(direction, offset, chunk, at_ns, step, omissions))

    def _omissions(
        self, recorder: ConnectionRecorder, frame_filter: FrameFilter, direction: Direction, step: Step
    ) -> list[Omission]:
        omissions = frame_filter.omissions(direction, step)
        matched, left_out_bytes = frame_filter.take_counts()
        self._match_watch.matched += matched
        self._left_out_bytes += left_out_bytes
        if frame_filter.omits_nothing:
            recorder.frame_filter = None
            self._record_whole(recorder)
        return omissions

    def _break_off_at(
        self, recorder: ConnectionRecorder, reason: str, direction: Direction, offset: int, at_ns: int
    ) -> Gap:
        """Begins a gap at a chunk that is lost; `offset`: that of its first byte."""
        # for each direction the end of the written bytes. `drop_kept_back` may take this lost chunk for written
        ends = [*recorder.drop_kept_back()]
        ends[direction] = min(ends[direction], offset)
        gap = Gap(recorder.conversation, (ends[0], ends[1]), reason, at_ns, recorder.counted_exchange)
        self._begin_gap(recorder, gap)
        return gap

    def _break_off_by_fault(self, connection: int, direction: Direction, chunk: bytes, at_ns: int, step: Step) -> None:
        """Begins a gap at a chunk whose recording met a fault, unless there is one: it costs no connection."""
        recorder = self._recorders.get(connection)
        # a fault that lasts is told once a gap
        if recorder is None or recorder.gap is None:
            log(ERROR, FAULT, trace=True, connection=connection)
        if recorder is None:
            return
        with self._fault_as_loss(recorder):
            if recorder.gap is None:
                # the log may have them
                recorder.ended_unwritten += [*step.finished, *step.one_way]
                offset = step.offset + len(step.data) - len(chunk)
                self._break_off_at(recorder, c.GAP_FAULT, direction, offset, at_ns)
            if recorder.frame_filter is not None:
                recorder.frame_filter.resume()

    @contextmanager
    def _fault_as_gap(self, recorder: ConnectionRecorder, at_ns: int) -> Iterator[None]:
        """A fault of the recorder in the block begins a gap, unless there is one."""
        try:
            yield
        except Exception:
            log(ERROR, FAULT, trace=True, connection=recorder.connection)
            with self._fault_as_loss(recorder):
                self._break_off(recorder, c.GAP_FAULT, at_ns)

    @contextmanager
    def _fault_as_loss(self, recorder: ConnectionRecorder) -> Iterator[None]:
        """A fault in the block, which deals with another, ends the recording of the connection."""
        try:
            yield
        except Exception:
            self._lose_by_fault(recorder.connection, recorder.conversation)

    def _lose_by_fault(self, connection: int, conversation: Conversation) -> None:
        """Records no more of a connection. It is counted as lost when it closes, with all of its frames."""
        log(ERROR, FAULT, trace=True, connection=connection)
        self._recorders.pop(connection, None)
        self._watched.pop(connection, None)
        self._recorded_whole.discard(connection)
        self._leave_unrecorded(connection, UnrecordedConnection(conversation, is_lost=True))
        self._gaps += 1

    def _break_off(self, recorder: ConnectionRecorder, reason: str, at_ns: int) -> None:
        """Begins a gap, unless there is one."""
        if recorder.gap is None:
            self._begin_gap(
                recorder,
                Gap(recorder.conversation, recorder.drop_kept_back(), reason, at_ns, recorder.counted_exchange),
            )

    def _begin_gap(self, recorder: ConnectionRecorder, gap: Gap) -> None:
        recorder.gap = gap
        # no chunk may take the short way until the gap has ended
        self._watched.pop(recorder.connection, None)
        unwritten, recorder.ended_unwritten = recorder.ended_unwritten, []
        gap.count_unwritten(unwritten)
        self._special.add(recorder.connection)
        self._gaps += 1
        self._dropped += sum(recorder.conversation.offsets) - sum(gap.offsets)
        if recorder.unwritten_opened is None:
            self._put_gap(recorder, gap)

    def _end_gap_if_there_is_room(self, recorder: ConnectionRecorder, gap: Gap, at_ns: int) -> None:
        # traffic that waits needs no room in advance
        enough = self._limit if self._waits else min(self.settings.queue, self._limit) // 2
        has_room = not self._writer.ended and not self._room.is_low and self._queue_size <= enough
        if has_room:
            state = recorder.conversation.boundary_state()
            if state is not None:
                self._end_gap(recorder, gap, state, at_ns)

    def _end_gap(self, recorder: ConnectionRecorder, gap: Gap, state: dict[str, Any], at_ns: int) -> None:
        self._put_opened(recorder)
        self._put_unlogged(at_ns)
        left_out_responses = recorder.frame_filter.left_out_responses if recorder.frame_filter is not None else []
        resync = _json({"state": state, "account": gap.account(), "left_out_responses": left_out_responses})
        self._put((int(EntryKind.RESYNC), 0, recorder.connection, 0, at_ns, resync, ()))
        recorder.gap = None
        recorder.counted_exchange = recorder.conversation.responses_side.open_exchange
        arrived = recorder.conversation.offsets
        next_frames = (state["requests"]["offset"], state["responses"]["offset"])
        # the rest of a frame that is still arriving belongs to the gap
        recorder.resume_at = [frame if frame > end else 0 for frame, end in zip(next_frames, arrived, strict=True)]

    def _put_opened(self, recorder: ConnectionRecorder) -> None:
        """Queues the OPENED entry, and the GAP entry of a gap that began before it could be queued."""
        if recorder.unwritten_opened is not None:
            self._put(recorder.unwritten_opened)
            recorder.unwritten_opened = None
            if recorder.gap is not None:
                self._put_gap(recorder, recorder.gap)

    def _put_gap(self, recorder: ConnectionRecorder, gap: Gap) -> None:
        fields = _json({"reason": gap.reason, "offsets": gap.offsets})
        self._put((int(EntryKind.GAP), 0, recorder.connection, 0, gap.at_ns, fields, ()))

    def _count_unlogged(self, conversation: Conversation, reason: str) -> None:
        sizes = {"connections": 1, "frames": conversation.sequence, "bytes": sum(conversation.offsets)}
        self._unlogged[reason].update(sizes)

    def _put_unlogged(self, at_ns: int) -> None:
        for reason, counts in self._unlogged.items():
            self._put((int(EntryKind.GAP), 0, NO_CONNECTION, 0, at_ns, _json({"reason": reason} | counts), ()))
        self._unlogged.clear()

    def _look_at_room(self) -> None:
        """Lets no more wait than there is room for on the volume. Called by the writer's thread."""
        if self._keeps is not self._declared_keeps:
            keeps = self._keeps
            declare(self._folder.path.parent.parent, self._folder.path.name, keeps)
            self._declared_keeps = keeps
        was_low = self._room.is_low
        if not self._room.look(self._writer.written_bytes):
            return
        is_low = self._room.is_low
        self._limit = NO_ROOM if is_low else min(self._usual_limit, self._room.room)
        if is_low != was_low:
            state = "recording has stopped" if is_low else "recording goes on"
            log(WARNING, state, folder=self._folder.path, reason="capture.keep.free", free=self._room.free)

    @property
    def _is_overfull(self) -> bool:
        """True if not even openings of connections may be queued."""
        return self._room.is_low or self._queue_size > self._control_limit

    @property
    def _gap_reason(self) -> str:
        return c.GAP_KEEP if self._limit < self._usual_limit else c.GAP_FULL

    @property
    def _queue_size(self) -> int:
        return self._queued - self._writer.written

    def _put_all(self, items: list[Item]) -> None:
        for item in items:
            self._put(item)

    def _put(self, item: Item) -> None:
        self._append(item)
        self._queued += len(item[DATA]) + ENTRY_COST
        if self._writer.idle:
            self._wake()

    def _wake(self) -> None:
        writer = self._writer
        if not writer.ended:
            writer.wake()
            return
        # the writer's thread has ended by a fault: nothing is recorded any more, and no traffic waits
        self._limit = NO_ROOM
        self._dropped += data_size(item for item in writer.queue if item[KIND] in OF_STREAMS)
        writer.queue.clear()
        self._queued = writer.written


@contextmanager
def _fault_logged(event: str, **keys: object) -> Iterator[None]:
    """A fault of the recorder in the block costs a recording, and no connection."""
    try:
        yield
    except Exception:
        log(ERROR, event, trace=True, **keys)


def _json(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


def _closing_fields(recorder: ConnectionRecorder, cause: StrEnum) -> dict[str, Any]:
    """The JSON of a CLOSED entry: the connection's totals, and the account of a gap that has not ended."""
    conversation = recorder.conversation
    unfinished = bool(conversation.requests_side.bytes_left) + bool(conversation.responses_side.bytes_left)
    ending = {"cause": cause.value, "sequence": conversation.sequence + unfinished, "offsets": conversation.offsets}
    if recorder.gap is None:
        return ending
    return ending | {"account": recorder.gap.account(), "open": len(conversation.in_flight)}


def open_tap(
    folder: Path,
    settings: RecordSettings,
    session: str | None = None,
    clock: Clock = MACHINE_CLOCK,
    kind: type[Tap] = Tap,
) -> Tap:
    """Begins a session in a capture folder, which is made if it is missing. `session`: its name; None: a new one.

    `clock`: the one of the times that the tap is told. `kind`: the class of the tap.

    Resource handling: the tap holds a thread, a file and the session's writer lock until `close`.
    Errors: FolderError if the folder can't be written; UnusableFile for the key of hashes; ModuleNotFoundError if the
    log is to be encrypted and `cryptography` is missing.
    """
    cipher = LogCipher.new() if settings.encrypts else None
    handover = Handover(cipher.key, hash_key_of(settings), settings) if cipher is not None else None
    sessions.ensure_writable(folder)
    session = session or sessions.new_session()
    try:
        opened, lock = sessions.begin(folder, session)
        declare(folder, session, settings)
        room = RoomWatch(folder)
        room.look()
        writer = Writer(Log(opened, settings, clock=clock, cipher=cipher))
        writer.start()
    except FolderError:
        raise
    except OSError as error:
        raise FolderError(f"the capture folder {folder} can't be written: {error.strerror or error}") from error
    return kind(opened, settings, writer, lock, room, handover)


def compactor_command(folder: Path, session: str, *, facts: bool = False, with_keys: bool = False) -> list[str]:
    """The command line that starts the session's compactor.

    `facts`: it makes the frames' facts, too. `with_keys`: it is given `Tap.child_input`.
    """
    command = [sys.executable, "-P", "-m", "recorder.capture.compactor", str(folder), "--session", session, "--follow"]
    return [*command, *["--facts"] * facts, *["--keys"] * with_keys]
