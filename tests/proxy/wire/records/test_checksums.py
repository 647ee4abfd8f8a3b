import sys
import zlib
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.records import Record, TimestampType, checksums, read, write_message_set
from proxy.wire.records.checksums import CHOICES, crc32c, fastest
from tests.tables import each_row

# RFC 3720, appendix B.4, and the catalogue's check value
KNOWN = [
    (bytes(32), 0x8A9136AA),
    (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E),
    (bytes(range(31, -1, -1)), 0x113FDB5C),
    (b"123456789", 0xE3069283),
    (b"", 0),
]


@pytest.fixture
def choosing() -> Iterator[None]:
    fastest.cache_clear()
    yield
    fastest.cache_clear()


@each_row(("data", "expected"), KNOWN)
@each_row("choose", CHOICES)
def test_every_implementation_computes_the_published_checksums(
    choose: checksums.Choice, data: bytes, expected: int
) -> None:
    compute = choose()
    for buf in (data, bytearray(data), memoryview(b"x" + data + b"y")[1:-1]):
        assert compute(buf, 0) == crc32c(buf) == expected


@given(st.binary(max_size=300))
def test_all_implementations_agree(data: bytes) -> None:
    assert len({choose()(data, 0) for choose in CHOICES}) == 1


@given(st.binary(max_size=300), st.integers(0, 300))
def test_bytes_in_two_pieces_have_the_checksum_of_the_whole(data: bytes, cut: int) -> None:
    for choose in CHOICES:
        compute = choose()
        assert compute(data[cut:], compute(data[:cut], 0)) == crc32c(data)


def test_message_sets_have_zlibs_crc32() -> None:
    written = write_message_set([Record(0, value=b"v")], magic=0)
    assert written[12:16] == zlib.crc32(written[16:]).to_bytes(4)
    assert list(read(written)) == [Record(0, value=b"v", timestamp_type=TimestampType.NONE)]


@pytest.mark.usefixtures("choosing")
def test_the_next_is_chosen_where_one_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = []
    for package in ("crc32c", "google_crc32c", "crcmod.predefined"):
        fastest.cache_clear()
        chosen.append(fastest())
        assert crc32c(b"123456789") == 0xE3069283
        monkeypatch.setitem(sys.modules, package, None)
    assert len(set(chosen)) == 3
    fastest.cache_clear()
    with pytest.raises(ModuleNotFoundError, match="crc32c, google-crc32c and crcmod"):
        crc32c(b"")
