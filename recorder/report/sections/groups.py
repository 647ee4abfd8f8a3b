"""The section on consumer groups, their lag and rebalances: words, tables, a plot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from recorder.analysis.summary.sections.groups import BEHIND_MS, Group, Rebalance
from recorder.analysis.summary.whole import Summary
from recorder.report.listings import (
    clock,
    id_of,
    listing,
    moment_of,
    name,
    number,
    short,
    time_of,
)
from recorder.report.plots.shapes import BAD, HUES, WARN, Key, Lane, Lanes, Plot, Span, plot
from recorder.report.section import SectionText, section
from recorder.terminal import count, duration

# Causes of unwanted rebalances.
_BAD_CAUSES = ("lost", "fenced")
# the words for `Group.is_behind`
_LATE_BY = duration(BEHIND_MS * 10**6)
_LATE, LATE_IN_SHORT = f"behind by {_LATE_BY} or more", f"behind by {_LATE_BY}"


def groups(summary: Summary) -> SectionText:
    """The section of groups: their lag, and the causes of their rebalances."""
    found, when = summary.groups, clock(summary.timeline)
    columns = (
        name("group", lambda row: row.group, is_name=True),
        name("protocol", lambda row: row.protocol, is_spare=True),
        number("members", lambda row: row.members, is_spare=True),
        number("peak", lambda row: row.most_members, is_spare=True),
        number("lag", lambda row: row.last_lag, tone=_of_lag, note=_OF_LAG),
        number("peak lag", lambda row: row.most_lag),
        time_of("behind", lambda row: row.last_lag_ms, is_spare=True, note=_OF_BEHIND),
        number("rebalances", lambda row: row.rebalances, is_spare=True),
        number("commits", lambda row: row.commits, is_spare=True),
        moment_of("stalled", lambda row: row.stalled_from_ns, when, tone=lambda row: "bad", note=_OF_STALLED),
        name("topics", lambda row: ", ".join(row.topics), is_spare=True),
    )
    rebalances = (
        moment_of("began", lambda row: row.from_ns, when),
        name("group", lambda row: row.group, is_name=True),
        number("took", lambda row: row.to_ns and row.to_ns - row.from_ns, duration),
        name("cause", lambda row: row.cause.replace("_", " ")),
        number("members", lambda row: row.members, is_spare=True),
        id_of("generation", lambda row: row.generation, is_spare=True),
        name("members say", lambda row: row.reason, is_spare=True),
    )
    behind = [one for one in found.groups if one.is_behind]
    lead = (
        f"{count(found.groups.total, 'group')}, {count(len(behind))} {_LATE} at the end." if found.groups.rows else ""
    )
    return section(
        "groups",
        "Groups",
        found,
        (lead,),
        listing("By group", columns, found.groups, note=_OF_GROUPS, is_small=True),
        listing("Rebalances", rebalances, found.rebalances),
        nothing="No consumer group was seen.",
        plots=_plots(summary),
    )


_OF_GROUPS = "At the end, with peaks."
_OF_LAG = "Lag: records between the last commit and the end of the log, as kafka-consumer-groups counts them."
_OF_BEHIND = "Behind: how long ago the log ended at the commit."
_OF_STALLED = "Stalled: nothing was committed since."


def _of_lag(row: Group) -> str:
    return "warn" if row.is_behind else ""


def _plots(summary: Summary) -> Iterator[Plot]:
    found = summary.groups
    if not found.groups.rows:
        return
    behind = [row.group for row in found.groups if row.is_behind]
    answer = f"No group is {_LATE} at the end."
    if behind:
        names = ", ".join(short(name, 40) for name in behind[:3])
        answer = f"{_LATE.capitalize()} at the end: {names} ({len(behind)} of {count(len(found.groups), 'group')})."
    lanes = tuple(_lane(row, found.rebalances.rows) for row in found.groups)
    keys = (
        Key("lag, relative to the group's most", HUES[0]),
        Key("rebalance", WARN),
        Key("member lost or fenced", BAD),
    )
    question = "Which groups fall behind, and what did rebalances do?"
    yield plot(question, answer, Lanes(summary.timeline, lanes), keys)


def _lane(row: Group, rebalances: Iterable[Rebalance]) -> Lane:
    most = f"lag up to {count(row.most_lag)}, {count(row.last_lag or 0)} at the end" if row.most_lag else ""
    beside = most or ("no lag" if row.most_lag == 0 else "lag not known")
    spans = tuple(_span(one) for one in rebalances if one.group == row.group)
    return Lane(row.group, beside, row.lag.values, spans)


def _span(one: Rebalance) -> Span:
    return Span(one.from_ns, one.to_ns or one.from_ns, BAD if one.cause in _BAD_CAUSES else WARN)
