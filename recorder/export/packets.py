"""Synthetic TCP in a pcapng file: connections that were never on a wire in this form, for Wireshark.

Packets are raw IP, in the order of their times. Segments have up to SEGMENT bytes, and acknowledge all that the
opposite direction has sent. Bytes that are missing are sequence numbers that no segment has. TCP's checksum is left
out, as it is in dumps where network cards add it.
"""

from __future__ import annotations

import heapq
import struct
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import IO, NamedTuple

from pcapng import FileWriter
from pcapng.blocks import EnhancedPacket, InterfaceDescription, SectionHeader

# a packet's length is a number of 16 bits; no window needs to be larger either
SEGMENT = 65_400
_RAW_IP, _NANOSECONDS = 101, 9
_WRAP = 1 << 32
FIN, SYN, PSH, ACK = 1, 2, 8, 16
_TCP, _TCP_SIZE = 6, 20
# packets that wait to be put in order, and their bytes
_MOST_WAITING, _MOST_BYTES = 4096, 32 * 1024 * 1024


class Address(NamedTuple):
    """An IP address and a port."""

    host: IPv4Address | IPv6Address
    port: int


class Connection:
    """One connection: its ends, and what each has sent."""

    __slots__ = ("ends", "is_open", "sent")

    def __init__(self, client: Address, broker: Address) -> None:
        if client.host.version != broker.host.version:
            client, broker = _as_6(client), _as_6(broker)
        self.ends = client, broker
        # the next sequence number of each direction
        self.sent = [0, 0]
        self.is_open = False


class _Planned(NamedTuple):
    at_ns: int
    number: int
    connection: Connection
    direction: int
    flags: int
    data: bytes
    comments: Sequence[str]
    skipped: tuple[int, int]


class PacketWriter:
    """Writes packets, in the order of their times as far as memory allows. `packets`: how many it has written."""

    def __init__(self, file: IO[bytes], program: str) -> None:
        self._section = SectionHeader(options={"shb_userappl": program})
        interface = self._section.new_member(
            InterfaceDescription, link_type=_RAW_IP, options={"if_tsresol": bytes([_NANOSECONDS]), "if_name": "kafka"}
        )
        assert interface is not None
        self._writer = FileWriter(file, self._section)
        self._waiting: list[_Planned] = []
        self._size = 0
        self._planned = 0
        self.packets = 0

    def open(self, connection: Connection, at_ns: int, comments: Sequence[str] = ()) -> None:
        """The handshake of a connection."""
        connection.is_open = True
        for direction, flags, told in ((0, SYN, comments), (1, SYN | ACK, ()), (0, ACK, ())):
            self._plan(at_ns, connection, direction, flags, comments=told)

    def send(
        self, connection: Connection, direction: int, at_ns: int, data: bytes, comments: Sequence[str] = ()
    ) -> None:
        """Bytes of a direction, SEGMENT at most; 0: the client's."""
        self._plan(at_ns, connection, direction, PSH | ACK, data, comments)

    def skip(self, connection: Connection, at_ns: int, counts: tuple[int, int], comments: Sequence[str]) -> None:
        """Bytes of both directions are missing, so many."""
        self._plan(at_ns, connection, 0, ACK, comments=comments, skipped=counts)

    def close(self, connection: Connection, at_ns: int, comments: Sequence[str] = ()) -> None:
        """The end of a connection."""
        for direction, flags, told in ((0, FIN | ACK, comments), (1, FIN | ACK, ()), (0, ACK, ())):
            self._plan(at_ns, connection, direction, flags, comments=told)

    def finish(self) -> None:
        """Writes all packets that wait."""
        while self._waiting:
            self._write(heapq.heappop(self._waiting))

    def _plan(
        self,
        at_ns: int,
        connection: Connection,
        direction: int,
        flags: int,
        data: bytes = b"",
        comments: Sequence[str] = (),
        skipped: tuple[int, int] = (0, 0),
    ) -> None:
        planned = _Planned(at_ns, self._planned, connection, direction, flags, data, comments, skipped)
        heapq.heappush(self._waiting, planned)
        self._planned += 1
        self._size += len(data)
        while len(self._waiting) > _MOST_WAITING or self._size > _MOST_BYTES:
            self._write(heapq.heappop(self._waiting))

    def _write(self, planned: _Planned) -> None:
        self._size -= len(planned.data)
        connection, direction = planned.connection, planned.direction
        sent = connection.sent
        for which, count in enumerate(planned.skipped):
            sent[which] = (sent[which] + count) % _WRAP
        acknowledged = sent[1 - direction] if planned.flags & ACK else 0
        packet = _packet(connection, direction, sent[direction], acknowledged, planned.flags, planned.data)
        sent[direction] = (sent[direction] + len(planned.data) + bool(planned.flags & (SYN | FIN))) % _WRAP
        block = self._section.new_member(
            EnhancedPacket,
            interface_id=0,
            timestamp_high=planned.at_ns >> 32,
            timestamp_low=planned.at_ns & 0xFFFFFFFF,
            packet_len=len(packet),
            packet_data=packet,
        )
        if planned.comments:
            block.options["opt_comment"] = [*planned.comments]
        self._writer.write_block(block)
        self.packets += 1


def _packet(connection: Connection, direction: int, number: int, acknowledged: int, flags: int, data: bytes) -> bytes:
    source, destination = connection.ends[direction], connection.ends[1 - direction]
    ports = struct.pack(">HHII", source.port, destination.port, number, acknowledged)
    tcp = ports + struct.pack(">BBHHH", (_TCP_SIZE // 4) << 4, flags, 0xFFFF, 0, 0) + data
    hosts = source.host.packed + destination.host.packed
    if source.host.version == 6:
        return struct.pack(">IHBB", 6 << 28, len(tcp), _TCP, 64) + hosts + tcp
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0x4000, 64, _TCP, 0) + hosts
    return head[:10] + _checksum(head).to_bytes(2, "big") + head[12:] + tcp


def _checksum(head: bytes) -> int:
    total: int = sum(struct.unpack(">10H", head))
    total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF - ((total & 0xFFFF) + (total >> 16))


def _as_6(address: Address) -> Address:
    host = address.host
    return address if isinstance(host, IPv6Address) else Address(IPv6Address(f"::ffff:{host}"), address.port)


def address_of(written: str | None, fallback: int) -> Address:
    """The address that a capture names, "10.0.0.1:9092" or "[::1]:9092".

    `fallback`: a number that tells apart those that have no IP address: they get one for documentation (RFC 5737).
    """
    host, _, port = (written or "").rpartition(":")
    number = int(port) if port.isdecimal() and int(port) < 1 << 16 else 1 + fallback % 0xFFFE
    try:
        return Address(ip_address(host.strip("[]")), number)
    except ValueError:
        return Address(IPv4Address("192.0.2.0") + 1 + fallback % 254, number)
