"""The plots of a capture's report, by section: each asks a question in its title and answers it in a sentence.

A plot that needs the page's whole width is drawn twice, for wide and for narrow screens: letters keep their size, and
the page's style shows one of the two. The sentence is also the drawing's text for screen readers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from markupsafe import Markup

from recorder.analysis.summary.bounds import Series, Timeline
from recorder.analysis.summary.sections.groups import Group, Rebalance
from recorder.analysis.summary.sections.latency import LONG_MS, LatencyOfApi
from recorder.analysis.summary.sections.partitions import Partition
from recorder.analysis.summary.sections.topics import TopicTotals
from recorder.analysis.summary.whole import Summary
from recorder.report.listings import clock, milliseconds, share, short, times
from recorder.report.plots import lanes, over_time
from recorder.report.plots.drawing import svg
from recorder.report.plots.dumbbells import domain, stepped
from recorder.report.plots.lanes import Bar, Cells, Lane, Piece, Span
from recorder.report.plots.over_time import Canvas, Line
from recorder.report.plots.style import BAD, HEAT, HUES, MUTED, REST, WARN, Spec
from recorder.report.sections.cluster import LATE
from recorder.report.sections.traffic import label_of, slowest
from recorder.terminal import count, duration, size

# Widths in pixels: of a wide page's content, of a 380-pixel phone's content, and of a third of the former.
WIDE, NARROW, SMALL = 1000, 336, 322
# The most plots beside each other, and the most stacked series: a reader can't distinguish more.
MOST_SMALL, MOST_STACKED = 6, len(HUES)
# A partition has the colour of the first level that its load, as a multiple of an even share, does not exceed.
_SKEWS = (0.25, 0.75, 1.25, 2, 3)
# Causes of unwanted rebalances.
_BAD_CAUSES = ("lost", "fenced")


class Key(NamedTuple):
    """A colour of a plot, and its meaning."""

    name: str
    colour: str


class Drawing(NamedTuple):
    """A drawing. `narrow`: that for narrow screens; None: `wide` serves both. `name`: set if it has neighbours."""

    wide: Markup
    narrow: Markup | None = None
    name: str = ""


class Plot(NamedTuple):
    """A question, the sentence that answers it, drawings, and the meanings of their colours."""

    question: str
    answer: str
    drawings: tuple[Drawing, ...]
    keys: tuple[Key, ...] = ()


def plots(summary: Summary) -> dict[str, list[Plot]]:
    """The plots of each section, by the section's id."""
    judged = (section for section in _PLOTS if getattr(summary, section).not_judged is None)
    return {section: [*_PLOTS[section](summary)] for section in judged}


def _both(draw: Callable[[int], Spec], answer: str) -> tuple[Drawing, ...]:
    return (Drawing(svg(draw(WIDE), answer), svg(draw(NARROW), answer)),)


def _coverage(summary: Summary) -> Iterator[Plot]:
    found = summary.coverage
    if not any(found.exchanges_over_time.known):
        return
    lost = found.lost_over_time
    answer = _busiest(summary.timeline, found.exchanges_over_time, _counted("request"))
    answer += " Frames are missing where the ground is red." if any(lost.known) else ""
    shown = [(found.exchanges_over_time, HUES[0])]

    def draw(width: int) -> Spec:
        return over_time.bars(Canvas(summary.timeline, width, 130), shown, "requests", lost)

    yield Plot("How busy was it, and is all of it here?", answer, _both(draw, answer))


def _counted(of: str) -> Callable[[int], str]:
    return lambda number: count(number, of)


def _busiest(timeline: Timeline, series: Series, words: Callable[[int], str]) -> str:
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


def _latency(summary: Summary) -> Iterator[Plot]:
    rows = [row for row in summary.latency.apis if row.wait is None and any(row.slow_ms.known)][:MOST_SMALL]
    if rows:
        values = [value for row in rows for one in (row.usual_ms, row.slow_ms) for value in one.known if value > 0]
        over = domain(values or [1])
        drawings = tuple(_of_api(summary.timeline, row, over) for row in rows)
        keys = Key("p50, half of the answers", MUTED), Key("p99, the slowest hundredth", HUES[0])
        yield Plot("Which API was slow, and when?", f"{slowest(summary.latency.apis.rows)}.", drawings, keys)
    yield from _heat(summary)


