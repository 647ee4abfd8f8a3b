"""The log's format: segments of entries, each with a checksum, only ever appended to.

    segment   head, entry, entry, ...
    head      MAGIC, format (uint16), length (uint32), JSON, CRC-32C of all before
    entry     CRC-32C of the rest, length of the rest, kind, direction, number, spans, connection, stream offset,
              monotonic ns; (start, length) of each masked span, in offsets of the bytes; the bytes

Knows bytes, never files or frames. All numbers are big-endian. If the writer is killed, the log ends wherever the last
write ended.

A reader can notice every missing part. The entries of a connection are numbered (modulo 2**16). A segment's head tells
where the segment before it ends, and how long the log is so far. A segment's first entry (INVENTORY) lists the open
connections and the totals of the closed ones. An entry's checksum is seeded with the checksum of its segment's head, so
bytes of another segment, or of a recorded stream, never pass for an entry.

Writes go to the page cache, which survives the process, or past it to the disk (`direct_io`). A sync for each write
would slow down every recording: the settings say when the log is synced (`session.Fsync`), and docs/capture.md what a
crash of the machine costs.

The data of an encrypted log's entries are longer by what authenticates them (`cipher`); its segments' heads say so.

The heads of all formats from 2 on have one layout, so that a reader can tell a newer log from a damaged one. Of format
1, whose heads' checksums cover the JSON alone, only the heads are known: such a log is refused.
"""

from __future__ import annotations

import json
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from enum import IntEnum
from itertools import chain, repeat, starmap
from operator import add, itemgetter
from typing import Final, NamedTuple

from crc32c import crc32c

SPOOL_FORMAT = 3
# what compacts logs and states of earlier formats
_COMPACTED_BY = {
    1: "kafka-wiretap 0.1.0 compacts it",
    2: "kafka-wiretap 0.1.0 compacts it, or the development version of 0.2.0 that wrote it",
}
MAGIC = b"KWSPOOL\n"
# the connection of entries that belong to none
NO_CONNECTION = -1

_HEAD = struct.Struct(">8sHI")
_CRC = struct.Struct(">I")
_ENTRY = struct.Struct(">IIBBHIqqq")
# checksum and length, and the fields of _ENTRY behind them
_BEGIN, _FIXED = struct.Struct(">II"), struct.Struct(">BBHIqqq")
_SPAN = struct.Struct(">II")
SMALLEST_ENTRY = _ENTRY.size
# entry numbers wrap around at this
NUMBERS = 1 << 16
# the largest time in ns, and the largest stream offset. Two of them add up to an int64; that sum, as a time, is in 2262
MAX_NUMBER = (1 << 62) - 1
# bytes of an entry at most. A chunk, and an inventory of MAX_OPEN connections (below 2 MiB), are far smaller
MAX_ENTRY = 64 * 1024 * 1024

# characters of a name that stands on every row of a connection or of a segment: it must not fill the memory
LONGEST_NAME = 1024
# masked spans of an entry at most. Each takes two bytes of a chunk, its own and one between; a chunk has 512 KiB
MAX_SPANS = 1 << 20

# connections that are open at a time: each takes a port and two descriptors in the proxy, and memory in a reader
MAX_OPEN = 1 << 16
# addresses of one kind by which a cluster is known, and ids
MAX_KNOWN = 1 << 16
# settings that a session tells: some dozens for each cluster
MAX_SETTINGS = 10_000

# bytes for which a reader of a CUT entry puts zeros. The frames of a busy chunk are then read at once; a span of a few
# bytes in a forged log must not take more memory than that
MAX_FILLED = 256 * 1024

# (start, length)
Spans = tuple[tuple[int, int], ...]
# (start, stop)
Stretch = tuple[int, int]
_start, _stop = itemgetter(0), itemgetter(1)


