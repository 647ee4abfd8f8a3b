"""Tests of lists on terminals of any width: no line is too wide, and no word is lost."""

from __future__ import annotations

import pytest

from recorder.inspect.layouts import Cells, layout
from recorder.inspect.lines import EXCHANGE_LAYOUTS, EXCHANGE_TITLES, FRAME_LAYOUTS, FRAME_TITLES

CELLS = {"time": "2026-11-21 12:00:01.500123", "client": "192.168.100.100:50001", "node": "1001", "ver": "12"}
CELLS |= {"frame": "1234/56789", "exchange": "1234/e56789", "direction": "<-", "size": "99.9 MB", "ms": "300123"}
CELLS |= {"api": "StreamsGroupTopologyDescriptionUpdate", "sent": "1.2 kB", "received": "99.9 MB"}
LONG = ["orders-service-7f9c6d5b8-x2x9z,", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "x12,", "long poll"]
BOTH = pytest.mark.parametrize(
    ("layouts", "titles", "name"),
    [(FRAME_LAYOUTS, FRAME_TITLES, "frame"), (EXCHANGE_LAYOUTS, EXCHANGE_TITLES, "exchange")],
    ids=["frames", "exchanges"],
)


@BOTH
@pytest.mark.parametrize("width", [40, 41, 55, 56, 60, 79, 80, 99, 100, 139, 140, 160, 300])
def test_no_line_is_wider_than_the_terminal_and_no_word_is_lost(layouts, titles, name: str, width: int) -> None:
    chosen = layout(layouts, titles, width)
    lines = [chosen.header, *chosen.lines([Cells(CELLS, " ".join(LONG))])]
    assert max(map(len, lines)) <= width
    # a word that is wider than the terminal is broken
    said = "".join("".join(lines).split())
    for word in (CELLS["api"], CELLS[name], CELLS["ms"], "2026-11-21", "12:00:01.500", *" ".join(LONG).split()):
        assert word in said


@BOTH
@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_a_usual_line_stays_one(layouts, titles, name: str, width: int) -> None:
    usual = CELLS | {"api": "Metadata", name: "4/17", "ms": "1.25", "client": "127.0.0.1:50001"}
    day = [] if width >= 140 else ["2026-11-21"]
    assert len([*layout(layouts, titles, width).lines([Cells(usual, "billing-0")])]) == 1 + len(day)


@BOTH
def test_a_pipe_gets_every_column_and_no_fold(layouts, titles, name: str) -> None:
    chosen = layout(layouts, titles, None)
    (line,) = chosen.lines([Cells(CELLS, "x" * 500)])
    assert line.endswith("x" * 500)
    assert all(CELLS[column] in line for column, _ in chosen.columns)


@BOTH
def test_each_new_day_has_a_line_of_its_own_where_times_have_no_date(layouts, titles, name: str) -> None:
    moments = ["2026-11-21 23:59:59.000000", "2026-11-21 23:59:59.500000", "2026-11-22 00:00:00.000000"]
    lines = [*layout(layouts, titles, 80).lines(Cells(CELLS | {"time": moment}, "") for moment in moments)]
    days = [number for number, line in enumerate(lines) if line.startswith("2026")]
    assert [lines[number] for number in days] == ["2026-11-21", "2026-11-22"]
    assert lines[days[1] + 1].startswith("00:00:00.000")


def test_cells_stand_below_their_titles() -> None:
    chosen = layout(FRAME_LAYOUTS, FRAME_TITLES, 160)
    (line,) = chosen.lines([Cells(CELLS, "rest")])
    assert line.index(CELLS["frame"]) == chosen.header.index("frame")
    assert line.index(CELLS["node"]) + 4 == chosen.header.index("node") + 4
