"""Two captures side by side: one HTML page in the look of a capture's report, or Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from recorder.analysis.change.judged import Change
from recorder.analysis.change.whole import Changes
from recorder.report import change_sections as words
from recorder.report.figure import Figure
from recorder.report.listings import short
from recorder.report.sections.findings import FindingText, finding
from recorder.terminal import count, percent, size

# The most findings that are shown in full; the table has all of them.
MOST_CARDS = 20


def html(found: Changes) -> str:
    """The page that compares the two captures."""
    # packages of an extra, which Markdown does without
    from recorder.report.change_plots import latency_plots
    from recorder.report.page import hashed, page, script

    sort = script("sort.js")
    return page(
        "changes.html",
        title=f"Compared: {words.verdict(found)}",
        verdict=words.verdict(found),
        tone=words.TONES.get(found.verdict, "warn"),
        lead=words.lead(found),
        captures=(short(found.before.capture, 200), short(found.after.capture, 200)),
        figures=[*_figures(found)],
        cards=_cards(found),
        sections=words.sections(found),
        latency_plots=latency_plots(found),
        tolerance=percent(100 * found.tolerance),
        script=sort,
        script_hash=hashed(sort),
    )


def markdown(found: Changes) -> str:
    """The verdict and the tables as Markdown, for a pull request or a chat; unchanged rows are left out."""
    from recorder.report.markdown import escaped, finding_lines, section_lines

    lines = [f"# {escaped(words.verdict(found))}", "", escaped(words.lead(found)), ""]
    lines += [line for card in _cards(found) for line in finding_lines(card)]
    for section in words.sections(found):
        shown = [*words.changed(section)]
        if shown:
            lines += section_lines(section.title, section.lead, shown)
    return "\n".join(lines).rstrip() + "\n"


def _cards(found: Changes) -> list[FindingText]:
    """New and worse findings in full, with advice; their commands name the later capture."""
    news = words.news(found)[:MOST_CARDS]
    return [finding(number, row.shown, found.after.capture) for number, row in enumerate(news, 1)]


def _figures(found: Changes) -> Iterator[Figure]:
    yield _turned("findings new or worse", (row.change for row in found.findings), "gone or better")
    yield _turned("APIs slower", (row.change for row in found.latency), "faster")
    yield _turned("errors new or more", (row.change for row in found.errors if not row.is_flow), "gone or fewer")
    before, after = found.before, found.after
    if before.seconds and after.seconds:
        rates = [words.digits(side.exchanges / side.seconds) for side in (before, after)]
        yield Figure("exchanges a second", rates[1], f"{rates[0]} before")
        sizes = [size(side.bytes / side.seconds) for side in (before, after)]
        yield Figure("bytes a second", sizes[1], f"{sizes[0]} before")


def _turned(title: str, changes: Iterable[Change], good_words: str) -> Figure:
    """A figure: the number of rows that are new or became worse, beside the number that are gone or became better."""
    counts = Counter(changes)
    bad = counts[Change.WORSE] + counts[Change.NEW] + counts[Change.MIXED]
    good = counts[Change.BETTER] + counts[Change.GONE]
    tone = "good" if good else ""
    return Figure(title, count(bad), f"{count(good)} {good_words}", tone)
