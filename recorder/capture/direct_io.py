"""Direct I/O: writes and reads large amounts of a segment's bytes past the kernel's page cache (O_DIRECT).

Used by `writer` and `segments`. A log is written once and read once. In the page cache it would displace the files of
other programs, such as a broker on the same machine. Direct I/O takes less processor time too: 0.1 to 0.3 ms a MiB
where it was measured, and 0.3 to 1.9 ms with the cache, whose fresh pages must be found and filled. Only whole blocks
can bypass the cache. All other bytes go through it, and on file systems without O_DIRECT all bytes do. Direct and
cached reads both see all earlier writes.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterator, Sequence

from proxy.memory_files import memory_file

_LIBC = ctypes.CDLL(None)

# a multiple of every disk's block size
BLOCK = 4096
# bytes of one read or write at most
BUFFER = 4 * 1024 * 1024
# pieces of one `pwritev`, the last one not counted; the kernel's limit is 1024 (IOV_MAX)
MAX_PIECES = 512
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


class DirectFile:
    """One file that is read or written with direct I/O."""

    def __init__(self, descriptor: int) -> None:
        """`descriptor`: that of the file, opened with O_DIRECT; `close` closes it. Raises OSError."""
        self._descriptor = descriptor
        self._buffer_file = -1
        try:
            # the buffer is a memory file: its pages are aligned, as O_DIRECT requires, and `pwritev` gathers the pieces
            # in it without the interpreter's lock
            self._buffer_file = memory_file("blocks")
            os.ftruncate(self._buffer_file, BUFFER + BLOCK)
            self._buffer = memoryview(mmap.mmap(self._buffer_file, BUFFER + BLOCK))
        except OSError:
            self.close()
            raise

    def append(self, pieces: Sequence[bytes], end: int, begun: bytes, max_bytes: int) -> int:
        """Writes as many whole blocks as `pieces` fill.

        Args:
            end: the file's size.
            begun: the bytes of the file's last, incomplete block; there are `end % BLOCK`.
            max_bytes: about how many bytes to write at most.

        Returns the number of bytes written, `begun` included. Raises OSError; the file's size then tells how many bytes
        it took.
        """
        at, filled, written = end - len(begun), len(begun), 0
        self._buffer[:filled] = begun
        for portion in _portions(pieces, min(BUFFER, max_bytes) - filled):
            _write(self._buffer_file, portion, filled)
            filled += sum(map(len, portion))
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
        """Closes the file; a second call does nothing. The buffer's memory is freed with this object."""
        for descriptor in (self._descriptor, self._buffer_file):
            if descriptor >= 0:
                os.close(descriptor)
        self._descriptor = self._buffer_file = -1


def _write(descriptor: int, pieces: Sequence[bytes | memoryview], at: int) -> None:
    if os.pwritev(descriptor, pieces, at) != sum(map(len, pieces)):
        raise ShortWrite


def _portions(pieces: Sequence[bytes], first: int) -> Iterator[list[bytes | memoryview]]:
    """The pieces in their order, in portions: of `first` bytes at most, then of BUFFER - BLOCK.

    A BLOCK of the buffer is left free for the bytes of an incomplete block.
    """
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
