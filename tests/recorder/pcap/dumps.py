"""Makes packet dumps of talks: segments of TCP in packets of any link type, in files of either format.

Written apart from the tested code; tshark reads these files in `test_dump.py`.
"""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from proxy.conversation import Direction
from tests.recorder.capture.traffic import Talk

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
ETHERNET, NULL, RAW, LOOP, COOKED, COOKED_2 = 1, 0, 101, 108, 113, 276
MTU = 1448
CLIENT, BROKER = ("10.0.0.7", 40_000), ("10.0.0.1", 9092)
SECOND = 10**9


@dataclass(frozen=True)
class Sent:
    """A segment. `number`, `acknowledged`: as in its header; `cut`: bytes at its end that the dump lacks."""

    direction: Direction
    at_ns: int
    number: int
    acknowledged: int
    flags: int
    data: bytes = b""
    client: tuple[str, int] = CLIENT
    broker: tuple[str, int] = BROKER
    cut: int = 0

    def tcp(self) -> bytes:
        source, destination = (self.broker, self.client) if self.direction else (self.client, self.broker)
        ports = struct.pack(">HH", source[1], destination[1])
        numbers = struct.pack(">II", self.number % 2**32, self.acknowledged % 2**32)
        return ports + numbers + struct.pack(">BBHHH", 5 << 4, self.flags, 65535, 0, 0) + self.data

    def ip(self) -> bytes:
        source, destination = (self.broker, self.client) if self.direction else (self.client, self.broker)
        tcp = self.tcp()
        if ":" in source[0]:
            ends = socket.inet_pton(socket.AF_INET6, source[0]) + socket.inet_pton(socket.AF_INET6, destination[0])
            return struct.pack(">IHBB", 6 << 28, len(tcp), 6, 64) + ends + tcp
        ends = socket.inet_aton(source[0]) + socket.inet_aton(destination[0])
        head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0x4000, 64, 6, 0)
        return head + ends + tcp


def sent(
    talk: Talk,
    *,
    client: tuple[str, int] = CLIENT,
    broker: tuple[str, int] = BROKER,
    first: tuple[int, int] = (2**32 - 1000, 77),
    handshake: bool = True,
    end: int | None = FIN,
    mtu: int = MTU,
) -> list[Sent]:
    """The segments of a talk, each acknowledging all that has come before. `first`: the first sequence numbers."""
    ends = {"client": client, "broker": broker}
    numbers = [number + 1 for number in first]
    begin = talk.chunks[0].at_ns
    request, response = Direction
    made = []
    if handshake:
        made = [
            Sent(request, begin, first[0], 0, SYN, **ends),  # type: ignore[arg-type]
            Sent(response, begin, first[1], numbers[0], SYN | ACK, **ends),  # type: ignore[arg-type]
            Sent(request, begin, numbers[0], numbers[1], ACK, **ends),  # type: ignore[arg-type]
        ]
    for chunk in talk.chunks:
        direction = chunk.direction
        for at in range(0, len(chunk.data), mtu):
            data = chunk.data[at : at + mtu]
            numbers_now = numbers[direction], numbers[1 - direction]
            made.append(Sent(direction, chunk.at_ns, *numbers_now, ACK | PSH, data, **ends))  # type: ignore[arg-type]
            numbers[direction] += len(data)
    last = talk.chunks[-1].at_ns
    if end == FIN:
        made.append(Sent(request, last, numbers[0], numbers[1], ACK | FIN, **ends))  # type: ignore[arg-type]
        made.append(Sent(response, last, numbers[1], numbers[0] + 1, ACK | FIN, **ends))  # type: ignore[arg-type]
        made.append(Sent(request, last, numbers[0] + 1, numbers[1] + 1, ACK, **ends))  # type: ignore[arg-type]
    elif end == RST:
        made.append(Sent(request, last, numbers[0], numbers[1], RST | ACK, **ends))  # type: ignore[arg-type]
    return made


def linked(packet: bytes, link: int, vlans: Sequence[int] = ()) -> bytes:
    """An IP packet behind the header of a link type, with VLAN tags."""
    is_6 = packet[0] >> 4 == 6
    tags = b"".join(struct.pack(">HH", tag, 5) for tag in vlans)
    kind = tags + struct.pack(">H", 0x86DD if is_6 else 0x0800)
    if link == ETHERNET:
        return bytes(12) + kind + packet
    if link == COOKED:
        return struct.pack(">HHH8s", 0, 1, 6, b"") + kind + packet
    if link == COOKED_2:
        return kind[:2] + struct.pack(">HIHBB8s", 0, 1, 1, 0, 6, b"") + kind[2:] + packet
    if link == NULL:
        return struct.pack("<I", 30 if is_6 else 2) + packet
    if link == LOOP:
        return struct.pack(">I", 24 if is_6 else 2) + packet
    return packet


def as_packets(
    segments: Iterable[Sent], link: int = ETHERNET, vlans: Sequence[int] = ()
) -> list[tuple[int, bytes, int]]:
    """(time, captured bytes, size of the whole packet) of each segment."""
    made = []
    for one in segments:
        whole = linked(one.ip(), link, vlans)
        made.append((one.at_ns, whole[: len(whole) - one.cut], len(whole)))
    return made


def pcap(packets: Iterable[tuple[int, bytes, int]], link: int = ETHERNET, order: str = "<", unit_ns: int = 1) -> bytes:
    magic = 0xA1B23C4D if unit_ns == 1 else 0xA1B2C3D4
    written = [struct.pack(order + "IHHIIII", magic, 2, 4, 0, 0, 262144, link)]
    for at_ns, data, size in packets:
        seconds, rest = divmod(at_ns, SECOND)
        written += [struct.pack(order + "IIII", seconds, rest // unit_ns, len(data), size), data]
    return b"".join(written)


def _block(kind: int, body: bytes, order: str) -> bytes:
    body += bytes(-len(body) % 4)
    size = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", kind) + size + body + size


def pcapng(
    packets: Iterable[tuple[int, bytes, int]], links: Sequence[tuple[int, int]] = ((ETHERNET, 9),), order: str = "<"
) -> bytes:
    """Packets by turns on interfaces. `links`: (link type, resolution of times as the option has it) of each.

    The packets' bytes must begin with the link header of their interface.
    """
    written = [_block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), order)]
    for link, resolution in links:
        option = struct.pack(order + "HHB3xI", 9, 1, resolution, 0)
        written.append(_block(1, struct.pack(order + "HHI", link, 0, 0) + option, order))
    for number, (at_ns, data, size) in enumerate(packets):
        interface = number % len(links)
        resolution = links[interface][1]
        units = at_ns * (2 ** (resolution & 0x7F) if resolution & 0x80 else 10**resolution) // SECOND
        head = struct.pack(order + "IIIII", interface, units >> 32, units & 0xFFFFFFFF, len(data), size)
        written.append(_block(6, head + data, order))
    return b"".join(written)


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def shuffled(rng: random.Random, segments: Sequence[Sent], *, window: int = 8) -> list[Sent]:
    """Segments in another order, each at most about `window` places from its own; some come twice, or in pieces."""
    made = []
    for one in segments:
        if len(one.data) > 1 and rng.random() < 0.3:
            # a retransmission that overlaps: the first half again, with more
            cut = rng.randrange(1, len(one.data))
            made.append(replace(one, data=one.data[:cut]))
        made.append(one)
        if rng.random() < 0.1:
            made.append(one)
    places = sorted(range(len(made)), key=lambda place: place + rng.random() * window)
    return [made[place] for place in places]
