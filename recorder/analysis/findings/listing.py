"""The page docs/findings.md: every rule in RULES."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter

from proxy.wire.apis import api_name
from recorder.analysis.findings.causes import CAUSES, Joined
from recorder.analysis.findings.judge import MUCH
from recorder.analysis.findings.rule import Need, Otherwise, Rule
from recorder.analysis.findings.rules import RULES
from recorder.analysis.summary.sections.findings import LASTING, MIN_CASES, MIN_OF, NEAR
from recorder.analysis.summary.words import measure

_HEAD = f"""\
# Findings

`make docs` writes this page from the rules. `kafka-wiretap report` applies them all ([analysis.md](analysis.md)).

- A rule that must *last* fires if it is true in {LASTING} of {NEAR} consecutive windows, with at least {MIN_CASES}
  cases in all. If its cases are a share, the whole must be at least {MIN_OF}, or all of it must be cases. A window is a
  minute, or 5 s in captures of less than 10 minutes. A session's first and last window don't count, because clients
  begin and end there.
- All other rules fire at a single case, unless their threshold is higher. Those that count, count over the whole
  capture.
- The numbers of a rule that lasts, or that measures ten windows, are those of the worst window. The sentence says when
  that was ("at worst"); the finding's own time is that of all windows in which the rule is true.
- Findings with one cause are one finding, with its [consequences](#causes-and-consequences) under it.
- Rules about errors leave out those that are a normal step of the protocol. Errors about a topic, leader or coordinator
  that is not known yet count from 30 s after the client first got them.
- A rule that can't be judged says why: the capture is too short, or none of the bodies that the rule reads was kept.
- Measures are "at least" if more than {100 * MUCH:g} % of the frames fell into gaps, or if more than
  {100 * MUCH:g} % of the answers could not be read.
- `--thresholds FILE` (TOML: `slow = 5`) sets the value at which a rule fires.
- The evidence is up to five exchanges or connections: the worst one of each of the worst windows.

| rule | asks | fires at | lasts | needs bodies of | severity |
|---|---|---|---|---|---|"""


_CAUSES = """
## Causes and consequences
A finding stands under another one if the table has both rules, their times overlap, and the cause explains all clients
or nodes that the finding is about. The first row that fits wins. A cause is as severe as the worst of its consequences,
and only its advice is shown. `compare` compares consequences as findings of their own.

| cause | consequences | with the same |
|---|---|---|"""
_SHARED = {Joined.BY_CLIENT: "client, time", Joined.BY_NODE: "node, time", Joined.BY_TIME: "time"}


def page() -> Iterator[str]:
    """The lines of the page."""
    yield from _HEAD.splitlines()
    for rule in RULES:
        yield (
            f"| [{rule.name}](#{rule.name}) | {rule.question} | {measure(rule.threshold, rule.unit)} | "
            f"{'yes' if rule.must_last else ''} | {_bodies(rule)} | {rule.severity.value} |"
        )
    yield from _CAUSES.splitlines()
    for (consequences, by), rows in groupby(CAUSES, key=attrgetter("consequences", "by")):
        yield f"| {_links(row.rule for row in rows)} | {_links(consequences)} | {_SHARED[by]} |"
    for rule in RULES:
        doc = " ".join((rule.find.__doc__ or "").split())
        yield from ("", f"## {rule.name}", doc)
        yield from _told(rule)
        if rule.otherwise is not None:
            yield from _told(rule.otherwise)


def _links(rules: Iterable[str]) -> str:
    return ", ".join(f"[{name}](#{name})" for name in rules)


def _told(rule: Rule | Otherwise) -> Iterator[str]:
    yield from ("", f"> {rule.says}", "", f"**What to do:** {rule.advice}")


def _bodies(rule: Rule) -> str:
    if Need.PRODUCED in rule.needs:
        return "Produce"
    if Need.BODIES not in rule.needs:
        return ""
    return ", ".join(api_name(key) or str(key) for key in rule.reads) or "any"