class EntryKind(IntEnum):
    """The kinds of entries, each with the meaning of its offset and its bytes. The JSON's schemas: `entry_json`."""

    OPENED = 1  # JSON: client, listener, node, upstream, tls, limits of frames
    BYTES = 2  # bytes that arrived at `offset`
    OMITTED = 3  # bytes that arrived at `offset` are left out by a setting; JSON: their number
    GAP = 4  # a gap begins; JSON: reason, both offsets. With NO_CONNECTION: counts connections that have no entry
    OWN_ANSWER = 5  # the proxy's own answer, its length field included; `offset` holds the correlation id
    LOGIN = 6  # JSON: a verdict on the frames from `offset` on, or the principal that the broker has accepted
    END_OF_STREAM = 7  # no more bytes come in this direction
    RESYNC = 8  # a gap ends; JSON: state of the conversation, the losses
    CLOSED = 9  # JSON: cause, totals, and the losses of a gap that has not ended
    CLOCK = 10  # `offset` holds wall clock minus monotonic clock, from here on
    NODE = 11  # JSON: node_id, upstream, listener
    END = 12  # the session was closed in order; JSON: an inventory
    UNFRAMED = 13  # bytes that arrived at `offset`, where nothing tells frames apart any more
    # bytes that arrived at `offset` and could not be read; the kind names the cause
    BAD_LENGTH = 14
    UNEXPECTED_RESPONSE = 15
    UNSUPPORTED_VERSION = 16
    # a segment begins; JSON: open connections with the numbers of their next entries, closed totals, all of CLUSTER,
    # the newest SETTINGS
    INVENTORY = 17
    CHECKPOINT = 18  # a connection is open; JSON: all that a reader needs to go on after losses
    CLUSTER = 19  # JSON: more of what a cluster can be known by again: ids, upstreams, listeners
    SETTINGS = 20  # JSON: what is in force from here on: settings, versions
    IMPORTED = 21  # JSON: the packet dump that the session is made of
    # bytes that arrived at `offset`; a rule for records left out the spans, which are in offsets of what arrived
    CUT = 22


_KINDS = frozenset(EntryKind)
# kinds whose bytes are no frames
LEFT_OVER = (EntryKind.UNFRAMED, EntryKind.BAD_LENGTH, EntryKind.UNEXPECTED_RESPONSE, EntryKind.UNSUPPORTED_VERSION)
# all kinds that hold bytes of a stream
OF_STREAMS = (EntryKind.BYTES, EntryKind.CUT, *LEFT_OVER)


# an entry before it has a number: kind, direction, connection, offset, monotonic ns, bytes, masked spans. It is a plain
# tuple: each chunk makes one, and a named tuple takes six times as long
Item = tuple[int, int, int, int, int, bytes, Spans]
# the positions in an item
KIND: Final = 0
DIRECTION: Final = 1
CONNECTION: Final = 2
OFFSET: Final = 3
MONO_NS: Final = 4
DATA: Final = 5
SPANS: Final = 6


class Entry(NamedTuple):
    """One entry.

    offset: a stream offset of `direction`, if `EntryKind` says nothing else.
    spans: (start, length) of each masked part of `data`; of CUT, of what `data` lacks.
    number: among the connection's entries; 0 for an entry without a connection.
    """

    kind: int
    direction: int
    connection: int
    offset: int
    mono_ns: int
    data: bytes
    spans: Spans = ()
    number: int = 0


def without(data: bytes, spans: Iterable[tuple[int, int]]) -> bytes:
    """The data without these (start, length), which lie in order: what a CUT entry holds of what arrived."""
    kept, at = [], 0
    for start, length in spans:
        kept.append(data[at:start])
        at = start + length
    kept.append(data[at:])
    return b"".join(kept)


def within(stretches: Sequence[Stretch], start: int, stop: int) -> list[Stretch]:
    """The parts of these ordered stretches that lie between two offsets."""
    first = bisect_right(stretches, start, key=_stop)
    last = bisect_left(stretches, stop, key=_start)
    return [(max(begin, start), min(end, stop)) for begin, end in stretches[first:last]]


class Part(NamedTuple):
    """A piece of what arrived in a CUT entry.

    `absent`: the stretches of `data` that a rule left out; zeros stand there. `left_out`: how many more bytes a rule
    left out behind the piece.
    """

    offset: int
    data: bytes
    absent: list[Stretch]
    left_out: int


