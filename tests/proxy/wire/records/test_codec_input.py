"""Tests of the beginning of all codecs: their library, and input in pieces."""

import sys

import pytest

from proxy.wire.errors import Malformed
from proxy.wire.records import Compression, compress, decompress
from proxy.wire.records.codec_input import next_piece


def test_input_is_fed_in_small_pieces() -> None:
    """A large piece would be copied once for each member that ends in it."""
    data = memoryview(bytes(20_000))
    piece, at = next_piece(data, 10, "member")
    assert (len(piece), at) == (8192, 8202)
    piece, at = next_piece(data, 19_990, "member")
    assert (len(piece), at) == (10, 20_000)
    with pytest.raises(Malformed, match="a member that does not end"):
        next_piece(data, at, "member")


@pytest.mark.parametrize(
    ("codec", "module", "package"),
    [
        (Compression.SNAPPY, "snappy", "python-snappy"),
        (Compression.LZ4, "lz4.frame", "lz4"),
        (Compression.ZSTD, "zstandard", "zstandard"),
    ],
)
def test_a_missing_library_is_named(
    codec: Compression, module: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = compress(codec, b"data")
    monkeypatch.setitem(sys.modules, module, None)
    for run in (lambda: compress(codec, b"data"), lambda: decompress(codec, packed)):
        with pytest.raises(ModuleNotFoundError, match=f"the package {package}"):
            run()
