"""The page docs/findings.md: every rule as RULES has it."""

from __future__ import annotations

from collections.abc import Iterator

from proxy.wire.apis import api_name
from recorder.analysis.findings.judge import MIN_CASES, MIN_OF, MUCH
from recorder.analysis.findings.rule import Need, Rule
from recorder.analysis.findings.rules import RULES
from recorder.analysis.findings.windows import LASTING, NEAR
from recorder.analysis.summary.words import measure

_HEAD = f"""\
# Findings

Made by `make docs`, of the rules themselves. `kafka-wiretap report` applies them all ([analysis.md](analysis.md)).

- Rules that must *last* fire if they are true in {LASTING} of {NEAR} windows that follow each other, with at least
  {MIN_CASES} cases in all; where cases are a share of something, of at least {MIN_OF}. Windows are a minute, in
  captures of less than 10 minutes 5 s. A session's first and last window are left out: clients begin and end there.
- All other rules fire at a single case.
- A rule that can't be judged says why: the capture is too short, or none of the bodies that the rule reads was kept.
- Where more than {100 * MUCH:g} % of the frames fell into gaps, or of the answers could not be read, measures are
  "at least".
- `--thresholds FILE` (TOML: `slow = 5`) sets from where on a rule fires.
- Evidence are up to five exchanges or connections: the worst of each of the worst windows.

| rule | asks | fires at | lasts | needs bodies of | severity |
|---|---|---|---|---|---|"""


def page() -> Iterator[str]:
    """The lines of the page."""
    yield from _HEAD.splitlines()
    for rule in RULES:
        yield (
            f"| [{rule.name}](#{rule.name}) | {rule.question} | {measure(rule.threshold, rule.unit)} | "
            f"{'yes' if rule.must_last else ''} | {_bodies(rule)} | {rule.severity.value} |"
        )
    for rule in RULES:
        doc = " ".join((rule.find.__doc__ or "").split())
        yield from ("", f"## {rule.name}", doc, "", f"> {rule.says}", "", f"**What to do:** {rule.advice}")


def _bodies(rule: Rule) -> str:
    if Need.PRODUCED in rule.needs:
        return "Produce"
    if Need.BODIES not in rule.needs:
        return ""
    return ", ".join(api_name(key) or str(key) for key in rule.reads) or "any"
