"""The packets of a dump: a pcap or a pcapng file, read one by one. Knows files, never what is in a packet.

python-pcapng reads pcapng: sections of both byte orders, several interfaces, each with a link type, a resolution and an
offset of its times. The older pcap is a head of 24 bytes, and 16 bytes before each packet, which are read here: of the
libraries that are kept, one loses nanoseconds, one scales them wrongly, and one is under the GPL.

A file may come from anywhere: a length is believed only up to LARGEST bytes, so memory is bounded.
Source: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

from pcapng import FileScanner
from pcapng.blocks import EnhancedPacket, InterfaceDescription, ObsoletePacket, SimplePacket
from pcapng.exceptions import PcapngException

# the first bytes of a pcap file -> byte order, and nanoseconds in a unit of its times
_PCAP = {
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\x3c\x4d": (">", 1),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
}
_PCAPNG = b"\x0a\x0d\x0d\x0a"
# bytes of a packet, or of another block of pcapng, at most; the kernel's largest packets have 256 KiB
LARGEST = 16 * 1024 * 1024
# the largest time in ns: of the year 2116, as far as a log goes
_LAST_NS = (1 << 62) - 1
_SECOND = 10**9
# of the field in a pcap's head whose upper bits may say how long a frame check sequence is
_LINK_BITS = 0x0FFFFFFF
# what python-pcapng raises for bytes that are no blocks
_WRONG = (PcapngException, ValueError, KeyError, struct.error, OverflowError, AssertionError)


class UnreadableDump(Exception):
    """A file that is no dump, or one whose rest can't be read. The message says what is wrong."""


class Packet(NamedTuple):
    """One packet. `link`: the LINKTYPE of its first bytes; `data`: as much of it as was captured."""

    at_ns: int
    link: int
    data: bytes


def packets(path: Path) -> Iterator[Packet]:
    """The packets of a file, in its order. Errors: UnreadableDump, also behind packets that could be read; OSError."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb", buffering=1 << 20) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise UnreadableDump("is no file")
        magic = file.read(4)
        file.seek(0)
        if magic in _PCAP:
            yield from _of_pcap(file, *_PCAP[magic])
        elif magic == _PCAPNG:
            yield from _of_pcapng(file)
        else:
            raise UnreadableDump("is no packet dump; right would be a file of tcpdump -w, pcap or pcapng")


def _of_pcap(file: IO[bytes], order: str, unit_ns: int) -> Iterator[Packet]:
    head, record = struct.Struct(order + "IHHIIII"), struct.Struct(order + "IIII")
    begin = file.read(head.size)
    if len(begin) < head.size:
        raise UnreadableDump("is cut within its head")
    link = head.unpack(begin)[-1] & _LINK_BITS
    read, size, unpack = file.read, record.size, record.unpack
    while begin := read(size):
        if len(begin) < size:
            raise UnreadableDump("is cut within its last packet")
        seconds, units, captured, _ = unpack(begin)
        if captured > LARGEST:
            raise UnreadableDump(f"is damaged: a packet claims {captured} bytes")
        data = read(captured)
        if len(data) < captured:
            raise UnreadableDump("is cut within its last packet")
        yield Packet(seconds * _SECOND + units * unit_ns, link, data)


class _Bounded:
    """A file that refuses to read more at once than a block may have."""

    def __init__(self, file: IO[bytes]) -> None:
        self._read = file.read
        self._at = 0

    def read(self, size: int) -> bytes:
        if not 0 <= size <= LARGEST:
            raise UnreadableDump(f"is damaged: a block claims {size} bytes")
        data = self._read(size)
        self._at += len(data)
        return data

    def tell(self) -> int:
        return self._at


def _of_pcapng(file: IO[bytes]) -> Iterator[Packet]:
    bounded, last_ns, whole = _Bounded(file), 0, 0
    try:
        for block in FileScanner(bounded):
            whole = bounded.tell()
            if isinstance(block, EnhancedPacket | ObsoletePacket):
                interface = block.interface
                last_ns = _at_ns(interface, (block.timestamp_high << 32) + block.timestamp_low)
                yield Packet(last_ns, interface.link_type, block.packet_data)
            elif isinstance(block, SimplePacket):
                # it has no time: that of the packet before it is the nearest
                yield Packet(last_ns, block.interface.link_type, block.packet_data)
    except _WRONG as error:
        raise _fault(file, whole) from error
    # the scanner takes a block that ends too early for the end of the file
    if bounded.tell() != whole:
        raise _fault(file, whole)


def _fault(file: IO[bytes], whole: int) -> UnreadableDump:
    """What is wrong behind the whole blocks, which end at byte `whole`."""
    is_end = file.tell() >= os.fstat(file.fileno()).st_size
    return UnreadableDump("is cut within its last block" if is_end else f"is damaged behind byte {whole}")


def _at_ns(interface: InterfaceDescription, units: int) -> int:
    """A packet's time in ns since 1970, exactly. Errors: UnreadableDump for a time that no log has."""
    options = interface.options
    resolution = options["if_tsresol"][0] if "if_tsresol" in options else 6
    base, exponent = (2, resolution & 0x7F) if resolution & 0x80 else (10, resolution)
    offset = options.get("if_tsoffset", 0)
    at_ns = units * _SECOND // base**exponent + int(offset) * _SECOND
    if not 0 <= at_ns <= _LAST_NS:
        raise UnreadableDump("is damaged: a packet has a time that no calendar has")
    return int(at_ns)
