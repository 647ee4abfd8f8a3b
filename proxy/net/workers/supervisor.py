"""Keeps the workers running, and sends messages to all of them. The `Parent` has one `Supervisor`.

A worker that ends loses its own connections only: the other workers go on accepting on the same sockets. A new worker
takes its place after a pause, which grows while workers keep ending. The counts of the ended worker stay in the totals.

A worker has *joined* once it has reported that it is ready for listeners. From then on the worker gets every order to
all workers, and the parent waits until each order is fulfilled. The parent does not wait for a worker that has ended,
and waits only briefly for a worker that hangs, because the other workers accept on the same ports.
"""

from __future__ import annotations

import itertools
import math
import socket
from collections.abc import Awaitable, Callable, Sequence
from logging import ERROR, INFO, WARNING

import trio

from proxy.log import log
from proxy.net.stopping import HURRIED_SECONDS, RECORDER_SECONDS, Stop, Urgency
from proxy.net.workers.calls import Answer, Calls, Handler, Payload, ProcessGone
from proxy.net.workers.channel import ChannelBroken, ChannelMessage, channel_pair
from proxy.net.workers.process import WorkerProcess
from proxy.net.workers.totals import Totals
from proxy.net.workers.worker_handle import WorkerHandle

# seconds before an ended worker is replaced; each pause doubles
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 30.0
# after a worker that lived this long, the next pause is FIRST_PAUSE again
WELL_SECONDS = 60.0
# a worker that has sent nothing yet may be silent so many times longer: it is starting, maybe with many others
START_FACTOR = 3
# the longest that the parent waits for workers to fulfil orders
SETTLE_SECONDS = 10.0
# the longest that a scrape waits for new counts before it shows the last ones. /readyz waits for them too, and probes
# of Kubernetes wait one second by default
COUNTS_SECONDS = 0.7
# the longest that a stop waits for workers to end, beyond the drain: their recorders write the rest. It is less
# than STOP_SECONDS, so that the parent ends before systemd kills it
STUCK_SECONDS = RECORDER_SECONDS + 5
# the longest that a stop waits for workers to end, from a second signal on
HURRIED_STUCK_SECONDS = HURRIED_SECONDS + 3
# the longest that a stop waits for workers to send their last counts and end, from a third signal on
AT_ONCE_SECONDS = 2.0
# the longest that a stop waits for killed workers to end. A process that waits for a disk that hangs does
# not end even when killed
KILLED_SECONDS = 1.0
# how often a worker sends its counts, which also shows that it is alive. A killed worker loses what it counted after
# the last time
BEAT_SECONDS = 1.0
# the longest that an ended process's channel is still read: it may hold last messages
CHANNEL_END_SECONDS = 1.0

# starts a worker's process, with the worker's number, its slot, and its end of the channel. Raises OSError
Start = Callable[[int, int, socket.socket], Awaitable[WorkerProcess]]


def ignore_counts(payload: Payload) -> None:
    """The default of `counted`."""