def _of_api(timeline: Timeline, row: LatencyOfApi, over: tuple[float, float]) -> Drawing:
    series = [Line(_positive(row.usual_ms), MUTED, is_thin=True), Line(_positive(row.slow_ms), HUES[0])]
    spec = over_time.lines(Canvas(timeline, SMALL, 120), series, "ms", over)
    most = max(row.slow_ms.known)
    return Drawing(svg(spec, f"{label_of(row)}: p99 up to {milliseconds(most)}"), name=label_of(row))


def _positive(series: Series) -> Series:
    """The series without zeros, which a logarithmic axis can't show; no real latency is 0."""
    return Series(series.name, tuple(value or None for value in series.values))


def _heat(summary: Summary) -> Iterator[Plot]:
    cells, long = summary.latency.heat.rows, summary.latency.long
    if not cells:
        return
    total = sum(cell.count for cell in cells)
    answer = f"The latencies of {count(total, 'answer')}."
    if long is not None and total:
        answer = f"{count(long)} of {count(total, 'answer')} ({share(long / total)}) took {LONG_MS} ms or longer."

    def draw(width: int) -> Spec:
        return over_time.heat(Canvas(summary.timeline, width, 240), cells)

    most = max(cell.count for cell in cells)
    keys = tuple(Key("1 answer" if not at else "", colour) for at, colour in enumerate(HEAT[:-1]))
    yield Plot(
        "Was all work slow, or only some?", answer, _both(draw, answer), (*keys, Key(f"up to {count(most)}", HEAT[-1]))
    )


def _delivery(summary: Summary) -> Iterator[Plot]:
    found = summary.delivery
    values = [value for one in (found.usual_ms, found.slow_ms) for value in one.known if value > 0]
    if not values:
        return
    usual = sorted(found.usual_ms.known or [0])
    answer = f"Half of the batches usually arrive within {milliseconds(usual[len(usual) // 2])}"
    answer += f"; p99 was up to {milliseconds(max(found.slow_ms.known))}." if found.slow_ms.known else "."
    series = [Line(_positive(found.usual_ms), MUTED, is_thin=True), Line(_positive(found.slow_ms), HUES[0])]

    def draw(width: int) -> Spec:
        return over_time.lines(Canvas(summary.timeline, width, 160), series, "ms", stepped(values))

    keys = Key("p50", MUTED), Key("p99", HUES[0])
    yield Plot("How long did records take to a consumer?", answer, _both(draw, answer), keys)


def _errors(summary: Summary) -> Iterator[Plot]:
    yield from _stacked(
        summary,
        summary.errors.over_time.rows,
        summary.errors.over_time.other,
        "When were errors answered?",
        "errors",
        _counted("error"),
    )


def _stacked(
    summary: Summary,
    rows: tuple[Series, ...],
    other: Series | None,
    question: str,
    unit: str,
    words: Callable[[int], str],
) -> Iterator[Plot]:
    """A plot of stacked bars: of the largest series, and of all others together."""
    shown = [*_coloured(summary.timeline, rows, other)]
    if not shown:
        return
    total = _sum(summary.timeline, [series for series, _ in shown])
    answer = _busiest(summary.timeline, total, words)

    def draw(width: int) -> Spec:
        return over_time.bars(Canvas(summary.timeline, width, 170), shown, unit)

    keys = tuple(Key(short(series.name, 40), colour) for series, colour in shown)
    yield Plot(question, answer, _both(draw, answer), keys)


def _coloured(timeline: Timeline, rows: Iterable[Series], other: Series | None) -> Iterator[tuple[Series, str]]:
    known = [series for series in rows if any(series.known)]
    yield from zip(known, HUES, strict=False)
    rest = known[MOST_STACKED:] + ([other] if other else [])
    if any(any(series.known) for series in rest):
        yield Series("other", _sum(timeline, rest).values), REST


