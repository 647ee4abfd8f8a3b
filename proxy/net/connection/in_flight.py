"""What is still on its way over one connection: chunks that could not be passed on at once, and what is owed."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import NamedTuple

import trio

from proxy.conversation import Conversation, Step


class PendingChunk(NamedTuple):
    """A chunk that could not be passed on at once.

    pieces: what of it is still to be sent; None while its rewriting is unfinished.
    waits: the chunk must wait for the recorder.
    """

    step: Step
    pieces: Sequence[bytes | memoryview] | None
    chunk: bytes
    at_ns: int
    waits: bool


class Wakeup(Enum):
    """Why a task is woken without a chunk."""

    END_OF_STREAM = auto()
    # the task shall look at the connection's state again
    STATE_CHANGED = auto()
    # the proxy's own question has come back to it
    OWN_QUESTION = auto()


class InFlight:
    """Requests without a response, and a response that is being sent.

    response_pending: a chunk of the broker has been read and has not been sent.
    sent: set when more has been sent to the client; None where nobody waits for that.
    """

    __slots__ = ("_talk", "response_pending", "sent")

    def __init__(self, talk: Conversation) -> None:
        self._talk = talk
        self.response_pending = False
        self.sent: trio.Event | None = None

    @property
    def at_boundary(self) -> bool:
        """Whether no request has begun of which the rest is to come."""
        return not self._talk.requests_side.missing

    @property
    def is_settled(self) -> bool:
        """Whether no response is owed or half passed on. A request that the client left incomplete will get none."""
        talk = self._talk
        if self.response_pending or talk.responses_side.left or talk.login.owed:
            return False
        owed = talk.in_flight
        return not owed or (len(owed) == 1 and owed[0] is talk.requests_side.open)

    async def until_sent(self) -> None:
        """Waits until more has been sent to the client."""
        self.sent = trio.Event()
        await self.sent.wait()

    async def until_settled(self) -> None:
        """Waits until nothing is owed to the client."""
        while not self.is_settled:
            await self.until_sent()
