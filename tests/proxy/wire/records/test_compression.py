"""Tests of each codec against its library or another one, whole and in parts, and with bombs."""

import gzip
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from random import Random

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.budget import Budget
from proxy.wire.errors import Malformed, OverBudget, WireError
from proxy.wire.records import DEFAULT_LIMIT, Compression, compress, decompress
from proxy.wire.records.compression import unfold
from tests.proxy.wire.records.samples import BATCH_CODECS, few
from tests.tables import each_row

PACKED = BATCH_CODECS[1:]
MEGABYTE = 1 << 20
# bytes that are requested or read at a time, and a codec's own tables
ALLOWANCE = 4 * MEGABYTE
XERIAL = b"\x82SNAPPY\0\0\0\0\1\0\0\0\1"

PAYLOADS = st.binary(max_size=300) | st.builds(
    lambda piece, times: piece * times, st.binary(max_size=50), st.sampled_from([1, 1000, 20_000])
)

# name -> other libraries' compression
OTHERS: dict[str, tuple[Compression, Callable[[bytes], bytes]]] = {
    "gzip": (Compression.GZIP, gzip.compress),
    "gzip with a name and a comment": (Compression.GZIP, lambda data: bytes(cramjam.gzip.compress(data))),
    "bare snappy": (Compression.SNAPPY, lambda data: bytes(cramjam.snappy.compress_raw(data))),
    "lz4": (Compression.LZ4, lz4.frame.compress),
    "lz4, its blocks linked": (Compression.LZ4, lambda data: lz4.frame.compress(data, block_linked=True, block_size=7)),
    "lz4 with checksums": (
        Compression.LZ4,
        lambda data: lz4.frame.compress(data, content_checksum=True, block_checksum=True, store_size=False),
    ),
    "lz4 of cramjam": (Compression.LZ4, lambda data: bytes(cramjam.lz4.compress(data))),
    "zstd": (Compression.ZSTD, zstandard.compress),
    "zstd of cramjam": (Compression.ZSTD, lambda data: bytes(cramjam.zstd.compress(data))),
    "zstd, tight": (Compression.ZSTD, zstandard.ZstdCompressor(level=19, write_checksum=True).compress),
    "zstd without its size": (Compression.ZSTD, zstandard.ZstdCompressor(write_content_size=False).compress),
}

READERS: dict[Compression, Callable[[bytes], bytes]] = {
    Compression.GZIP: gzip.decompress,
    Compression.LZ4: lambda data: bytes(cramjam.lz4.decompress(data)),
    Compression.ZSTD: lambda data: bytes(cramjam.zstd.decompress(data)),
}


