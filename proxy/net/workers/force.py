"""Keeps the workers running, and speaks to all of them.

A worker that ends takes its own connections with it and nothing else: the others go on accepting on the same sockets,
and another one takes its place, after a pause that grows when they keep ending. What it had counted stays counted.

A worker has *joined* once it has said that it is there; from then on it is told what the others are told, and waited
for. One that has ended is waited for no more, nor is for long one that hangs: clients that are sent to a node's port
find the others there.
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
from proxy.net.workers.calls import Answer, Calls, Gone, Heed, Said
from proxy.net.workers.channel import ChannelBroken, Message, channel_pair
from proxy.net.workers.link import Link, WorkerProcess
from proxy.net.workers.totals import Totals

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 30.0
# a worker that lived this long was well: the next pause is short again
WELL_SECONDS = 60.0
# a process that has not said a word yet is given so many times as long as one that works: it starts, maybe among others
BEGINNING = 3
# a worker that has not done within this what it was told is not waited for
SETTLE_SECONDS = 10.0
# a scrape waits no longer for a worker's numbers; those that it told before count. /readyz asks for them, too, and
# probes of Kubernetes wait one second by default
NUMBERS_SECONDS = 0.7
# beyond the deadline of the drain, for what a worker's recorder has still to write; less than systemd is told
STUCK_SECONDS = RECORDER_SECONDS + 5
# likewise, once somebody is in a hurry, and once nothing more is waited for but a worker's last counts
HURRIED_STUCK_SECONDS = HURRIED_SECONDS + 3
AT_ONCE_SECONDS = 2.0
# a process that was killed ends when the kernel lets go of it: not while it waits for a disk that hangs
KILLED_SECONDS = 1.0
# how often a worker says what it has counted, by which it is known to go on; what one that is killed has counted since
# is lost
BEAT_SECONDS = 1.0
# between a process' end and its channel's
LAST_WORDS_SECONDS = 1.0

# starts a worker with its number, its place, and its end of the channel. Raises OSError
Start = Callable[[int, int, socket.socket], Awaitable[WorkerProcess]]


class Force:
    """The workers of a proxy.

    Args:
        count: so many run.
        start: starts a process.
        heed: answers what workers ask.
        greet: tells a worker that has joined what it has missed.
        vacate: a place's worker has ended.
        silence: seconds after which a worker that says nothing of itself is killed; `BEGINNING` times as many where it
            has never said anything.

    `newest`: the number of the worker that was begun last. `totals`: what all have counted.
    """

    def __init__(
        self,
        count: int,
        start: Start,
        heed: Heed,
        greet: Callable[[Link], None],
        vacate: Callable[[int], None],
        silence: float,
    ) -> None:
        self.totals = Totals()
        self.ends = 0
        self.newest = 0
        self._count = count
        self._start = start
        self._heed = heed
        self._greet = greet
        self._vacate = vacate
        self._silence = silence
        self._numbers = itertools.count(1)
        self._stopping = trio.Event()
        # what all have been told about their end; None: nothing yet
        self._last_word: Said | None = None
        self._ended = trio.Event()
        self._hopes = count
        self._complete = trio.Event()
        self._codes: list[int] = []

    @property
    def joined(self) -> list[Link]:
        """Those that work, in the order of their numbers."""
        return sorted((link for link in self.totals.living if link.joined), key=lambda link: link.number)

    @property
    def hanging(self) -> list[Link]:
        """Those that have said nothing for so long that something is wrong: a third of what they may."""
        living = self.totals.living
        hanging = (link for link in living if link.silent > max(self._patience(link) / 3, 2 * BEAT_SECONDS))
        return sorted(hanging, key=lambda link: link.number)

    async def run(self) -> None:
        """Keeps workers running until `stop`; returns when the last one has ended."""
        async with trio.open_nursery() as nursery:
            for place in range(self._count):
                nursery.start_soon(self._keep, place)
        self._ended.set()

    async def complete(self) -> None:
        """Returns when as many have joined as there are to be, or have ended trying."""
        await self._complete.wait()

    def tell(self, said: Said, sockets: Sequence[socket.socket] = ()) -> None:
        """Tells all that have joined something that they are to do."""
        for link in self.joined:
            link.tell(said, sockets)

    async def settled(self) -> None:
        """Returns when all have done what they were told."""
        with trio.move_on_after(SETTLE_SECONDS) as patience:
            for link in self.joined:
                await link.settled()
        if patience.cancelled_caught:
            log(WARNING, "a worker does not answer; the others go on without it")

    async def refusals(self, said: Said, seconds: float) -> list[str]:
        """Asks all that have joined to prepare something; why not, of each that can't, or does not answer in time."""
        asked = [(link, link.calls.ask(said)) for link in self.joined]
        with trio.move_on_after(seconds):
            for _, answer in asked:
                await answer.settled()
        lines = [line for link, answer in asked for line in _refusal(link.number, answer)]
        return [*dict.fromkeys(lines)]

    async def stop(self, seconds: float, stop: Stop) -> bool:
        """Has all workers end as it is asked for; returns whether nothing was cut off. `seconds`: of their drain."""
        self._stopping.set()
        async with trio.open_nursery() as nursery:
            with trio.move_on_after(seconds + STUCK_SECONDS) as patience:
                nursery.start_soon(self._tell_to_stop, stop, patience)
                await self._ended.wait()
            nursery.cancel_scope.cancel()
        await self._kill_the_rest()
        return not self.totals.living and not any(self._codes)

    async def _tell_to_stop(self, stop: Stop, patience: trio.CancelScope) -> None:
        """Tells all each time that it is more urgent, and has less patience with them then.

        Those that have not joined yet are told, too: each may have begun a session of the recorder's.
        """
        for event, urgency, seconds in (
            (stop.begun, Urgency.DRAIN, math.inf),
            (stop.hurried, Urgency.HURRY, HURRIED_STUCK_SECONDS),
            (stop.at_once, Urgency.AT_ONCE, AT_ONCE_SECONDS),
        ):
            await event.wait()
            self._last_word = {"do": "stop", "urgency": urgency}
            for link in self.totals.living:
                link.calls.tell(self._last_word)
            patience.deadline = min(patience.deadline, trio.current_time() + seconds)

    async def _kill_the_rest(self) -> None:
        for link in self.totals.living:
            log(ERROR, "worker does not end; killed", worker=link.number)
            link.kill()
        with trio.move_on_after(LAST_WORDS_SECONDS + KILLED_SECONDS):
            await self._ended.wait()
        for link in self.totals.living:
            log(ERROR, "worker does not end though it was killed; left behind", worker=link.number)

    async def count(self) -> None:
        """Brings the numbers of all up to date, as far as they tell them in time."""
        asked = [link.calls.ask({"do": "count"}) for link in self.joined]
        with trio.move_on_after(NUMBERS_SECONDS):
            for answer in asked:
                await answer.settled()

    async def _keep(self, place: int) -> None:
        """Keeps one running."""
        pause = FIRST_PAUSE
        while not self._stopping.is_set():
            started = trio.current_time()
            self.newest = number = next(self._numbers)
            ended = await self._work(number, place)
            self._vacate(place)
            self._has_tried()
            if self._stopping.is_set():
                return
            if trio.current_time() - started > WELL_SECONDS:
                pause = FIRST_PAUSE
            self.ends += 1
            log(WARNING, "worker ended; another takes its place", worker=number, reason=ended, pause=pause)
            with trio.move_on_after(pause):
                await self._stopping.wait()
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _work(self, number: int, place: int) -> str:
        """One worker, from start to end. Returns how it ended."""
        channel, theirs = channel_pair()

        def now(message: Message) -> bool:
            return self._now(link, message)

        link = Link(number, Calls(channel, now, self._heed))
        try:
            with theirs:
                link.process = await self._start(number, place, theirs)
        except OSError as error:
            channel.close()
            return str(error)
        self.totals.add(link)
        if self._last_word is not None:
            link.calls.tell(self._last_word)
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
            # beside that: one that hangs may never read it, and is to be seen
            nursery.start_soon(process.brief)
            code = await process.wait()
            # what it said last may not have been read yet
            nursery.cancel_scope.deadline = trio.current_time() + LAST_WORDS_SECONDS
        return code

    async def _watch(self, link: Link) -> None:
        """Kills it when it hangs. Beats are counted, not time: one that was stopped itself accuses nobody."""
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

    def _now(self, link: Link, message: Message) -> bool:
        if not link.begun:
            # from now on it has less time to say something
            link.begun, link.silent = True, 0.0
        match message.said["do"]:
            case "join" if self._stopping.is_set():
                # it has been told to stop: there are no listeners any more to tell it of
                pass
            case "join":
                self._greet(link)
                link.joined = True
                link.silent = 0.0
                log(INFO, "worker works", worker=link.number)
                self._has_tried()
            case "counted":
                link.counted(message.said)
                link.silent = 0.0
            case _:
                return False
        return True

    def _has_tried(self) -> None:
        self._hopes -= 1
        if self._hopes == 0:
            self._complete.set()


def _refusal(number: int, answer: Answer) -> list[str]:
    if not answer.is_here:
        return [f"worker {number} does not answer"]
    try:
        return list(answer.said["wrong"])
    except Gone:
        # another one takes its place, and begins with what the others have
        return []
    except OSError as error:
        return [f"worker {number}: {error.strerror}"]
