"""The result of one chunk of bytes, which a conversation returns to the relay or the compactor.

A *stream offset* counts the bytes of one direction of a connection, from its first byte on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from proxy.conversation.exchange import Cause, Direction, Exchange, FrameKind, OpaqueReason


class Mark(NamedTuple):
    """A piece of a frame that the recorder may mask or the relay rewrite. Each step with bytes of the frame has a mark.

    The proxy's own answer is marked too; its bytes are in `exchange.own_answer`, not in the stream.

    Attributes:
        exchange: None for a token, and for a frame without a readable head.
        begin, end: the stream offsets of the whole frame, its length field included.
        start, stop: the stream offsets of the piece.
        may_hold_secret: True if unreadable bytes of the frame may be a secret: a login may be under way, or the frame
            is a late response, whose request is no longer known.
    """

    kind: FrameKind
    exchange: Exchange | None
    begin: int
    end: int
    start: int
    stop: int
    may_hold_secret: bool

    @property
    def first(self) -> bool:
        """True if the frame begins with this piece."""
        return self.start == self.begin

    @property
    def last(self) -> bool:
        """True if the frame ends with this piece."""
        return self.stop == self.end


class Verdict(NamedTuple):
    """The decision whether a direction's frames are bare login tokens or have heads, from stream offset `offset` on.

    `token`: True for bare tokens; `mechanism`: that of the login, None if unknown; `ended`: True if a login ends here.
    """

    direction: Direction
    offset: int
    token: bool
    mechanism: str | None
    ended: bool


class Edit(NamedTuple):
    """`bytes` are sent in place of `data[start:stop]` of a step."""

    start: int
    stop: int
    bytes: bytes


class Step:
    """The result of a chunk: bytes to pass on, and the exchanges and marks in them.

    Attributes:
        data, offset: the bytes that were read, and their stream offset. They begin before the chunk if bytes had been
            held back.
        chunk_at: the offset of the chunk in `data`: the number of bytes that had been held back.
        stop: the number of bytes of `data` that may be passed on. The bytes after them are `unclassified`.
        rest: the unread end of the chunk; feed it as the next chunk.
        opaque_reasons: one for each opaque request in the step.
        cause: why the connection must end; None: it goes on.
    """

    __slots__ = (
        "cause",
        "chunk_at",
        "data",
        "edits",
        "finished",
        "marks",
        "offset",
        "one_way",
        "opaque_reasons",
        "rest",
        "stop",
        "to_answer",
        "unanswered",
        "verdicts",
    )

    def __init__(self, data: bytes, offset: int, chunk_at: int = 0) -> None:
        self.data = data
        self.offset = offset
        self.chunk_at = chunk_at
        self.stop = len(data)
        self.rest = b""
        self.marks: list[Mark] = []
        # exchanges whose response is complete
        self.finished: list[Exchange] = []
        # opaque requests that were given up: their responses are no longer awaited
        self.unanswered: list[Exchange] = []
        # complete requests that await no response
        self.one_way: list[Exchange] = []
        # complete requests that the proxy must answer
        self.to_answer: list[Exchange] = []
        self.opaque_reasons: list[OpaqueReason] = []
        self.verdicts: list[Verdict] = []
        self.edits: list[Edit] = []
        self.cause: Cause | None = None

    def cut_at(self, at: int) -> None:
        """Moves the bytes from `data[at]` on to `rest`, for the next step."""
        self.data, self.rest = self.data[:at], self.data[at:] + self.rest

    @property
    def unclassified(self) -> int:
        """The number of bytes at the end of `data` that may not be passed on.

        Without `cause`, they are held back, because more must be read before their frame may pass. With `cause`, they
        begin with the frame that ends the connection.
        """
        return len(self.data) - self.stop

    def outgoing(self) -> list[bytes | memoryview]:
        """The bytes to send, in order, with the edits applied."""
        if not self.edits:
            whole = self.stop == len(self.data)
            return [self.data if whole else memoryview(self.data)[: self.stop]]
        return [piece for piece in _edited(memoryview(self.data)[: self.stop], self.edits) if piece]


def _edited(data: memoryview, edits: list[Edit]) -> Iterable[bytes | memoryview]:
    at = 0
    for edit in sorted(edits, key=lambda edit: edit.start):
        yield data[at : edit.start]
        yield edit.bytes
        at = edit.stop
    yield data[at:]
