"""`kafka-wiretap analyze` and `kafka-wiretap sql`: Spark computes a capture's tables and answers.

The options become one question. Modules that need Spark are imported only when the question is asked: a wrong option
fails at once, and the other commands work without pyspark.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import click

from proxy.command_line import folders, text
from proxy.option_types import ROWS, ReadBy
from proxy.similar import right_would_be
from proxy.terminal import echo, printable
from recorder import extras
from recorder.capture.remote import is_url
from recorder.filters import SINCE, UNTIL, nothing_passes
from recorder.inspect.options import api
from recorder.missing import missing_table
from recorder.query.values import Api
from recorder.spark_options import (
    FORMATS,
    WINDOW,
    Engine,
    Where,
    asking,
    choosing,
    completing,
    end_with,
    for_executors,
    ns_of,
    place_of,
    say_begun,
)
from recorder.sql_words import TABLES, asked
from recorder.terminal import cell, console, say

if TYPE_CHECKING:
    from recorder.analysis.group_and_filter import Filters
    from recorder.analysis.place import Place
    from recorder.analysis.running import Ask

# A window that is chosen by the capture's length; the value is that of `recorder.analysis.group_and_filter.AUTO`.
AUTO = "auto"
_WINDOW = ReadBy("DURATION", lambda value: value if value == AUTO else WINDOW.read(value), f'1m, "1 minute" or {AUTO}')
# The values of `--by`; `recorder.analysis.group_and_filter.BY` maps them to columns.
BY = ("api", "version", "client_id", "software", "principal", "node", "topic")
# Characters of output that are kept in memory; more go to a temporary file.
_IN_MEMORY = 16 << 20
# Shown on a terminal until the answer is complete.
_STARTING = "reading the capture ..."
# rows on a terminal
LIMIT = 50


class Chosen(NamedTuple):
    """Where the answer goes. `form` is None for tables on the terminal. `all_rows`: the option that prints all rows."""

    out: str | None
    form: str | None
    overwrite: bool
    limit: int
    all_rows: str = "--format json"

    def checked(self) -> Chosen:
        """Returns these options with the format filled in. Errors: UsageError for parquet without a folder."""
        if self.out:
            return self._replace(form=self.form or "parquet")
        if self.form == "parquet":
            raise click.UsageError("--format parquet needs --out DIR; to standard output go csv and json")
        return self


_RUNNING = (
    click.option("--out", metavar="DIR", shell_complete=folders, help="Write the tables here, one folder each."),
    click.option(
        "--format",
        "form",
        type=click.Choice(FORMATS),
        help="The format in DIR (default: parquet). Without --out: csv or json to standard output.",
    ),
    click.option("--overwrite", is_flag=True, help="Replace tables that are in DIR already."),
    click.option("--limit", type=ROWS, default=LIMIT, show_default=True, help="Rows on a terminal."),
)


def answering(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of a command whose answer is rows: Spark's options, and those of the output."""
    for option in reversed(_RUNNING):
        command = option(command)
    return asking(command)


