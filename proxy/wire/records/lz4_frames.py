"""LZ4 frames as Kafka writes them: independent blocks of up to 64 KiB, no content size, no content checksum.

Kafka's first lz4 writer wrongly included a frame's magic in its header checksum. In messages of magic 0, Java still
writes and expects that wrong checksum; from magic 1 on it uses the right one (KIP-57). This reader accepts both in
magic 0: it corrects the checksum before the library sees it.

Kafka's readers pass over a content checksum and a content size, which some clients write (Go's). The library checks
both, so it gets a header without them. Kafka checks the checksums of blocks, and so does the library.
"""

from collections.abc import Generator, Iterator

from proxy.wire.budget import Allowance
from proxy.wire.errors import Malformed
from proxy.wire.primitives import Buffer
from proxy.wire.records.codec_input import STEP, inside, library, next_piece

MAGIC = b"\x04\x22\x4d\x18"
# in a frame's first flag byte
HAS_CONTENT_SIZE, HAS_CHECKSUM, HAS_DICTIONARY = 1 << 3, 1 << 2, 1
CHECKSUM_BYTES = 4
WHAT = "lz4 frame"


def unfold(data: memoryview, allowance: Allowance, magic: int) -> Iterator[bytes]:
    """All frames, piece by piece."""
    at = 0
    while at < len(data) or not at:
        flags = _unchecked(data, at)
        header = _header_for_library(data, at, magic) if flags or magic == 0 else b""
        at = yield from _frame(header, data, _header_end(data, at) if header else at, allowance)
        if header and flags & HAS_CHECKSUM:
            at = inside(data, at + CHECKSUM_BYTES, WHAT)


def is_as_it_says(data: memoryview, allowance: Allowance, magic: int) -> bool:
    """False if a frame that `unfold` reads holds other data than its content checksum or size says.

    Errors: as of `unfold`.
    """
    at = 0
    while at < len(data) or not at:
        header = _header_for_library(data, at, magic, hides=False) if magic == 0 else b""
        try:
            at = _end_of(_frame(header, data, _header_end(data, at) if header else at, allowance))
        except Malformed:
            if _unchecked(data, at):
                return False
            raise
    return True


def _unchecked(data: memoryview, at: int) -> int:
    """The flags of what Kafka's readers pass over in the frame at `at`: its checksum, its size."""
    return data[at + 4] & (HAS_CHECKSUM | HAS_CONTENT_SIZE) if at + 4 < len(data) else 0


def _end_of(frame: Generator[bytes, None, int]) -> int:
    """Unfolds a frame for its end alone."""
    try:
        while True:
            next(frame)
    except StopIteration as end:
        return int(end.value)


def _frame(header: bytes, data: memoryview, at: int, allowance: Allowance) -> Generator[bytes, None, int]:
    """Yields the frame's data; returns the offset behind it. `header` replaces the bytes before `at`, if any."""
    unpacker = library("lz4.frame").LZ4FrameDecompressor()
    piece: Buffer = header
    while not unpacker.eof:
        if unpacker.needs_input and not piece:
            piece, at = next_piece(data, at, WHAT)
        try:
            plain = unpacker.decompress(piece, max_length=STEP)
        except (RuntimeError, MemoryError) as error:
            raise Malformed(f"no lz4 frame: {error}") from None
        if not (plain or piece or unpacker.needs_input or unpacker.eof):
            raise Malformed("an lz4 frame that does not end")
        allowance.take(len(plain))
        if plain:
            yield plain
        piece = b""
    return at - len(unpacker.unused_data or b"")


def compress(data: bytes, level: int | None, magic: int) -> bytes:
    lz4 = library("lz4.frame")
    frame: bytes = lz4.compress(
        data,
        compression_level=0 if level is None else level,
        block_size=lz4.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    if magic == 0:
        end = _header_end(memoryview(frame), 0)
        frame = frame[: end - 1] + _checksum(frame[: end - 1]) + frame[end:]
    return frame


def _header_for_library(data: memoryview, at: int, magic: int, *, hides: bool = True) -> bytes:
    """The header of the frame at `at` with the right checksum; empty if there is none that a reader accepts.

    `hides`: without content checksum and size.
    """
    end = _header_end(data, at)
    if data[at : at + len(MAGIC)] != MAGIC or end > len(data):
        return b""
    told = bytes(data[at + len(MAGIC) : end - 1])
    if magic and _checksum(told) != data[end - 1 : end]:
        return b""
    if hides:
        size = 8 if told[0] & HAS_CONTENT_SIZE else 0
        told = bytes([told[0] & ~(HAS_CHECKSUM | HAS_CONTENT_SIZE), told[1]]) + told[2 + size :]
    return MAGIC + told + _checksum(told)


def _header_end(data: memoryview, at: int) -> int:
    """The offset behind magic, two flag bytes, optional content size and dictionary id, and checksum."""
    flags = data[at + 4] if at + 4 < len(data) else 0
    return at + 7 + (8 if flags & HAS_CONTENT_SIZE else 0) + (4 if flags & HAS_DICTIONARY else 0)


def _checksum(header: bytes) -> bytes:
    return bytes([xxh32(header) >> 8 & 0xFF])


PRIMES = (2654435761, 2246822519, 3266489917, 668265263, 374761393)
UINT32 = 0xFFFF_FFFF


def xxh32(data: bytes) -> int:
    """xxHash32 with seed 0. Source: the algorithm's description at github.com/Cyan4973/xxHash."""
    if len(data) < 16:
        return _finish(data, PRIMES[4], len(data))
    lanes = [PRIMES[0] + PRIMES[1], PRIMES[1], 0, -PRIMES[0]]
    whole = len(data) & ~15
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little")
        lane = lanes[at // 4 % 4] + word * PRIMES[1] & UINT32
        lanes[at // 4 % 4] = _rotate(lane, 13) * PRIMES[0] & UINT32
    mixed = sum(_rotate(lane, turn) for lane, turn in zip(lanes, (1, 7, 12, 18), strict=True))
    return _finish(data[whole:], mixed, len(data))


def _finish(rest: bytes, mixed: int, size: int) -> int:
    mixed = mixed + size & UINT32
    words = len(rest) & ~3
    for at in range(0, words, 4):
        mixed = mixed + int.from_bytes(rest[at : at + 4], "little") * PRIMES[2] & UINT32
        mixed = _rotate(mixed, 17) * PRIMES[3] & UINT32
    for byte in rest[words:]:
        mixed = _rotate(mixed + byte * PRIMES[4] & UINT32, 11) * PRIMES[0] & UINT32
    mixed = (mixed ^ mixed >> 15) * PRIMES[1] & UINT32
    mixed = (mixed ^ mixed >> 13) * PRIMES[2] & UINT32
    return mixed ^ mixed >> 16


def _rotate(word: int, by: int) -> int:
    return (word << by | word >> 32 - by) & UINT32
