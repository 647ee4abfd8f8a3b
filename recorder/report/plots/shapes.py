"""What a plot shows, as values: its question and answer, shapes, colours. The packages that draw are not needed.

`drawn.py` makes drawings of them. Colours are the page's CSS variables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from recorder.analysis.summary.bounds import Series, Timeline
from recorder.analysis.summary.sections.latency import HeatCell

INK, MUTED, LINE = "var(--ink)", "var(--muted)", "var(--line)"
WARN, BAD = "var(--warn)", "var(--bad)"
# The colours of things without an order, used one after the other; all remaining things share the last one.
HUES = tuple(f"var(--{name})" for name in ("blue", "teal", "amber", "rose", "violet"))
REST = "var(--grey)"
# From few to many.
HEAT = tuple(f"var(--heat{level})" for level in range(1, 7))


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a bar: its length, in a unit that all rows share, and its colour."""

    length: float
    colour: str


@dataclass(frozen=True, slots=True)
class Bar:
    """A row: its name, the text to the right of it, its pieces."""

    name: str
    beside: str
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Bars:
    """Rows of bars under their names."""

    rows: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Span:
    """A marked stretch of time in a lane."""

    from_ns: int
    to_ns: int
    colour: str


@dataclass(frozen=True, slots=True)
class Lane:
    """A row along time: its name, the text to the right of it, a value for each bin, and marked stretches."""

    name: str
    beside: str
    values: tuple[float | None, ...]
    spans: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class Lanes:
    """Rows along the timeline, under their names."""

    timeline: Timeline
    rows: tuple[Lane, ...]


@dataclass(frozen=True, slots=True)
class Cells:
    """A row of a map: its name, the text to the right of it, a colour for each cell."""

    name: str
    beside: str
    colours: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CellMap:
    """Rows of cells under their names."""

    rows: tuple[Cells, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """A series as a line. `is_thin`: the line is background for a more important one."""

    series: Series
    colour: str
    is_thin: bool = False


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines along the timeline. `domain`: the first and last value of a logarithmic axis. `height`: in pixels."""

    timeline: Timeline
    height: int
    lines: tuple[Line, ...]
    unit: str
    domain: tuple[float, float]


@dataclass(frozen=True, slots=True)
class StackedBars:
    """A bar for each bin of the timeline: coloured series, stacked in their order. `lost`: bins that are marked."""

    timeline: Timeline
    height: int
    series: tuple[tuple[Series, str], ...]
    unit: str
    lost: Series | None = None


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Cells along the timeline, by duration."""

    timeline: Timeline
    height: int
    cells: tuple[HeatCell, ...]


Shape = Bars | Lanes | CellMap | Lines | StackedBars | HeatMap


class Key(NamedTuple):
    """A colour of a plot, and its meaning."""

    name: str
    colour: str


class Panel(NamedTuple):
    """A shape. `words`: its content, for screen readers. `name`: set if it has neighbours; it is small then."""

    shape: Shape
    words: str
    name: str = ""


class Plot(NamedTuple):
    """A question, the sentence that answers it, what is drawn, and the meanings of its colours."""

    question: str
    answer: str
    panels: tuple[Panel, ...]
    keys: tuple[Key, ...] = ()


def plot(question: str, answer: str, shape: Shape, keys: tuple[Key, ...] = (), words: str = "") -> Plot:
    """A plot with one shape, over the page's whole width. `words`: for screen readers; "": the answer."""
    return Plot(question, answer, (Panel(shape, words or answer),), keys)
