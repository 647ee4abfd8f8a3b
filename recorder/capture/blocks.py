"""Large amounts of a segment's bytes, past the kernel's page cache (O_DIRECT).

A log is written once and read once. Through the page cache it takes memory from programs that live on the cache, such
as a broker on the same machine. It takes more processor time too: finding and filling fresh pages took 0.3 to 1.9 ms a
MiB where it was measured, past the cache 0.1 to 0.3. Only whole blocks can bypass the cache. All other bytes go through
it, and on file systems without O_DIRECT all bytes do; either way sees what the other has written.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterator, Sequence

_LIBC = ctypes.CDLL(None)

# a multiple of every disk's block size
BLOCK = 4096
# bytes of one read or write at most
BUFFER = 4 * 1024 * 1024
# one `pwritev` takes so many pieces and one more, below the kernel's limit (IOV_MAX, 1024)
MAX_PIECES = 512
# seconds that the write of one group (`Log.append`) may take; bytes of a trial write, which measures the disk's speed;
# groups from one trial of a disk that was too slow to the next
LONGEST, TRIAL, TRY_AGAIN = 0.1, 1024 * 1024, 64
# bytes below which the page cache is fast enough
LARGE = 512 * 1024


class WrittenInPart(OSError):
    """The file took only a part of the bytes; the next write will raise the reason."""


class BlockFile:
    """One file whose blocks are read or written past the cache."""

    def __init__(self, descriptor: int) -> None:
        """`descriptor`: of the file opened with O_DIRECT, to read or to write; `close` closes it. Raises OSError."""
        self._descriptor = descriptor
        self._gathered = -1
        try:
            # page-aligned memory, as O_DIRECT requires. It is a file's memory, so that `pwritev` gathers the pieces in
            # it, without the interpreter's lock
            self._gathered = os.memfd_create("blocks", os.MFD_CLOEXEC)
            os.ftruncate(self._gathered, BUFFER + BLOCK)
            self._buffer = memoryview(mmap.mmap(self._gathered, BUFFER + BLOCK))
        except OSError:
            self.close()
            raise

    def append(self, pieces: Sequence[bytes], end: int, begun: bytes, max_bytes: int) -> int:
        """Writes as many whole blocks as `pieces` fill.

        Args:
            end: of the file.
            begun: the bytes of the file's last, incomplete block (`end % BLOCK`).
            max_bytes: stops after so many bytes.

        Returns: bytes written. Raises OSError where the disk takes no more: the file's size then says how much it took.
        """
        at, filled, written = end - len(begun), len(begun), 0
        self._buffer[:filled] = begun
        for some in _portions(pieces, min(BUFFER, max_bytes) - filled):
            _write(self._gathered, some, filled)
            filled += sum(map(len, some))
            whole = filled - filled % BLOCK
            _write(self._descriptor, [self._buffer[:whole]], at)
            at, filled, written = at + whole, filled - whole, written + whole
            if written > max_bytes - BLOCK:
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
    """The pieces in their order, in portions of up to `first` bytes, then BUFFER - BLOCK: a part of a block is kept."""
    portion: list[bytes | memoryview] = []
    room = first
    for piece in pieces:
        rest = memoryview(piece)
        while len(rest) >= room or len(portion) == MAX_PIECES:
            yield [*portion, rest[:room]]
            portion, rest, room = [], rest[room:], BUFFER - BLOCK
        portion.append(rest)
        room -= len(rest)
    if portion:
        yield portion


class Pace:
    """How many bytes go past the cache in one go: as many as the disk takes within LONGEST.

    The queue must not wait minutes for a slow disk while the page cache has room for the burst.
    """

    def __init__(self) -> None:
        # seconds for a byte at the last write; None before the first one
        self._seconds: float | None = None
        self._refused = 0

    def allowance(self) -> int:
        """Bytes of the next group that may go past the cache; 0: none."""
        if self._seconds is None:
            return TRIAL
        allowed = int(LONGEST / self._seconds)
        if allowed >= LARGE:
            return allowed
        # the disk may have become faster
        self._refused = (self._refused + 1) % TRY_AGAIN
        return 0 if self._refused else TRIAL

    def note(self, seconds: float, size: int) -> None:
        """Notes the seconds that `size` bytes took."""
        self._seconds = max(seconds, 1e-6) / size


def is_cached(descriptor: int, at: int) -> bool:
    """True if the byte at this offset of the file is in the page cache, or if the system can't tell.

    `mincore` doesn't touch the byte. A read that must not wait (RWF_NOWAIT) makes newer kernels (6.18, say) ask the
    disk for the page; where the disk answers within the call, the byte seems to have been cached.
    """
    try:
        page = mmap.mmap(descriptor, 1, access=mmap.ACCESS_COPY, offset=at - at % mmap.ALLOCATIONGRANULARITY)
    except (OSError, ValueError):
        return True
    with page:
        state = ctypes.c_ubyte(1)
        # 1 byte: the kernel rounds up to the page
        _LIBC.mincore(ctypes.byref(ctypes.c_char.from_buffer(page)), ctypes.c_size_t(1), ctypes.byref(state))
    return bool(state.value & 1)
