"""A replay's result on a terminal: the verdict, counts by API, and only those tables that have contents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from proxy.terminal import harmless, printable
from recorder.replay.durations import PERCENTILES, Durations
from recorder.replay.outcome import ApiCounts, FromBefore, ReachedTarget, RefusedCounts, Result, Source, Verdict
from recorder.replay.results import words
from recorder.terminal import Cell, Column, cell, count, duration, fitted, typed

# mismatches and streams that are listed here; a report has more
MOST_LISTED = 10
STYLES = {Verdict.EQUAL: "bold green", Verdict.TOLERATED: "bold yellow"}
_BAD = "bold red"
_APIS = (
    Column("API", style="cyan", least=18),
    Column("recorded", True, rank=4),
    Column("sent", True),
    Column("answered", True, rank=3),
    Column("withheld", True, rank=1),
    Column("lost", True, rank=2),
    Column("retried", True, rank=5),
    Column("differ", True),
)
_LATENCY = (
    Column("API", style="cyan", least=18),
    Column("answers", True, rank=3),
    Column("p50", True, rank=1),
    Column("now", True, rank=1),
    Column("p95", True, rank=2),
    Column("now", True, rank=2),
    Column("p99", True),
    Column("now", True),
)
_LATENESS = (
    Column("cause"),
    Column("requests", True, rank=2),
    Column("p50", True, rank=1),
    Column("p95", True, rank=1),
    Column("p99", True),
    Column("most", True),
)
_UNANSWERED = (Column("requests", True), Column("reason"), Column("APIs", rank=1))
_REASONS = (Column("requests", True), Column("parts", True, rank=2), Column("reason"), Column("APIs", rank=1))
_STREAMS = (Column("consumer", rank=1), Column("topic"), Column("partition", True, rank=2), Column("records", least=16))
_STOOD_STILL = (Column("time", True), Column("waiting for", least=30))
_BEFORE = (Column("count", True), Column("what"), Column("of", least=16))
_ASSIGNED = (Column("group"), Column("partitions and tasks", least=30))
_LEFT_OPEN = (Column("what, and why", least=30),)
_MADE = (Column("requests", True), Column("purpose"))
_MISMATCHES = (
    Column("no.", True),
    Column("alike", True),
    Column("first exchange", rank=3, least=30),
    Column("API", style="cyan", least=18),
    Column("differs", rank=2),
    Column("first difference", rank=1, least=20),
)


def summary(result: Result, width: int, report: str | None = None) -> Iterator[RenderableType]:
    """All parts of the result, with blank lines between them.

    `report`: the file that the result was written to, if any.
    """
    yield from _head(result)
    for part in (
        _left_open,
        _refused,
        _maybe_twice,
        _apis,
        _withheld,
        _unanswered,
        _latency,
        _lateness,
        _stood_still,
        _streams,
        _before,
        _assigned,
        _made,
        _mismatches,
    ):
        if table := part(result, width):
            yield Text()
            yield table
    if result.mismatches:
        yield Text()
        yield from _command(result, report)


def _head(result: Result) -> Iterator[RenderableType]:
    facts = facts_table("replayed", result.source, result.target, words.took(result), result.options)
    line = Text(str(result.verdict), style=STYLES.get(result.verdict, _BAD))
    facts.add_row("verdict", line.append(f": {words.verdict(result)}", style="default"))
    yield facts


def facts_table(what: str, source: Source, target: ReachedTarget, at: str, options: Sequence[str]) -> Table:
    """The source, target, time and options. `what`: the verb for the source."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    facts = {what: words.source(source), "to": words.target(target), "at": at, "with": ", ".join(options)}
    for name, said in facts.items():
        if said:
            table.add_row(name, cell(said))
    return table


def _left_open(result: Result, width: int) -> RenderableType | None:
    rows: list[list[Cell]] = [[Text(printable(one), style=_BAD)] for one in result.left_open[:MOST_LISTED]]
    return fitted(words.left_open(result), _LEFT_OPEN, rows, width) if rows else None


def _refused(result: Result, width: int) -> RenderableType | None:
    return refused_line(result.refused)


def refused_line(found: RefusedCounts) -> RenderableType | None:
    """What the recording refused; None if it refused nothing."""
    return Text(words.refused(found)) if any(found) else None


def _maybe_twice(result: Result, width: int) -> RenderableType | None:
    return Text(words.maybe_twice(result), style="bold yellow") if result.maybe_twice else None


def _apis(result: Result, width: int) -> RenderableType | None:
    busiest = sorted(result.apis.items(), key=lambda item: (-item[1].recorded, item[0]))
    rows = [_counts(name, counts) for name, counts in busiest]
    if len(rows) > 1:
        rows.append([Text("all"), *_counts("", result.totals)[1:]])
    return fitted("Requests by API", _APIS, rows, width) if rows else None


def _counts(name: str, of: ApiCounts) -> list[Cell]:
    return [
        name,
        *(count(of.recorded), count(of.sent), count(of.answered)),
        *(_unless_zero(of.withheld.total(), "bold yellow"), _unless_zero(of.lost, _BAD)),
        *(_unless_zero(of.retried, ""), _unless_zero(of.mismatches.total(), _BAD)),
    ]


def _unless_zero(number: int, style: str) -> Cell:
    return Text(count(number), style=style) if number else "-"


def _withheld(result: Result, width: int) -> RenderableType | None:
    return withheld_table(
        {(api, reason): number for api, counts in result.apis.items() for reason, number in counts.withheld.items()},
        result.totals.partitions,
        width,
    )


