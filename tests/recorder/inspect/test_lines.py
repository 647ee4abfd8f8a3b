"""Lists as lines: times, ids, directions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from recorder.inspect.lines import FRAME_TITLES, aligned, frame_line, header, moment

Make = Callable[..., dict[str, Any]]


def test_moments_are_utc_to_the_microsecond() -> None:
    assert moment(1795262400_000_001_999) == "2026-11-21 12:00:00.000001"


@pytest.mark.parametrize(("kind", "arrow"), [("request", "->"), ("response", "<-"), ("token", "->")])
def test_an_arrow_tells_who_sent_it(make_request: Make, kind: str, arrow: str) -> None:
    row = {"note": None, "masked": None, "latency_ns": None, **make_request(0, 1, 0, 3, 12), "kind": kind}
    assert f" {arrow} " in frame_line(row)


def test_what_is_out_of_the_ordinary_stands_at_the_end(make_request: Make) -> None:
    row = make_request(0, 1, 0, 0, 9, awaits=False, masked=[{"start": 1, "length": 1}], note="odd", latency_ns=None)
    assert frame_line(row).endswith("app, odd, one-way, masked")


def test_cells_stand_below_their_titles() -> None:
    line = aligned(FRAME_TITLES, ["t", "id", "c", "->", "1", "api", "2", "3", "4", "rest"])
    assert line.index("api") == header(FRAME_TITLES).index("api")
    assert line.endswith("rest")
