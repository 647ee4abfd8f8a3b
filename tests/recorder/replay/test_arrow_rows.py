"""Tests of the quick way from Arrow's columns to rows: the same values as Arrow's own, slow one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from recorder.replay.stream import quick_rows
from tests.tables import each_row

INTEGERS = [getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)]


def bounds(kind: Any) -> tuple[int, int]:
    bits = kind.bit_width
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if pa.types.is_signed_integer(kind) else (0, (1 << bits) - 1)


@each_row("kind", INTEGERS, ids=str)
@given(data=st.data())
def test_integers_are_arrows_own_wherever_a_slice_begins(kind: Any, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.integers(*bounds(kind)) | st.none(), max_size=20))
    start = data.draw(st.integers(0, len(values)))
    column = pa.array(values, kind).slice(start, data.draw(st.integers(0, 20)))
    assert [*quick_rows(pa.table({"n": column}))] == [(value,) for value in column.to_pylist()]


@given(values=st.lists(st.sampled_from(["a", "b", "", None])), start=st.integers(0, 9))
def test_texts_are_arrows_own_wherever_a_slice_begins(values: list[str | None], start: int) -> None:
    column = pa.array(values, pa.string()).slice(start)
    assert [*quick_rows(pa.table({"s": column}))] == [(value,) for value in column.to_pylist()]


def test_rows_of_many_batches_come_in_order() -> None:
    table = pa.concat_tables([pa.table({"n": [*range(start, start + 300)], "s": ["x"] * 300}) for start in (0, 300)])
    assert [*quick_rows(table)] == [(number, "x") for number in range(600)]
