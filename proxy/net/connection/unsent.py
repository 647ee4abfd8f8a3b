"""What a relay has not sent yet: chunks that could not be passed on at once, and responses that are owed."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import NamedTuple

import trio

from proxy.conversation import Conversation, Step


class PendingChunk(NamedTuple):
    """A chunk that could not be passed on at once.

    pieces: the bytes that are still to be sent; None: `step.outgoing()`, once the step's rewriting is done.
    awaits_recorder: the chunk must wait for a recorder that is full.
    """

    step: Step
    pieces: Sequence[bytes | memoryview] | None
    chunk: bytes
    at_ns: int
    awaits_recorder: bool


class Wakeup(Enum):
    """Why a task wakes with no chunk to send."""

    END_OF_STREAM = auto()
    # `Stream.wake` was called: the task must check the connection's state
    STATE_CHANGED = auto()
    # the chunk is the proxy's own discovery query: the broker's address leads back to the proxy
    OWN_QUERY = auto()


class OwedResponses:
    """The responses that one connection owes its client, including the rest of a response that is partly sent.

    chunk_pending: a chunk of the broker has been read and has not been sent. Assigned by the relay.
    more_sent: set when more has been sent to the client, or dropped; None until a task waits for that.
    """

    __slots__ = ("_conversation", "chunk_pending", "more_sent")

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self.chunk_pending = False
        self.more_sent: trio.Event | None = None

    @property
    def is_settled(self) -> bool:
        """True if no response is owed or partly sent. An incomplete request is owed none."""
        conversation = self._conversation
        if self.chunk_pending or conversation.responses_side.bytes_left or conversation.login.token_owed:
            return False
        owed = conversation.in_flight
        return not owed or (len(owed) == 1 and owed[0] is conversation.requests_side.open_exchange)

    def note_progress(self) -> None:
        """Notes that more has been sent to the client, or dropped because the client is gone."""
        if self.more_sent is not None:
            self.more_sent.set()

    async def until_sent(self) -> None:
        """Waits until more has been sent to the client, or dropped."""
        # several tasks may wait for one event: of the end of the client's stream, and of a drain
        if self.more_sent is None or self.more_sent.is_set():
            self.more_sent = trio.Event()
        await self.more_sent.wait()

    async def until_settled(self) -> None:
        """Waits until no response is owed."""
        while not self.is_settled:
            await self.until_sent()
