"""`kafka-wiretap report`: what a capture shows, as one HTML page, as Markdown or as JSON.

The options, the thresholds and the output file are checked before Spark starts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from proxy.command_line import folders
from proxy.terminal import echo, printable
from recorder import extras, spark_options
from recorder.filters import SINCE, UNTIL
from recorder.report import files
from recorder.report.files import CantReport
from recorder.terminal import console, say

Command = TypeVar("Command", bound=Callable[..., Any])
FORMATS = ("html", "markdown", "json")
_BY_SUFFIX = {".html": "html", ".htm": "html", ".md": "markdown", ".json": "json"}


def _list_rules(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    """Prints the page docs/findings.md and exits."""
    if not wanted or context.resilient_parsing:
        return
    extras.check("analysis")
    from recorder.analysis.findings.listing import page

    for line in page():
        echo(line)
    context.exit()


THRESHOLDS = click.option(
    "--thresholds",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A TOML file with the values at which findings fire, such as hot_partition = 4.",
)


def output_options(usual: str) -> Callable[[Command], Command]:
    """Returns a decorator that adds --output and --format. `usual`: the format without a file, as the help calls it."""
    output = click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="The file to write. Default: standard output.",
    )
    form = click.option(
        "--format",
        "form",
        type=click.Choice(FORMATS),
        help=f"Default: by the file's name (.html, .md, .json); without a file {usual}.",
    )
    return lambda command: output(form(command))


@click.command(short_help="Write a capture's report: what is wrong, latency, errors, clients, topics, as one page.")
@click.argument("folder", shell_complete=folders)
@output_options("markdown")
@THRESHOLDS
@SINCE
@UNTIL
@click.option(
    "--rules", is_flag=True, is_eager=True, expose_value=False, callback=_list_rules, help="List the rules, and exit."
)
@spark_options.asking
def report(
    folder: str,
    output: Path | None,
    form: str | None,
    thresholds: Path | None,
    since: Any,
    until: Any,
    where: spark_options.Where,
) -> None:
    """What the capture in FOLDER shows, worked out by the embedded engine or by Spark.

    Findings come first, in sentences: what is wrong, since when, how badly, what to do, and the commands that show it.
    Then come plots and tables: latency, errors, traffic, topics, clients, connections. The page is one file that loads
    nothing from anywhere.

    If a file of the capture can't be read, the report names it, and the command exits with 1.

    \b
    A page:                  kafka-wiretap report capture -o report.html
    For a pull request:      kafka-wiretap report capture --format markdown
    Of the last 5 minutes:   kafka-wiretap report capture -o report.html --since -5m
    """
    form = form or (form_of(output) if output else "markdown")
    check_output(output, form)
    where.check()
    own = own_thresholds(thresholds)
    place, notes = spark_options.place_of(folder, where)
    spark_options.say_begun(place, printed=None if output else form)
    found = _summary(place, folder, spark_options.ns_of(since, place), spark_options.ns_of(until, place), own)
    missing = replace(found.coverage.missing, notes=[*notes, *left_out(place)])
    found = replace(found, coverage=replace(found.coverage, missing=missing))
    write(_rendered(found, form, folder), output)
    if output is not None:
        _tell(found, output)
    spark_options.end_with(place.broken)


def form_of(output: Path) -> str:
    """Returns the format for a file's suffix. Errors: UsageError for a suffix of no format."""
    found = _BY_SUFFIX.get(output.suffix.lower())
    if found is None:
        raise click.UsageError(f"{printable(output)}: no format; right would be {', '.join(_BY_SUFFIX)}, or --format")
    return found


def check_output(output: Path | None, form: str | None) -> None:
    """Checks that the report can be written. Errors: UsageError that names the obstacle; MissingPackages."""
    extras.check("analysis", *(["report"] if form == "html" else []))
    try:
        if output is not None:
            files.check_place(output)
    except CantReport as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        raise click.UsageError(f"{printable(output)} can't be written: {error.strerror or error}") from error


def own_thresholds(path: Path | None) -> dict[str, float]:
    """Returns the thresholds that a file sets, by rule; empty without a file. Errors: UsageError."""
    if path is None:
        return {}
    from recorder.analysis.findings.rules import RULES
    from recorder.analysis.findings.thresholds import WrongThresholds, read

    try:
        return read(path, [rule.name for rule in RULES])
    except WrongThresholds as error:
        raise click.UsageError(str(error)) from error


def _summary(place: Any, folder: str, since_ns: int | None, until_ns: int | None, own: Mapping[str, float]) -> Any:
    from recorder.analysis.running import ask
    from recorder.analysis.summarize import summary

    with console(stderr=True).status("reading the capture ...") as status:
        made = partial(
            summary,
            folder=folder,
            since_ns=since_ns,
            until_ns=until_ns,
            own=own,
            say=lambda step: status.update(f"working out: {step} ..."),
        )
        return ask(place, made)


def left_out(place: Any) -> list[str]:
    """Returns a sentence for each file that could not be read."""
    return [f"left out: {printable(file)} can't be read: {why}" for file, why in place.broken.items()]


def _rendered(found: Any, form: str, folder: str) -> str:
    from recorder.report.capture import html, markdown

    if form == "json":
        return str(found.as_json())
    return html(found, folder) if form == "html" else markdown(found, folder)


def write(written: str, output: Path | None) -> None:
    """Writes a report into its file, or to standard output. Errors: ClickException."""
    if output is None:
        # the renderers have escaped control characters in names already, as they do for a file
        click.echo(written, nl=False)
        return
    try:
        files.put(written, output)
    except OSError as error:
        raise click.ClickException(f"{printable(output)} can't be written: {error.strerror or error}") from error


def _tell(found: Any, output: Path) -> None:
    """Prints the verdict, each finding and each of its consequences in a line, and the report's path."""
    from recorder.report.sections.findings import judged, lines, verdict

    say(f"{verdict(found.findings)}. {judged(found.findings)}")
    for line in lines(found.findings):
        say(printable(line))
    echo(f"report written to {printable(output)}")
