"""Reads one segment of the log, which may still grow.

`pass_over` skips unreadable bytes: the reader goes to the next whole entry, and counts the bytes between. Memory and
work are bounded by the segment's size, whatever its lengths say.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator

from proxy.files import Folder
from recorder.capture import spool
from recorder.capture.blocks import BUFFER, LARGE, BlockFile, is_cached
from recorder.capture.spool import Entry, EntryKind, SegmentStart, UnknownSpoolError

# the fields behind an entry's checksum and length: kind and direction, any number, few spans, a connection that counts
# from 0 or is -1. A lookahead, so that matches may overlap
_LIKELY = re.compile(rb"(?=[\x01-\x%02x][\x00\x01]..\x00...(?:\x00{3}|\xff{3}))" % max(EntryKind), re.DOTALL)
# bytes before these fields, and their size
_BEFORE, _WITHIN = 8, 11
# size of the first stretch that is searched for an entry; each next one is twice as long
_STRETCH = 4096
# limits for one segment: damaged places to skip, and readings of its bytes while searching for entries. Real damage is
# in few places; a forged segment must not keep the compactor busy
MAX_PLACES, MAX_READINGS = 256, 4

# a segment's number in names: from 1 on, in one notation, and no larger than heads and states can hold
NUMBER = r"(?!0{8})(?:[0-9]{8}|[1-9][0-9]{8,17})"
_NAME = re.compile(rf"({NUMBER})\.log")


def segment_name(number: int) -> str:
    """The name of a session's segment of that number."""
    return f"{number:08d}.log"


def segments(session: Folder) -> list[int]:
    """The numbers of the segments in a session's folder, in order."""
    return numbered(session, _NAME)


def numbered(session: Folder, names: re.Pattern[str]) -> list[int]:
    """The numbers (first group) of the files with such names, in order."""
    return sorted(int(match[1]) for name in session.names() if (match := names.fullmatch(name)))


class SegmentReader:
    """Reads one segment, a block at a time.

    `position`: of the next entry. `passed_over`: unreadable bytes before it.
    """

    # large enough that a block's cost is its entries', small enough to hold several sessions' in memory
    BLOCK = 4 * 1024 * 1024

    def __init__(self, session: Folder, number: int) -> None:
        """Raises DamagedSegmentError where the head isn't whole, UnknownSpoolError where it is of another segment, and
        OSError: FileNotFoundError where the segment is gone.
        """
        self._session = session
        self._name = segment_name(number)
        self._file = open(session.open(self._name), "rb", buffering=0)  # noqa: SIM115
        self._blocks: BlockFile | None = None
        self._may_go_past = True
        self._places = self._readings = 0
        self.passed_over = 0
        try:
            self.start: SegmentStart = spool.decode_head(self._file.read(64 * 1024))
            self._check_own(number)
        except ValueError:
            self._file.close()
            raise
        self.head, self.position = self.start.head, self.start.begin

    def _check_own(self, number: int) -> None:
        head = self.start.head
        if (head.session, head.number) != (self._session.path.name, number):
            claimed = f"segment {head.number} of session {head.session}"
            raise UnknownSpoolError(f"{self._session.path / self._name} says that it is {claimed}")

    @property
    def size(self) -> int:
        """The file's current size."""
        return os.fstat(self._file.fileno()).st_size

    def read(self, limit: int | None = None) -> list[Entry]:
        """The next whole entries, a block of them at most; empty if there are no more for now.

        `limit`: the offset where the segment's entries end, if that is known.
        """
        block = self._read(self.BLOCK, limit)
        if len(block) >= 8 and len(block) < (size := spool.size_at(block, 0)) <= spool.MAX_ENTRY:
            block = self._read(size, limit)
        found = []
        at = 0
        for entry, end in self._entries(block):
            found.append(entry)
            at = end
        self.position += at
        return found

    def pass_over(self, limit: int | None = None) -> bool:
        """Skips unreadable bytes. Returns False if no entry follows. Only for segments that are no longer written.

        In format 1 entries have no numbers, which tell the connections that have lost entries: nothing is skipped.
        """
        if self.start.format == 1 or self._places == MAX_PLACES:
            return False
        self._places += 1
        end = self._end(limit)
        found = next((at for at in self._likely(self.position + 1, end) if self._is_entry(at, end)), None)
        if found is None:
            return False
        self.passed_over += found - self.position
        self.position = found
        return True

    def close(self) -> None:
        """Closes the file; no entry can be read any more."""
        self._file.close()
        if self._blocks is not None:
            self._blocks.close()

    def _entries(self, buffer: bytes) -> Iterator[tuple[Entry, int]]:
        return spool.entries(buffer, 0, self.start.seed, numbered=self.start.format > 1)

    def _end(self, limit: int | None) -> int:
        # a damaged length asks for anything: no more is read than there is
        return self.size if limit is None else min(self.size, limit)

    def _likely(self, at: int, end: int) -> Iterator[int]:
        """Offsets from `at` on where an entry may begin."""
        size = _STRETCH
        while at < end - _BEFORE - _WITHIN:
            stretch = os.pread(self._file.fileno(), size, at)
            if len(stretch) <= _BEFORE + _WITHIN:
                return
            if not stretch.strip(b"\0"):
                # no entry begins in nothing but zeros
                at = max(at, self._data_from(at + len(stretch), end) - len(stretch))
            else:
                for match in _LIKELY.finditer(stretch, _BEFORE):
                    yield at + match.start() - _BEFORE
            at += len(stretch) - _BEFORE - _WITHIN + 1
            size = min(size * 2, self.BLOCK)

    def _data_from(self, at: int, end: int) -> int:
        """The offset from which on there may be data: holes of a sparse file are skipped."""
        try:
            return min(os.lseek(self._file.fileno(), at, os.SEEK_DATA), end)
        except OSError as error:
            # ENXIO: there is no data any more; any other error: the file system doesn't know the call
            return end if error.errno == errno.ENXIO else at

    def _is_entry(self, at: int, end: int) -> bool:
        size = spool.size_at(os.pread(self._file.fileno(), 8, at), 0)
        if size > min(end - at, spool.MAX_ENTRY) or self._readings + size > MAX_READINGS * end:
            return False
        self._readings += size
        return any(True for _ in self._entries(os.pread(self._file.fileno(), size, at)))

    def _read(self, size: int, limit: int | None) -> bytes:
        size = max(0, min(size, self._end(limit) - self.position))
        if LARGE <= size <= BUFFER and not is_cached(self._file.fileno(), self.position + size // 2):
            # written past the page cache, or evicted: this is its only reading
            block = self._past_cache(size)
            if block is not None:
                return block
        return os.pread(self._file.fileno(), size, self.position)

    def _past_cache(self, size: int) -> bytes | None:
        """The next `size` bytes, read past the page cache; None if the file system can't do that."""
        if not self._may_go_past:
            return None
        try:
            self._blocks = self._blocks or BlockFile(self._session.open(self._name, os.O_RDONLY | os.O_DIRECT))
            return self._blocks.read(self.position, size)
        except OSError:
            # some file systems allow to open, but not to read; a broken disk fails through the cache too
            self._may_go_past = False
            return None
