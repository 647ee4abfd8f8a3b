"""Reads the entries of one segment of the log, which may still grow; and lists a session's segments.

Used by `compaction`. `pass_over` skips unreadable bytes up to the next whole entry, and counts them. Memory and work
are bounded by the segment's size, whatever the length fields in it say.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator

from proxy.files import Folder
from recorder.capture import spool
from recorder.capture.cipher import LogCipher, in_clear
from recorder.capture.direct_io import BUFFER, MIN_DIRECT_BYTES, DirectFile, is_cached
from recorder.capture.spool import Entry, EntryKind, SegmentStart, UnknownSpoolError

# matches where an entry is likely, at the fields after its checksum and length: kind, direction, entry number
# (any), few spans, and a connection that is small or -1. It is a lookahead, so that matches may overlap
_LIKELY = re.compile(rb"(?=[\x01-\x%02x][\x00\x01]..\x00...(?:\x00{3}|\xff{3}))" % max(EntryKind), re.DOTALL)
# the bytes of an entry before the fields that _LIKELY matches, and the bytes that it matches
_BEFORE, _WITHIN = 8, 11
# bytes of the first stretch that is searched for an entry; each next stretch is twice as long
_STRETCH = 4096
# limits for one segment: how many damaged places are skipped, and how many bytes the search for entries checks, in
# multiples of the segment's size. Real damage is in few places, and a forged segment must not keep the compactor busy
MAX_PLACES, MAX_READINGS = 256, 4

# a segment's number in names: 1 or more, in eight digits or as many as it needs, and below `spool.MAX_NUMBER`
NUMBER = r"(?!0{8})(?:[0-9]{8}|[1-9][0-9]{8,17})"
_NAME = re.compile(rf"({NUMBER})\.log")


def segment_name(number: int) -> str:
    """The file name of the segment with this number."""
    return f"{number:08d}.log"


def segments(session: Folder) -> list[int]:
    """The numbers of the segments in a session's folder, in order."""
    return numbered(session, _NAME)


def numbered(session: Folder, names: re.Pattern[str]) -> list[int]:
    """The numbers in the names of the files that match `names`, in order. The number is the pattern's first group."""
    return sorted(int(match[1]) for name in session.names() if (match := names.fullmatch(name)))


