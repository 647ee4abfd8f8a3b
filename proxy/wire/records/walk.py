"""Finds the record data in a frame that arrives in pieces: keys, values and headers, and texts that may quote them.

The batches' heads are no record data, so a frame without it still tells topics, partitions, offsets, counts and sizes.
Nothing is held back: each piece is judged as it comes. Frames of today's dialect are walked by generated functions,
those of 0.7 by `kafka07.record_data`.
"""

from collections.abc import Callable, Generator

from proxy.wire.errors import WireError
from proxy.wire.primitives import Buffer
from proxy.wire.records.blank import State, record_data

# (start, stop), from the frame's beginning, its length included
Span = tuple[int, int]
# (name, id) of a topic, None for what is not told -> whether its record data is to be found
OfTopic = Callable[[bytes | None, bytes | None], bool]
Find = Callable[["RecordWalk"], Generator[None, Buffer, int]]


class RecordWalk:
    """A walk through one frame, its length included.

    Args:
        find: makes the generator that walks: `Codec.find_records`, or one of `kafka07.record_data`.
        topic: is asked for each topic.
        head: bytes at the frame's beginning that are never record data.
        by_broker: True for an answer.

    Attributes:
        base: how many bytes came before the newest piece.
        unreadable_from: the offset from which on nobody can tell what the frame holds: it is no such message, or goes
            on behind its message. None: all can be told so far.
    """

    def __init__(self, find: Find, topic: OfTopic, *, head: int, by_broker: bool) -> None:
        self.base = 0
        self.unreadable_from: int | None = None
        self.topic = topic
        self._head, self._by_broker = head, by_broker
        self._spans: list[Span] = []
        self._fed = 0
        self._pieces = find(self)
        self._end: int | None = None
        next(self._pieces)

    def found(self, start: int, stop: int) -> None:
        """Takes a stretch of record data, which may end behind the newest piece."""
        self._spans.append((start, stop))

    def records(self, length: int, buf: Buffer, at: int, size: int) -> Generator[None, Buffer, State]:
        """Walks through a field of batches."""
        return record_data(self.base + at, length, (buf, at, size), self.found, by_broker=self._by_broker)

    def feed(self, piece: Buffer) -> list[Span]:
        """The stretches of record data in the next piece, in order. Those behind `unreadable_from` are not told."""
        self.base, self._fed = self._fed, self._fed + len(piece)
        try:
            if self._end is None:
                self._pieces.send(piece)
        except StopIteration as stop:
            self._end = stop.value
        except WireError:
            self._end = max(self._head, self.base)
        if self._end is not None and self._end < self._fed and self.unreadable_from is None:
            self.unreadable_from = self._end
        limit = self._fed if self.unreadable_from is None else self.unreadable_from
        spans = [(max(start, self.base), min(stop, limit)) for start, stop in self._spans]
        # of a stretch that goes on, the rest comes with the next piece
        self._spans = [(start, stop) for start, stop in self._spans if stop > self._fed]
        return [(start, stop) for start, stop in spans if start < stop]


def nothing_known(head: int) -> Find:
    """A walk through frames that nobody can read: nothing is known behind their first `head` bytes."""

    def find(here: RecordWalk) -> Generator[None, Buffer, int]:
        while here.base + len((yield)) < head:
            pass
        return head

    return find
