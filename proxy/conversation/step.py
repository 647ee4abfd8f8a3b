"""The results of one chunk of bytes, which a conversation hands to the relay or the compactor.

Offsets called *stream offsets* count the bytes of one direction of a connection from its first one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from proxy.conversation.exchange import Cause, Direction, Exchange, FrameKind, OpaqueReason


class Mark(NamedTuple):
    """A piece of a frame that the recorder may mask or the relay rewrite; each step that holds bytes of it has one.

    `begin` and `end`: stream offsets of the whole frame, its length included. `start` and `stop`: of the piece.
    `before_login`: a login may be under way, so unreadable bytes may be a secret; also True for a response without a
    known request. The proxy's own answer is marked too; its bytes are in `exchange.own_answer`, not in the stream.
    """

    kind: FrameKind
    exchange: Exchange | None
    begin: int
    end: int
    start: int
    stop: int
    before_login: bool

    @property
    def first(self) -> bool:
        """True if the frame begins with this piece."""
        return self.start == self.begin

    @property
    def last(self) -> bool:
        """True if the frame ends with this piece."""
        return self.stop == self.end


class Verdict(NamedTuple):
    """The decision about a direction's frames from a stream offset on: bare login tokens, or frames with heads.

    `token`: True for bare tokens. `ended`: a login ends there.
    """

    direction: Direction
    offset: int
    token: bool
    mechanism: str | None
    ended: bool


class Edit(NamedTuple):
    """`data[start:stop]` of a step is sent as `bytes` instead."""

    start: int
    stop: int
    bytes: bytes


class Step:
    """The result of a chunk: bytes to pass on, and the exchanges and marks in them.

    `data` begins at stream offset `offset`, which is before this chunk if bytes had been held back; its first `stop`
    bytes may be passed on. The `unclassified` bytes behind them are an incomplete head. `rest` is the unread end of the
    chunk: feed it as the next chunk.
    """

    __slots__ = (
        "cause",
        "data",
        "edits",
        "finished",
        "marks",
        "offset",
        "one_way",
        "opaque",
        "rest",
        "stop",
        "to_answer",
        "unanswered",
        "verdicts",
    )

    def __init__(self, data: bytes, offset: int) -> None:
        self.data = data
        self.offset = offset
        self.stop = len(data)
        self.rest = b""
        self.marks: list[Mark] = []
        # exchanges whose response is complete
        self.finished: list[Exchange] = []
        # opaque requests from which no response is expected any more
        self.unanswered: list[Exchange] = []
        # complete requests that await no response
        self.one_way: list[Exchange] = []
        # complete requests that the proxy must answer
        self.to_answer: list[Exchange] = []
        self.opaque: list[OpaqueReason] = []
        self.verdicts: list[Verdict] = []
        self.edits: list[Edit] = []
        self.cause: Cause | None = None

    def leave(self, at: int) -> None:
        """Leaves the bytes from `data[at]` on to the next step."""
        self.data, self.rest = self.data[:at], self.data[at:] + self.rest

    @property
    def unclassified(self) -> int:
        """The number of bytes at the end that are held back: the beginning of a head."""
        return len(self.data) - self.stop

    def outgoing(self) -> list[bytes | memoryview]:
        """The bytes to send, in order."""
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
