import cramjam
import pytest

from proxy.wire.errors import Malformed, OverBudget
from proxy.wire.primitives import uvarint
from proxy.wire.records import Compression, compress, decompress
from tests.tables import each_row

# the header of snappy-java's SnappyCodec
HEADER = bytes.fromhex("82534e4150505900 00000001 00000001")


def raw(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


def framed(*blocks: bytes) -> bytes:
    return b"".join(len(block).to_bytes(4, "big") + block for block in map(raw, blocks))


def test_blocks_in_javas_framing_follow_each_other() -> None:
    assert decompress(Compression.SNAPPY, HEADER + framed(b"one ", b"two ", b"three")) == b"one two three"


def test_headers_may_repeat_where_streams_were_concatenated() -> None:
    data = HEADER + framed(b"one ") + HEADER + HEADER + framed(b"two") + HEADER
    assert decompress(Compression.SNAPPY, data) == b"one two"


def test_versions_of_the_framing_are_not_looked_at() -> None:
    other = HEADER.replace(b"\0\0\0\1", b"\0\0\0\2")
    assert decompress(Compression.SNAPPY, other + framed(b"data")) == b"data"


def test_a_block_without_framing_is_read() -> None:
    assert decompress(Compression.SNAPPY, raw(b"librdkafka " * 5000)) == b"librdkafka " * 5000


def test_written_snappy_has_javas_framing_and_block_size() -> None:
    data = bytes(range(256)) * 300
    written = compress(Compression.SNAPPY, data)
    assert written.startswith(HEADER)
    sizes, at = [], len(HEADER)
    while at < len(written):
        end = at + 4 + int.from_bytes(written[at : at + 4], "big")
        sizes.append(len(cramjam.snappy.decompress_raw(written[at + 4 : end])))
        at = end
    assert sizes == [32768, 32768, 76800 - 65536]


@each_row(
    ("data", "reason"),
    [
        (b"", "no snappy block: the bytes end inside a varint"),
        (HEADER + b"\0\0\0\5abc", "a snappy stream that does not end"),
        (HEADER + b"\xff\xff\xff\xff", "a snappy stream that does not end"),
        (HEADER + b"\0\0\0", "a snappy stream that does not end"),
        (HEADER[:12], "a snappy stream that does not end"),
        (b"\x05abc", "no snappy block"),
        (uvarint(60 << 20) + raw(b"x" * 100), "that says it holds"),
        (b"\xff\xff\xff\xff\x1f", "more than 32 bits"),
    ],
)
def test_bad_snappy_is_malformed(data: bytes, reason: str) -> None:
    with pytest.raises(Malformed, match=reason):
        decompress(Compression.SNAPPY, data)


def test_a_block_is_refused_for_what_it_says_before_it_is_unfolded() -> None:
    with pytest.raises(OverBudget, match="unfolding makes more than"):
        decompress(Compression.SNAPPY, uvarint(65 << 20) + bytes(5 << 20))
