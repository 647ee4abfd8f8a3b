"""Series along the capture's timeline: in a sentence, as lines, as stacked bars."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from recorder.analysis.summary.bounds import Series, Timeline, Top
from recorder.report.listings import clock, short
from recorder.report.plots.shapes import HUES, MUTED, REST, Key, Line, Plot, StackedBars, plot
from recorder.terminal import count, duration


def counted(of: str) -> Callable[[int], str]:
    """Puts a number of these into words."""
    return lambda number: count(number, of)


def busiest(timeline: Timeline, series: Series, words: Callable[[int], str]) -> str:
    """A sentence about a series' usual and largest bin."""
    known = [(value, at) for at, value in enumerate(series.values[: timeline.bins]) if value]
    if not known:
        return "Nothing at all."
    most, at = max(known)
    when = clock(timeline)(timeline.begin_ns(at))
    each = duration(timeline.bin_ns)
    if len(known) == 1:
        return f"{words(round(most))}, from {when} on for {each}; none before or after."
    empty = timeline.bins - len(known)
    if 2 * empty >= timeline.bins:
        in_one = f"at most {words(round(most))} in one (from {when} on)"
        return f"Nothing in {count(empty)} of {count(timeline.bins, 'bin')} of {each}, {in_one}."
    usual = sorted([0.0] * empty + [value for value, _ in known])[timeline.bins // 2]
    return f"Usually {words(round(usual))} in {each}, and up to {words(round(most))} (from {when} on)."


def stacked(
    timeline: Timeline, series: Top[Series], question: str, unit: str, words: Callable[[int], str]
) -> Iterator[Plot]:
    """A plot of stacked bars: of the largest series, and of all others together."""
    shown = coloured(timeline, series)
    if shown:
        answer = busiest(timeline, summed(timeline, [one for one, _ in shown]), words)
        keys = tuple(Key(short(one.name, 40), colour) for one, colour in shown)
        yield plot(question, answer, StackedBars(timeline, 170, shown, unit), keys)


def coloured(timeline: Timeline, series: Top[Series]) -> tuple[tuple[Series, str], ...]:
    """The series that have values, each with its colour; those for which there is no colour are one."""
    known = [one for one in series if any(one.known)]
    rest = known[len(HUES) :] + ([series.other] if series.other else [])
    others = ((Series("other", summed(timeline, rest).values), REST),) if any(any(one.known) for one in rest) else ()
    return (*zip(known, HUES, strict=False), *others)


def summed(timeline: Timeline, series: Iterable[Series]) -> Series:
    """The sum of the series in each bin."""
    padded = [(*one.values, *[None] * timeline.bins)[: timeline.bins] for one in series]
    return Series("all", tuple(sum(value or 0 for value in values) for values in zip(*padded, strict=True)))


def percentile_lines(usual_ms: Series, slow_ms: Series) -> tuple[Line, Line]:
    """The p50 as background, and the p99."""
    return Line(_positive(usual_ms), MUTED, is_thin=True), Line(_positive(slow_ms), HUES[0])


def _positive(series: Series) -> Series:
    """The series without zeros, which a logarithmic axis can't show; no real latency is 0."""
    return Series(series.name, tuple(value or None for value in series.values))
