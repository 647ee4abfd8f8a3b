"""The proxy's observer: takes each chunk when it arrives, before it is sent on, and leaves the rest to a thread.

An ordinary chunk costs one tuple: a reference to its bytes, with the place and the time of their arrival. Chunks that
touch marked frames, logins or unclassified bytes go through `ConnectionRecorder`. Never in the way: chunks that can't
be written in time are not recorded (or the traffic waits, by a setting), and the log accounts for them as soon as there
is room again. The queue's size is the memory that it takes: the entries' bytes, and a cost of each entry beyond them.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from logging import ERROR
from pathlib import Path
from typing import Any

from proxy.conversation.conversation import Conversation
from proxy.conversation.exchange import Cause, Direction
from proxy.conversation.step import Step
from proxy.files import Folder
from proxy.log import log
from recorder.capture import frames as c
from recorder.capture import session as sessions
from recorder.capture.connection_recorder import ConnectionRecorder
from recorder.capture.gap import Gap
from recorder.capture.lag import Lag
from recorder.capture.lock import Lock
from recorder.capture.selection import Selection
from recorder.capture.session import FolderError, RecordSettings, WhenFull
from recorder.capture.sieve import Cut, Sieve, UnrecordedConnection
from recorder.capture.spool import DATA, KIND, MONO_NS, NO_CONNECTION, OF_STREAMS, EntryKind, Item, data_size
from recorder.capture.writer import ENTRY_COST, Log, Writer

# bytes of facts (opened, closed) beyond the queue's limit; a disk that fails for hours must not fill the memory
MAX_FACTS_WAITING = 8 * 1024 * 1024
# requests in flight that a checkpoint names: a connection with more gets its checkpoint later
MAX_SAVED_REQUESTS = 1000

_BYTES = int(EntryKind.BYTES)
# a limit that is always exceeded
NO_ROOM = -1


class Tap:
    """One session's observer; see `proxy.net.observer.Observer` for what each call means."""

    def __init__(self, session: Folder, settings: RecordSettings, writer: Writer, lock: Lock) -> None:
        self.session = session.path.name
        self._folder = session
        self._lag = Lag(session, writer.log.trail)
        self._settings = settings
        self._writer = writer
        self._lock = lock
        self._append = writer.queue.append
        # the log's newest segment: each segment gets one checkpoint of every open connection
        self._segment = writer.segment
        self._recorders: dict[int, ConnectionRecorder] = {}
        # connections none of whose chunks is ordinary
        self._special: set[int] = set()
        self._selection = Selection(settings)
        # connections that are not recorded: they have no recorder
        self._unrecorded: dict[int, UnrecordedConnection] = {}
        self._left_out = {"frames": 0, "bytes": 0}
        # the total that was queued so far, bytes and ENTRY_COSTs; the writer counts the part that it has written
        self._queued = 0
        self._waits = settings.when_full is WhenFull.WAIT
        self._limit = sys.maxsize if self._waits else settings.queue
        self._facts_limit = settings.queue + MAX_FACTS_WAITING
        self._dropped = 0
        self._gaps = 0
        # connections that were opened and closed without an entry in the log
        self._unlogged = {"connections": 0, "frames": 0, "bytes": 0}
        self._closed = False

    # the traffic

    def arrived(self, connection: int, direction: Direction, chunk: bytes, at_ns: int, step: Step) -> None:
        """Records a chunk; `step` is the conversation's result for it."""
        writer = self._writer
        data = step.data
        if (
            step.marks
            or step.verdicts
            or step.stop != len(data)
            or connection in self._special
            or self._queued - writer.written > self._limit
            or writer.segment != self._segment
        ):
            self._handle_special(connection, direction, chunk, at_ns, step)
            return
        size = len(chunk)
        self._append((_BYTES, direction, connection, step.offset + len(data) - size, at_ns, chunk, ()))
        self._queued += size + ENTRY_COST
        if writer.idle:
            self._wake()

    def opened(self, facts: Any, conversation: Conversation) -> None:
        """`facts`: an `OpenedConnection` of proxy.net.observer."""
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
            self._unrecorded[facts.connection] = UnrecordedConnection(conversation)
            self._special.add(facts.connection)
            return
        recorder = self._recorders[facts.connection] = ConnectionRecorder(
            facts.connection, conversation, entry, facts.principal
        )
        recorder.cluster_and_listener, recorder.checkpoint_segment = (facts.cluster, facts.listener), self._segment
        self._apply_selection(recorder)
        if self._waiting > self._facts_limit:
            self._break_off(recorder, c.GAP_FULL, facts.at_ns)
        else:
            self._put_opened(recorder)

    def answered(self, connection: int, correlation_id: int, frame: bytes, at_ns: int) -> None:
        """Records a response that the proxy itself made. `frame`: with its length in front."""
        recorder = self._recorders.get(connection)
        if recorder is not None and recorder.gap is None:
            self._put_all(recorder.add(EntryKind.MADE, Direction.RESPONSE, correlation_id, at_ns, frame))

    def half_closed(self, connection: int, direction: Direction, at_ns: int) -> None:
        recorder = self._recorders.get(connection)
        if recorder is not None and recorder.unwritten_opened is None:
            self._put_all(
                recorder.add(EntryKind.END_OF_STREAM, direction, recorder.conversation.offsets[direction], at_ns, b"")
            )

    def closed(self, connection: int, cause: Cause, at_ns: int) -> None:
        """The last call for a connection."""
        self._special.discard(connection)
        recorder = self._recorders.pop(connection, None)
        if recorder is None:
            del self._unrecorded[connection]
            return
        if recorder.unwritten_opened is not None and self._waiting > self._facts_limit:
            self._count_unlogged(recorder)
            return
        self._put_opened(recorder)
        if recorder.gap is None:
            self._put_all(recorder.finish())
        ending = _closing_facts(recorder, cause)
        self._put((int(EntryKind.CLOSED), 0, connection, 0, at_ns, _json(ending), ()))

    def node(self, node_id: int, upstream: str, listener: str, cluster: str) -> None:
        """A node was learned, or has moved."""
        node = _json({"node_id": node_id, "upstream": upstream, "listener": listener, "cluster": cluster})
        self._put((int(EntryKind.NODE), 0, NO_CONNECTION, 0, time.monotonic_ns(), node, ()))

    # the selection

    def selection_change(self, recording: RecordSettings) -> tuple[Callable[[], None], Callable[[], None]]:
        """(apply, undo) of a selection for all frames to come. A connection that has no recorder never gets one."""
        return partial(self._select, Selection(recording)), partial(self._select, self._selection)

    def _select(self, selection: Selection) -> None:
        self._selection = selection
        for recorder in self._recorders.values():
            self._apply_selection(recorder)

    def _apply_selection(self, recorder: ConnectionRecorder) -> None:
        is_selected = self._selection.selects(*recorder.cluster_and_listener)
        if recorder.sieve is not None:
            recorder.sieve.selection, recorder.sieve.is_selected = self._selection, is_selected
        elif not (is_selected and self._selection.selects_everything):
            recorder.sieve = Sieve(
                recorder.conversation, self._selection, is_selected=is_selected, principal=recorder.principal
            )
            self._special.add(recorder.connection)

    def _count_left_out(self, frames: int, size: int) -> None:
        self._left_out["frames"] += frames
        self._left_out["bytes"] += size

    # the limit

    @property
    def full(self) -> bool:
        """True if the traffic must wait."""
        return self._waits and not self._writer.ended and self._waiting > self._settings.queue

    def when_not_full(self, call: Callable[[], None]) -> None:
        """Calls `call`, in any thread, once the queue is half empty."""
        self._writer.call_when(lambda: self._waiting <= self._settings.queue // 2, call)

    def flush(self) -> None:
        """Blocks until all recorded bytes are in the log, as far as the disk takes them."""
        self._writer.flush()

    @property
    def unwritten(self) -> int:
        """Bytes of traffic that wait for the disk."""
        return data_size(item for item in list(self._writer.queue) if item[KIND] in OF_STREAMS)

    def counters(self) -> Mapping[str, float]:
        """The recorder's metrics: sums since the start, and current values."""
        return {
            "recorded_bytes": self._writer.written_bytes,
            "recorded_chunks": self._writer.written_items,
            "dropped_bytes": self._dropped,
            "gaps": self._gaps,
            "left_out_frames": self._left_out["frames"],
            "left_out_bytes": self._left_out["bytes"],
            "queue_bytes": self._waiting,
            "spool_bytes": self._writer.log.spool_bytes,
            "failed": float(self._writer.failed or self._writer.hangs),
            **self._lag.counters(),
        }

    def child_ended(self) -> None:
        """Notes that the compactor has ended; it is started again."""
        self._lag.compactor_ended()

    def close(self) -> None:
        """Writes the queue and ends the session; connections that are still open are cut off. Blocks."""
        if self._closed:
            return
        self._closed = True
        now = time.monotonic_ns()
        for connection in list(self._recorders):
            self.closed(connection, Cause.DRAIN_DEADLINE, now)
        self._put_unlogged(now)
        self._put((int(EntryKind.END), 0, NO_CONNECTION, 0, now, b"", ()))
        self._writer.close()
        self._lock.release()
        self._folder.close()

    # chunks that are not ordinary, and gaps

    def _handle_special(self, connection: int, direction: Direction, chunk: bytes, at_ns: int, step: Step) -> None:
        if self._writer.segment != self._segment:
            self._segment = self._writer.segment
            self._special.update(self._recorders)
        recorder = self._recorders.get(connection)
        if recorder is None:
            self._count_left_out(*self._unrecorded[connection].count(len(chunk)))
            return
        try:
            self._record(recorder, direction, chunk, at_ns, step)
            if recorder.checkpoint_segment != self._segment and step.cause is None:
                self._put_checkpoint(recorder, at_ns)
        except Exception:
            # never in the way: a fault of the recorder costs a recording, not a connection
            log(ERROR, "recording of a connection broke off", trace=True, connection=connection)
            self._break_off(recorder, c.GAP_FAULT, at_ns)
        if recorder.is_ordinary and recorder.checkpoint_segment == self._segment:
            self._special.discard(connection)
        else:
            self._special.add(connection)

    def _put_checkpoint(self, recorder: ConnectionRecorder, at_ns: int) -> None:
        """Writes a checkpoint: a reader that has lost earlier parts of the log goes on from there."""
        conversation = recorder.conversation
        may_save = recorder.settled and len(conversation.in_flight) <= MAX_SAVED_REQUESTS
        state = conversation.boundary_state() if may_save else None
        if state is None:
            # after the connection's next chunk there may be a state to save
            return
        unwanted = recorder.sieve.unwanted if recorder.sieve is not None else []
        opened = recorder.opened_entry
        checkpoint = {"opened": json.loads(opened[DATA]), "opened_ns": opened[MONO_NS], "principal": recorder.principal}
        arriving = bool(conversation.requests_side.bytes_left), bool(conversation.responses_side.bytes_left)
        checkpoint |= {"state": state, "arriving": arriving, "unwanted": unwanted}
        self._put((int(EntryKind.CHECKPOINT), 0, recorder.connection, 0, at_ns, _json(checkpoint), ()))
        recorder.checkpoint_segment = self._segment

    def _record(self, recorder: ConnectionRecorder, direction: Direction, chunk: bytes, at_ns: int, step: Step) -> None:
        cuts = [] if recorder.sieve is None else self._cuts(recorder, recorder.sieve, direction, step)
        if recorder.gap is not None:
            self._go_on_in_gap(recorder, recorder.gap, len(chunk), at_ns, step)
            return
        offset = step.offset + len(step.data) - len(chunk)
        if self._queued - self._writer.written > self._limit:
            self._break_off_at(recorder, direction, offset, at_ns, step)
            return
        arrived = len(chunk)
        offset, chunk = recorder.skip(direction, offset, chunk)
        self._dropped += arrived - len(chunk)
        self._put_all(recorder.take(direction, offset, chunk, at_ns, step, cuts))

    def _cuts(self, recorder: ConnectionRecorder, sieve: Sieve, direction: Direction, step: Step) -> list[Cut]:
        before = sieve.frames, sieve.bytes
        cuts = sieve.cuts(direction, step)
        self._count_left_out(sieve.frames - before[0], sieve.bytes - before[1])
        if sieve.is_needless:
            recorder.sieve = None
        return cuts

    def _break_off_at(
        self, recorder: ConnectionRecorder, direction: Direction, offset: int, at_ns: int, step: Step
    ) -> None:
        """Begins a gap at a chunk for which the queue has no room."""
        # per direction, the end of written bytes; the chunk has arrived, and is not written
        asked, answered = recorder.give_up()
        ends = (min(asked, offset), answered) if direction == Direction.REQUEST else (asked, min(answered, offset))
        self._begin_gap(recorder, Gap(recorder.conversation, ends, c.GAP_FULL, at_ns, recorder.accounted))
        assert recorder.gap is not None
        unwritten, recorder.unwritten = recorder.unwritten, []
        recorder.gap.note_unwritten(unwritten)
        recorder.gap.saw(step.finished, step.one_way)

    def _break_off(self, recorder: ConnectionRecorder, reason: str, at_ns: int) -> None:
        if recorder.gap is None:
            self._begin_gap(recorder, Gap(recorder.conversation, recorder.give_up(), reason, at_ns, recorder.accounted))

    def _begin_gap(self, recorder: ConnectionRecorder, gap: Gap) -> None:
        recorder.gap = gap
        self._special.add(recorder.connection)
        self._gaps += 1
        self._dropped += sum(recorder.conversation.offsets) - sum(gap.offsets)
        if recorder.unwritten_opened is None:
            self._put_hole(recorder, gap)

    def _go_on_in_gap(self, recorder: ConnectionRecorder, gap: Gap, size: int, at_ns: int, step: Step) -> None:
        gap.saw(step.finished, step.one_way)
        self._dropped += size
        has_room = not self._writer.ended and self._waiting <= self._settings.queue // 2
        if step.cause is None and has_room:
            state = recorder.conversation.boundary_state()
            if state is not None:
                self._end_gap(recorder, gap, state, at_ns)

    def _end_gap(self, recorder: ConnectionRecorder, gap: Gap, state: dict[str, Any], at_ns: int) -> None:
        if recorder.unwritten_opened is not None:
            self._put_opened(recorder)
            self._put_hole(recorder, gap)
        self._put_unlogged(at_ns)
        unwanted = recorder.sieve.unwanted if recorder.sieve is not None else []
        resync = _json({"state": state, "account": gap.account(), "unwanted": unwanted})
        self._put((int(EntryKind.RESYNC), 0, recorder.connection, 0, at_ns, resync, ()))
        recorder.gap = None
        recorder.accounted = recorder.conversation.responses_side.open_exchange
        arrived = recorder.conversation.offsets
        next_frames = (state["requests"]["offset"], state["responses"]["offset"])
        # the rest of a frame that is still arriving belongs to the gap
        recorder.resume = [start if start > end else 0 for start, end in zip(next_frames, arrived, strict=True)]

    def _put_opened(self, recorder: ConnectionRecorder) -> None:
        if recorder.unwritten_opened is not None:
            self._put(recorder.unwritten_opened)
            recorder.unwritten_opened = None

    def _put_hole(self, recorder: ConnectionRecorder, gap: Gap) -> None:
        hole = _json({"reason": gap.reason, "offsets": gap.offsets})
        self._put((int(EntryKind.HOLE), 0, recorder.connection, 0, gap.at_ns, hole, ()))

    def _count_unlogged(self, recorder: ConnectionRecorder) -> None:
        self._unlogged["connections"] += 1
        self._unlogged["frames"] += recorder.conversation.sequence
        self._unlogged["bytes"] += sum(recorder.conversation.offsets)

    def _put_unlogged(self, at_ns: int) -> None:
        if self._unlogged["connections"]:
            hole = _json({"reason": c.GAP_FULL} | self._unlogged)
            self._put((int(EntryKind.HOLE), 0, NO_CONNECTION, 0, at_ns, hole, ()))
            self._unlogged = dict.fromkeys(self._unlogged, 0)

    @property
    def _waiting(self) -> int:
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
        # a fault has ended the writer's thread: nothing is queued any more, and no traffic waits
        self._limit = NO_ROOM
        self._dropped += data_size(item for item in writer.queue if item[KIND] in OF_STREAMS)
        writer.queue.clear()
        self._queued = writer.written


def _json(facts: Mapping[str, Any]) -> bytes:
    return json.dumps(facts, separators=(",", ":")).encode()


def _closing_facts(recorder: ConnectionRecorder, cause: Cause) -> dict[str, Any]:
    """The facts of a connection's closing entry: its totals, and the account of a gap that has not ended."""
    conversation = recorder.conversation
    unfinished = bool(conversation.requests_side.bytes_left) + bool(conversation.responses_side.bytes_left)
    ending = {"cause": cause.value, "sequence": conversation.sequence + unfinished, "offsets": conversation.offsets}
    if recorder.gap is None:
        return ending
    return ending | {"account": recorder.gap.account(), "open": len(conversation.in_flight)}


def open_tap(folder: Path, settings: RecordSettings, session: str | None = None) -> Tap:
    """Begins a session in a capture folder, which is made where it is missing.

    Resource handling: the tap holds a thread, a file and the session's writer lock until `close`.
    Errors: FolderError where the folder can't be written.
    """
    sessions.ensure_writable(folder)
    session = session or sessions.new_session()
    try:
        opened, lock = sessions.begin(folder, session)
        writer = Writer(Log(opened, settings))
        writer.start()
    except FolderError:
        raise
    except OSError as error:
        raise FolderError(f"the capture folder {folder} can't be written: {error.strerror or error}") from error
    return Tap(opened, settings, writer, lock)


def compactor_command(folder: Path, session: str) -> list[str]:
    """The command of the session's compactor, which is to be started again whenever it ends."""
    return [sys.executable, "-m", "recorder.capture.compactor", str(folder), "--session", session, "--follow"]
