"""A dump's packets -> a session of a capture. Knows the recorder's tap; never files of dumps.

Packets become segments (`layers`), segments the bytes of connections (`tcp`), and those that speak Kafka (`looking`)
what a proxy's tap would have been told (`connection`). So log, masking, settings and compaction are the proxy's own.
Times are the packets': the log's clock stands at the newest one.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import StrEnum
from typing import Any

from proxy.conversation import Conversation, Direction, Routes, Routes07
from proxy.observer import OpenedConnection
from proxy.schema.flags import MAIN
from proxy.wire.dialects import Dialect
from recorder.capture.spool import MAX_OPEN
from recorder.capture.tap import Tap
from recorder.capture.writer import Clock
from recorder.pcap.connection import Ending, KafkaConnection, cause_of
from recorder.pcap.layers import ACK, RST, SYN, Endpoint, Passed, Segment, segment
from recorder.pcap.looking import Found, Looking
from recorder.pcap.pool import Pool
from recorder.pcap.tcp import Piece, Reassembly

Pair = tuple[Endpoint, Endpoint]


class Session:
    """The session that a dump becomes. It begins with the first connection: a dump without any leaves nothing.

    Args:
        begin: opens the session's tap with a clock. Errors: FolderError.
        source: what the session is made of, as `entry_json.ImportedJson`.

    Attributes:
        now_ns: the newest packet's time.
        tap: None until the session begins.
    """

    def __init__(self, begin: Callable[[Clock], Tap], source: Mapping[str, Any], dialect: Dialect) -> None:
        self._begin, self._source = begin, source
        self._routes = Routes.marking_secrets() if dialect is Dialect.KAFKA else Routes07()
        self._brokers: set[Endpoint] = set()
        self.tap: Tap | None = None
        self.now_ns = 0
        self.connections = 0

    def opened(
        self, client: Endpoint, broker: Endpoint, at_ns: int, pool: Pool, *, tls: bool, is_older: bool
    ) -> KafkaConnection:
        """A connection of a client with a broker. Errors: FolderError."""
        if self.tap is None:
            self.tap = self._begin(Clock(lambda: self.now_ns, lambda: 0))
            self.tap.imported(self._source)
        if broker not in self._brokers:
            self._brokers.add(broker)
            self.tap.identified(MAIN, upstreams=[str(broker)])
        opened = OpenedConnection(self.connections, at_ns, str(broker), str(client), None, str(broker), tls, MAIN)
        self.connections += 1
        return KafkaConnection(self.tap, opened, Conversation(self._routes), pool, self._wait, is_older=is_older)

    def close(self) -> None:
        """Writes what is left. Blocks."""
        if self.tap is not None:
            self.tap.close()

    def _wait(self) -> None:
        """Blocks until the tap has room."""
        assert self.tap is not None
        while self.tap.must_wait:
            has_room = threading.Event()
            self.tap.when_not_full(has_room.set)
            has_room.wait()


class _Followed:
    """A connection of the dump: what it speaks is looked for, or it is recorded, or neither any more."""

    __slots__ = ("client", "kafka", "looking", "reassembly")

    def __init__(self, pool: Pool) -> None:
        self.looking: Looking | None = Looking(pool)
        self.reassembly: Reassembly | None = None
        self.kafka: KafkaConnection | None = None
        self.client: Endpoint | None = None


class Import:
    """The connections of a dump.

    Args:
        ports: those of brokers; empty: whoever speaks Kafka is a broker's client.

    Attributes:
        passed: packets that say nothing here, by the reason.
        others: connections that are not recorded, by what they speak.
        older: how many recorded connections began before the dump.
    """

    def __init__(self, session: Session, ports: Collection[int] = ()) -> None:
        self._session, self._ports = session, frozenset(ports)
        self._pool = Pool()
        self._followed: OrderedDict[Pair, _Followed] = OrderedDict()
        self._brokers: set[Endpoint] = set()
        self.passed: Counter[str] = Counter()
        self.others: Counter[Found] = Counter()
        self.older = 0
        self.packets = 0

    def take(self, at_ns: int, link: int, data: bytes) -> None:
        """Takes a packet."""
        self.packets += 1
        found = segment(link, data)
        if isinstance(found, Passed):
            self.passed[found] += 1
            return
        if self._ports and found.source.port not in self._ports and found.destination.port not in self._ports:
            return
        self._session.now_ns = max(self._session.now_ns, at_ns)
        self._take_segment(found, at_ns)

    def close(self) -> None:
        """The dump has ended: ends all connections."""
        for followed in self._followed.values():
            self._end(followed, Ending.DUMP_ENDED)
        self._followed.clear()

    def _take_segment(self, one: Segment, at_ns: int) -> None:
        pair = (one.source, one.destination) if one.source < one.destination else (one.destination, one.source)
        followed = self._followed.get(pair)
        if followed is not None and self._begins_another(followed, one):
            self._end(followed, Ending.PORTS_REUSED)
            followed = None
        if followed is None:
            # what is left of a connection that has ended, or a probe, begins none
            if not (one.data or one.missing or one.flags & SYN):
                return
            followed = self._followed[pair] = _Followed(self._pool)
            if len(self._followed) > MAX_OPEN:
                self._end(self._followed.popitem(last=False)[1], Ending.TOO_MANY)
        self._followed.move_to_end(pair)
        if followed.looking is not None:
            self._look(followed, followed.looking, one, at_ns)
        elif followed.kafka is not None:
            self._record(followed, one, at_ns)

    def _begins_another(self, followed: _Followed, one: Segment) -> bool:
        if followed.reassembly is None or followed.client is None:
            # what it speaks is not known, or something else: a new connection of these ports may speak Kafka
            return bool(one.flags & SYN) and not one.flags & ACK and followed.looking is None
        direction = Direction.REQUEST if one.source == followed.client else Direction.RESPONSE
        return followed.reassembly.is_strange(direction, one)

    def _look(self, followed: _Followed, looking: Looking, one: Segment, at_ns: int) -> None:
        found = looking.take(one, at_ns)
        broker = self._known_broker(one)
        if isinstance(found, Endpoint):
            broker, found = broker or found, Found.UNKNOWN
        if broker is not None:
            followed.looking = None
            self._begin(followed, looking, broker)
        elif found is not Found.UNKNOWN:
            followed.looking = None
            looking.forget()
            self.others[found] += 1

    def _known_broker(self, one: Segment) -> Endpoint | None:
        """The broker's address, if one of both addresses is known as one."""
        answers = one.flags & SYN and one.flags & ACK
        for end in (one.source, one.destination) if answers else (one.destination, one.source):
            if end.port in self._ports or end in self._brokers:
                return end
        return None

    def _begin(self, followed: _Followed, looking: Looking, broker: Endpoint) -> None:
        """Records a connection from its first packet that was kept on."""
        self._brokers.add(broker)
        kept = [*looking.kept]
        looking.forget()
        first, at_ns = kept[0]
        followed.client = first.destination if first.source == broker else first.source
        followed.reassembly = Reassembly(self._pool)
        is_older = not first.flags & SYN
        self.older += is_older
        followed.kafka = self._session.opened(followed.client, broker, at_ns, self._pool, tls=False, is_older=is_older)
        for one, kept_ns in kept:
            if followed.kafka is not None:
                self._record(followed, one, kept_ns)

    def _record(self, followed: _Followed, one: Segment, at_ns: int) -> None:
        reassembly, kafka = followed.reassembly, followed.kafka
        assert reassembly is not None
        assert kafka is not None
        direction = Direction.REQUEST if one.source == followed.client else Direction.RESPONSE
        _tell(kafka, reassembly.take(direction, one, at_ns))
        if one.flags & RST:
            _tell(kafka, reassembly.finish())
            self._close(followed, cause_of(direction, is_reset=True), at_ns)
        elif reassembly.has_ended:
            self._close(followed, cause_of(kafka.first_end, is_reset=False), at_ns)

    def _end(self, followed: _Followed, cause: Ending) -> None:
        if followed.looking is not None:
            followed.looking.forget()
            self.others[Found.UNKNOWN] += 1
        elif followed.kafka is not None and followed.reassembly is not None:
            _tell(followed.kafka, followed.reassembly.finish())
            self._close(followed, cause, self._session.now_ns)

    def _close(self, followed: _Followed, cause: StrEnum, at_ns: int) -> None:
        if followed.kafka is not None:
            followed.kafka.close(cause, at_ns)
            # late packets of it are still known by `reassembly`
            followed.kafka = None


def _tell(kafka: KafkaConnection, pieces: Iterable[Piece]) -> None:
    for piece in pieces:
        kafka.take(piece)
