"""`kafka-wiretap compare`: two captures side by side, on the terminal, as one HTML page, as Markdown or as JSON.

The options, both folders and the output file are checked before Spark starts.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import RenderableType
from rich.text import Text

from proxy.command_line import folders
from proxy.option_types import percent
from proxy.terminal import echo, printable
from recorder import reporting, spark_options
from recorder.report.listings import UNKNOWN, Cell, Listing
from recorder.terminal import Column, cell, console, fitted, say

# The colours of tones on a terminal; HTML pages use the same tones.
_STYLES = {"bad": "bold red", "good": "green", "warn": "bold yellow", "muted": "dim"}
# The signs behind a pair of values that made its row worse or better, also in a pipe.
_SIGNS = {"bad": " \N{UPWARDS ARROW}", "good": " \N{DOWNWARDS ARROW}"}
# The first columns, which even a narrow terminal shows: the subject and its change.
_ALWAYS = 2
# The suffixes of a pair of column titles, and the arrow that joins their values in one column.
_BEFORE, _AFTER, _TO = " before", " after", " \N{RIGHTWARDS ARROW} "


@click.command(
    short_help="Compare two captures: did the change help? Latency, errors, topics, groups, nodes, clients, findings."
)
@click.argument("before", shell_complete=folders)
@click.argument("after", shell_complete=folders)
@reporting.output_options("a table")
@click.option(
    "--tolerance",
    type=percent(1000),
    default=20,
    show_default=True,
    metavar="PERCENT",
    help="The difference up to which two latencies, shares or rates are the same.",
)
@reporting.THRESHOLDS
@spark_options.asking
def compare(
    before: str,
    after: str,
    output: Path | None,
    form: str | None,
    tolerance: float,
    thresholds: Path | None,
    where: spark_options.Where,
) -> None:
    """Compare two captures: what changed from the one in BEFORE to the one in AFTER, worked out by the embedded
    engine or by Spark.

    Compared are latency, errors, bytes, versions and clients by API, how topics are written and delivered, groups,
    nodes, and the findings that came or went. Counts have a rate a second beside them, because captures differ in
    length. If there are too few exchanges to judge, the command
    says so: a p50 needs 20 answers on either side, a p95 200, a p99 1,000. Waits that clients asked for stand apart,
    and are no worse when longer.

    BEFORE and AFTER are folders or URLs, as for `analyze`. Differences don't change the exit
    code; it is 1 if a file of a capture can't be read, and the command names the file.

    \b
    On the terminal:         kafka-wiretap compare monday tuesday
    A page:                  kafka-wiretap compare monday tuesday -o compared.html
    For a pull request:      kafka-wiretap compare monday tuesday --format markdown
    """
    form = form or (reporting.form_of(output) if output else None)
    reporting.check_output(output, form)
    where.check()
    own = reporting.own_thresholds(thresholds)
    places = spark_options.places_of((before, after), where)
    spark_options.say_begun(*(place for place, _ in places), printed=None if output else form)
    sides = _sides([place for place, _ in places], (before, after), own)
    told = [_with_notes(side, place, notes) for side, (place, notes) in zip(sides, places, strict=True)]
    from recorder.analysis.change.whole import changes

    found = changes(told[0], told[1], tolerance / 100)
    if form is None:
        _show(found)
    else:
        reporting.write(_rendered(found, form), output)
    if output is not None:
        _tell(found, output)
    spark_options.end_with({file: why for place, _ in places for file, why in place.broken.items()})


def _sides(places: list[Any], named: tuple[str, ...], own: dict[str, float]) -> list[Any]:
    from recorder.analysis.capture_facts import STEPS, facts
    from recorder.analysis.running import ask_each

    every = STEPS * len(named)
    with console(stderr=True).status("reading the captures ...") as status:
        numbers = itertools.count(1)

        def say(step: str) -> None:
            # a side that has a broken file is asked once more
            status.update(cell(f"step {min(next(numbers), every)} of {every}: {step} ..."))

        questions = [partial(facts, folder=folder, own=own, say=say) for folder in named]
        return ask_each([*zip(places, questions, strict=True)])


def _with_notes(side: Any, place: Any, notes: list[str]) -> Any:
    """Adds notes on files that could not be read to the side's missing data."""
    return replace(side, missing=replace(side.missing, notes=[*notes, *reporting.left_out(place)]))


def _rendered(found: Any, form: str) -> str:
    from recorder.report.changes import html, markdown

    if form == "json":
        return str(found.as_json())
    return html(found) if form == "html" else markdown(found)


def _show(found: Any) -> None:
    """Prints the verdict, both captures, and what changed."""
    from recorder.report import change_sections as words

    screen = console()
    tone = _STYLES.get(words.TONES.get(found.verdict, "warn"), "bold")
    screen.print(Text(f"{words.verdict(found)}. {words.lead(found)}", tone))
    for section in words.sections(found):
        shown = [*words.changed(section)]
        if not shown:
            continue
        screen.print()
        screen.print(Text(section.title, "bold underline"))
        for sentence in filter(None, section.lead):
            screen.print(Text(printable(sentence), "dim"))
        for listing in shown:
            screen.print()
            screen.print(_table(listing, screen.width))


def _table(listing: Listing, width: int) -> RenderableType:
    """Returns a table that merges the before and after columns: a narrow terminal shows both values, or neither."""
    shown = [*_both_sides(listing)]
    columns = [Column(title, listing.columns[at[0]].is_number, rank=_rank(listing, at[0])) for title, at in shown]
    rows = [[_cell([row[one] for one in at]) for _, at in shown] for row in listing.cells]
    return fitted(listing.title, columns, rows, width)


def _both_sides(listing: Listing) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yields titles with the indexes of their columns: "p50 before" and "p50 after" become "p50"."""
    titles = [f" {column.title}" for column in listing.columns]
    for at, title in enumerate(titles):
        of = title.removesuffix(_BEFORE)
        if of != title and titles[at + 1 : at + 2] == [f"{of}{_AFTER}"]:
            yield of.strip() or f"before{_TO}after", (at, at + 1)
        elif not title.endswith(_AFTER) or f"{title.removesuffix(_AFTER)}{_BEFORE}" not in titles:
            yield title.strip(), (at,)


def _rank(listing: Listing, at: int) -> int:
    """Returns when a narrow terminal drops the column, the highest rank first: spare columns, then the rightmost."""
    if at < _ALWAYS:
        return 0
    return at + (len(listing.columns) if listing.columns[at].is_spare else 0)


def _cell(cells: list[Cell]) -> Text:
    if all(one.is_unknown for one in cells):
        return Text(UNKNOWN)
    *_, last = cells
    shown = Text(_TO).join(Text(printable(one.text), _STYLES.get(one.tone, "")) for one in cells)
    if len(cells) > 1:
        shown.append(_SIGNS.get(last.tone, ""), _STYLES.get(last.tone))
        if any(one.tone == "muted" for one in cells):
            shown.stylize("dim")
    return shown


def _tell(found: Any, output: Path) -> None:
    from recorder.report import change_sections as words

    say(f"{words.verdict(found)}. {words.lead(found)}")
    echo(f"comparison written to {printable(output)}")
