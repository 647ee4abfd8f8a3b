"""The readers of a partition, and their positions in the recording and in the target's log.

A consumer is a peer (host and client id), but several consumers with one client id may read one partition. So a
*reader* is known by its connection. It goes on by another connection that asks for the offset where its last recorded
answer ended: its client has connected anew, or the partition has another leader. A seek begins a new reader, since the
target may have given less or more to the earlier one, and their records must not be confused.

    the connection's own reader is at the offset      that one
    else, it last read by this connection             a new reader: the consumer seeks
    else, a reader of the peer is at the offset       that one
    else                                              a new reader

A reader that another connection asks for at the moment counts as none in this table: nobody knows yet where the target
will have it, and several consumers that begin where the others stopped (at one committed offset, for example) would
become one.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

from recorder.replay.partitions import TopicPartition
from recorder.replay.plan import Peer

# Connections of one peer that are remembered for a partition, by last use.
_MOST_CONNECTIONS = 16
# Peers' partitions that are remembered, by last use; others begin anew.
_MOST_READ = 200_000

# Seeks that begin a new reader. Later ones stay with the last reader.
_MOST_SEEKS = 1_000

Connection = tuple[str, int]


class Position(NamedTuple):
    """The next offset of a reader on both sides.

    `recorded`: None after a recorded answer that is missing or unreadable.
    """

    recorded: int | None
    target: int


class Consumer(NamedTuple):
    """One of the readers of a peer."""

    peer: Peer
    number: int


@dataclass(eq=False, slots=True)
class Reader:
    """One reader of one partition.

    Attributes:
        by: the connection by which it last read.
        seeks: how often its consumer had sought before.
        position: None before the first answer.
        asked_by: the connection whose Fetch is in flight on the target; None if none is.
    """

    consumer: Consumer
    by: Connection
    seeks: int = 0
    position: Position | None = None
    asked_by: Connection | None = None

    def is_at(self, offset: int) -> bool:
        """True if a recorded Fetch at this offset goes on where the last recorded answer ended."""
        return self.position is not None and self.position.recorded in (offset, None)

    def may_go_on(self, connection: Connection, offset: int) -> bool:
        """True if a recorded Fetch by this connection goes on as this reader."""
        return self.is_at(offset) and self.asked_by in (connection, None)

    def settled(self, connection: Connection) -> None:
        """A Fetch of this connection is in flight no more."""
        if self.asked_by == connection:
            self.asked_by = None


class Readers:
    """The readers of one replay."""

    def __init__(self) -> None:
        self._read: OrderedDict[tuple[Peer, TopicPartition], OrderedDict[Connection, Reader]] = OrderedDict()
        self._numbers = count(1)

    def reader(self, peer: Peer, connection: Connection, place: TopicPartition, offset: int) -> Reader:
        """The reader that asks for a recorded offset by this connection, until it is `settled`."""
        found = self._found(peer, connection, place, offset)
        found.asked_by = connection
        return found

    def _found(self, peer: Peer, connection: Connection, place: TopicPartition, offset: int) -> Reader:
        read = self._of(peer, place)
        own = read.get(connection)
        if own and own.may_go_on(connection, offset):
            return own
        if own and own.by == connection:
            return own if own.seeks == _MOST_SEEKS else self._new(peer, connection, own.seeks + 1)
        there = (each for each in reversed(read.values()) if each.may_go_on(connection, offset))
        return next(there, None) or self._new(peer, connection)

    def move(self, reader: Reader, connection: Connection, place: TopicPartition, position: Position) -> None:
        """An answer has come by this connection."""
        key = reader.consumer.peer, place
        read = self._read.setdefault(key, OrderedDict())
        self._read.move_to_end(key)
        reader.by, reader.position = connection, position
        read[connection] = reader
        read.move_to_end(connection)
        if len(read) > _MOST_CONNECTIONS:
            read.popitem(last=False)
        if len(self._read) > _MOST_READ:
            self._read.popitem(last=False)

    def forget(self, peer: Peer, connection: Connection, place: TopicPartition) -> None:
        """The target has refused a reader's offset: its position is unknown."""
        found = self._of(peer, place).get(connection)
        if found is not None:
            found.position = None

    def forget_topic(self, topic: str) -> None:
        """A topic was deleted: nobody goes on in its log."""
        for key in [key for key in self._read if key[1][0] == topic]:
            del self._read[key]

    def _new(self, peer: Peer, connection: Connection, seeks: int = 0) -> Reader:
        return Reader(Consumer(peer, next(self._numbers)), connection, seeks)

    def _of(self, peer: Peer, place: TopicPartition) -> OrderedDict[Connection, Reader]:
        return self._read.get((peer, place), OrderedDict())
