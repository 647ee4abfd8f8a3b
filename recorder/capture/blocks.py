"""Large amounts of a segment's bytes, past the kernel's page cache (O_DIRECT).

A log is written once and read once. Through the page cache it takes memory from those who live on it, such as a broker
on the same machine, and a processor for longer than the disk needs: to find and fill fresh pages took 0.3 to 1.9 ms a
MiB where it was measured, past the cache it is 0.1 to 0.3. Only whole blocks can go this way, so all else, and all
where a file system does not know this way, goes through the cache as usual; both see what the other has written.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Sequence

# every disk's blocks go into this
BLOCK = 4096
# what is read or written in one go at most
BUFFER = 4 * 1024 * 1024
# of one call
MOST_PIECES = 512
# seconds that one group may keep the queue waiting; and what is written to find out how fast a disk is, at first and
# again each time that so many groups were kept from one that was too slow
LONGEST, TRIAL, TRY_AGAIN = 0.1, 1024 * 1024, 64
# less than this is soon in the cache, and soon read from there
LARGE = 512 * 1024


class WrittenInPart(OSError):
    """Somebody took a part; why, the next write will say."""


class BlockFile:
    """One file, of which blocks are read or written past the cache."""

    def __init__(self, descriptor: int) -> None:
        """`descriptor`: of the file opened with O_DIRECT, to read or to write; `close` closes it. Raises OSError."""
        self._descriptor = descriptor
        self._gathered = -1
        try:
            # memory that begins where a page does, as the disk wants it, and that is a file too: the kernel gathers the
            # pieces there, while other threads have the interpreter
            self._gathered = os.memfd_create("blocks", os.MFD_CLOEXEC)
            os.ftruncate(self._gathered, BUFFER + BLOCK)
            self._buffer = memoryview(mmap.mmap(self._gathered, BUFFER + BLOCK))
        except OSError:
            self.close()
            raise

    def append(self, pieces: Sequence[bytes], end: int, begun: bytes, most: int) -> int:
        """Writes as much of `pieces` as makes whole blocks; the file's size says how much that was.

        Args:
            end: of the file.
            begun: what its last block has so far, `end % BLOCK` bytes.
            most: once it has written so much, it leaves the rest.

        Returns: bytes written. Raises OSError: the disk takes no more; the size of the file holds then, too.
        """
        at, filled, written = end - len(begun), len(begun), 0
        self._buffer[:filled] = begun
        for some in _portions(pieces, min(BUFFER, most) - filled):
            _write(self._gathered, some, filled)
            filled += sum(map(len, some))
            whole = filled - filled % BLOCK
            _write(self._descriptor, [self._buffer[:whole]], at)
            at, filled, written = at + whole, filled - whole, written + whole
            if written > most - BLOCK:
                break
            self._buffer[:filled] = self._buffer[whole : whole + filled]
        return written

    def read(self, at: int, size: int) -> bytes:
        """The `size` bytes from offset `at` on, BUFFER at most; fewer at the file's end. Raises OSError."""
        start = at - at % BLOCK
        length = -(-(at + size - start) // BLOCK) * BLOCK
        got = os.preadv(self._descriptor, [self._buffer[:length]], start)
        return bytes(self._buffer[at - start : min(got, at + size - start)])

    def close(self) -> None:
        """Closes the file; nothing happens the second time. The memory goes with this object."""
        for descriptor in (self._descriptor, self._gathered):
            if descriptor >= 0:
                os.close(descriptor)
        self._descriptor = self._gathered = -1


def _write(descriptor: int, pieces: Sequence[bytes | memoryview], at: int) -> None:
    if os.pwritev(descriptor, pieces, at) != sum(map(len, pieces)):
        raise WrittenInPart


def _portions(pieces: Sequence[bytes], first: int) -> Iterator[list[bytes | memoryview]]:
    """The pieces in their order, cut into portions that fit the buffer: of `first` bytes, then of a block less each."""
    portion: list[bytes | memoryview] = []
    room = first
    for piece in pieces:
        rest = memoryview(piece)
        while len(rest) >= room or len(portion) == MOST_PIECES:
            yield [*portion, rest[:room]]
            portion, rest, room = [], rest[room:], BUFFER - BLOCK
        portion.append(rest)
        room -= len(rest)
    if portion:
        yield portion


class Pace:
    """How much goes past the cache in one go: what the disk takes within LONGEST.

    A burst that a slow disk would take minutes for fits the memory of many a machine, and the queue must not wait.
    """

    def __init__(self) -> None:
        # seconds for a byte when last written; None before anything was
        self._seconds: float | None = None
        self._refused = 0

    def most(self) -> int:
        """Bytes of the next group that go past the cache; 0: none."""
        if self._seconds is None:
            return TRIAL
        most = int(LONGEST / self._seconds)
        if most >= LARGE:
            return most
        # what it was may not be what it is
        self._refused = (self._refused + 1) % TRY_AGAIN
        return 0 if self._refused else TRIAL

    def note(self, seconds: float, size: int) -> None:
        """What so many bytes took."""
        self._seconds = max(seconds, 1e-6) / size


def is_cached(descriptor: int, at: int) -> bool:
    """Whether the byte at this offset is in the page cache; where nobody can tell: yes. If not, its page soon is."""
    try:
        # to ask would have the kernel read on from there
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
        return os.preadv(descriptor, [bytearray(1)], at, os.RWF_NOWAIT) > 0
    except BlockingIOError:
        return False
    except OSError:
        return True
