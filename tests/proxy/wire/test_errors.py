import pytest

from proxy.wire.errors import Malformed, Truncated, WireError, in_bytes, naming


@pytest.mark.parametrize("kind", [Truncated, Malformed])
def test_wire_error_catches_every_kind(kind: type[WireError]) -> None:
    with pytest.raises(WireError, match=r"^Fetch v12 at byte 7: why$"):
        raise kind("why", api="Fetch", version=12, offset=7)


def test_an_error_says_what_is_known() -> None:
    assert str(Malformed("why")) == "why"
    assert str(Malformed("why", offset=0)) == "at byte 0: why"
    assert str(Malformed("why", api="Fetch", version=0)) == "Fetch v0: why"


def test_the_innermost_name_stays() -> None:
    with pytest.raises(Malformed, match=r"^inner: so$"), naming("outer", 3), naming("inner"):
        raise Malformed("so")
    with pytest.raises(Truncated, match=r"^outer v3 at byte 4: so$"), naming("outer", 3):
        raise Truncated("so", offset=4)


def test_a_single_byte_is_written_in_the_singular() -> None:
    assert [in_bytes(size) for size in (-1, 0, 1, 2)] == ["-1 bytes", "0 bytes", "1 byte", "2 bytes"]
