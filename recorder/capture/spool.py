"""The log's format: segments of entries, each with a checksum, written by appending alone.

    segment   head, entry, entry, ...
    head      MAGIC, format (uint16), length (uint32), JSON, CRC-32C of all before
    entry     CRC-32C of the rest, length of the rest, kind, direction, number, spans, connection, stream offset,
              monotonic ns; (start, length) of each masked span, in offsets of the bytes; the bytes

Knows bytes, never files or frames. All numbers are big-endian. The log of a process that was killed ends wherever its
last write ended. Nothing that was begun may be missing without a word, so the log says of itself what a reader can hold
it to: an entry its number on its connection (modulo 2**16); a segment's head where the segment before it ends and how
long the log is so far; the first entry of a segment (*roll*) which connections are open, and what the closed ones held.
An entry's checksum begins with its head's: one that arrived in a recorded stream, or is of another segment, is none.

Writes go to the page cache, which survives the process, or past it to the disk: nothing is synced, because a machine's
crash may cost the end of a recording, and a sync for each write would cost every recording its speed.

Format 1 has no numbers (zeros), no rolls, its heads' checksums leave out what stands before the JSON, and its entries'
begin with nothing. Heads look the same from format 2 on for ever: that tells a newer log from a damaged one.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from enum import IntEnum
from typing import NamedTuple

from crc32c import crc32c

SPOOL_FORMAT = 2
MAGIC = b"KWSPOOL\n"
# connection number of entries that belong to no connection: they have no numbers
NO_CONNECTION = -1

_HEAD = struct.Struct(">8sHI")
_CRC = struct.Struct(">I")
_ENTRY = struct.Struct(">IIBBHIqqq")
# without checksum and length themselves
_FIXED = struct.Struct(">BBHIqqq")
_SPAN = struct.Struct(">II")
# an entry's number is one of so many
NUMBERS = 1 << 16
# the number of an entry in a log whose entries have none
UNNUMBERED = -1
# times in ns and offsets of streams stay below: the sum of two is still an int64, and a time that a calendar has
MOST = (1 << 62) - 1
# of an entry: chunks are far smaller, and a roll of three million connections is as large
MOST_ENTRY = 64 * 1024 * 1024

# of a name that stands on every row of a connection or of a segment: it must not fill the memory
LONGEST_NAME = 1024
# masked spans of an entry: none of a chunk's (512 KiB) is less than a byte, nor less than a byte behind the one before
MOST_SPANS = 1 << 20

# connections that are open at a time: each has a port and two descriptors of the proxy's, and a reader's memory
MOST_OPEN = 1 << 16

Spans = tuple[tuple[int, int], ...]


class EntryKind(IntEnum):
    """What an entry of the log is; behind each, what its offset and its bytes are (the JSON: `facts`)."""

    OPENED = 1  # JSON: client, listener, node, upstream, tls, limits of frames
    BYTES = 2  # arrived at `offset`
    OMITTED = 3  # arrived, left out by a setting: JSON: length
    HOLE = 4  # lost from here on: JSON: reason, offsets of both directions
    MADE = 5  # a frame the proxy wrote, with its length; `offset` holds the correlation id
    LOGIN = 6  # what starts at `offset` is a token or a frame: JSON: token, mechanism, ended
    END_OF_STREAM = 7  # no more bytes from this direction
    RESYNC = 8  # goes on after a hole: JSON: state of the conversation, what was lost
    CLOSED = 9  # JSON: cause, how much there was, and what was lost if the record had broken off
    CLOCK = 10  # `offset` holds wall clock minus monotonic clock, from here on
    NODE = 11  # JSON: node_id, upstream, listener
    END = 12  # the session was closed in order: JSON: as a roll
    UNFRAMED = 13  # arrived at `offset`, and nobody can tell what it is
    # arrived at `offset` and could not be read, for the cause of that name
    BAD_LENGTH = 14
    UNEXPECTED_RESPONSE = 15
    UNSUPPORTED_VERSION = 16
    ROLL = 17  # a segment begins: JSON: open connections with the number of their next entry, what the closed ones held
    CHECKPOINT = 18  # a connection that is already open: JSON: all that whoever lost its record needs to go on


_KINDS = frozenset(EntryKind)
# entries of bytes that no frame could be made of; all that hold bytes of a stream
LEFT_OVER = (EntryKind.UNFRAMED, EntryKind.BAD_LENGTH, EntryKind.UNEXPECTED_RESPONSE, EntryKind.UNSUPPORTED_VERSION)
OF_STREAMS = (EntryKind.BYTES, *LEFT_OVER)


# kind, direction, connection, offset, monotonic ns, bytes, masked spans: an Entry without its number, as a plain tuple
Item = tuple[int, int, int, int, int, bytes, Spans]


class Entry(NamedTuple):
    """One entry. `offset`: in the stream of `direction`; `spans`: (start, length) of what is masked in `data`."""

    kind: int
    direction: int
    connection: int
    offset: int
    mono_ns: int
    data: bytes
    spans: Spans = ()
    number: int = UNNUMBERED


class DamagedSegmentError(ValueError):
    """A segment whose head can't be read."""


class UnknownSpoolError(ValueError):
    """A spool that is not this program's to finish, for what it says of itself: it is left as it is."""


@dataclass(frozen=True, slots=True)
class SegmentHead:
    """`clock_ns`: wall clock minus monotonic clock at its start. `previous_end`: where the segment before it ends.

    `age_seconds`: how old it becomes at most before it is made into Parquet; `log_bytes`: of all segments before it.
    Both are None in logs that do not say it.
    """

    session: str
    number: int
    clock_ns: int
    mono_ns: int
    previous_end: int
    cluster: str | None = None
    age_seconds: float | None = None
    log_bytes: int | None = None


