import tracemalloc
from dataclasses import dataclass
from types import SimpleNamespace

import kafka.codec
import lz4.frame
import pytest

from proxy.wire.budget import of_a_batch
from proxy.wire.errors import Malformed
from proxy.wire.records import Compression, compress, decompress
from proxy.wire.records.compression import is_as_it_says
from proxy.wire.records.lz4_frames import xxh32
from tests.tables import each_row

# flags, largest block and header checksum as Kafka writes them; the last one is from the frame format's examples
RIGHT = bytes.fromhex("04224d18 6040 82")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0x02CC5D05),
        (b"a", 0x550D7456),
        (b"abc", 0x32D153FF),
        (b"Nobody inspects the spammish repetition", 0xE2293B2F),
    ],
)
def test_xxhash_computes_the_published_numbers(data: bytes, expected: int) -> None:
    assert xxh32(data) == expected


@each_row("size", [0, 3, 70_000])
@each_row("block_size", [4, 5, 6, 7])
@each_row("store_size", [True, False])
def test_the_header_checksum_is_the_librarys(size: int, block_size: int, store_size: bool) -> None:
    frame = lz4.frame.compress(bytes(size), block_size=block_size, store_size=store_size)
    end = 15 if store_size and size else 7
    assert frame[end - 1] == xxh32(frame[4 : end - 1]) >> 8 & 0xFF


def test_frames_are_written_as_java_writes_them() -> None:
    frame = compress(Compression.LZ4, b"data" * 50_000)
    assert frame.startswith(RIGHT)
    found = lz4.frame.get_frame_info(frame)
    assert found["block_size"] == 65536
    assert not any(found[flag] for flag in ("block_linked", "content_checksum", "content_size"))


@dataclass(frozen=True)
class Digest:
    data: bytes

    def digest(self) -> bytes:
        return xxh32(self.data).to_bytes(4, "big")


def test_magic_0_has_the_wrong_header_checksum_as_kafka_python_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka.codec, "xxhash", SimpleNamespace(xxh32=Digest))
    frame = compress(Compression.LZ4, b"data" * 100, magic=0)
    assert frame[6] != RIGHT[6]
    assert kafka.codec.lz4_decode_old_kafka(frame) == b"data" * 100
    theirs = kafka.codec.lz4_encode_old_kafka(b"data" * 100)
    assert theirs[6] == frame[6]
    assert decompress(Compression.LZ4, theirs, magic=0) == b"data" * 100


def test_magic_0_takes_either_checksum_in_every_frame() -> None:
    right, wrong = compress(Compression.LZ4, b"right "), compress(Compression.LZ4, b"wrong ", magic=0)
    sized = lz4.frame.compress(b"sized", store_size=True)
    damaged = sized[:14] + bytes([sized[14] ^ 0xFF]) + sized[15:]
    assert (
        decompress(Compression.LZ4, wrong + right + wrong + damaged, magic=0)
        == b"right ".join([b"wrong "] * 2) + b"sized"
    )


def test_a_checksum_is_put_right_in_a_copy_of_the_header_alone() -> None:
    """A copy of all later bytes, for each of many small frames, would take quadratic time."""
    data = compress(Compression.LZ4, b"", magic=0)[: len(RIGHT)] + b"\xff" * (4 << 20)
    tracemalloc.start()
    try:
        with pytest.raises(Malformed, match="no lz4 frame"):
            decompress(Compression.LZ4, data, magic=0)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_the_wrong_lz4_checksum_is_malformed_from_magic_1_on() -> None:
    wrong = compress(Compression.LZ4, b"data", magic=0)
    for magic in (1, 2):
        with pytest.raises(Malformed, match="no lz4 frame"):
            decompress(Compression.LZ4, wrong, magic=magic)


@each_row("cut", range(12))
def test_a_header_of_magic_0_that_is_cut_off_is_malformed(cut: int) -> None:
    with pytest.raises(Malformed, match="lz4 frame"):
        decompress(Compression.LZ4, compress(Compression.LZ4, b"data", magic=0)[:cut], magic=0)


def test_a_size_that_a_frame_only_claims_costs_no_memory() -> None:
    frame = bytearray(lz4.frame.compress(b"data", store_size=True))
    frame[6:14] = (1 << 62).to_bytes(8, "little")
    frame[14] = xxh32(bytes(frame[4:14])) >> 8 & 0xFF
    tracemalloc.start()
    try:
        assert decompress(Compression.LZ4, bytes(frame)) == b"data"
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


SUMMED = lz4.frame.compress(b"data" * 50_000, content_checksum=True, store_size=True, block_linked=False)


def test_the_checksum_of_all_data_is_passed_over_as_kafka_does() -> None:
    damaged = SUMMED[:-1] + bytes([SUMMED[-1] ^ 1])
    for data in (SUMMED, damaged, damaged + SUMMED):
        assert decompress(Compression.LZ4, data) == b"data" * 50_000 * (len(data) // len(SUMMED))
        assert is_as_it_says(Compression.LZ4, data, of_a_batch(1 << 20)) is (data == SUMMED)


@pytest.mark.parametrize("cut", range(1, 5))
def test_a_frame_without_its_whole_checksum_is_malformed(cut: int) -> None:
    with pytest.raises(Malformed, match="lz4 frame"):
        decompress(Compression.LZ4, SUMMED[:-cut])


def test_a_block_with_a_wrong_checksum_is_malformed() -> None:
    frame = bytearray(lz4.frame.compress(b"data" * 100, content_checksum=True, block_checksum=True))
    frame[-9] ^= 1
    with pytest.raises(Malformed, match="no lz4 frame"):
        decompress(Compression.LZ4, bytes(frame))