def peak_of(run: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        with suppress(WireError):
            run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@few
@given(st.sampled_from(BATCH_CODECS), PAYLOADS, st.sampled_from([0, 1, 2]))
def test_compressed_data_is_decompressed_to_itself(codec: Compression, data: bytes, magic: int) -> None:
    assert decompress(codec, memoryview(compress(codec, data, magic=magic)), magic=magic) == data


@each_row("name", OTHERS)
@few
@given(PAYLOADS)
def test_data_compressed_by_other_libraries_is_read(name: str, data: bytes) -> None:
    codec, pack = OTHERS[name]
    assert decompress(codec, pack(data)) == data


@pytest.mark.parametrize("codec", READERS)
@few
@given(PAYLOADS)
def test_other_libraries_read_our_compressed_data(codec: Compression, data: bytes) -> None:
    assert READERS[codec](compress(codec, data)) == data


@each_row("name", [name for name in OTHERS if name != "bare snappy"])
def test_several_members_are_one_payload(name: str) -> None:
    codec, pack = OTHERS[name]
    large = Random(1).randbytes(200_000)
    assert decompress(codec, pack(b"one ") + pack(b"") + pack(large) + pack(b" three")) == b"one " + large + b" three"


@pytest.mark.parametrize("codec", PACKED)
def test_levels_are_the_codecs_own(codec: Compression) -> None:
    data = bytes(Random(2).choices(b"abcdefg ", k=50_000))
    for level in (1, 9):
        assert decompress(codec, compress(codec, data, level)) == data
    assert (compress(codec, data, 9) == compress(codec, data, 1)) is (codec is Compression.SNAPPY)


@pytest.mark.parametrize("codec", PACKED)
def test_no_part_of_a_payload_is_taken_for_all_of_it(codec: Compression) -> None:
    whole = compress(codec, Random(3).randbytes(500) + b"tail" * 500)
    for cut in range(len(whole)):
        # snappy's framing may end after any block, so this cut can't be noticed
        if codec is Compression.SNAPPY and cut == 16:
            continue
        with pytest.raises(Malformed):
            decompress(codec, whole[:cut])


@pytest.mark.parametrize("codec", PACKED)
def test_bytes_after_a_payload_are_malformed(codec: Compression) -> None:
    for behind in (b"\0", b"garbage, longer than any header"):
        with pytest.raises(Malformed):
            decompress(codec, compress(codec, b"data") + behind)


@pytest.mark.parametrize("codec", PACKED)
@few
@given(st.data())
def test_damaged_payloads_unfold_or_are_malformed(codec: Compression, data: st.DataObject) -> None:
    whole = bytearray(compress(codec, b"some text " * 40))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    with suppress(Malformed, OverBudget):
        assert len(decompress(codec, bytes(whole), MEGABYTE)) <= MEGABYTE


@pytest.mark.parametrize("codec", PACKED)
@few
@given(st.binary(max_size=100))
def test_noise_is_malformed_or_small(codec: Compression, noise: bytes) -> None:
    with suppress(Malformed, OverBudget):
        assert len(decompress(codec, noise, MEGABYTE)) <= MEGABYTE


def zeros(codec: Compression) -> bytes:
    """400 MiB of zeros in few bytes: the codecs' own frames, repeated if possible"""
    packed = compress(codec, bytes(100 * MEGABYTE), 9)
    return packed * 4


@pytest.mark.parametrize("codec", PACKED)
def test_a_bomb_is_stopped_at_the_limit_and_costs_no_more(codec: Compression) -> None:
    bomb = zeros(codec)
    decompress(codec, compress(codec, b"imports first"))
    for limit in (MEGABYTE, 8 * MEGABYTE):
        with pytest.raises(OverBudget, match=f"unfolding makes more than {limit} bytes"):
            decompress(codec, bomb, limit)
        # some libraries hold a copy of the input
        assert peak_of(partial(decompress, codec, bomb, limit)) < limit + ALLOWANCE + 2 * len(bomb)


@each_row("codec", BATCH_CODECS)
def test_the_limit_itself_is_allowed(codec: Compression) -> None:
    data = Random(4).randbytes(1000) * 300
    packed = compress(codec, data)
    assert decompress(codec, packed, len(data)) == data
    with pytest.raises(OverBudget):
        decompress(codec, packed, len(data) - 1)


@pytest.mark.real
def test_many_small_members_take_no_longer_than_their_bytes() -> None:
    """A megabyte of empty members: a copy of all later bytes for each of them would take minutes."""
    for codec in (Compression.GZIP, Compression.LZ4, Compression.ZSTD):
        empty = compress(codec, b"")
        assert decompress(codec, empty * (MEGABYTE // len(empty))) == b""


def test_the_limit_is_a_multiple_of_what_brokers_take() -> None:
    assert DEFAULT_LIMIT == 64 * MEGABYTE


@pytest.mark.parametrize("codec", PACKED)
def test_a_piece_is_unfolded_when_it_is_requested(codec: Compression) -> None:
    """A caller that reads the beginning pays only for it: a few pieces of 128 KiB, or of snappy's blocks."""
    budget = Budget()
    pieces = unfold(codec, zeros(codec), budget.unfolded)
    first = next(pieces)
    assert len(first) <= budget.size - budget.unfolded.left <= MEGABYTE


@few
@given(st.sampled_from(PACKED), st.lists(st.binary(max_size=300), max_size=4), st.integers(1, 1000))
def test_pieces_are_never_empty_and_make_the_whole(codec: Compression, parts: list[bytes], times: int) -> None:
    plain = [part * times for part in parts]
    packed = b"".join(compress(codec, part) for part in plain)
    pieces = list(unfold(codec, packed, Budget().unfolded)) if plain else []
    assert all(pieces)
    assert b"".join(pieces) == b"".join(plain)


def test_an_unknown_codec_is_malformed_to_read_and_an_error_to_write() -> None:
    with pytest.raises(Malformed, match="unknown codec"):
        decompress(Compression.UNKNOWN, b"data")
    with pytest.raises(ValueError, match="unknown codec"):
        compress(Compression.UNKNOWN, b"data")
