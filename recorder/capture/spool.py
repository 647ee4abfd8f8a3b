"""The log's format: segments of entries, each with a checksum, written by appending alone.

    segment   head, entry, entry, ...
    head      MAGIC, format (uint16), length (uint32), JSON, CRC-32C of the JSON
    entry     CRC-32C of the rest, length of the rest, kind, direction, spans, connection, stream offset, monotonic ns;
              (start, length) of each masked span, in offsets of the bytes; the bytes

Knows bytes and files, never frames. All numbers are big-endian. The log of a process that was killed ends wherever its
last write ended, so a reader takes every whole entry and stops at the first that is torn. Writes go to the page cache,
which survives the process, or past it to the disk: nothing is synced, because a machine's crash may cost the end of a
recording, and a sync for each write would cost every recording its speed. A segment's head says where the entries of
the one before it end, so that what stands behind (the torn half of a failed write) is told from damage.
"""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

from crc32c import crc32c

from recorder.capture.blocks import BUFFER, LARGE, BlockFile, is_cached

SPOOL_FORMAT = 1
MAGIC = b"KWSPOOL\n"

_HEAD = struct.Struct(">8sHI")
_CRC = struct.Struct(">I")
_ENTRY = struct.Struct(">IIBBxxIqqq")
# without checksum and length themselves
_FIXED = struct.Struct(">BBxxIqqq")
_SPAN = struct.Struct(">II")

# the writer gives the kernel so many buffers in one call at most; IOV_MAX is 1024 on Linux
MOST_BUFFERS = 1024

Spans = tuple[tuple[int, int], ...]


class Kind(IntEnum):
    """What an entry of the log is; behind each, what its offset and its bytes are."""

    OPENED = 1  # JSON: client, listener, node, upstream, tls
    BYTES = 2  # arrived at `offset`
    OMITTED = 3  # arrived, left out by a setting: JSON: length
    HOLE = 4  # lost from here on: JSON: reason, offsets of both directions
    MADE = 5  # a frame the proxy wrote, with its length; `offset` holds the correlation id
    LOGIN = 6  # what starts at `offset` is a token or a frame: JSON: token, mechanism, ended
    END_OF_STREAM = 7  # no more bytes from this direction
    RESYNC = 8  # goes on after a hole: JSON: state of the conversation, what was lost
    CLOSED = 9  # JSON: cause, and what was lost if the record had broken off
    CLOCK = 10  # `offset` holds wall clock minus monotonic clock, from here on
    NODE = 11  # JSON: node_id, upstream, listener
    END = 12  # the session was closed in order
    UNFRAMED = 13  # arrived at `offset`, and the connection ended before it could be told what it is
    # arrived at `offset` and could not be read, for the cause of that name
    BAD_LENGTH = 14
    UNEXPECTED_RESPONSE = 15
    UNSUPPORTED_VERSION = 16


# entries of bytes that no frame could be made of; all that hold bytes of a stream
LEFT_OVER = (Kind.UNFRAMED, Kind.BAD_LENGTH, Kind.UNEXPECTED_RESPONSE, Kind.UNSUPPORTED_VERSION)
OF_STREAMS = (Kind.BYTES, *LEFT_OVER)


class Entry(NamedTuple):
    """One entry. `offset`: in the stream of `direction`; `spans`: (start, length) of what is masked in `data`."""

    kind: int
    direction: int
    connection: int
    offset: int
    mono_ns: int
    data: bytes
    spans: Spans = ()

    def facts(self) -> dict[str, Any]:
        """The JSON object in an entry that holds one."""
        found: dict[str, Any] = json.loads(self.data)
        return found


class DamagedSegmentError(ValueError):
    """A segment whose head can't be read."""


class UnknownSpoolError(DamagedSegmentError):
    """A spool of another format: the version that wrote it has to finish it."""


@dataclass(frozen=True, slots=True)
class SegmentHead:
    """`clock_ns`: wall clock minus monotonic clock at its start. `previous_end`: where the segment before it ends.

    `age_seconds`: how old it becomes at most before it is made into Parquet; None in logs that do not say it.
    """

    session: str
    number: int
    clock_ns: int
    mono_ns: int
    previous_end: int
    cluster: str | None = None
    age_seconds: float | None = None


def encode_head(head: SegmentHead) -> bytes:
    """A segment's first bytes."""
    text = json.dumps(asdict(head)).encode()
    return _HEAD.pack(MAGIC, SPOOL_FORMAT, len(text)) + text + _CRC.pack(crc32c(text))


def decode_head(segment: bytes) -> tuple[SegmentHead, int]:
    """The head, and the offset of the first entry. Raises DamagedSegmentError, UnknownSpoolError."""
    if len(segment) < _HEAD.size:
        raise DamagedSegmentError("the segment ends within its head")
    magic, number, length = _HEAD.unpack_from(segment)
    if magic != MAGIC:
        raise DamagedSegmentError("not a segment of a spool")
    if number != SPOOL_FORMAT:
        raise UnknownSpoolError(
            f"spool format {number}, this program knows {SPOOL_FORMAT}: compact it where it was made"
        )
    end = _HEAD.size + length
    text = segment[_HEAD.size : end]
    if segment[end : end + _CRC.size] != _CRC.pack(crc32c(text)):
        raise DamagedSegmentError("the segment's head is torn")
    return SegmentHead(**json.loads(text)), end + _CRC.size


