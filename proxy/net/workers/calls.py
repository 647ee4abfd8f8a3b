"""Questions and answers over a channel; both sides may ask.

What is told and what is answered arrives in the order in which it was said: whoever hears an answer has heard
everything before it.
"""

from __future__ import annotations

import errno
import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from logging import ERROR
from socket import socket
from typing import Any

import trio

from proxy.log import log
from proxy.net.workers.channel import Channel, Message

Said = dict[str, Any]
# what is said -> the answer; None: it is none that is to be answered. Raises OSError: that is the answer
Heed = Callable[[Message], Awaitable[Said | None]]

_ASKED, _ANSWER, _ERROR = "asked", "answer", "error"


class Gone(OSError):
    """The other process has ended, or will not answer."""

    def __init__(self) -> None:
        super().__init__(errno.EPIPE, "the proxy's other process is gone")


class Answer:
    """What will be answered. `is_here`: nothing more is to be waited for."""

    def __init__(self) -> None:
        self._here = trio.Event()
        self._said: Said | None = None
        self._error: OSError | None = Gone()

    @property
    def is_here(self) -> bool:
        return self._here.is_set()

    async def wait(self) -> Said:
        """The answer. Raises Gone; OSError: what was asked for could not be had."""
        await self._here.wait()
        return self.said

    @property
    def said(self) -> Said:
        """The answer, once it is here. Raises as `wait` does."""
        if self._error is not None:
            raise self._error
        assert self._said is not None
        return self._said

    async def settled(self) -> None:
        """Returns when it has been answered, or never will be."""
        await self._here.wait()

    def came(self, said: Said) -> None:
        wrong = said.get(_ERROR)
        self._error = OSError(*wrong) if wrong else None
        self._said = said
        self._here.set()

    def give_up(self) -> None:
        self._here.set()


class Calls:
    """One side of a channel. `run` in a task of its own.

    Args:
        now: does what is said, at once and in order; returns whether it has. What it has not done goes to `heed`.
        heed: takes the others, each in a task of its own, and what it returns is the answer.
    """

    def __init__(self, channel: Channel, now: Callable[[Message], bool], heed: Heed) -> None:
        self._channel = channel
        self._now = now
        self._heed = heed
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Answer] = {}
        self._gone = False

    def tell(self, said: Mapping[str, Any], sockets: Sequence[socket] = ()) -> None:
        """Says something that has no answer."""
        self._channel.send(said, sockets)

    def ask(self, said: Mapping[str, Any], sockets: Sequence[socket] = ()) -> Answer:
        """Says something that has an answer, which is to be waited for."""
        answer = Answer()
        if self._gone:
            answer.give_up()
            return answer
        number = next(self._numbers)
        self._waiting[number] = answer
        self._channel.send({**said, _ASKED: number}, sockets)
        return answer

    async def all_sent(self) -> None:
        """Returns when the other side has been given everything, or is gone."""
        await self._channel.all_sent()

    async def run(self) -> None:
        """Until the other side is gone, or what it says makes no sense any more, or cancelled."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._channel.run)
                while (message := await self._channel.receive()) is not None:
                    self._sort(message, nursery)
                nursery.cancel_scope.cancel()
        finally:
            self._gone = True
            self._channel.close()
            for answer in self._waiting.values():
                answer.give_up()

    def _sort(self, message: Message, nursery: trio.Nursery) -> None:
        number = message.said.get(_ANSWER)
        if number is not None:
            self._waiting.pop(number).came(message.said)
        elif self._now(message):
            self._reply(message, {})
        else:
            nursery.start_soon(self._answer, message)

    async def _answer(self, message: Message) -> None:
        try:
            said = await self._heed(message)
        except OSError as error:
            said = {_ERROR: [error.errno, error.strerror]}
        except Exception:
            log(ERROR, "fault between the proxy's processes", trace=True, asked=message.said.get("do"))
            said = {_ERROR: [errno.EIO, "a fault of the proxy's"]}
        self._reply(message, said or {})

    def _reply(self, message: Message, said: Said) -> None:
        number = message.said.get(_ASKED)
        if number is not None:
            self._channel.send({**said, _ANSWER: number})