def parts(entry: Entry) -> Iterator[Part]:
    """What arrived in a CUT entry: a single piece, if what is left out takes little memory.

    Raises ValueError for spans that are not in order, or not in what arrived.
    """
    pieces: list[bytes] = []
    absent: list[Stretch] = []
    begin = at = taken = size = 0
    may_fill = MAX_FILLED
    for start, length in entry.spans:
        kept = entry.data[taken : taken + start - at]
        if start < at or len(kept) < start - at:
            raise ValueError("what was left out does not lie in order")
        pieces.append(kept)
        taken, at, size = taken + len(kept), start + length, size + len(kept)
        if length <= may_fill:
            may_fill -= length
            pieces.append(bytes(length))
            absent.append((size, size + length))
            size += length
        else:
            yield Part(entry.offset + begin, b"".join(pieces), absent, length)
            pieces, absent, begin, size = [], [], at, 0
    pieces.append(entry.data[taken:])
    yield Part(entry.offset + begin, b"".join(pieces), absent, 0)


def data_size(items: Iterable[Item]) -> int:
    """The sum of the sizes of the items' bytes."""
    return sum(map(len, map(itemgetter(DATA), items)))


class DamagedSegmentError(ValueError):
    """A segment whose head can't be read."""


class UnknownSpoolError(ValueError):
    """A spool that this program can't compact, because of its format or name; it is left as it is."""


def unknown_format(what: str, number: int) -> UnknownSpoolError:
    """The error for a log or a state of another format. It names the program that compacts it."""
    if number in _COMPACTED_BY:
        return UnknownSpoolError(f"{what} format {number} is read no more: {_COMPACTED_BY[number]}")
    return UnknownSpoolError(
        f"{what} format {number}, this program knows only {SPOOL_FORMAT}: compact it where it was made"
    )


@dataclass(frozen=True, slots=True)
class SegmentHead:
    """The head of a segment.

    Attributes:
        clock_ns: wall clock minus monotonic clock when the segment began.
        mono_ns: the monotonic time at which the segment began.
        previous_end: the offset at which the entries of the segment before it end.
        cluster: of all connections; None: each connection names its own.
        age_seconds: the age at which a segment is closed and made into Parquet.
        log_bytes: the size of all segments before it.
        encrypted: True if the entries' data are encrypted or authenticated.
    """

    session: str
    number: int
    clock_ns: int
    mono_ns: int
    previous_end: int
    cluster: str | None
    age_seconds: float
    log_bytes: int
    encrypted: bool = False


class SegmentStart(NamedTuple):
    """A segment's head, the offset of its first entry (`begin`), and the seed of its entries' checksums."""

    head: SegmentHead
    begin: int
    seed: int


def encode_head(head: SegmentHead) -> tuple[bytes, int]:
    """The bytes of a segment's head, and the seed of the checksums of the segment's entries."""
    text = json.dumps(asdict(head)).encode()
    encoded = _HEAD.pack(MAGIC, SPOOL_FORMAT, len(text)) + text
    crc = crc32c(encoded)
    return encoded + _CRC.pack(crc), crc


def decode_head(segment: bytes) -> SegmentStart:
    """Decodes the beginning of a segment. Raises DamagedSegmentError, UnknownSpoolError."""
    if len(segment) < _HEAD.size:
        raise DamagedSegmentError("the segment ends within its head")
    magic, spool_format, length = _HEAD.unpack_from(segment)
    if magic != MAGIC:
        raise DamagedSegmentError("not a segment of a spool")
    end = _HEAD.size + length
    crc = crc32c(segment[_HEAD.size if spool_format == 1 else 0 : end])
    if segment[end : end + _CRC.size] != _CRC.pack(crc):
        raise DamagedSegmentError("the segment's head is torn")
    if spool_format != SPOOL_FORMAT:
        raise unknown_format("spool", spool_format)
    return SegmentStart(_head(segment[_HEAD.size : end]), end + _CRC.size, crc)


def _head(text: bytes) -> SegmentHead:
    try:
        head = SegmentHead(**json.loads(text))
    except (ValueError, TypeError, RecursionError) as error:
        raise DamagedSegmentError("the segment's head can't be read") from error
    counts = (head.number, head.mono_ns, head.previous_end, head.log_bytes)
    if not all(type(count) is int and 0 <= count <= MAX_NUMBER for count in counts):
        raise DamagedSegmentError("the segment's head has wrong numbers")
    if type(head.encrypted) is not bool:
        raise DamagedSegmentError("the segment's head does not tell whether it is encrypted")
    is_clock = type(head.clock_ns) is int and abs(head.clock_ns) <= MAX_NUMBER
    if not (is_clock and isinstance(head.age_seconds, int | float)):
        raise DamagedSegmentError("the segment's head has a wrong time")
    if not (isinstance(head.session, str) and isinstance(head.cluster, str | None)):
        raise DamagedSegmentError("the segment's head has wrong names")
    return replace(head, cluster=short_name(head.cluster))


