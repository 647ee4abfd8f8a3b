"""Findings in words: the fault, its time, its measure, the advice, and the commands that show the evidence."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from recorder.analysis.summary.sections.findings import Evidence, Finding, Findings, Severity, Unit
from recorder.analysis.summary.whole import Summary
from recorder.analysis.summary.words import measure
from recorder.report.listings import Words, clock, short
from recorder.terminal import count, moment

# Sentences and advice are ours, but hold foreign names.
LONGEST_SENTENCE = 400
# Nobody types or copies a longer command; the sessions of a foreign capture may have names of any length.
LONGEST_COMMAND = 300
# Consequences that stand under a finding; JSON and events hold all of them.
MOST_CONSEQUENCES = 20
TONES = {Severity.CRITICAL: "bad", Severity.WARNING: "warn", Severity.NOTICE: "note"}
Show = Callable[[Evidence], str]


@dataclass(frozen=True, slots=True)
class Command:
    """A command, and a remark on its output."""

    line: str
    about: str


@dataclass(frozen=True, slots=True)
class FindingText:
    """A finding in words. `consequences`: what it causes, each without advice; `more`: the number of further ones."""

    number: int
    severity: str
    tone: str
    rule: str
    sentence: str
    subject: str
    when: str
    measured: str
    advice: str
    commands: tuple[Command, ...]
    consequences: tuple[FindingText, ...] = ()
    more: str = ""


def findings(summary: Summary, folder: str) -> list[FindingText]:
    """All findings, the worst first. `folder`: the capture's folder in the commands."""
    when = clock(summary.timeline)
    show = partial(shown, folder, is_only_session=summary.coverage.sessions.total == 1)
    return [_finding(number, one, show, when) for number, one in enumerate(summary.findings.in_order, 1)]


def finding(number: int, found: Finding, folder: str) -> FindingText:
    """A finding of the capture in `folder`, in full."""
    return _finding(number, found, partial(shown, folder), moment)


def _finding(number: int, found: Finding, show: Show, when: Words) -> FindingText:
    return FindingText(
        number=number,
        severity=found.severity.value,
        tone=TONES[found.severity],
        rule=short(found.rule),
        sentence=_full(found.sentence),
        subject=short(found.subject),
        when=_period(found, when),
        measured=_measured(found),
        advice=_full(found.advice),
        commands=tuple(command for one in found.evidence if (command := _command(one, found.unit, show, when))),
        consequences=tuple(
            _finding(at, one, show, when) for at, one in enumerate(found.consequences[:MOST_CONSEQUENCES], 1)
        ),
        more=_more(len(found.consequences) - MOST_CONSEQUENCES),
    )


def _more(number: int) -> str:
    return count(number, "further consequence") if number > 0 else ""


def _full(text: str) -> str:
    """A sentence with a full stop."""
    shown = short(text, LONGEST_SENTENCE)
    return shown if not shown or shown[-1] in ".!?…" else f"{shown}."


def _period(found: Finding, when: Words) -> str:
    if found.from_ns is None:
        return ""
    began = when(found.from_ns)
    return f"{began} to {when(found.to_ns)}" if found.to_ns not in (None, found.from_ns) else f"since {began}"


def _measured(found: Finding) -> str:
    """The measure beside its threshold."""
    if found.measure is None:
        return ""
    limit = f"; the rule fires at {measure(found.threshold, found.unit)}" if found.threshold else ""
    return measure(found.measure, found.unit) + limit


def _command(one: Evidence, unit: Unit, show: Show, when: Words) -> Command | None:
    line = show(one)
    if len(line) > LONGEST_COMMAND:
        return None
    about = [when(one.at_ns)] if one.at_ns is not None else []
    about += [measure(one.measure, unit)] if one.measure is not None else []
    return Command(line, ", ".join(about))


def shown(folder: str, one: Evidence, *, is_only_session: bool = False) -> str:
    """The command that shows a piece of evidence. `is_only_session`: the command leaves out the session's name."""
    found = one.id.removeprefix(f"{one.session}/") if is_only_session else one.id
    return shlex.join(["kafka-wiretap", "inspect", "show", folder, found])


def lines(found: Findings) -> Iterator[str]:
    """A line for each finding, the worst first, and one for each consequence, indented."""
    for one in found.in_order:
        yield f"  {one.severity.value}: {one.sentence}"
        for other in one.consequences:
            yield f"      {'also' if other.rule == one.rule else 'causes'} {other.rule}: {other.sentence}"


def verdict(found: Findings) -> str:
    """The verdict in a few words: the number of findings by severity."""
    if found.not_judged is not None and not found.found.total:
        return "Not judged"
    if not found.found.total:
        return "Nothing to report"
    worst = [one.severity for one in found.found]
    parts = [_counted(worst.count(severity), severity) for severity in Severity if severity in worst]
    return f"{count(found.found.total, 'finding')}: {', '.join(parts)}"


def _counted(number: int, severity: Severity) -> str:
    """A number of findings in words: "critical" is an adjective, the other severities are nouns."""
    return f"{count(number)} critical" if severity is Severity.CRITICAL else count(number, severity.value)


def judged(found: Findings) -> str:
    """A sentence with the numbers of rules that were judged, that fired, and that could not be judged."""
    if found.not_judged is not None:
        return f"Rules were not judged: {_full(found.not_judged)}"
    fired = len({one.rule for one in found.every})
    judged = fired + len(found.quiet)
    open_ = f"; {count(found.unjudged.total)} could not be judged" if found.unjudged.total else ""
    outcome = f"{count(fired)} fired" if fired else "none fired"
    return f"{count(judged, 'rule')} {'was' if judged == 1 else 'were'} judged, {outcome}{open_}."