def entry_head(
    kind: int, direction: int, connection: int, offset: int, mono_ns: int, data: bytes, spans: Spans
) -> bytes:
    """What stands before an entry's bytes, which are then written from where they are."""
    rest = _FIXED.pack(kind, direction, len(spans), connection, offset, mono_ns)
    if spans:
        rest += b"".join(_SPAN.pack(start, length) for start, length in spans)
    crc = crc32c(data, crc32c(rest))
    return crc.to_bytes(4, "big") + (len(rest) + len(data)).to_bytes(4, "big") + rest


def entries(buffer: bytes, at: int = 0) -> Iterator[tuple[Entry, int]]:
    """The whole entries from offset `at` on, each with the offset behind it, up to the first that isn't whole."""
    end_of_buffer, fixed = len(buffer), _ENTRY.size
    view = memoryview(buffer)
    while end_of_buffer - at >= fixed:
        crc, length, kind, direction, spans, connection, offset, mono_ns = _ENTRY.unpack_from(buffer, at)
        end = at + 8 + length
        data_at = at + fixed + spans * _SPAN.size
        if end > end_of_buffer or data_at > end or crc32c(view[at + 8 : end]) != crc:
            return
        masked = _spans(buffer, at + fixed, spans) if spans else ()
        yield Entry(kind, direction, connection, offset, mono_ns, buffer[data_at:end], masked), end
        at = end


def wanted(buffer: bytes, at: int) -> int:
    """Bytes from `at` to the end of the entry that starts there; so many as its head has where that isn't whole."""
    if len(buffer) - at < 8:
        return _ENTRY.size
    return 8 + int.from_bytes(buffer[at + 4 : at + 8], "big")


def _spans(buffer: bytes, at: int, count: int) -> Spans:
    return tuple(_SPAN.unpack_from(buffer, at + index * _SPAN.size) for index in range(count))


_SEGMENT_NAME = re.compile(r"(\d{8,})\.log")


def segment_path(folder: Path, number: int) -> Path:
    """Where a session's segment of that number is."""
    return folder / f"{number:08d}.log"


def segments(folder: Path) -> list[int]:
    """The numbers of the segments in a session's spool folder, in order; none where there is no folder."""
    try:
        names = [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return []
    return sorted(int(match[1]) for name in names if (match := _SEGMENT_NAME.fullmatch(name)))


class SegmentReader:
    """Reads one segment while it may still grow, a block at a time."""

    # large enough that a block's cost is its entries', small enough to hold several sessions' in memory
    BLOCK = 4 * 1024 * 1024

    def __init__(self, path: Path) -> None:
        """Raises DamagedSegmentError where the head isn't whole, FileNotFoundError where the segment is gone."""
        self._file = path.open("rb", buffering=0)
        self._path = path
        self._blocks: BlockFile | None = None
        self._may_go_past = True
        try:
            self.head, self.position = decode_head(self._file.read(64 * 1024))
        except DamagedSegmentError:
            self._file.close()
            raise

    def read(self, limit: int | None = None) -> list[Entry]:
        """The whole entries that follow, a block of them at most; none where there are no more for now.

        `limit`: the offset where the segment's entries end, if that is known.
        """
        block = self._read(self.BLOCK, limit)
        if len(block) >= 8 and (size := wanted(block, 0)) > len(block):
            block = self._read(size, limit)
        found = []
        at = 0
        for entry, end in entries(block):
            found.append(entry)
            at = end
        self.position += at
        return found

    def _read(self, size: int, limit: int | None) -> bytes:
        # a damaged length asks for anything: no more is read than there is
        end = os.fstat(self._file.fileno()).st_size
        end = end if limit is None else min(end, limit)
        size = max(0, min(size, end - self.position))
        if LARGE <= size <= BUFFER and not is_cached(self._file.fileno(), self.position + size // 2):
            # it went past the page cache, or has left it: nobody will read it once more
            block = self._past_cache(size)
            if block is not None:
                return block
        self._file.seek(self.position)
        return self._file.read(size)

    def _past_cache(self, size: int) -> bytes | None:
        """So many bytes from here on; None where the file can be read through the page cache alone."""
        if not self._may_go_past:
            return None
        try:
            self._blocks = self._blocks or BlockFile(self._path, os.O_RDONLY)
            return self._blocks.read(self.position, size)
        except OSError:
            # some file systems open a file so, and then refuse to read it; a broken disk is heard the other way too
            self._may_go_past = False
            return None

    def close(self) -> None:
        """Closes the file; no entry can be read any more."""
        self._file.close()
        if self._blocks is not None:
            self._blocks.close()
