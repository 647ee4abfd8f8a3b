import pytest
import zstandard

from proxy.wire.errors import Malformed
from proxy.wire.records import Compression, compress, decompress
from tests.tables import each_row

MAGIC = bytes.fromhex("28b52ffd")
SKIPPED = bytes.fromhex("532a4d18 03000000") + b"abc"


def frame(*blocks: bytes, flags: int = 0, head: bytes = b"\x58") -> bytes:
    return MAGIC + bytes([flags]) + head + b"".join(blocks)


def block(kind: int, size: int, data: bytes, *, last: bool = False) -> bytes:
    return (size << 3 | kind << 1 | last).to_bytes(3, "little") + data


def test_written_zstd_has_no_content_size_like_javas() -> None:
    assert (
        zstandard.get_frame_parameters(compress(Compression.ZSTD, b"data")).content_size
        == zstandard.CONTENTSIZE_UNKNOWN
    )


def test_raw_and_repeated_blocks_are_read() -> None:
    data = frame(block(0, 3, b"abc"), block(1, 5, b"x"), block(0, 0, b"", last=True))
    assert decompress(Compression.ZSTD, data) == b"abcxxxxx"


@each_row("size", [0, 200, 300, 70_000])
@each_row("checksum", [True, False])
def test_headers_of_every_size_are_walked(size: int, checksum: bool) -> None:
    packer = zstandard.ZstdCompressor(write_checksum=checksum)
    assert decompress(Compression.ZSTD, packer.compress(bytes(size)) * 2) == bytes(2 * size)


def test_frames_to_be_skipped_are() -> None:
    data = compress(Compression.ZSTD, b"data")
    assert decompress(Compression.ZSTD, SKIPPED + data + SKIPPED) == b"data"
    with pytest.raises(Malformed, match="does not end"):
        decompress(Compression.ZSTD, SKIPPED[:-1])


@each_row(
    ("data", "reason"),
    [
        (b"", "does not end"),
        (MAGIC, "does not end"),
        (b"\0\0\0\0 no frame", "its magic is missing"),
        (frame(block(3, 1, b"x", last=True)), "the reserved type"),
        (frame(block(0, 3, b"ab", last=True)), "does not end"),
        (frame(block(0, 3, b"abc")), "does not end"),
        (frame(block(2, 3, b"abc", last=True)), "no zstd frame"),
        (frame(block(0, 3, b"abc", last=True) + b"sum!", flags=4), "no zstd frame"),
        # an unknown dictionary
        (frame(block(2, 4, b"abcd", last=True), flags=1, head=b"\x58\x07"), "no zstd frame"),
        # a window of 2 TiB
        (frame(block(0, 3, b"abc", last=True), head=b"\xf8"), "no zstd frame"),
    ],
)
def test_bad_zstd_is_malformed(data: bytes, reason: str) -> None:
    with pytest.raises(Malformed, match=reason):
        decompress(Compression.ZSTD, data)


def test_a_size_that_a_frame_only_claims_costs_no_memory() -> None:
    data = frame(block(0, 3, b"abc", last=True), flags=0xC0, head=b"\x58" + (1 << 62).to_bytes(8, "little"))
    with pytest.raises(Malformed, match="no zstd frame"):
        decompress(Compression.ZSTD, data)
