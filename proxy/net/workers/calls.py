"""Requests and answers over a channel between the parent and one worker. Both sides may send requests.

Messages arrive in the order of sending. So a side that receives an answer has received every message that the other
side sent before the answer.
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
from proxy.net.workers.channel import Channel, ChannelMessage

Payload = dict[str, Any]
# handles a message; returns the answer (None: an empty one). An OSError is sent as the answer
Handler = Callable[[ChannelMessage], Awaitable[Payload | None]]

# keys of a message: the request's number, in the request and in its answer; an answer's errno and text
_REQUEST, _ANSWER, _ERROR = "request", "answer", "error"


class ProcessGone(OSError):
    """The other process has ended, or will not answer."""

    def __init__(self) -> None:
        super().__init__(errno.EPIPE, "the proxy's other process is gone")


class Answer:
    """The answer to a request, which may not have come yet."""

    def __init__(self) -> None:
        self._done = trio.Event()
        self._payload: Payload | None = None
        self._error: OSError | None = ProcessGone()

    @property
    def is_done(self) -> bool:
        """True once the answer has come, or never will."""
        return self._done.is_set()

    async def wait(self) -> Payload:
        """Waits for the answer, and returns it. Raises ProcessGone, or the other side's OSError."""
        await self._done.wait()
        return self.payload

    @property
    def payload(self) -> Payload:
        """The answer, once it has come. Raises as `wait` does."""
        if self._error is not None:
            raise self._error
        assert self._payload is not None
        return self._payload

    async def settled(self) -> None:
        """Returns when the answer has come, or never will."""
        await self._done.wait()

    def resolve(self, payload: Payload) -> None:
        """The answer has come."""
        error = payload.get(_ERROR)
        self._error = OSError(*error) if error else None
        self._payload = payload
        self._done.set()

    def abandon(self) -> None:
        """The answer will never come."""
        self._done.set()


class Calls:
    """Sends requests to the other process, and handles its requests. Call `run` in a task of its own.

    Args:
        handle_now: handles a message at once, in the order of arrival. Returns False to leave a message to `handle`.
        handle: handles a message in a task of its own, and returns the answer.
    """

    def __init__(self, channel: Channel, handle_now: Callable[[ChannelMessage], bool], handle: Handler) -> None:
        self._channel = channel
        self._handle_now = handle_now
        self._handle = handle
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Answer] = {}
        self._gone = False

    def tell(self, payload: Mapping[str, Any], sockets: Sequence[socket] = ()) -> None:
        """Sends a message that needs no answer."""
        self._channel.send(payload, sockets)

    def ask(self, payload: Mapping[str, Any], sockets: Sequence[socket] = ()) -> Answer:
        """Sends a message that needs an answer. Returns the answer to come."""
        answer = Answer()
        if self._gone:
            answer.abandon()
            return answer
        number = next(self._numbers)
        self._waiting[number] = answer
        self._channel.send({**payload, _REQUEST: number}, sockets)
        return answer

    async def all_sent(self) -> None:
        """Returns when the kernel has every message, or the other side is gone."""
        await self._channel.all_sent()

    async def run(self) -> None:
        """Receives until cancelled or the other side is gone.

        Raises:
            ExceptionGroup: of ChannelBroken.
        """
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._channel.run)
                while (message := await self._channel.receive()) is not None:
                    self._dispatch(message, nursery)
                nursery.cancel_scope.cancel()
        finally:
            self._gone = True
            self._channel.close()
            for answer in self._waiting.values():
                answer.abandon()

    def _dispatch(self, message: ChannelMessage, nursery: trio.Nursery) -> None:
        number = message.payload.get(_ANSWER)
        if number is not None:
            self._waiting.pop(number).resolve(message.payload)
        elif self._handle_now(message):
            self._reply(message, {})
        else:
            nursery.start_soon(self._answer, message)

    async def _answer(self, message: ChannelMessage) -> None:
        try:
            payload = await self._handle(message)
        except OSError as error:
            payload = {_ERROR: [error.errno, error.strerror]}
        except Exception:
            log(ERROR, "fault between the proxy's processes", trace=True, request=message.payload.get("do"))
            payload = {_ERROR: [errno.EIO, "a fault of the proxy's"]}
        self._reply(message, payload or {})

    def _reply(self, message: ChannelMessage, payload: Payload) -> None:
        number = message.payload.get(_REQUEST)
        if number is not None:
            self._channel.send({**payload, _ANSWER: number})