@click.command(short_help="Answer questions about a capture: latency and errors by API.")
@click.argument("folder", shell_complete=folders)
@click.option(
    "--by",
    default="api",
    show_default=True,
    callback=choosing(BY),
    metavar="NAMES",
    shell_complete=completing(*BY),
    help=f"Group by these, with commas between: {', '.join(BY)}. An exchange counts once for each of its topics.",
)
@click.option(
    "--window",
    type=_WINDOW,
    shell_complete=completing(AUTO, "10 seconds", "1 minute", "5 minutes", "1 hour"),
    help='Answer for each stretch of time, such as "1 minute". auto: 5 s, or 1 minute from 10 minutes on.',
)
@SINCE
@UNTIL
@click.option("--api", "apis", type=api, metavar="API", multiple=True, help="Only this API: a name or a key.")
@click.option("--client", "clients", type=text, multiple=True, help="Only this client: its client id, or HOST[:PORT].")
@click.option("--topic", "topics", type=text, multiple=True, help="Only exchanges that name this topic.")
@click.option(
    "--table", type=text, metavar="NAME", help="This table instead; `kafka-wiretap sql FOLDER tables` lists them."
)
@answering
def analyze(
    folder: str,
    by: tuple[str, ...],
    window: str | None,
    since: Any,
    until: Any,
    apis: tuple[Api, ...],
    clients: tuple[str, ...],
    topics: tuple[str, ...],
    table: str | None,
    where: Where,
    **output: Any,
) -> None:
    """Requests, errors, bytes and latency percentiles of the capture in FOLDER, by API, worked out by the embedded
    engine or by Spark.

    The answer begins with what is missing: gaps, what was left out, and which share of the responses could be read.
    Long polls that may have waited (a Fetch at a log's end, members that join a group) have rows of their own: "Fetch,
    waiting".

    FOLDER is a path, or a URL that every executor can read (hdfs:, s3a:, ...). The command first compacts what is not
    compacted yet. Spark needs Java 17 or newer. If a file can't be read, the command names it, answers from the others,
    and exits with 1.

    Masters on this machine are tested: local, local-cluster, a standalone cluster. Workers on other machines need the
    folder under the same path or URL, and the Python version that runs here, with pyarrow. Spark sends this package to
    them.

    \b
    On this machine:           kafka-wiretap analyze capture
    Per minute, kept as CSV:   kafka-wiretap analyze capture --window "1 minute" --out tables --format csv
    Who asks for what:         kafka-wiretap analyze capture --by software,api --since -5m
    One table, as JSON:        kafka-wiretap analyze capture --table topic_use --format json
    On a cluster:              kafka-wiretap analyze hdfs:///capture --master spark://host:7077
    """
    chosen = Chosen(**output).checked()
    if table is None and chosen.form == "csv" and not chosen.out:
        raise click.UsageError("the answers are several tables; right would be --out DIR, or --table NAME")
    where.check()
    if table is not None:
        _check_table(table)
    place, notes = placed(folder, where, chosen)
    from recorder.analysis.group_and_filter import BY as COLUMNS
    from recorder.analysis.group_and_filter import Filters, Question

    only = Filters(apis, clients, topics, *(ns_of(moment, place) for moment in (since, until)))
    if table is not None:
        show_table(place, partial(_loaded, name=table, only=only), table, chosen, only.options)
    else:
        found = _analyzed(place, Question(tuple(COLUMNS[name] for name in by), window, only), chosen)
        _show(found, notes, chosen, only.options)
    end_answer(place, chosen)


@click.command(short_help="Ask a capture in SQL: its tables are views.")
@click.argument("folder", shell_complete=folders)
@click.argument("query", nargs=-1, type=text, shell_complete=completing("tables", "describe"))
@click.option("--markdown", is_flag=True, help="`tables` with all columns, as docs/tables.md.")
@answering
def sql(folder: str, query: tuple[str, ...], markdown: bool, where: Where, **output: Any) -> None:
    """The rows of a QUERY over the tables of the capture in FOLDER.

    \b
    The tables:       kafka-wiretap sql capture tables
    One's columns:    kafka-wiretap sql capture describe exchanges
    A question:       kafka-wiretap sql capture "select api, count(*) from exchanges group by api"
    All its rows:     kafka-wiretap sql capture "select * from topic_use" --format json
    A shell:          kafka-wiretap sql capture
    A script:         kafka-wiretap sql capture < questions.sql

    Without a QUERY, statements are read from the terminal or from standard input, each up to its semicolon, and
    answered in one session of the engine.

    Only the tables that the query names are made.
    """
    chosen = Chosen(**output).checked()
    if not query and not markdown:
        _shell(folder, where, chosen)
        return
    told = _told(query, markdown)
    if told is not None:
        _echo(told)
        return
    if len(query) != 1:
        raise click.UsageError('right would be "select ...", in quotes; tables; or describe NAME')
    from recorder.analysis.views import answer, is_for_spark

    if where.engine is Engine.AUTO and is_for_spark(query[0]):
        where = where._replace(engine=Engine.SPARK)
    where.check()
    _check_query(query[0], where)
    place, _ = placed(folder, where, chosen)

    show_table(place, partial(answer, query=query[0]), "", chosen)
    end_answer(place, chosen)


