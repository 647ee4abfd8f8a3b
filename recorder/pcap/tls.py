"""The decrypted bytes of a dump's TLS connections, by tshark and a log of keys.

tshark puts the segments together, decrypts the records, and prints each packet's bytes, with the number of its
connection. Here they are pieces of connections at once. Records that tshark can't decrypt count as lost.
"""

from __future__ import annotations

import shutil
import subprocess
from collections import defaultdict
from collections.abc import Collection, Iterator
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from proxy.conversation import Direction
from recorder.pcap.connection import Ending, KafkaConnection, cause_of
from recorder.pcap.importing import Session
from recorder.pcap.layers import Endpoint
from recorder.pcap.pool import Pool
from recorder.pcap.tcp import Piece

_SECOND = 10**9
# what tshark prints of each packet; the addresses of IPv4, else those of IPv6
_FIELDS = (
    "frame.time_epoch",
    "tcp.stream",
    "ip.src",
    "ipv6.src",
    "tcp.srcport",
    "ip.dst",
    "ipv6.dst",
    "tcp.dstport",
    "tcp.flags.reset",
    "tcp.flags.fin",
    "tcp.len",
    "tcp.analysis.retransmission",
    "tls.record.length",
    "tls.record.content_type",
    "tls.record.opaque_type",
    "data.data",
)
# bytes of a record before its content
_RECORD_HEAD = 5
# the content type of records that hold data
_DATA = "23"
# seconds that tshark has to end, once nobody reads it
_GRACE = 10.0


class CantDecrypt(Exception):
    """tshark is missing, or refuses. The message says which."""


class Decrypted(NamedTuple):
    """What a packet brings.

    `lost`: bytes of records that could not be decrypted. `unread`: its bytes, minus those of the records that it ends.
    `ends`: FIN or RST.
    """

    at_ns: int
    stream: int
    source: Endpoint
    destination: Endpoint
    data: bytes
    lost: int
    unread: int
    ends: bool
    is_reset: bool


def decrypted(path: Path, keys: Path, ports: Collection[int]) -> Iterator[Decrypted]:
    """What the packets of TLS bring, in their order. Errors: CantDecrypt."""
    if shutil.which("tshark") is None:
        raise CantDecrypt("--tls-keys needs tshark, which is not installed; on Debian: apt-get install tshark")
    command = ["tshark", "-n", "-r", str(path), "-o", f"tls.keylog_file:{keys}"]
    command += ["-o", "tcp.desegment_tcp_streams:TRUE", "-o", "tcp.reassemble_out_of_order:TRUE"]
    for port in sorted(ports):
        command += ["-d", f"tcp.port=={port},tls", "-d", f"tls.port=={port},data"]
    where = " or ".join(f"tcp.port=={port}" for port in sorted(ports))
    command += ["-Y", where, "-T", "fields", "-E", "occurrence=a"]
    for name in _FIELDS:
        command += ["-e", name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as tshark:
        assert tshark.stdout is not None
        assert tshark.stderr is not None
        try:
            for line in tshark.stdout:
                yield _packet(line.rstrip("\n").split("\t"))
            said = tshark.stderr.read().strip().splitlines()
        finally:
            tshark.kill()
    if tshark.wait(_GRACE) and said:
        raise CantDecrypt(f"tshark: {said[-1]}")


def _packet(fields: list[str]) -> Decrypted:
    at, stream, *ends, reset, fin, size, is_again, lengths, kinds, opaque, data = fields
    source, destination = _end(ends[:3]), _end(ends[3:])
    seconds, _, rest = at.partition(".")
    at_ns = int(seconds) * _SECOND + int(rest.ljust(9, "0")[:9])
    decoded = bytes.fromhex(data.replace(",", "").replace(":", ""))
    # a record of TLS 1.3 tells its kind only once it is decrypted; those of before always do
    is_closed = _DATA in opaque.split(",") and not kinds if opaque else _DATA in kinds.split(",")
    sizes = [int(length) for length in lengths.split(",") if length]
    unread = (0 if is_again else int(size)) - sum(sizes) - _RECORD_HEAD * len(sizes)
    lost = sum(sizes) if is_closed and not decoded else 0
    is_reset = reset in ("1", "True")
    is_end = is_reset or fin in ("1", "True")
    return Decrypted(at_ns, int(stream), source, destination, decoded, lost, unread, is_end, is_reset)


def _end(fields: list[str]) -> Endpoint:
    ip4, ip6, port = fields
    # packets within packets have several addresses: the innermost is TCP's
    host = (ip4 or ip6).split(",")[-1]
    return Endpoint(ip_address(host).packed, int(port.split(",")[-1]))


class TlsImport:
    """The TLS connections of a dump, as tshark tells of them.

    Attributes:
        lost: bytes of records that could not be decrypted.
    """

    def __init__(self, session: Session, ports: Collection[int]) -> None:
        self._session, self._ports = session, frozenset(ports)
        self._pool = Pool()
        # by tshark's number
        self._open: dict[int, KafkaConnection] = {}
        self._half_closed: set[int] = set()
        # bytes of each direction in no record so far: behind a lost segment, tshark finds none any more
        self._unread: defaultdict[tuple[int, Direction], int] = defaultdict(int)
        self.lost = 0

    def take(self, packet: Decrypted) -> None:
        """Takes what a packet brings."""
        session = self._session
        session.now_ns = max(session.now_ns, packet.at_ns)
        direction = Direction.RESPONSE if packet.source.port in self._ports else Direction.REQUEST
        self._unread[packet.stream, direction] += packet.unread
        kafka = self._open.get(packet.stream)
        if kafka is None:
            if not packet.data:
                return
            client, broker = packet.source, packet.destination
            if direction is Direction.RESPONSE:
                client, broker = broker, client
            kafka = self._open[packet.stream] = session.opened(
                client, broker, packet.at_ns, self._pool, tls=True, is_older=False
            )
        if packet.lost:
            self.lost += packet.lost
            kafka.take(Piece(direction, packet.at_ns, lost=packet.lost))
        if packet.data:
            kafka.take(Piece(direction, packet.at_ns, packet.data))
        if packet.ends:
            self._ends(packet, kafka, direction)

    def close(self) -> None:
        """The dump has ended: ends all connections."""
        for stream in [*self._open]:
            self._close(stream, Ending.DUMP_ENDED, self._session.now_ns)

    def _ends(self, packet: Decrypted, kafka: KafkaConnection, direction: Direction) -> None:
        if not packet.is_reset:
            kafka.take(Piece(direction, packet.at_ns))
        if packet.is_reset or packet.stream in self._half_closed:
            first = direction if packet.is_reset else kafka.first_end
            self._close(packet.stream, cause_of(first, is_reset=packet.is_reset), packet.at_ns)
        else:
            self._half_closed.add(packet.stream)

    def _close(self, stream: int, cause: StrEnum, at_ns: int) -> None:
        kafka = self._open.pop(stream)
        for direction in Direction:
            unread = self._unread.pop((stream, direction), 0)
            if unread > 0:
                self.lost += unread
                kafka.take(Piece(direction, at_ns, lost=unread))
        kafka.close(cause, at_ns)
