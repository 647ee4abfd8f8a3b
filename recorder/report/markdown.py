"""A capture's report as Markdown: findings and the small tables, for a pull request or a chat.

Foreign names are plain text: characters that mean something in Markdown or HTML are escaped, and a name is one line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from proxy.terminal import printable
from recorder.analysis.summary.whole import Summary
from recorder.report.every_section import sections
from recorder.report.listings import Listing
from recorder.report.section import NOT_JUDGED
from recorder.report.sections import findings as words
from recorder.report.sections.findings import FindingText

# The most rows of a table in a chat.
MOST_ROWS = 10
# Characters with a meaning anywhere in a line, also to GitHub; those that begin a list; those that make a link.
_OBEYED = re.compile(r"([\\`*_{}\[\]<>#|~&!^$]|^[-+=]|:(?=//)|(?<=www)\.)")
_NUMBERED = re.compile(r"^([0-9]+)([.)])(?=\s|$)")


def text(summary: Summary, folder: str) -> str:
    """The report. `folder`: the capture's folder in the report's commands."""
    found = words.findings(summary, folder)
    lines = [f"# {escaped(words.verdict(summary.findings))}", "", escaped(words.judged(summary.findings)), ""]
    lines += [line for one in found for line in finding_lines(one)]
    for section in sections(summary):
        small = [one for one in section.listings if one.is_small]
        if small or section.nothing.startswith(NOT_JUDGED):
            lines += section_lines(section.title, (*section.lead, section.nothing), small)
    return "\n".join(lines).rstrip() + "\n"


def escaped(text: str) -> str:
    """The text, escaped so that Markdown shows it as it is, without blanks at its ends."""
    return _NUMBERED.sub(r"\1\\\2", _OBEYED.sub(r"\\\1", printable(text.strip())))


def finding_lines(found: FindingText) -> Iterator[str]:
    """A finding under a heading of its own."""
    yield f"## {found.number}. {escaped(found.sentence)}"
    yield ""
    facts = [escaped(fact) for fact in (found.rule, found.subject, found.when, found.measured) if fact]
    yield " · ".join([f"**{found.severity}**", *facts])
    yield ""
    if found.advice:
        yield f"**What to do:** {escaped(found.advice)}"
        yield ""
    if found.commands:
        yield from _code(command.line for command in found.commands)
    # last: an indented block of code behind a list would be a part of its last item
    if found.consequences:
        yield "**Consequences:**"
        yield ""
        for one in found.consequences:
            about = ", ".join(escaped(fact) for fact in (one.rule, one.when) if fact)
            yield f"- {escaped(one.sentence)} ({about})"
        if found.more:
            yield f"- {found.more}"
        yield ""


def section_lines(title: str, sentences: Iterable[str], listings: Iterable[Listing]) -> Iterator[str]:
    """A section: its heading, its sentences (empty ones are left out), its tables."""
    yield from (f"## {escaped(title)}", "")
    for sentence in filter(None, sentences):
        yield from (escaped(sentence), "")
    for listing in listings:
        yield from table_lines(listing)


def _code(lines: Iterable[str]) -> Iterator[str]:
    """Commands as a code block, indented by four: no line in such a block can end it."""
    yield from (f"    {printable_command(line)}" for line in lines)
    yield ""


def printable_command(line: str) -> str:
    """A command, with escapes for characters that a terminal would obey."""
    return printable(line).replace("\\\\", "\\")


def table_lines(listing: Listing) -> Iterator[str]:
    """The first rows as a table; numbers are aligned to the right."""
    shown = [*listing.cells][:MOST_ROWS]
    yield f"**{escaped(listing.title)}**"
    yield ""
    yield _row(column.title for column in listing.columns)
    yield "|" + "|".join("---:" if column.is_number else "---" for column in listing.columns) + "|"
    for row in shown:
        yield _row(cell.text for cell in row)
    if listing.total > len(shown):
        yield ""
        yield escaped(f"{listing.total - len(shown)} more rows in the report")
    yield ""


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(map(escaped, cells)) + " |"