def _sum(timeline: Timeline, series: list[Series]) -> Series:
    padded = [(*one.values, *[None] * timeline.bins)[: timeline.bins] for one in series]
    return Series("all", tuple(sum(value or 0 for value in values) for values in zip(*padded, strict=True)))


def _traffic(summary: Summary) -> Iterator[Plot]:
    found = summary.traffic
    yield from _stacked(
        summary,
        found.bytes_over_time.rows,
        found.bytes_over_time.other,
        "Which APIs carry the bytes, and when?",
        "bytes",
        size,
    )


def _topics(summary: Summary) -> Iterator[Plot]:
    rows = [row for row in summary.topics.totals if row.kept_bytes or row.read_bytes]
    if not rows:
        return
    unread = [row.topic for row in rows if row.kept_bytes and not row.read_bytes]
    were = "was" if len(unread) == 1 else "were"
    answer = f"{count(len(unread))} of {count(len(rows), 'topic')} {were} written and never read"
    answer += f": {', '.join(short(name, 40) for name in unread[:3])}." if unread else "."
    bars = [_bar_of_topic(row) for row in rows]
    keys = Key("written", HUES[0]), Key("read", HUES[1])
    drawn = _both(lambda width: lanes.bars(bars, width), answer)
    yield Plot("What is written, and how often is it read?", answer, drawn, keys)


def _bar_of_topic(row: TopicTotals) -> Bar:
    written = f"{count(row.writers, 'writer')} {size(row.kept_bytes)}"
    read = f"{count(row.readers, 'reader')} {size(row.read_bytes)}"
    return Bar(row.topic, f"{written}, {read}", (Piece(row.kept_bytes, HUES[0]), Piece(row.read_bytes, HUES[1])))


def _groups(summary: Summary) -> Iterator[Plot]:
    found = summary.groups
    if not found.groups.rows:
        return
    behind = [row.group for row in found.groups if row.is_behind]
    answer = f"No group is {LATE} at the end."
    if behind:
        names = ", ".join(short(name, 40) for name in behind[:3])
        answer = f"{LATE.capitalize()} at the end: {names} ({len(behind)} of {count(len(found.groups), 'group')})."
    shown = [_lane(summary.timeline, row, found.rebalances.rows) for row in found.groups]
    keys = (
        Key("lag, relative to the group's most", HUES[0]),
        Key("rebalance", WARN),
        Key("member lost or fenced", BAD),
    )
    drawn = _both(lambda width: lanes.lanes(summary.timeline, shown, width), answer)
    yield Plot("Which groups fall behind, and what did rebalances do?", answer, drawn, keys)


def _lane(timeline: Timeline, row: Group, rebalances: Iterable[Rebalance]) -> Lane:
    most = f"lag up to {count(row.most_lag)}, {count(row.last_lag or 0)} at the end" if row.most_lag else ""
    beside = most or ("no lag" if row.most_lag == 0 else "lag not known")
    spans = tuple(_span(one) for one in rebalances if one.group == row.group)
    return Lane(row.group, beside, row.lag.values, spans)


def _span(one: Rebalance) -> Span:
    return Span(one.from_ns, one.to_ns or one.from_ns, BAD if one.cause in _BAD_CAUSES else WARN)


def _partitions(summary: Summary) -> Iterator[Plot]:
    by_topic: dict[str, list[Partition]] = {}
    for one in summary.partitions.partitions:
        by_topic.setdefault(one.topic, []).append(one)
    if not by_topic:
        return
    answer = " ".join(_answer_on_partitions(summary.partitions.partitions.rows))
    shown = [_cells(topic, sorted(rows, key=lambda one: one.partition)) for topic, rows in by_topic.items()]
    names = ("a quarter of an even share", "three quarters", "an even share", "twice", "three times", "more")
    keys = [Key(*both) for both in zip(names, HEAT, strict=True)]
    used = {colour for one in shown for colour in one.colours}
    keys += [key for key in (Key("short of replicas", BAD), Key("no traffic", REST)) if key.colour in used]
    drawn = _both(lambda width: lanes.cells(shown, width), answer)
    yield Plot("Is the load even over a topic's partitions?", answer, drawn, tuple(keys))


