"""The section on partitions, their load and replicas: words, tables, a plot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from recorder.analysis.summary.bounds import Table
from recorder.analysis.summary.sections.partitions import NO_LEADER, Partition
from recorder.analysis.summary.whole import Summary
from recorder.report.listings import (
    bytes_of,
    id_of,
    listing,
    name,
    number,
    short,
    times,
)
from recorder.report.plots.shapes import BAD, HEAT, REST, CellMap, Cells, Key, Plot, plot
from recorder.report.section import SectionText, section
from recorder.terminal import count

# A partition has the colour of the first level that its load, as a multiple of an even share, does not exceed.
_SKEWS = (0.25, 0.75, 1.25, 2, 3)
# Rows of the table of uneven partitions: the map shows the others.
_BUSIEST = 20


def partitions(summary: Summary) -> SectionText:
    """The section of partitions: their load, and the partitions that lack replicas."""
    found = summary.partitions
    lacking = [one for one in found.partitions if one.is_short_of_replicas]
    uneven = sorted((one for one in found.partitions if one.skew), key=lambda one: -(one.skew or 0))
    lead = ""
    if found.partitions.rows:
        lead = f"{count(found.partitions.total, 'partition')} on {count(len(found.nodes), 'node')}"
        lead += f"; {count(len(lacking))} short of replicas." if lacking else "."
    return section(
        "partitions",
        "Partitions",
        found,
        (lead,),
        listing("Short of replicas", _PARTITIONS, Table(tuple(lacking))),
        listing("Busiest for their topic", _PARTITIONS, Table(tuple(uneven[:_BUSIEST]), total=len(uneven))),
        listing("Nodes", _NODES, found.nodes),
        nothing="No partition was written to or read from.",
        plots=_plots(summary),
    )


_PARTITIONS = (
    name("topic", lambda row: row.topic, is_name=True),
    id_of("partition", lambda row: row.partition),
    name("leader", lambda row: "none" if row.leader == NO_LEADER else row.leader, is_spare=True, is_fixed=True),
    number("of an even share", lambda row: row.skew, times),
    bytes_of("written", lambda row: row.written_bytes, is_spare=True),
    bytes_of("read", lambda row: row.read_bytes, is_spare=True),
    number("in sync", lambda row: row.in_sync, is_spare=True),
    number("replicas", lambda row: row.replicas, is_spare=True),
)
_NODES = (
    id_of("node", lambda row: row.node),
    number("leads partitions", lambda row: row.partitions),
    bytes_of("written", lambda row: row.written_bytes),
    bytes_of("read", lambda row: row.read_bytes),
)


def _answer(rows: Sequence[Partition]) -> Iterator[str]:
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


def _plots(summary: Summary) -> Iterator[Plot]:
    by_topic: dict[str, list[Partition]] = {}
    for one in summary.partitions.partitions:
        by_topic.setdefault(one.topic, []).append(one)
    if not by_topic:
        return
    answer = " ".join(_answer(summary.partitions.partitions.rows))
    shown = tuple(_cells(topic, sorted(rows, key=lambda one: one.partition)) for topic, rows in by_topic.items())
    names = ("a quarter of an even share", "three quarters", "an even share", "twice", "three times", "more")
    keys = [Key(*both) for both in zip(names, HEAT, strict=True)]
    used = {colour for one in shown for colour in one.colours}
    keys += [key for key in (Key("short of replicas", BAD), Key("no traffic", REST)) if key.colour in used]
    yield plot("Is the load even over a topic's partitions?", answer, CellMap(shown), tuple(keys))
