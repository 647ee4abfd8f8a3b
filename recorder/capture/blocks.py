"""Large amounts of a segment's bytes, past the kernel's page cache (O_DIRECT).

A log is written once and read once. Through the page cache it takes memory from those who live on it, such as a broker
on the same machine, and a processor for longer than the disk needs: to find and fill fresh pages took 0.3 to 1.9 ms a
MiB where it was measured, past the cache it is 0.1 to 0.3. Only whole blocks can go this way, so all else, and all
where a file system does not know this way, goes through the cache as usual; both see what the other has written.
"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

# every disk's blocks go into this
BLOCK = 4096
# what is read or written in one go at most
BUFFER = 4 * 1024 * 1024
# of one call
MOST_PIECES = 512
# less than this is soon in the cache, and soon read from there
LARGE = 512 * 1024


class BlockFile:
    """One file, of which blocks are read or written past the cache."""

    def __init__(self, path: Path, flags: int) -> None:
        """`flags`: os.O_RDONLY or os.O_WRONLY. Raises OSError, also where the file system does not know this way."""
        self._descriptor = os.open(path, flags | os.O_DIRECT | os.O_CLOEXEC)
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

    def append(self, pieces: Sequence[bytes], end: int, begun: bytes) -> None:
        """Writes as much of `pieces` as makes whole blocks; the file's size says how much that was.

        Args:
            end: of the file.
            begun: what its last block has so far, `end % BLOCK` bytes.

        Raises:
            OSError: the disk takes no more; what it took is as above.
        """
        at, filled = end - len(begun), len(begun)
        self._buffer[:filled] = begun
        for some in _portions(pieces, BUFFER - filled):
            _write(self._gathered, some, filled)
            filled += sum(map(len, some))
            whole = filled - filled % BLOCK
            _write(self._descriptor, [self._buffer[:whole]], at)
            at, filled = at + whole, filled - whole
            self._buffer[:filled] = self._buffer[whole : whole + filled]

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
        raise OSError(errno.EIO, "written in part")


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


class Ways:
    """Which way a large group goes: past the cache, unless the disk can't keep up and the cache takes it faster.

    A burst that a slow disk would take minutes for fits the memory of many a machine.
    """

    def __init__(self) -> None:
        # seconds for a byte, by whether it went past the cache; as long as it falls behind
        self._paces: dict[bool, float] = {}

    def is_past_cache(self, *, behind: bool) -> bool:
        """Which one the next group takes. `behind`: more waits to be written than should."""
        if not behind:
            self._paces.clear()
            return True
        past, through = self._paces.get(True), self._paces.get(False)
        return past is None or (through is not None and past <= through)

    def note(self, *, past_cache: bool, seconds: float, size: int) -> None:
        """What a group took."""
        self._paces[past_cache] = seconds / size


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
