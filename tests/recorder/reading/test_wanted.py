"""Tests of ids as expressions."""

from __future__ import annotations

import pyarrow as pa

from recorder.reading.wanted import Wanted


def test_no_id_is_no_expression() -> None:
    assert Wanted().expression is None


def test_a_frame_must_match_all_ids() -> None:
    table = pa.table({"session": ["a-1", "a-2", "b-1"], "connection": [1, 2, 1], "kind": ["request"] * 3})
    wanted = Wanted(sessions=("a",), connections=(1,), kinds=("request", "response"))
    assert table.filter(wanted.expression)["session"].to_pylist() == ["a-1"]