def _check_query(query: str, where: Where) -> None:
    """Errors: UsageError for what is surely no query, or one over a table that is surely not there."""
    from recorder.analysis.views import ONLY_QUERIES, is_command, unknown_table

    if is_command(query):
        raise click.UsageError(ONLY_QUERIES)
    # with other catalogs Spark may know more tables
    wrong = None if _has_catalogs(where.conf) else unknown_table(query)
    if wrong is not None:
        _check_table(wrong)


def _shell(folder: str, where: Where, chosen: Chosen) -> None:
    """Answers the statements that are typed, or that standard input holds, in one session."""
    if chosen.out:
        raise click.UsageError("--out goes with a query: each of a shell's would replace the one before")
    where.check()
    from recorder import sql_shell
    from recorder.analysis.running import as_click_errors, session_for
    from recorder.analysis.views import answer

    place, notes = placed(folder, where, chosen)
    for note in notes:
        say(note, err=True)
    with session_for([place]) as ask:

        def shown(query: str) -> None:
            _check_query(query, where)
            # a statement that fails does not end the shell
            with as_click_errors(None, is_embedded=place.is_embedded):
                show_table(place, partial(answer, query=query), "", chosen, ask=ask)

        sql_shell.run(shown, _told, is_embedded=place.is_embedded)
    end_answer(place, chosen)


def _has_catalogs(conf: dict[str, str]) -> bool:
    """True if the settings may give Spark tables beside the capture's."""
    return "PYSPARK_GATEWAY_PORT" in os.environ or any("catalog" in name.lower() for name in conf)


def _told(query: tuple[str, ...], markdown: bool) -> Iterable[str] | None:
    """Returns the lines that `tables` and `describe` print; None if the arguments are a query.

    Errors: MissingPackages, because tables are declared as Spark's types.
    """
    extras.check("analysis")
    told = asked(" ".join(query))
    if told is None:
        return None
    from recorder.analysis import listing

    if told == (TABLES,):
        return listing.page() if markdown else listing.tables()
    return listing.described(_check_table(told[1]))


def _is_table(name: str) -> bool:
    from recorder.analysis.sources import SOURCES

    return name in SOURCES


def placed(folder: str, where: Where, chosen: Chosen) -> tuple[Place, list[str]]:
    """As `place_of`; also checks that the output folder is free, and says which engine begins. Errors: UsageError."""
    if chosen.out and is_url(chosen.out):
        if where.engine is Engine.EMBEDDED:
            raise click.UsageError("only Spark writes to a URL: right would be --engine spark")
        where = where._replace(engine=Engine.SPARK)
        where.check()
    found = place_of(folder, where)
    if chosen.out and not chosen.overwrite:
        _check_free(for_executors(chosen.out))
    say_begun(found[0], printed=None if chosen.out else chosen.form)
    return found


def _check_free(out: str) -> None:
    try:
        is_taken = not is_url(out) and Path(out).is_dir() and any(Path(out).iterdir())
    except OSError as error:
        raise click.UsageError(f"{out} can't be looked into: {error.strerror}") from error
    if is_taken:
        raise click.UsageError(f"{printable(out)} holds tables already: --overwrite replaces them")


def _check_table(name: str) -> Any:
    from recorder.analysis.sources import SOURCES

    if not _is_table(name):
        raise click.UsageError(f"{name!r} is no table; {right_would_be(name, [*SOURCES])}")
    return SOURCES[name].table


def _analyzed(place: Place, question: Any, chosen: Chosen) -> Any:
    from recorder.analysis.report import Output, report
    from recorder.analysis.running import ask

    out = for_executors(chosen.out) if chosen.out else None
    output = Output(out, chosen.form or "", chosen.overwrite) if out else None
    with console(stderr=True).status(_STARTING):
        return ask(place, partial(report, question=question, output=output))


