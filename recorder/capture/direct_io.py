"""Direct I/O: writes and reads large amounts of a segment's bytes past the kernel's page cache (O_DIRECT).

Used by `writer` and `segments`. A log is written once and read once. In the page cache it would displace the files of
other programs, such as a broker on the same machine. Direct I/O takes less processor time too: some 0.06 ms a MiB
where it was measured, and 0.3 to 1.9 ms with the cache, whose fresh pages must be found and filled. Only whole blocks
can bypass the cache. All other bytes go through it, and on file systems without O_DIRECT all bytes do. Direct and
cached reads both see all earlier writes.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

_LIBC = ctypes.CDLL(None)

# a multiple of every disk's block size
BLOCK = 4096
# bytes of one read or write at most
BUFFER = 4 * 1024 * 1024
# the size of a huge page on x86-64, and on ARM64 with pages of 4 KiB
HUGE_PAGE = 2 * 1024 * 1024
# seconds that the direct write of one group may take. A group: the entries of one `Log.append`
MAX_WRITE_SECONDS = 0.1
# bytes of a trial write, which measures the disk's speed
TRIAL_BYTES = 1024 * 1024
# after a disk was too slow, one group in so many is a trial
GROUPS_PER_TRIAL = 64
# smaller amounts go through the page cache, which is fast enough for them
MIN_DIRECT_BYTES = 512 * 1024


class ShortWrite(OSError):
    """The file took only a part of the bytes. The next write will raise the reason."""


class Appended(NamedTuple):
    """What `DirectFile.append` has written: bytes, those of the begun block included, and the disk's seconds."""

    size: int
    seconds: float


class DirectFile:
    """One file that is read or written with direct I/O."""

    def __init__(self, descriptor: int) -> None:
        """`descriptor`: that of the file, opened with O_DIRECT; `close` closes it. Raises OSError."""
        self._descriptor = descriptor
        try:
            self._buffer = _aligned_buffer()
        except OSError:
            self.close()
            raise

    def append(self, pieces: Iterable[bytes], end: int, begun: bytes, max_bytes: int) -> Appended:
        """Writes as many whole blocks as `pieces` fill.

        Args:
            pieces: each is copied before the next one is asked for, while it is in the processor's cache.
            end: the file's size.
            begun: the bytes of the file's last, incomplete block; there are `end % BLOCK`.
            max_bytes: about how many bytes to write at most.

        Raises OSError; the file's size then tells how many bytes it took.
        """
        buffer, room, filled = self._buffer, min(BUFFER, max_bytes), len(begun)
        buffer[:filled] = begun
        at = end - filled
        done = Appended(0, 0.0)
        for piece in pieces:
            rest = memoryview(piece)
            while filled + len(rest) >= room:
                buffer[filled:room] = rest[: room - filled]
                rest = rest[room - filled :]
                done = self._write_blocks(at, room, done)
                if done.size > max_bytes - BLOCK:
                    return done
                filled = room % BLOCK
                buffer[:filled] = buffer[room - filled : room]
                room = BUFFER
            buffer[filled : filled + len(rest)] = rest
            filled += len(rest)
        return self._write_blocks(at, filled, done)

    def _write_blocks(self, start: int, filled: int, done: Appended) -> Appended:
        """Writes the buffer's whole blocks behind what an append has `done` from offset `start` on; returns the sum."""
        whole = filled - filled % BLOCK
        if not whole:
            return done
        begun_at = time.monotonic()
        if os.pwritev(self._descriptor, [self._buffer[:whole]], start + done.size) != whole:
            raise ShortWrite
        return Appended(done.size + whole, done.seconds + time.monotonic() - begun_at)

    def read(self, at: int, size: int) -> bytes:
        """The `size` bytes from offset `at` on, BUFFER at most; fewer at the file's end. Raises OSError."""
        start = at - at % BLOCK
        length = -(-(at + size - start) // BLOCK) * BLOCK
        got = os.preadv(self._descriptor, [self._buffer[:length]], start)
        return bytes(self._buffer[at - start : min(got, at + size - start)])

    def close(self) -> None:
        """Closes the file; a second call does nothing. The buffer's memory is freed with this object."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _aligned_buffer() -> memoryview:
    """Memory of BUFFER + BLOCK bytes that begins at a page, as O_DIRECT requires. Raises OSError.

    The first BUFFER bytes are huge pages where the kernel has them. A write from small pages takes three times the
    processor's time: the kernel looks up each page, and gives the disk an address for each.
    """
    pages = mmap.mmap(-1, BUFFER + BLOCK + HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    start = -ctypes.addressof(ctypes.c_char.from_buffer(pages)) % HUGE_PAGE
    # a child of a fork would share the pages meanwhile, and what the disk reads might come to its copy (open(2))
    pages.madvise(mmap.MADV_DONTFORK)
    # some kernels have no huge pages
    with suppress(OSError):
        pages.madvise(mmap.MADV_HUGEPAGE, start, BUFFER)
    return memoryview(pages)[start : start + BUFFER + BLOCK]


class DirectWriteLimit:
    """Limits the direct write of one group to the bytes that the disk takes within MAX_WRITE_SECONDS.

    The page cache takes the rest: it has room for a burst that a slow disk would take minutes to write.
    """

    def __init__(self) -> None:
        # seconds that a byte took at the last write; None before the first write
        self._seconds: float | None = None
        self._refused = 0

    def allowed_bytes(self) -> int:
        """The number of bytes of the next group that may be written directly; 0: none."""
        if self._seconds is None:
            return TRIAL_BYTES
        allowed = int(MAX_WRITE_SECONDS / self._seconds)
        if allowed >= MIN_DIRECT_BYTES:
            return allowed
        # the disk may have become faster
        self._refused = (self._refused + 1) % GROUPS_PER_TRIAL
        return 0 if self._refused else TRIAL_BYTES

    def note(self, seconds: float, size: int) -> None:
        """Notes that the direct write of `size` bytes took so many seconds."""
        self._seconds = max(seconds, 1e-6) / size


def is_cached(descriptor: int, at: int) -> bool:
    """True if the byte at this offset of the file is in the page cache, or if the system can't tell.

    Asks with `mincore`, which doesn't touch the byte. A read that must not wait (RWF_NOWAIT) would not do: newer
    kernels (6.18, for example) ask the disk for the page, and if the disk answers within the call, the byte seems to be
    cached.
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
