"""Tests of zeros in place of record data that was left out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire import records


@given(st.binary(max_size=60), st.lists(st.booleans(), max_size=60))
def test_zeros_stand_where_bytes_were_left_out(data: bytes, is_left_out: list[bool]) -> None:
    gone = [at for at, gone in enumerate(is_left_out[: len(data)]) if gone]
    kept = bytes(byte for at, byte in enumerate(data) if at not in gone)
    expected = bytes(0 if at in gone else byte for at, byte in enumerate(data))
    assert records.with_blanks(kept, [(at, 1) for at in gone]) == expected


@pytest.mark.parametrize(
    "spans",
    [[(2, 3), (4, 1)], [(-1, 1)], [(5, -1)], [(0, 1 << 62), (1 << 62, -1)]],
    ids=["overlap", "-1", "<0", "huge"],
)
def test_spans_that_are_none_take_no_memory(spans: list[tuple[int, int]]) -> None:
    with pytest.raises(ValueError, match="don't lie in order"):
        records.with_blanks(b"kept", spans)
