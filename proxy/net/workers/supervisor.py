"""Keeps the workers running, and speaks to all of them.

A worker that ends takes its own connections with it and nothing else: the other workers go on accepting on the same
sockets. Another worker takes its place after a pause, which grows while workers keep ending. The numbers that the ended
worker had counted stay counted.

A worker has *joined* once it has said that it works. From then on the parent tells it whatever all workers are told,
and waits for it. The parent does not wait for a worker that has ended, nor for long for one that hangs: clients that
are sent to a node's port find the other workers there.
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
from proxy.net.workers.link import Link, WorkerProcess
from proxy.net.workers.totals import Totals

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 30.0
# after a worker that lived this long the next pause is short again
WELL_SECONDS = 60.0
# a worker that has said nothing yet may be silent so many times as long as one that works: it starts, maybe among many
BEGINNING = 3
# the parent waits no longer than this for a worker to do what it was told
SETTLE_SECONDS = 10.0
# a scrape waits no longer for a worker's numbers, and then shows the last ones. /readyz asks for them too, and probes
# of Kubernetes wait one second by default
NUMBERS_SECONDS = 0.7
# beyond the deadline of the drain, for a worker's recorder to write the rest; less than systemd is told
STUCK_SECONDS = RECORDER_SECONDS + 5
# the same after a second signal, and after a third one, when only a worker's last counts are waited for
HURRIED_STUCK_SECONDS = HURRIED_SECONDS + 3
AT_ONCE_SECONDS = 2.0
# a killed process ends when the kernel lets go of it: not while it waits for a disk that hangs
KILLED_SECONDS = 1.0
# how often a worker tells its counts, which also shows that it is alive. A killed worker loses the counts since then
BEAT_SECONDS = 1.0
# between the end of a process and the end of its channel, which may hold its last messages
CHANNEL_END_SECONDS = 1.0

# starts a worker with its number, its slot, and its end of the channel. Raises OSError
Start = Callable[[int, int, socket.socket], Awaitable[WorkerProcess]]


class Supervisor:
    """The workers of a proxy.

    Args:
        count: how many workers run.
        start: starts a worker's process.
        handle: answers a worker's request.
        greet: tells a worker that has joined what it has missed.
        vacate: called with a slot whose worker has ended.
        silence: seconds after which a silent worker is killed; `BEGINNING` times as many for one that has never said
            anything.

    newest: the number of the worker that was started last. totals: the counts of all workers. ends: how many workers
    have ended and been replaced.
    """

    def __init__(
        self,
        count: int,
        start: Start,
        handle: Handler,
        greet: Callable[[Link], None],
        vacate: Callable[[int], None],
        silence: float,
    ) -> None:
        self.totals = Totals()
        self.ends = 0
        self.newest = 0
        self._count = count
        self._start = start
        self._handle = handle
        self._greet = greet
        self._vacate = vacate
        self._silence = silence
        self._numbers = itertools.count(1)
        self._stopping = trio.Event()
        # the last order to stop that all workers were given; None before the first
        self._stop_order: Payload | None = None
        self._ended = trio.Event()
        self._pending_starts = count
        self._complete = trio.Event()
        self._codes: list[int] = []

    @property
    def joined(self) -> list[Link]:
        """The workers that have joined, in the order of their numbers."""
        return sorted((link for link in self.totals.living if link.joined), key=lambda link: link.number)

    @property
    def hanging(self) -> list[Link]:
        """The workers that have been silent for a third of the time after which they are killed."""
        living = self.totals.living
        hanging = (link for link in living if link.silent > max(self._patience(link) / 3, 2 * BEAT_SECONDS))
        return sorted(hanging, key=lambda link: link.number)

    async def run(self) -> None:
        """Keeps workers running until `stop`; returns when the last one has ended."""
        async with trio.open_nursery() as nursery:
            for slot in range(self._count):
                nursery.start_soon(self._keep, slot)
        self._ended.set()

    async def complete(self) -> None:
        """Returns once as many workers have joined as are to run, or have ended before they did."""
        await self._complete.wait()

    def tell(self, payload: Payload, sockets: Sequence[socket.socket] = ()) -> None:
        """Tells all workers that have joined to do something."""
        for link in self.joined:
            link.tell(payload, sockets)

    async def settled(self) -> None:
        """Returns when all workers have done what they were told, or time is up."""
        with trio.move_on_after(SETTLE_SECONDS) as patience:
            for link in self.joined:
                await link.settled()
        if patience.cancelled_caught:
            log(WARNING, "a worker does not answer; the others go on without it")

    async def refusals(self, payload: Payload, seconds: float) -> list[str]:
        """Asks all workers that have joined to prepare something. Returns why not, of those that can't or are late."""
        asked = [(link, link.calls.ask(payload)) for link in self.joined]
        with trio.move_on_after(seconds):
            for _, answer in asked:
                await answer.settled()
        lines = [line for link, answer in asked for line in _refusal(link.number, answer)]
        return [*dict.fromkeys(lines)]

    async def stop(self, seconds: float, stop: Stop) -> bool:
        """Has all workers end as `stop` says. Returns whether nothing was cut off. `seconds`: of their drain."""
        self._stopping.set()
        async with trio.open_nursery() as nursery:
            with trio.move_on_after(seconds + STUCK_SECONDS) as patience:
                nursery.start_soon(self._tell_to_stop, stop, patience)
                await self._ended.wait()
            nursery.cancel_scope.cancel()
        await self._kill_the_rest()
        return not self.totals.living and not any(self._codes)

    async def _tell_to_stop(self, stop: Stop, patience: trio.CancelScope) -> None:
        """Tells all workers each time that the stop becomes more urgent, and shortens `patience` then.

        Workers that have not joined yet are told too: each may have begun a session of the recorder's.
        """
        for event, urgency, seconds in (
            (stop.begun, Urgency.DRAIN, math.inf),
            (stop.hurried, Urgency.HURRY, HURRIED_STUCK_SECONDS),
            (stop.at_once, Urgency.AT_ONCE, AT_ONCE_SECONDS),
        ):
            await event.wait()
            self._stop_order = {"do": "stop", "urgency": urgency}
            for link in self.totals.living:
                link.calls.tell(self._stop_order)
            patience.deadline = min(patience.deadline, trio.current_time() + seconds)

    async def _kill_the_rest(self) -> None:
        for link in self.totals.living:
            log(ERROR, "worker does not end; killed", worker=link.number)
            link.kill()
        with trio.move_on_after(CHANNEL_END_SECONDS + KILLED_SECONDS):
            await self._ended.wait()
        for link in self.totals.living:
            log(ERROR, "worker does not end though it was killed; left behind", worker=link.number)

    async def count(self) -> None:
        """Has all workers tell their counts; returns when they have, or time is up."""
        asked = [link.calls.ask({"do": "count"}) for link in self.joined]
        with trio.move_on_after(NUMBERS_SECONDS):
            for answer in asked:
                await answer.settled()

    async def _keep(self, slot: int) -> None:
        """Keeps one worker running in a slot."""
        pause = FIRST_PAUSE
        while not self._stopping.is_set():
            started = trio.current_time()
            self.newest = number = next(self._numbers)
            ended = await self._work(number, slot)
            self._vacate(slot)
            self._start_is_over()
            if self._stopping.is_set():
                return
            if trio.current_time() - started > WELL_SECONDS:
                pause = FIRST_PAUSE
            self.ends += 1
            log(WARNING, "worker ended; another takes its place", worker=number, reason=ended, pause=pause)
            with trio.move_on_after(pause):
                await self._stopping.wait()
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _work(self, number: int, slot: int) -> str:
        """Runs one worker from start to end. Returns how it ended."""
        channel, theirs = channel_pair()

        def now(message: ChannelMessage) -> bool:
            return self._now(link, message)

        link = Link(number, Calls(channel, now, self._handle))
        try:
            with theirs:
                link.process = await self._start(number, slot, theirs)
        except OSError as error:
            channel.close()
            return str(error)
        self.totals.add(link)
        if self._stop_order is not None:
            link.calls.tell(self._stop_order)
        try:
            code = await self._converse(link, link.process)
        finally:
            self.totals.bury(link)
        if link.joined and self._stopping.is_set():
            self._codes.append(code)
        return f"exit code {code}"

    async def _converse(self, link: Link, process: WorkerProcess) -> int:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._hear, link)
            # in a task of its own: a worker that hangs may never read its job, and must be noticed
            nursery.start_soon(process.brief)
            code = await process.wait()
            # its last messages may not have been read yet
            nursery.cancel_scope.deadline = trio.current_time() + CHANNEL_END_SECONDS
        return code

    async def _watch(self, link: Link) -> None:
        """Kills a worker that hangs. It counts beats, not time: a parent that was itself stopped accuses nobody."""
        while link.silent <= self._patience(link):
            await trio.sleep(BEAT_SECONDS)
            if not self._stopping.is_set():
                link.silent += BEAT_SECONDS
        log(ERROR, "worker hangs; killed", worker=link.number, silent=link.silent)
        link.kill()

    def _patience(self, link: Link) -> float:
        return self._silence if link.begun else self._silence * BEGINNING

    async def _hear(self, link: Link) -> None:
        async with trio.open_nursery() as watching:
            watching.start_soon(self._watch, link)
            try:
                await link.calls.run()
            except* Exception as wrong:
                (reason, *_) = wrong.exceptions
                fault = not isinstance(reason, ChannelBroken)
                log(ERROR, "worker can't be understood; killed", trace=fault, worker=link.number, reason=reason)
                link.kill()
            watching.cancel_scope.cancel()

    def _now(self, link: Link, message: ChannelMessage) -> bool:
        if not link.begun:
            # from now on its silence may be shorter
            link.begun, link.silent = True, 0.0
        match message.payload["do"]:
            case "join" if self._stopping.is_set():
                # the worker has been told to stop, and there are no listeners any more to tell it of
                pass
            case "join":
                self._greet(link)
                link.joined = True
                link.silent = 0.0
                log(INFO, "worker works", worker=link.number)
                self._start_is_over()
            case "counted":
                link.counted(message.payload)
                link.silent = 0.0
            case _:
                return False
        return True

    def _start_is_over(self) -> None:
        self._pending_starts -= 1
        if self._pending_starts == 0:
            self._complete.set()


def _refusal(number: int, answer: Answer) -> list[str]:
    if not answer.is_here:
        return [f"worker {number} does not answer"]
    try:
        return list(answer.payload["wrong"])
    except ProcessGone:
        # another worker takes its place, and starts with the settings of the others
        return []
    except OSError as error:
        return [f"worker {number}: {error.strerror}"]