class SegmentReader:
    """Reads one segment, a block at a time.

    `position`: the offset of the next entry; `passed_over`: the number of unreadable bytes that were skipped.
    `lacks_key`: the segment is encrypted, and the key is not there: of entries that hold traffic, zeros are read.
    """

    # large enough that the cost of reading is that of the entries, small enough for several sessions in memory
    BLOCK = 4 * 1024 * 1024

    def __init__(self, session: Folder, number: int, cipher: LogCipher | None = None) -> None:
        """Opens the segment, and reads its head. `cipher`: that of an encrypted log; None: not known.

        Raises:
            DamagedSegmentError: the head isn't whole.
            UnknownSpoolError: the format is another, or the head is that of another segment.
            OSError: FileNotFoundError if the segment is gone.
        """
        self._session = session
        self._name = segment_name(number)
        self._file = open(session.open(self._name), "rb", buffering=0)  # noqa: SIM115
        self._direct_file: DirectFile | None = None
        self._may_read_direct = True
        self._skipped_places = self._searched_bytes = 0
        self.passed_over = 0
        try:
            self.start: SegmentStart = spool.decode_head(self._file.read(64 * 1024))
            self._check_own(number)
        except ValueError:
            self._file.close()
            raise
        self.head, self.position = self.start.head, self.start.begin
        self._cipher = cipher
        self.lacks_key = self.head.encrypted and cipher is None

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
        """The next whole entries, a block of them at most; empty if there are none for now.

        `limit`: the offset at which the segment's entries end; None: unknown.
        """
        block = self._read(self.BLOCK, limit)
        if len(block) >= 8 and len(block) < (size := spool.size_at(block, 0)) <= spool.MAX_ENTRY:
            block = self._read(size, limit)
        entries = []
        at = 0
        for entry, end in self._entries(block):
            entries.append(entry)
            at = end
        self.position += at
        return entries

    def pass_over(self, limit: int | None = None) -> bool:
        """Skips unreadable bytes up to the next whole entry. Returns False if there is none, and skips nothing then.

        Only for segments that are no longer written.
        """
        if self._skipped_places == MAX_PLACES:
            return False
        self._skipped_places += 1
        end = self._end(limit)
        following = next((at for at in self._likely(self.position + 1, end) if self._is_entry(at, end)), None)
        if following is None:
            return False
        self.passed_over += following - self.position
        self.position = following
        return True

    def is_torn(self, limit: int | None = None) -> bool:
        """True if what is left is the beginning of an entry, as a killed writer leaves it, or zeros after a crash.

        Otherwise an entry is left that has all its bytes, and a wrong one among them.
        """
        left = self._end(limit) - self.position
        size = spool.size_at(os.pread(self._file.fileno(), 8, self.position), 0)
        return size > left or size < spool.SMALLEST_ENTRY

    def close(self) -> None:
        """Closes the segment's file."""
        self._file.close()
        if self._direct_file is not None:
            self._direct_file.close()

    def _entries(self, buffer: bytes) -> Iterator[tuple[Entry, int]]:
        return spool.entries(buffer, 0, self.start.seed, self._opened if self.head.encrypted else None)

    def _opened(self, kind: int, stored: bytes, head: bytes) -> bytes | None:
        if self._cipher is None:
            return in_clear(kind, stored)
        return self._cipher.decrypted(kind, stored, head, self.head.number)

    def _end(self, limit: int | None) -> int:
        # a damaged length field may claim anything, so no more is read than there is
        return self.size if limit is None else min(self.size, limit)

    def _likely(self, at: int, end: int) -> Iterator[int]:
        """Offsets from `at` on where an entry may begin."""
        size = _STRETCH
        while at < end - _BEFORE - _WITHIN:
            stretch = os.pread(self._file.fileno(), size, at)
            if len(stretch) <= _BEFORE + _WITHIN:
                return
            if not stretch.strip(b"\0"):
                # no entry begins within zeros; a sparse file may have gigabytes of them
                at = max(at, self._data_from(at + len(stretch), end) - len(stretch))
            else:
                for match in _LIKELY.finditer(stretch, _BEFORE):
                    yield at + match.start() - _BEFORE
            at += len(stretch) - _BEFORE - _WITHIN + 1
            size = min(size * 2, self.BLOCK)

    def _data_from(self, at: int, end: int) -> int:
        """The first offset from `at` on that is not in a hole of a sparse file; `end` if there is none."""
        try:
            return min(os.lseek(self._file.fileno(), at, os.SEEK_DATA), end)
        except OSError as error:
            # ENXIO: no data follow; any other error: the file system doesn't know the call
            return end if error.errno == errno.ENXIO else at

    def _is_entry(self, at: int, end: int) -> bool:
        size = spool.size_at(os.pread(self._file.fileno(), 8, at), 0)
        if size > min(end - at, spool.MAX_ENTRY) or self._searched_bytes + size > MAX_READINGS * end:
            return False
        self._searched_bytes += size
        return any(True for _ in self._entries(os.pread(self._file.fileno(), size, at)))

    def _read(self, size: int, limit: int | None) -> bytes:
        size = max(0, min(size, self._end(limit) - self.position))
        if MIN_DIRECT_BYTES <= size <= BUFFER and not is_cached(self._file.fileno(), self.position + size // 2):
            # these bytes will be read only once, so they need not enter the cache
            block = self._read_direct(size)
            if block is not None:
                return block
        return os.pread(self._file.fileno(), size, self.position)

    def _read_direct(self, size: int) -> bytes | None:
        """The next `size` bytes, read with direct I/O; None if the file system has none."""
        if not self._may_read_direct:
            return None
        try:
            self._direct_file = self._direct_file or DirectFile(
                self._session.open(self._name, os.O_RDONLY | os.O_DIRECT)
            )
            return self._direct_file.read(self.position, size)
        except OSError:
            # some file systems allow to open with O_DIRECT, but not to read. If the disk is broken, `os.pread` raises
            self._may_read_direct = False
            return None
