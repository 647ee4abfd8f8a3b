"""Who reads a partition, and where: a consumer's place in the recording, and in the target's log.

A consumer is a peer, its host and client id; but several of one name may read one partition. So each *reader* is found
by its connection, and goes on by another one that asks where its last recorded answer ended: a client that connects
anew, or whose partition has another leader. Who seeks begins a reading of its own: the target may have given less of
the earlier one, or more, and the records of both must not be taken for each other's.

    the connection's own reader is at the offset      that one
    else the connection moved it last                 a new one: it seeks
    else a reader of the peer is at the offset        that one
    else                                              a new one
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

from recorder.replay.partitions import Place
from recorder.replay.plan import Peer

# Connections of one peer that read one partition; those that read last are known.
_MOST_CONNECTIONS = 16
# Consumers' partitions; those that were read last are known, all others begin anew.
_MOST_READ = 200_000

# Readings that one consumer begins by seeking; beyond them it goes on as the last one.
_MOST_SEEKS = 1_000

Connection = tuple[str, int]


class Position(NamedTuple):
    """Where a reader is: the next offset to read on both sides. `recorded`: None behind an answer that is missing."""

    recorded: int | None
    target: int


class Consumer(NamedTuple):
    """Who reads: one of a peer's readers."""

    peer: Peer
    number: int


@dataclass(eq=False, slots=True)
class Reader:
    """One reader of one partition.

    Attributes:
        by: the connection that read last.
        seeks: how often it sought before this reading.
        position: None before an answer.
    """

    consumer: Consumer
    by: Connection
    seeks: int = 0
    position: Position | None = None

    def is_at(self, offset: int) -> bool:
        """True if a recorded Fetch of this offset goes on where the last recorded answer ended."""
        return self.position is not None and self.position.recorded in (offset, None)


class Readers:
    """The readers of one replay."""

    def __init__(self) -> None:
        self._read: OrderedDict[tuple[Peer, Place], OrderedDict[Connection, Reader]] = OrderedDict()
        self._numbers = count(1)

    def reader(self, peer: Peer, connection: Connection, place: Place, offset: int) -> Reader:
        """Who asks for a recorded offset by this connection."""
        read = self._of(peer, place)
        own = read.get(connection)
        if own and own.is_at(offset):
            return own
        if own and own.by == connection:
            return own if own.seeks == _MOST_SEEKS else self._new(peer, connection, own.seeks + 1)
        there = (each for each in reversed(read.values()) if each.is_at(offset))
        return next(there, None) or self._new(peer, connection)

    def move(self, reader: Reader, connection: Connection, place: Place, position: Position) -> None:
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

    def forget(self, peer: Peer, connection: Connection, place: Place) -> None:
        """The target has refused where a reader is: it goes on from nowhere."""
        found = self._of(peer, place).get(connection)
        if found is not None:
            found.position = None

    def position(self, peer: Peer, connection: Connection, place: Place) -> Position | None:
        """Where the reader is that reads by this connection; None if it has read nothing."""
        found = self._of(peer, place).get(connection)
        return found.position if found else None

    def positions(self) -> Iterator[tuple[Peer, Connection, Place, Position]]:
        """Where all readers are."""
        for (peer, place), read in self._read.items():
            for connection, reader in read.items():
                if reader.position is not None:
                    yield peer, connection, place, reader.position

    def _new(self, peer: Peer, connection: Connection, seeks: int = 0) -> Reader:
        return Reader(Consumer(peer, next(self._numbers)), connection, seeks)

    def _of(self, peer: Peer, place: Place) -> OrderedDict[Connection, Reader]:
        return self._read.get((peer, place), OrderedDict())