def short_name(name: str | None) -> str | None:
    """The name, cut to LONGEST_NAME characters."""
    return None if name is None else name[:LONGEST_NAME]


def entry_fields(items: Sequence[Item], numbers: Iterable[int]) -> list[bytes]:
    """The bytes of entries between their length and their data. An encrypted log authenticates them.

    `numbers`: as many as items.
    """
    kinds, directions, connections, offsets, times, _, spans = zip(*items, strict=True)
    fixed = map(_FIXED.pack, kinds, directions, numbers, map(len, spans), connections, offsets, times)
    if not any(spans):
        return list(fixed)
    return [fields + b"".join(starmap(_SPAN.pack, of)) for fields, of in zip(fixed, spans, strict=True)]


def encoded(fields: Sequence[bytes], data: Sequence[bytes], seed: int) -> Iterator[bytes]:
    """The bytes of entries in two pieces each: head and fields; the data, which are not copied.

    Each is made when it is asked for: its checksum brings the data into the processor's cache, so a caller that copies
    each large entry before it asks for the next one has half the cost. All steps are C's: with many small entries,
    steps of Python's would hold up the interpreter's other threads.
    """
    sums = map(crc32c, data, map(crc32c, fields, repeat(seed)))
    sizes = map(add, map(len, fields), map(len, data))
    return chain.from_iterable(zip(map(add, map(_BEGIN.pack, sums, sizes), fields), data, strict=True))


def encoded_entry(item: Item, number: int = 0, seed: int = 0) -> bytes:
    """The bytes of one entry."""
    return b"".join(encoded(entry_fields([item], [number]), [item[DATA]], seed))


def size_of(entry: Entry) -> int:
    """The bytes that an entry takes in the log."""
    return _ENTRY.size + len(entry.spans) * _SPAN.size + len(entry.data)


def entries(
    buffer: bytes, at: int = 0, seed: int = 0, opened: Callable[[int, bytes, bytes], bytes | None] | None = None
) -> Iterator[tuple[Entry, int]]:
    """The whole entries from offset `at` on, each with the offset after it. Stops at the first entry that isn't whole.

    An entry with impossible fields isn't whole either.

    `opened`: for an encrypted log, the function (kind, data as stored, fields) -> data; None if they are not genuine.
    """
    end_of_buffer, fixed = len(buffer), _ENTRY.size
    view = memoryview(buffer)
    while end_of_buffer - at >= fixed:
        crc, length, kind, direction, number, spans, connection, offset, mono_ns = _ENTRY.unpack_from(buffer, at)
        end = at + 8 + length
        data_at = at + fixed + spans * _SPAN.size
        if end > end_of_buffer or data_at > end or crc32c(view[at + 8 : end], seed) != crc:
            return
        if spans > MAX_SPANS:
            return
        data: bytes | None = buffer[data_at:end]
        if opened is not None and data is not None:
            data = opened(kind, data, buffer[at + 8 : data_at])
        if data is None:
            return
        masked = tuple(_SPAN.iter_unpack(view[at + fixed : data_at])) if spans else ()
        if direction > 1 or kind not in _KINDS or connection < NO_CONNECTION or not 0 <= mono_ns <= MAX_NUMBER:
            return
        if not -MAX_NUMBER <= offset <= MAX_NUMBER or _lie_outside(kind, masked, len(data)):
            return
        yield Entry(kind, direction, connection, offset, mono_ns, data, masked, number), end
        at = end


def _lie_outside(kind: int, spans: Spans, size: int) -> bool:
    """True for spans that lie outside an entry. `size`: of its data, from which a CUT entry's spans were taken."""
    if not spans:
        return False
    return max(map(sum, spans)) > size + (sum(length for _, length in spans) if kind == EntryKind.CUT else 0)


def size_at(buffer: bytes, at: int) -> int:
    """The size that the entry at `at` claims; if its length field is not in the buffer, that of the smallest entry."""
    if len(buffer) - at < 8:
        return SMALLEST_ENTRY
    return 8 + int.from_bytes(buffer[at + 4 : at + 8], "big")
