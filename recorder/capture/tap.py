"""The proxy's observer: takes each chunk when it arrives, before it is sent on, and leaves the rest to a thread.

A chunk about which nothing is special costs one tuple: a reference to its bytes, and where and when they came. Special
are chunks that touch marked frames, logins and bytes that can't be told yet; those go through `ConnectionRecorder`.
Never in the way: what can't be written in time is not recorded (or waited for, if that is the setting), and is
accounted for in the log itself as soon as there is room again. What waits in the queue is counted as the memory it
takes: its bytes, and what each entry costs beyond them.
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
from recorder.capture.sieve import Cut, Sieve, Unrecorded
from recorder.capture.spool import NO_CONNECTION, OF_STREAMS, EntryKind, Item
from recorder.capture.writer import ENTRY_COST, Log, Writer

# facts are recorded beyond the queue's limit too; a disk that fails for hours must not fill the memory with them
MOST_FACTS_WAITING = 8 * 1024 * 1024
# requests in flight that a checkpoint names: with more, the connection waits for a quieter moment to be said
MOST_SAVED = 1000

_BYTES = int(EntryKind.BYTES)
# a limit that is always exceeded
NOTHING = -1


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
        # the log's newest segment: each says of every open connection once where its record may go on
        self._segment = writer.segment
        self._lines: dict[int, ConnectionRecorder] = {}
        # connections whose chunks need a second look
        self._careful: set[int] = set()
        self._selection = Selection(settings)
        # connections that are not recorded: they have no line
        self._unrecorded: dict[int, Unrecorded] = {}
        self._left_out = {"frames": 0, "bytes": 0}
        # what has been given to the queue so far, bytes and ENTRY_COSTs; the writer counts what it has written of it
        self._taken = 0
        self._waits = settings.when_full is WhenFull.WAIT
        self._limit = sys.maxsize if self._waits else settings.queue
        self._facts_limit = settings.queue + MOST_FACTS_WAITING
        self._dropped = 0
        self._gaps = 0
        # connections that came and went without a word in the log
        self._unsaid = {"connections": 0, "frames": 0, "bytes": 0}
        self._closed = False

    # the traffic

    def arrived(self, connection: int, direction: Direction, chunk: bytes, at_ns: int, step: Step) -> None:
        """A chunk has come, and `step` says what it brought."""
        writer = self._writer
        data = step.data
        if (
            step.marks
            or step.verdicts
            or step.stop != len(data)
            or connection in self._careful
            or self._taken - writer.written > self._limit
            or writer.segment != self._segment
        ):
            self._look_twice(connection, direction, chunk, at_ns, step)
            return
        size = len(chunk)
        self._append((_BYTES, direction, connection, step.offset + len(data) - size, at_ns, chunk, ()))
        self._taken += size + ENTRY_COST
        if writer.idle:
            self._wake()

    def opened(self, facts: Any, talk: Conversation) -> None:
        """`facts`: an `Opened` of proxy.net.observer."""
        told = {
            "listener": facts.listener,
            "client": facts.client,
            "node": facts.node,
            "upstream": facts.upstream,
            "tls": facts.tls,
            "cluster": facts.cluster,
            "dialect": talk.dialect.value,
            "principal": facts.principal,
            "limits": [talk.limits.request, talk.limits.response],
        }
        entry = (int(EntryKind.OPENED), 0, facts.connection, 0, facts.at_ns, _json(told), ())
        if not self._selection.takes(facts.cluster, facts.listener):
            self._unrecorded[facts.connection] = Unrecorded(talk)
            self._careful.add(facts.connection)
            return
        line = self._lines[facts.connection] = ConnectionRecorder(facts.connection, talk, entry, facts.principal)
        line.where, line.checkpoint = (facts.cluster, facts.listener), self._segment
        self._sift(line)
        if self._waiting > self._facts_limit:
            self._break_off(line, c.GAP_FULL, facts.at_ns)
        else:
            self._say_opened(line)

    def made(self, connection: int, correlation_id: int, frame: bytes, at_ns: int) -> None:
        """The proxy has answered a request itself. `frame`: with its length."""
        line = self._lines.get(connection)
        if line is not None and line.gap is None:
            self._put_all(line.add(EntryKind.MADE, Direction.RESPONSE, correlation_id, at_ns, frame))

    def half_closed(self, connection: int, direction: Direction, at_ns: int) -> None:
        line = self._lines.get(connection)
        if line is not None and line.opened is None:
            self._put_all(line.add(EntryKind.END_OF_STREAM, direction, line.talk.offsets[direction], at_ns, b""))

    def closed(self, connection: int, cause: Cause, at_ns: int) -> None:
        """The last call for a connection."""
        self._careful.discard(connection)
        line = self._lines.pop(connection, None)
        if line is None:
            del self._unrecorded[connection]
            return
        if line.opened is not None and self._waiting > self._facts_limit:
            self._leave_unsaid(line)
            return
        if line.opened is not None:
            self._say_opened(line)
        if line.gap is None:
            self._put_all(line.finish())
        ending = _ending(line, cause)
        self._put((int(EntryKind.CLOSED), 0, connection, 0, at_ns, _json(ending), ()))

    def node(self, node_id: int, upstream: str, listener: str, cluster: str) -> None:
        """A node was learned, or has moved."""
        told = _json({"node_id": node_id, "upstream": upstream, "listener": listener, "cluster": cluster})
        self._put((int(EntryKind.NODE), 0, NO_CONNECTION, 0, time.monotonic_ns(), told, ()))

    # the selection

    def choice(self, recording: RecordSettings) -> tuple[Callable[[], None], Callable[[], None]]:
        """What leaves this out from the next frame on, and what undoes that. Connections that are left out stay so."""
        return partial(self._choose, Selection(recording)), partial(self._choose, self._selection)

    def _choose(self, selection: Selection) -> None:
        self._selection = selection
        for line in self._lines.values():
            self._sift(line)

    def _sift(self, line: ConnectionRecorder) -> None:
        taken = self._selection.takes(*line.where)
        if line.sieve is not None:
            line.sieve.selection, line.sieve.taken = self._selection, taken
        elif not (taken and self._selection.takes_whole_connections):
            line.sieve = Sieve(line.talk, self._selection, taken=taken, principal=line.principal)
            self._careful.add(line.connection)

    def _count_left_out(self, frames: int, size: int) -> None:
        self._left_out["frames"] += frames
        self._left_out["bytes"] += size

    # the limit

    @property
    def full(self) -> bool:
        """Whether the traffic is to wait."""
        return self._waits and not self._writer.ended and self._waiting > self._settings.queue

    def when_not_full(self, call: Callable[[], None]) -> None:
        """Has `call` called, in any thread, once the queue is half empty."""
        self._writer.call_when(lambda: self._waiting <= self._settings.queue // 2, call)

    def flush(self) -> None:
        """Blocks until what has been recorded is in the log, as far as the disk takes it."""
        self._writer.flush()

    @property
    def unwritten(self) -> int:
        """Bytes of traffic that wait for the disk."""
        return sum(len(item[5]) for item in list(self._writer.queue) if item[0] in OF_STREAMS)

    def counters(self) -> Mapping[str, float]:
        """What the metrics show; sums since the start, and the state of now."""
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
        """The compactor, which is started again."""
        self._lag.compactor_ended()

    def close(self) -> None:
        """Writes what is left and ends the session. Connections that are still open are cut off. Blocks."""
        if self._closed:
            return
        self._closed = True
        now = time.monotonic_ns()
        for connection in list(self._lines):
            self.closed(connection, Cause.DRAIN_DEADLINE, now)
        self._say_unsaid(now)
        self._put((int(EntryKind.END), 0, NO_CONNECTION, 0, now, b"", ()))
        self._writer.close()
        self._lock.release()
        self._folder.close()

    # second looks

    def _look_twice(self, connection: int, direction: Direction, chunk: bytes, at_ns: int, step: Step) -> None:
        if self._writer.segment != self._segment:
            self._begin_segment()
        line = self._lines.get(connection)
        if line is None:
            self._count_left_out(*self._unrecorded[connection].more(len(chunk)))
            return
        try:
            self._record(line, direction, chunk, at_ns, step)
            if line.checkpoint != self._segment and step.cause is None:
                self._say_checkpoint(line, at_ns)
        except Exception:
            # never in the way: a fault of the recorder costs a recording, not a connection
            log(ERROR, "recording of a connection broke off", trace=True, connection=connection)
            self._break_off(line, c.GAP_FAULT, at_ns)
        if line.calm and line.checkpoint == self._segment:
            self._careful.discard(connection)
        else:
            self._careful.add(connection)

    def _begin_segment(self) -> None:
        self._segment = self._writer.segment
        self._careful.update(self._lines)

    def _say_checkpoint(self, line: ConnectionRecorder, at_ns: int) -> None:
        """All that it takes to go on with a connection here, for whoever has lost a part of the log before."""
        talk = line.talk
        state = talk.boundary_state() if line.settled and len(talk.in_flight) <= MOST_SAVED else None
        if state is None:
            # its next chunk may leave it in a place where this can be said
            return
        unwanted = line.sieve.unwanted if line.sieve is not None else []
        opened = line.introduction
        told = {"opened": json.loads(opened[5]), "opened_ns": opened[4], "principal": line.principal}
        arriving = bool(talk.requests_side.left), bool(talk.responses_side.left)
        told |= {"state": state, "arriving": arriving, "unwanted": unwanted}
        self._put((int(EntryKind.CHECKPOINT), 0, line.connection, 0, at_ns, _json(told), ()))
        line.checkpoint = self._segment

    def _record(self, line: ConnectionRecorder, direction: Direction, chunk: bytes, at_ns: int, step: Step) -> None:
        cuts = [] if line.sieve is None else self._cuts(line, line.sieve, direction, step)
        if line.gap is not None:
            self._go_on_in_gap(line, line.gap, len(chunk), at_ns, step)
            return
        offset = step.offset + len(step.data) - len(chunk)
        if self._taken - self._writer.written > self._limit:
            self._break_off_at(line, direction, offset, at_ns, step)
            return
        arrived = len(chunk)
        offset, chunk = line.skip(direction, offset, chunk)
        self._dropped += arrived - len(chunk)
        self._put_all(line.take(direction, offset, chunk, at_ns, step, cuts))

    def _cuts(self, line: ConnectionRecorder, sieve: Sieve, direction: Direction, step: Step) -> list[Cut]:
        before = sieve.frames, sieve.bytes
        cuts = sieve.look(direction, step)
        self._count_left_out(sieve.frames - before[0], sieve.bytes - before[1])
        if sieve.is_needless:
            line.sieve = None
        return cuts

    def _break_off_at(
        self, line: ConnectionRecorder, direction: Direction, offset: int, at_ns: int, step: Step
    ) -> None:
        """The limit has been reached with a chunk that isn't written any more."""
        written = line.give_up()
        behind = (min(written[0], offset), written[1]) if direction == 0 else (written[0], min(written[1], offset))
        self._begin_gap(line, Gap(line.talk, behind, c.GAP_FULL, at_ns, line.accounted))
        assert line.gap is not None
        unwritten, line.unwritten = line.unwritten, []
        line.gap.had_kept_back(unwritten)
        line.gap.saw(step.finished, step.one_way)

    def _break_off(self, line: ConnectionRecorder, reason: str, at_ns: int) -> None:
        if line.gap is None:
            self._begin_gap(line, Gap(line.talk, line.give_up(), reason, at_ns, line.accounted))

    def _begin_gap(self, line: ConnectionRecorder, gap: Gap) -> None:
        line.gap = gap
        self._careful.add(line.connection)
        self._gaps += 1
        self._dropped += sum(line.talk.offsets) - sum(gap.offsets)
        if line.opened is None:
            self._say_hole(line, gap)

    def _go_on_in_gap(self, line: ConnectionRecorder, gap: Gap, size: int, at_ns: int, step: Step) -> None:
        gap.saw(step.finished, step.one_way)
        self._dropped += size
        if step.cause is None and self._has_room:
            state = line.talk.boundary_state()
            if state is not None:
                self._end_gap(line, gap, state, at_ns)

    def _end_gap(self, line: ConnectionRecorder, gap: Gap, state: dict[str, Any], at_ns: int) -> None:
        if line.opened is not None:
            self._say_opened(line)
            self._say_hole(line, gap)
        self._say_unsaid(at_ns)
        unwanted = line.sieve.unwanted if line.sieve is not None else []
        resync = _json({"state": state, "account": gap.account(), "unwanted": unwanted})
        self._put((int(EntryKind.RESYNC), 0, line.connection, 0, at_ns, resync, ()))
        line.gap = None
        line.accounted = line.talk.responses_side.open
        arrived = line.talk.offsets
        next_frames = (state["requests"]["offset"], state["responses"]["offset"])
        line.resume = [until if until > here else 0 for until, here in zip(next_frames, arrived, strict=True)]

    def _say_opened(self, line: ConnectionRecorder) -> None:
        if line.opened is not None:
            self._put(line.opened)
            line.opened = None

    def _say_hole(self, line: ConnectionRecorder, gap: Gap) -> None:
        told = _json({"reason": gap.reason, "offsets": gap.offsets})
        self._put((int(EntryKind.HOLE), 0, line.connection, 0, gap.at_ns, told, ()))

    def _leave_unsaid(self, line: ConnectionRecorder) -> None:
        self._unsaid["connections"] += 1
        self._unsaid["frames"] += line.talk.sequence
        self._unsaid["bytes"] += sum(line.talk.offsets)

    def _say_unsaid(self, at_ns: int) -> None:
        if self._unsaid["connections"]:
            told = _json({"reason": c.GAP_FULL} | self._unsaid)
            self._put((int(EntryKind.HOLE), 0, NO_CONNECTION, 0, at_ns, told, ()))
            self._unsaid = dict.fromkeys(self._unsaid, 0)

    @property
    def _waiting(self) -> int:
        return self._taken - self._writer.written

    @property
    def _has_room(self) -> bool:
        """Whether what has broken off may go on."""
        return not self._writer.ended and self._waiting <= self._settings.queue // 2

    def _put_all(self, items: list[Item]) -> None:
        for item in items:
            self._put(item)

    def _put(self, item: Item) -> None:
        self._append(item)
        self._taken += len(item[5]) + ENTRY_COST
        if self._writer.idle:
            self._wake()

    def _wake(self) -> None:
        writer = self._writer
        if not writer.ended:
            writer.wake()
            return
        # its thread is gone, by a fault: nothing is kept for it, nothing waits for it
        self._limit = NOTHING
        self._dropped += sum(len(item[5]) for item in writer.queue if item[0] in OF_STREAMS)
        writer.queue.clear()
        self._taken = writer.written


def _json(facts: Mapping[str, Any]) -> bytes:
    return json.dumps(facts, separators=(",", ":")).encode()


def _ending(line: ConnectionRecorder, cause: Cause) -> dict[str, Any]:
    """What the closing entry of a connection says: how much there was, and what of it was lost in a gap."""
    talk = line.talk
    arriving = bool(talk.requests_side.left) + bool(talk.responses_side.left)
    ending = {"cause": cause.value, "sequence": talk.sequence + arriving, "offsets": talk.offsets}
    return ending if line.gap is None else ending | {"account": line.gap.account(), "open": len(talk.in_flight)}


def open_tap(folder: Path, settings: RecordSettings, session: str | None = None) -> Tap:
    """Begins a session in a capture folder, which is made where it is missing.

    Resource handling: the tap holds a thread, a file and the session's writer lock until `close`.
    Errors: FolderError where the folder can't be written.
    """
    sessions.check_writable(folder)
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
    """The command of the process that makes columns of the session, to be started again should it fail."""
    return [sys.executable, "-m", "recorder.capture.compactor", str(folder), "--session", session, "--follow"]
