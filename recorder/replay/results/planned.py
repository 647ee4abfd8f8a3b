"""The plan of a replay on a terminal (`--dry-run`): what would be sent where, withheld, and touched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from proxy.command_line import folded
from proxy.terminal import printable
from recorder.replay.outcome import Plan, Touched
from recorder.replay.results import words
from recorder.replay.results.summary import before_table, facts_table, made_table, refused_line, withheld_table
from recorder.terminal import Cell, Column, count, fitted

# names of each kind that are listed
MOST_NAMES = 50
# the column of requests whose node only an answer tells
LATER = "later"
_TOUCHED = (Column("name", least=20), Column("requests", True), Column("is"))


def whole_plan(plan: Plan, width: int) -> Iterator[RenderableType]:
    """All parts of the plan, with blank lines between them."""
    yield facts_table("would play", plan.source, plan.target, "", plan.options)
    yield Text()
    yield Text(words.planned(plan), style="bold")
    for line in plan.refusals:
        yield _line("refused", line, width, "bold red")
    for line in plan.notes:
        yield _line("note", line, width)
    for table in _tables(plan, width):
        yield Text()
        yield table


def _line(what: str, line: str, width: int, style: str = "") -> RenderableType:
    return Text("\n".join(folded(f"{what}: {printable(line)}", width)), style=style)


def _tables(plan: Plan, width: int) -> Iterator[RenderableType]:
    if plan.requests:
        yield _sent(plan, width)
    if refused := refused_line(plan.refused):
        yield refused
    if withheld := withheld_table(plan.withheld, plan.partitions, width):
        yield withheld
    if before := before_table(plan.before, width):
        yield before
    if made := made_table(plan.made, width):
        yield made
    for title, touched in (("topic", plan.topics), ("group", plan.groups), ("transactional id", plan.transactions)):
        if touched:
            yield _touched(title, touched, width)


def _sent(plan: Plan, width: int) -> RenderableType:
    """Requests by API, with a column for each target node. Columns of the last nodes are left out first."""
    nodes = sorted(plan.target.nodes.keys() | {node for _, node in plan.sent if node is not None})
    later = [None] if any(node is None for _, node in plan.sent) else []
    columns = [Column("API", style="cyan", least=18), Column("requests", True)]
    columns += [Column(f"node {node}", True, rank=at) for at, node in enumerate(nodes, 2)]
    columns += [Column(LATER, True, rank=1) for _ in later]
    rows: list[list[Cell]] = []
    for api, number in plan.requests.most_common():
        rows.append([api, count(number), *(_or_dash(plan.sent[api, node]) for node in (*nodes, *later))])
    table = fitted("What would be sent where", columns, rows, width)
    return (
        Group(table, _line(LATER, "only an answer of the target will tell the node", width, "dim")) if later else table
    )


def _or_dash(number: int) -> str:
    return count(number) if number else "-"


def _touched(what: str, touched: Sequence[Touched], width: int) -> RenderableType:
    """The names of one kind, written ones first."""
    written = sum(one.is_written for one in touched)
    title = f"{count(len(touched), what)}, {count(written)} written"
    listed = sorted(touched, key=lambda one: (not one.is_written, -one.requests, one.name))[:MOST_NAMES]
    rows = [[one.name, count(one.requests), _use(one)] for one in listed]
    more = f", the first {MOST_NAMES} of them" if len(touched) > MOST_NAMES else ""
    return fitted(f"Touches {title}{more}", _TOUCHED, rows, width)


def _use(touched: Touched) -> Cell:
    return Text("written", style="bold yellow") if touched.is_written else "read"