class Supervisor:
    """The workers of a proxy.

    Args:
        count: how many workers run.
        start: starts a worker's process.
        handle: answers a worker's request.
        catch_up: brings a worker that joins up to date.
        vacate: called with a slot whose worker has ended.
        counted: called with each message in which a worker sends its counts.
        hung_seconds: a worker that is silent for so long is killed; `START_FACTOR` times as long if it has never sent a
            message.

    newest: the number of the worker that was started last.
    totals: the living workers, and the counts of all.
    ends: how many workers have ended and been replaced.
    """

    def __init__(
        self,
        count: int,
        start: Start,
        handle: Handler,
        catch_up: Callable[[WorkerHandle], None],
        vacate: Callable[[int], None],
        hung_seconds: float,
        counted: Callable[[Payload], None] = ignore_counts,
    ) -> None:
        self.totals = Totals()
        self.ends = 0
        self.newest = 0
        self._count = count
        self._start = start
        self._handle = handle
        self._catch_up = catch_up
        self._vacate = vacate
        self._hung_seconds = hung_seconds
        self._counted = counted
        self._numbers = itertools.count(1)
        self._stopping = trio.Event()
        # the last order to stop, for workers that start during a stop; None before the first
        self._stop_order: Payload | None = None
        self._all_ended = trio.Event()
        # of the workers started first, the numbers of those that have neither joined nor ended
        self._starting = set(range(1, count + 1))
        self._all_started = trio.Event()
        self._exit_codes: list[int] = []

    @property
    def joined(self) -> list[WorkerHandle]:
        """The workers that have joined, in the order of their numbers."""
        return sorted((worker for worker in self.totals.living if worker.joined), key=lambda worker: worker.number)

    @property
    def hanging(self) -> list[WorkerHandle]:
        """The workers that have been silent for two beats, and for a third of the time after which they are killed."""
        living = self.totals.living
        hanging = (worker for worker in living if worker.silent > max(self._max_silence(worker) / 3, 2 * BEAT_SECONDS))
        return sorted(hanging, key=lambda worker: worker.number)

    async def run(self) -> None:
        """Keeps workers running until `stop`; returns when the last one has ended."""
        async with trio.open_nursery() as nursery:
            for slot in range(self._count):
                nursery.start_soon(self._keep_running, slot)
        self._all_ended.set()

    async def all_started(self) -> None:
        """Returns once each of the first workers has joined, or has ended."""
        await self._all_started.wait()

    def tell(self, payload: Payload, sockets: Sequence[socket.socket] = ()) -> None:
        """Sends an order to all workers that have joined."""
        for worker in self.joined:
            worker.tell(payload, sockets)

    async def settled(self) -> bool:
        """Returns True when all workers have fulfilled their orders; False after SETTLE_SECONDS."""
        with trio.move_on_after(SETTLE_SECONDS) as timeout:
            for worker in self.joined:
                await worker.settled()
        if timeout.cancelled_caught:
            log(WARNING, "a worker does not answer; the others go on without it")
        return not timeout.cancelled_caught

    async def refusals(self, payload: Payload, seconds: float) -> list[str]:
        """Sends a request to all workers that have joined. Returns their reasons to refuse it, each once.

        Includes a line for each worker that does not answer within `seconds`.
        """
        answers = await self._ask_all(payload, seconds)
        lines = [line for number, answer in answers.items() for line in _refusal(number, answer)]
        return [*dict.fromkeys(lines)]

    async def _ask_all(self, payload: Payload, seconds: float) -> dict[int, Answer]:
        """Sends a request to all workers that have joined. Returns their answers so far, after `seconds` at most."""
        answers = {worker.number: worker.calls.ask(payload) for worker in self.joined}
        with trio.move_on_after(seconds):
            for answer in answers.values():
                await answer.settled()
        return answers

    async def stop(self, seconds: float, stop: Stop) -> bool:
        """Stops all workers as urgently as `stop` asks. `seconds`: how long the drain may take.

        Returns True if all workers have ended, and those that had joined with exit code 0.
        """
        self._stopping.set()
        async with trio.open_nursery() as nursery:
            with trio.move_on_after(seconds + STUCK_SECONDS) as timeout:
                nursery.start_soon(self._tell_to_stop, stop, timeout)
                await self._all_ended.wait()
            nursery.cancel_scope.cancel()
        await self._kill_the_rest()
        return not self.totals.living and not any(self._exit_codes)

    async def _tell_to_stop(self, stop: Stop, timeout: trio.CancelScope) -> None:
        """Orders all workers to stop whenever the stop becomes more urgent, and shortens `timeout` then.

        Workers that have not joined get the order too, because they may have begun to record.
        """
        for event, urgency, seconds in (
            (stop.begun, Urgency.DRAIN, math.inf),
            (stop.hurried, Urgency.HURRY, HURRIED_STUCK_SECONDS),
            (stop.at_once, Urgency.AT_ONCE, AT_ONCE_SECONDS),
        ):
            await event.wait()
            self._stop_order = {"do": "stop", "urgency": urgency}
            for worker in self.totals.living:
                worker.calls.tell(self._stop_order)
            timeout.deadline = min(timeout.deadline, trio.current_time() + seconds)

    async def _kill_the_rest(self) -> None:
        for worker in self.totals.living:
            log(ERROR, "worker does not end; killed", worker=worker.number)
            worker.kill()
        with trio.move_on_after(CHANNEL_END_SECONDS + KILLED_SECONDS):
            await self._all_ended.wait()
        for worker in self.totals.living:
            log(ERROR, "worker does not end though it was killed; left behind", worker=worker.number)

    async def count(self) -> None:
        """Has all workers send their counts. Returns once all counts are here, or after COUNTS_SECONDS."""
        await self._ask_all({"do": "count"}, COUNTS_SECONDS)

    async def _keep_running(self, slot: int) -> None:
        """Keeps a worker running in this slot until `stop`."""
        pause = FIRST_PAUSE
        while not self._stopping.is_set():
            started = trio.current_time()
            self.newest = number = next(self._numbers)
            ended = await self._run_worker(number, slot)
            self._vacate(slot)
            self._start_is_over(number)
            if self._stopping.is_set():
                return
            if trio.current_time() - started > WELL_SECONDS:
                pause = FIRST_PAUSE
            self.ends += 1
            log(WARNING, "worker ended; another takes its place", worker=number, reason=ended, pause=pause)
            with trio.move_on_after(pause):
                await self._stopping.wait()
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _run_worker(self, number: int, slot: int) -> str:
        """Runs one worker from start to end. Returns how it ended, for the log."""
        channel, worker_end = channel_pair()

        def handle_now(message: ChannelMessage) -> bool:
            return self._handle_now(worker, message)

        worker = WorkerHandle(number, Calls(channel, handle_now, self._handle))
        try:
            with worker_end:
                worker.process = await self._start(number, slot, worker_end)
        except OSError as error:
            channel.close()
            return str(error)
        self.totals.add(worker)
        if self._stop_order is not None:
            worker.calls.tell(self._stop_order)
        try:
            code = await self._run_process(worker, worker.process)
        finally:
            self.totals.remove(worker)
        if worker.joined and self._stopping.is_set():
            self._exit_codes.append(code)
        return f"exit code {code}"

    async def _run_process(self, worker: WorkerHandle, process: WorkerProcess) -> int:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._receive, worker)
            # in a task: a worker that hangs may never read its job, and `_watch` must notice it
            nursery.start_soon(process.send_job)
            code = await process.wait()
            # the worker's last messages may not have been read yet
            nursery.cancel_scope.deadline = trio.current_time() + CHANNEL_END_SECONDS
        return code

    async def _watch(self, worker: WorkerHandle) -> None:
        """Kills a worker that hangs. Counts beats instead of time: a parent that was suspended must kill none."""
        while worker.silent <= self._max_silence(worker):
            await trio.sleep(BEAT_SECONDS)
            if not self._stopping.is_set():
                worker.silent += BEAT_SECONDS
        log(ERROR, "worker hangs; killed", worker=worker.number, silent=worker.silent)
        worker.kill()

    def _max_silence(self, worker: WorkerHandle) -> float:
        return self._hung_seconds if worker.has_spoken else self._hung_seconds * START_FACTOR

    async def _receive(self, worker: WorkerHandle) -> None:
        async with trio.open_nursery() as watching:
            watching.start_soon(self._watch, worker)
            try:
                await worker.calls.run()
            except* Exception as wrong:
                (reason, *_) = wrong.exceptions
                fault = not isinstance(reason, ChannelBroken)
                log(ERROR, "worker can't be understood; killed", trace=fault, worker=worker.number, reason=reason)
                worker.kill()
            watching.cancel_scope.cancel()

    def _handle_now(self, worker: WorkerHandle, message: ChannelMessage) -> bool:
        """See `Calls`. Handles a worker's reports."""
        if not worker.has_spoken:
            # the worker's first message: from now on START_FACTOR does not apply
            worker.has_spoken, worker.silent = True, 0.0
        match message.payload["do"]:
            case "join" if self._stopping.is_set():
                # the worker has its order to stop, and the listeners are closed
                pass
            case "join":
                self._catch_up(worker)
                worker.joined = True
                worker.silent = 0.0
                log(INFO, "worker works", worker=worker.number)
                self._start_is_over(worker.number)
            case "counted":
                worker.counted(message.payload)
                self._counted(message.payload)
                worker.silent = 0.0
            case _:
                return False
        return True

    def _start_is_over(self, number: int) -> None:
        self._starting.discard(number)
        if not self._starting:
            self._all_started.set()


def _refusal(number: int, answer: Answer) -> list[str]:
    if not answer.is_done:
        return [f"worker {number} does not answer"]
    try:
        return list(answer.payload["wrong"])
    except ProcessGone:
        # the worker that takes its place starts with the settings of the others
        return []
    except OSError as error:
        return [f"worker {number}: {error.strerror}"]
