"""Rows that stand below each other, each under its name: bars, groups along time, partitions as a map.

A name stands above its row, not beside it, so that a long name has room on a phone too, and rows with the same
shortened name stay distinct. Positions are in pixels, and computed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import altair as alt

from recorder.analysis.summary.bounds import Timeline
from recorder.report.plots.shapes import HUES, INK, LINE, MUTED, Bar, Cells, Lane
from recorder.report.plots.style import FONT_SIZE, Layer, Spec, label, layered

PADDING = {"left": 2, "right": 8, "top": 2, "bottom": 2}
# The height of a line of letters, and the room below a row.
_NAME_HEIGHT, _ROOM = 18, 10
_BAR_HEIGHT, _LANE_HEIGHT = 12, 34
# A partition's square, and the room beside it: small enough for thousands of partitions, large enough to be seen.
_CELL, _CELL_ROOM = 13, 2
# Lengths of time between two marks of the time axis, and the least pixels between them.
_STEPS_S = (
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600),
    *(7200, 10_800, 21_600, 43_200, 86_400, 2 * 86_400, 7 * 86_400, 28 * 86_400, 364 * 86_400),
)
_PIXELS_A_TIME, _TICK = 90, 4
_SECOND_NS = 10**9
# The shortest span (in seconds) for each format of a time.
_FORMATS = ((3 * 86_400, "%d %b"), (600, "%H:%M"), (0, "%H:%M:%S"))
# The average width of a letter in pixels, to know if two texts fit into one line.
_LETTER = 6.2


def bars(shown: Sequence[Bar], width: int) -> Spec:
    """The rows as bars, the pieces of a row below each other, all on one scale."""
    longest = max((piece.length for bar in shown for piece in bar.pieces), default=0) or 1
    step = _NAME_HEIGHT + _BAR_HEIGHT + _ROOM
    names = [_name(bar.name, bar.beside, at * step) for at, bar in enumerate(shown)]
    rows = [row for at, bar in enumerate(shown) for row in _pieces(bar, at * step + _NAME_HEIGHT, width / longest)]
    return _drawn(width, step * len(shown), _rectangles(rows), *_texts(names, width))


def _pieces(bar: Bar, y: int, scale: float) -> Iterator[dict[str, Any]]:
    height = _BAR_HEIGHT // max(len(bar.pieces), 1)
    for at, piece in enumerate(bar.pieces):
        if piece.length > 0:
            top = y + at * height
            # even the smallest piece is visible
            yield {"x": 0, "x2": max(piece.length * scale, 1), "y": top, "y2": top + height, "colour": piece.colour}


def lanes(timeline: Timeline, shown: Sequence[Lane], width: int) -> Spec:
    """The rows as lanes above a time axis; the height of a value is relative to its lane's largest value."""
    step = _NAME_HEIGHT + _LANE_HEIGHT + _ROOM
    names = [_name(lane.name, lane.beside, at * step) for at, lane in enumerate(shown)]
    base = [_ground(at * step + _NAME_HEIGHT + _LANE_HEIGHT, width) for at in range(len(shown))]
    placed = [(lane, at * step + _NAME_HEIGHT) for at, lane in enumerate(shown)]
    spans = [row for lane, y in placed for row in _spans(timeline, lane, y, width)]
    values = [row for lane, y in placed for row in _values(timeline, lane, y, width)]
    bottom = step * len(shown)
    times = [*_times(timeline, width, bottom)]
    ticks = [
        _ground(bottom, width),
        *({**_ground(bottom, 1), "x": at["x"], "x2": at["x2"], "y2": bottom + _TICK} for at in times),
    ]
    drawn = _rectangles(base + spans + values + ticks)
    labels = Layer(_text("name", "x", align="center", color=MUTED), times)
    return _drawn(width, bottom + _NAME_HEIGHT, drawn, *_texts(names, width), labels)


def _ground(y: int, width: int) -> dict[str, Any]:
    return {"x": 0, "x2": width, "y": y, "y2": y + 1, "colour": LINE}


def _spans(timeline: Timeline, lane: Lane, y: int, width: int) -> Iterator[dict[str, Any]]:
    for span in lane.spans:
        x, x2 = (_x(timeline, at_ns, width) for at_ns in (span.from_ns, span.to_ns))
        # even a rebalance of a second in a day is visible
        yield {"x": x, "x2": max(x2, x + 2), "y": y, "y2": y + _LANE_HEIGHT, "colour": span.colour}


def _values(timeline: Timeline, lane: Lane, y: int, width: int) -> Iterator[dict[str, Any]]:
    most = max((value for value in lane.values if value), default=0)
    for at, value in enumerate(lane.values[: timeline.bins]):
        if value and most > 0:
            x, x2 = (_x(timeline, timeline.begin_ns(index), width) for index in (at, at + 1))
            # values take a part of a lane's height; marked stretches show in the rest
            height = max(value / most * _LANE_HEIGHT * 0.8, 1)
            bottom = y + _LANE_HEIGHT
            yield {"x": x, "x2": x2, "y": bottom - height, "y2": bottom, "colour": HUES[0]}