class SegmentStart(NamedTuple):
    """A segment's head, its format, where its first entry begins, and what its entries' checksums begin with."""

    head: SegmentHead
    format: int
    begin: int
    seed: int


def encode_head(head: SegmentHead) -> tuple[bytes, int]:
    """A segment's first bytes, and what its entries' checksums begin with."""
    text = json.dumps(asdict(head)).encode()
    told = _HEAD.pack(MAGIC, SPOOL_FORMAT, len(text)) + text
    crc = crc32c(told)
    return told + _CRC.pack(crc), crc


def decode_head(segment: bytes) -> SegmentStart:
    """What a segment begins with. Raises DamagedSegmentError, UnknownSpoolError."""
    if len(segment) < _HEAD.size:
        raise DamagedSegmentError("the segment ends within its head")
    magic, number, length = _HEAD.unpack_from(segment)
    if magic != MAGIC:
        raise DamagedSegmentError("not a segment of a spool")
    end = _HEAD.size + length
    crc = crc32c(segment[_HEAD.size if number == 1 else 0 : end])
    if segment[end : end + _CRC.size] != _CRC.pack(crc):
        raise DamagedSegmentError("the segment's head is torn")
    if not 1 <= number <= SPOOL_FORMAT:
        raise UnknownSpoolError(
            f"spool format {number}, this program knows up to {SPOOL_FORMAT}: compact it where it was made"
        )
    return SegmentStart(_head(segment[_HEAD.size : end]), number, end + _CRC.size, 0 if number == 1 else crc)


# what JSON has for a number that may be missing
_AGES = (int, float, type(None))


def _head(text: bytes) -> SegmentHead:
    try:
        head = SegmentHead(**json.loads(text))
    except (ValueError, TypeError, RecursionError) as error:
        raise DamagedSegmentError("the segment's head says nothing") from error
    log_bytes = 0 if head.log_bytes is None else head.log_bytes
    counts = (head.number, head.mono_ns, head.previous_end, log_bytes)
    if not all(type(count) is int and 0 <= count <= MOST for count in counts):
        raise DamagedSegmentError("the segment's head says no numbers")
    if not (type(head.clock_ns) is int and abs(head.clock_ns) <= MOST and isinstance(head.age_seconds, _AGES)):
        raise DamagedSegmentError("the segment's head says no time")
    if not (isinstance(head.session, str) and isinstance(head.cluster, str | None)):
        raise DamagedSegmentError("the segment's head says no names")
    return replace(head, cluster=short_name(head.cluster))


def short_name(name: str | None) -> str | None:
    """The name as rows have it."""
    return None if name is None else name[:LONGEST_NAME]


def entry_head(
    kind: int,
    direction: int,
    connection: int,
    offset: int,
    mono_ns: int,
    data: bytes,
    spans: Spans,
    number: int = 0,
    seed: int = 0,
) -> bytes:
    """What stands before an entry's bytes, which are then written from where they are."""
    rest = _FIXED.pack(kind, direction, number, len(spans), connection, offset, mono_ns)
    if spans:
        rest += b"".join(_SPAN.pack(start, length) for start, length in spans)
    crc = crc32c(data, crc32c(rest, seed))
    return crc.to_bytes(4, "big") + (len(rest) + len(data)).to_bytes(4, "big") + rest


def size_of(entry: Entry) -> int:
    """Bytes that an entry takes in the log."""
    return _ENTRY.size + len(entry.spans) * _SPAN.size + len(entry.data)


def entries(buffer: bytes, at: int = 0, seed: int = 0, *, numbered: bool = True) -> Iterator[tuple[Entry, int]]:
    """The whole entries from offset `at` on, each with the offset behind it, up to the first that isn't whole.

    One that has the right checksum, and says what no log says, isn't whole either.
    """
    end_of_buffer, fixed = len(buffer), _ENTRY.size
    view = memoryview(buffer)
    while end_of_buffer - at >= fixed:
        crc, length, kind, direction, number, spans, connection, offset, mono_ns = _ENTRY.unpack_from(buffer, at)
        end = at + 8 + length
        data_at = at + fixed + spans * _SPAN.size
        if end > end_of_buffer or data_at > end or crc32c(view[at + 8 : end], seed) != crc:
            return
        if spans > MOST_SPANS:
            return
        masked = _spans(buffer, at + fixed, spans) if spans else ()
        if direction > 1 or kind not in _KINDS or connection < NO_CONNECTION or not 0 <= mono_ns <= MOST:
            return
        if not -MOST <= offset <= MOST or (masked and max(map(sum, masked)) > end - data_at):
            return
        if not numbered:
            number = UNNUMBERED
            # in format 1 a clock stands on connection 0
            connection = NO_CONNECTION if kind == EntryKind.CLOCK else connection
        yield Entry(kind, direction, connection, offset, mono_ns, buffer[data_at:end], masked, number), end
        at = end


def wanted(buffer: bytes, at: int) -> int:
    """Bytes from `at` to the end of the entry that starts there; so many as its head has where that isn't whole."""
    if len(buffer) - at < 8:
        return _ENTRY.size
    return 8 + int.from_bytes(buffer[at + 4 : at + 8], "big")


def _spans(buffer: bytes, at: int, count: int) -> Spans:
    return tuple(_SPAN.unpack_from(buffer, at + index * _SPAN.size) for index in range(count))