def _answer_on_partitions(rows: Sequence[Partition]) -> Iterator[str]:
    """Sentences about each colour that a partition can have, other than that of an even share."""
    worst = max(rows, key=lambda one: one.skew or 0)
    least, most = _SKEWS[1:3]
    loaded = [row.skew for row in rows if row.skew is not None]
    if (worst.skew or 0) > most:
        yield f"{short(worst.topic, 60)} {worst.partition} carries {times(worst.skew or 0)} an even share of its topic."
    elif loaded and min(loaded) > least:
        yield "Each partition with traffic carries about an even share of its topic."
    elif loaded:
        yield "No partition carries over a quarter more than an even share of its topic."
    if few := sum(skew <= least for skew in loaded):
        yield f"Three quarters of an even share or less: {count(few)} of {count(len(rows), 'partition')}."
    if idle := len(rows) - len(loaded):
        yield f"No traffic: {count(idle)} of {count(len(rows), 'partition')}."
    if short_of := sum(row.is_short_of_replicas for row in rows):
        yield f"Short of replicas: {count(short_of, 'partition')}."


def _cells(topic: str, rows: list[Partition]) -> Cells:
    colours = tuple(BAD if row.is_short_of_replicas else _heat_of(row.skew) for row in rows)
    return Cells(topic, count(len(rows), "partition"), colours)


def _heat_of(skew: float | None) -> str:
    if skew is None:
        return REST
    return HEAT[sum(skew > limit for limit in _SKEWS)]


def _clients(summary: Summary) -> Iterator[Plot]:
    rows = [row for row in summary.clients.software if row.requests]
    if not rows:
        return
    cut = sum(row.cut for row in rows)
    answer = f"{count(cut, 'client')} would be refused by a broker of Kafka 4." if cut else ""
    bars = [
        Bar(
            " ".join(filter(None, (row.software, row.version))),
            f"{count(row.clients, 'client')}, {count(row.requests, 'request')}",
            (Piece(row.requests, BAD if row.cut else HUES[0]),),
        )
        for row in rows
    ]
    keys = (Key("refused by Kafka 4", BAD),) if cut else ()
    drawn = _both(lambda width: lanes.bars(bars, width), answer or "Requests by software.")
    yield Plot("With what software do clients come?", answer, drawn, keys)


def _metadata(summary: Summary) -> Iterator[Plot]:
    shown = [*_coloured(summary.timeline, summary.metadata.over_time.rows, summary.metadata.over_time.other)]
    if not shown:
        return
    changes = _sum(summary.timeline, [series for series, _ in shown]).values
    most, at = max((value or 0, -at) for at, value in enumerate(changes))
    when = clock(summary.timeline)(summary.timeline.begin_ns(-at))
    total = round(sum(value or 0 for value in changes))
    answer = f"{count(total, 'change')} of partitions and nodes, {count(round(most))} of them from {when} on."

    def draw(width: int) -> Spec:
        return over_time.bars(Canvas(summary.timeline, width, 130), shown, "changes")

    keys = tuple(Key(series.name, colour) for series, colour in shown)
    yield Plot("When did the cluster change?", answer, _both(draw, answer), keys)


def _connections(summary: Summary) -> Iterator[Plot]:
    found = summary.connections
    if not any(found.opened.known):
        return
    answer = _busiest(summary.timeline, found.opened, _counted("new connection"))

    def draw(width: int) -> Spec:
        return over_time.bars(Canvas(summary.timeline, width, 120), [(found.opened, HUES[0])], "opened")

    yield Plot("When did clients connect?", answer, _both(draw, answer))


_PLOTS: dict[str, Callable[[Summary], Iterator[Plot]]] = {
    "coverage": _coverage,
    "latency": _latency,
    "delivery": _delivery,
    "errors": _errors,
    "traffic": _traffic,
    "topics": _topics,
    "groups": _groups,
    "partitions": _partitions,
    "clients": _clients,
    "metadata": _metadata,
    "connections": _connections,
}