def _loaded(found: Any, *, name: str, only: Filters) -> Any:
    """Returns a table's rows that pass the filters. Errors: Nothing for a filter on a column that the table lacks."""
    from recorder.analysis.group_and_filter import filtered
    from recorder.analysis.sources import load

    within = replace(found, since_ns=only.since_ns, until_ns=only.until_ns)
    return filtered(load(within, name), only)


def show_table(
    place: Place,
    made: Callable[[Any], Any],
    title: str,
    chosen: Chosen,
    filters: str = "the query",
    ask: Ask | None = None,
    what: str = "row",
    meant: Callable[[Any], str] = lambda _: "",
) -> None:
    """Writes a table to the chosen output.

    `filters`: what a row must pass, for the sentence if none does, and `what` a row is; `meant`: the end of that
    sentence; `ask`: of an open session; None: in one of its own.

    Lines are printed only when all are computed, because `ask` repeats the question after a broken file.
    """
    from recorder.analysis import output
    from recorder.analysis.report import held
    from recorder.analysis.running import ask as ask_once

    def shown(captured: Any) -> Any:
        found = made(captured)
        if chosen.out:
            return output.write(found, for_executors(chosen.out), chosen.form or "", overwrite=chosen.overwrite)
        if chosen.form:
            return _kept(output.lines(found, chosen.form))
        rows, more = output.table(found, title, console().width, chosen.limit, chosen.all_rows)
        return (rows, more) if rows else (None, nothing_passes(what, filters, held(captured)) + meant(captured))

    with console(stderr=True).status(_STARTING):
        told = (ask or ask_once)(place, shown)
    if isinstance(told, tuple):
        found, more = told
        if found is None:
            say(more)
            return
        console().print(found)
        if more:
            console().print(cell(more, "dim"))
    elif told is not None:
        with told:
            _echo(line.removesuffix("\n") for line in told)


def _echo(lines: Iterable[str]) -> None:
    for line in lines:
        echo(line)


def _kept(lines: Iterable[str]) -> IO[str]:
    """Returns a temporary file with the lines, rewound. It stays in memory while it is small."""
    kept = SpooledTemporaryFile(_IN_MEMORY, "w+", encoding="utf-8", errors="surrogatepass", newline="\n")  # noqa: SIM115
    kept.writelines(f"{line}\n" for line in lines)
    kept.seek(0)
    return kept


def _show(found: Any, notes: list[str], chosen: Chosen, filters: str = "") -> None:
    """Shows the losses and the share of readable responses first: counts mean nothing without them."""
    if chosen.form == "json" and not chosen.out:
        echo(json.dumps(_as_json(found, notes), default=str))
        return
    from recorder.analysis import screen as tables

    screen = console()
    wide = screen.width
    screen.print(missing_table(replace(found.missing, notes=notes), wide))
    if found.held:
        screen.print()
        say(nothing_passes("exchange", filters, found.held))
        return
    for line in tables.coverage(found.coverage_by_api, wide):
        screen.print(line)
    screen.print()
    screen.print(tables.latency_table(found.latency_by_api, wide, found.by, found.errors_by_api))
    screen.print()
    if found.errors_by_api:
        screen.print(tables.errors_table(found.errors_by_api, wide, found.by))
    else:
        screen.print(tables.no_errors(found.coverage_by_api))


def _as_json(found: Any, notes: list[str]) -> dict[str, Any]:
    names = ("coverage_by_api", "latency_by_api", "errors_by_api")
    return {"missing": replace(found.missing, notes=notes).as_json()} | {name: getattr(found, name) for name in names}


def end_answer(place: Place, chosen: Chosen) -> None:
    """Says where the tables were written, and names the unreadable files. Exits with code 1 if there are any."""
    if chosen.out:
        echo()
        echo(f"tables written to {printable(for_executors(chosen.out))}")
    end_with(place.broken)