def withheld_table(requests: dict[tuple[str, str], int], partitions: Counter[str], width: int) -> RenderableType | None:
    """Requests withheld by (API, reason), and parts of sent requests by reason; None if there are none."""
    by_reason, apis = Counter[str](), dict[str, Counter[str]]()
    for (api, reason), number in requests.items():
        by_reason[reason] += number
        apis.setdefault(reason, Counter())[api] += number
    rows = [
        [
            *(_unless_zero(by_reason[reason], "bold yellow"), _unless_zero(partitions[reason], "bold yellow")),
            *(reason, words.by_api(apis.get(reason, Counter()))),
        ]
        for reason, _ in (by_reason + partitions).most_common()
    ]
    return fitted("Withheld", _REASONS, rows, width) if rows else None


def _unanswered(result: Result, width: int) -> RenderableType | None:
    rows = [[count(apis.total()), reason, words.by_api(apis)] for reason, apis in result.unanswered()]
    return fitted("Sent, without an answer", _UNANSWERED, rows, width) if rows else None


def _latency(result: Result, width: int) -> RenderableType | None:
    busiest = sorted(result.latency.items(), key=lambda item: (-item[1].replayed.count, item[0]))
    rows = []
    for label, both in busiest:
        values: list[Cell] = []
        for _, share in PERCENTILES:
            values += [words.milliseconds(both.recorded.quantile(share)), _slower(both.recorded, both.replayed, share)]
        rows.append([label, count(both.replayed.count), *values])
    return fitted("Latency in ms: recorded, and now", _LATENCY, rows, width) if rows else None


def _slower(recorded: Durations, replayed: Durations, share: float) -> Cell:
    """The replayed quantile, marked if it is more than twice the recorded one."""
    before, now = recorded.quantile(share), replayed.quantile(share)
    return cell(words.milliseconds(now), "yellow" if now and before is not None and now > 2 * before else "")


def _lateness(result: Result, width: int) -> RenderableType | None:
    causes = sorted(result.lateness.items(), key=lambda item: -item[1].most_ns)
    rows = [_late("every request, punctual ones too", result.late)]
    rows += [_late(f"of it: {cause}", found) for cause, found in causes]
    return fitted("How late requests left, in ms", _LATENESS, rows, width) if result.late.most_ns else None


def _late(what: str, found: Durations) -> Sequence[Cell]:
    return [
        what,
        count(found.count),
        *(words.milliseconds(found.quantile(share)) for _, share in PERCENTILES),
        words.milliseconds(found.most_ns),
    ]


def _stood_still(result: Result, width: int) -> RenderableType | None:
    longest = sorted(result.stood_still_ns.items(), key=lambda item: (-item[1], item[0]))[:MOST_LISTED]
    rows = [[duration(ns), what] for what, ns in longest if ns]
    return fitted("Nothing moved, waiting for", _STOOD_STILL, rows, width) if rows else None


def _streams(result: Result, width: int) -> RenderableType | None:
    if not result.streams:
        return None
    unlike = [one for one in result.streams if one.differs or one.unread]
    if not unlike:
        return Text(f"Records read: {words.records_read(result)}.")
    rows = [[one.consumer, one.topic, str(one.partition), words.stream(one)] for one in unlike[:MOST_LISTED]]
    listed = f"; the first {MOST_LISTED}" if len(unlike) > MOST_LISTED else ""
    return fitted(f"Records read: {words.records_read(result)}{listed}", _STREAMS, rows, width)


def _before(result: Result, width: int) -> RenderableType | None:
    return before_table(result.before, width)


def before_table(found: Sequence[FromBefore], width: int) -> RenderableType | None:
    """What is from before the recording; None if nothing is."""
    rows = [[count(each.count), each.kind.value, each.name] for each in found[:MOST_LISTED]]
    listed = f"; the first {MOST_LISTED}" if len(found) > MOST_LISTED else ""
    title = f"From before the recording, so not expected: {words.from_before(found)}{listed}"
    return fitted(title, _BEFORE, rows, width) if rows else None


def _assigned(result: Result, width: int) -> RenderableType | None:
    rows = [[one.group, words.assigned(one)] for one in result.assigned[:MOST_LISTED]]
    return fitted("Groups whose assignments differ", _ASSIGNED, rows, width) if rows else None


def _made(result: Result, width: int) -> RenderableType | None:
    return made_table(result.made, width)


def made_table(made: Counter[str], width: int) -> RenderableType | None:
    """The replay's own requests by purpose; None if there are none."""
    rows = [[count(number), purpose] for purpose, number in made.most_common()]
    return fitted("Made by the replay itself", _MADE, rows, width) if rows else None


def _mismatches(result: Result, width: int) -> RenderableType | None:
    groups = words.alike(result.mismatches)
    title = f"Answers that differ ({printable(words.kinds(result))}), {words.kept(result)}"
    rows = [_mismatch(group) for group in groups[:MOST_LISTED]]
    return fitted(title, _MISMATCHES, rows, width) if rows else None


def _mismatch(group: words.Alike) -> list[Cell]:
    found = group.found
    told = words.first_difference(found)
    return [str(group.number), count(group.times), words.exchange_id(found), found.api, found.kind, told]


def _command(result: Result, report: str | None) -> Iterator[Text]:
    what = "Both answers of no. 1" if report else "No. 1 as recorded (--report FILE keeps both answers)"
    yield Text(f"{what}:")
    # on a line of its own, to be copied
    yield Text(harmless(words.command(result, 1, report, typed())), style="bold")