def _times(timeline: Timeline, width: int, bottom: int) -> Iterator[dict[str, Any]]:
    """The marks of the time axis below the lanes, in UTC: as many as have room."""
    first, last = timeline.first_at_ns // _SECOND_NS, timeline.last_at_ns // _SECOND_NS
    most = max(width // _PIXELS_A_TIME, 1)
    longer = -(-(last - first) // (most * _STEPS_S[-1])) * _STEPS_S[-1]
    step = next((step for step in _STEPS_S if (last - first) / step <= most), longer)
    shown = next(shown for least, shown in _FORMATS if last - first >= least)
    for at in range(-(-first // step) * step, last + 1, step):
        x = _x(timeline, at * _SECOND_NS, width)
        # a label is centred on its mark, and must not be cut off
        if _PIXELS_A_TIME / 3 <= x <= width - _PIXELS_A_TIME / 3:
            with suppress(OverflowError, ValueError, OSError):
                name = f"{datetime.fromtimestamp(at, UTC):{shown}}"
                yield {"x": x, "x2": x + 1, "y": bottom + _TICK + _NAME_HEIGHT / 2, "name": name}


def _x(timeline: Timeline, at_ns: int, width: int) -> float:
    share = (at_ns - timeline.first_at_ns) / (timeline.last_at_ns - timeline.first_at_ns)
    return round(min(max(share, 0), 1) * width, 1)


def cells(shown: Sequence[Cells], width: int) -> Spec:
    """A square for each cell, in as many lines as a row needs."""
    a_line = max((width + _CELL_ROOM) // (_CELL + _CELL_ROOM), 1)
    names, rows, y = [], [], 0
    for one in shown:
        names.append(_name(one.name, one.beside, y))
        rows += _cells(one, y + _NAME_HEIGHT, a_line)
        y += _NAME_HEIGHT + -(-len(one.colours) // a_line) * (_CELL + _CELL_ROOM) + _ROOM
    return _drawn(width, y, _rectangles(rows), *_texts(names, width))


def _cells(one: Cells, top: int, a_line: int) -> list[dict[str, Any]]:
    """The squares, ordered by colour, so that equal ones follow each other in the markup."""
    squares = [_square(at % a_line, at // a_line, top, colour) for at, colour in enumerate(one.colours)]
    return sorted(squares, key=lambda row: str(row["colour"]))


def _square(column: int, line: int, top: int, colour: str) -> dict[str, Any]:
    x, y = column * (_CELL + _CELL_ROOM), top + line * (_CELL + _CELL_ROOM)
    return {"x": x, "x2": x + _CELL, "y": y, "y2": y + _CELL, "colour": colour}


def _name(name: str, beside: str, y: int) -> dict[str, Any]:
    return {"name": name, "beside": beside, "y": y + _NAME_HEIGHT / 2}


def _texts(names: Iterable[dict[str, Any]], width: int) -> Iterator[Layer]:
    """Each name to the left, the text beside it to the right; a name with too little room is shortened."""
    rows = [{**row, "name": label(row["name"], _letters(row["beside"], width)), "x": 0, "x2": width} for row in names]
    yield Layer(_text("name", "x", align="left", color=INK), rows)
    yield Layer(_text("beside", "x2", align="right", color=MUTED), rows)


def _text(field: str, x: str, **style: Any) -> alt.Chart:
    marks = alt.Chart().mark_text(baseline="middle", fontSize=FONT_SIZE + 1, **style)
    placed: alt.Chart = marks.encode(x=f"{x}:Q", y="y:Q", text=f"{field}:N")
    return placed


def _letters(beside: str, width: int) -> int:
    return max(int(width / _LETTER) - len(beside) - 4, 12)


def _rectangles(rows: Sequence[dict[str, Any]]) -> Layer:
    colour = alt.Color("colour:N", scale=None)
    marks = alt.Chart().mark_rect(strokeWidth=0)
    return Layer(marks.encode(x="x:Q", x2="x2:Q", y="y:Q", y2="y2:Q", color=colour), rows)


def _drawn(width: int, height: int, *layers: Layer) -> Spec:
    """The specification of layers whose positions are in pixels: x from the left, y from the top."""
    x = alt.X(axis=None, scale=alt.Scale(domain=[0, width], nice=False, zero=False))
    y = alt.Y(axis=None, scale=alt.Scale(domain=[0, max(height, 1)], nice=False, zero=False, reverse=True))
    return layered(layers, PADDING, {"x": x, "y": y}, width=width, height=max(height, 1))
