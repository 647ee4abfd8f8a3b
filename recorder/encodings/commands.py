"""`kafka-wiretap encodings`: the study of KAFKA-9927 over a capture. Spark sums, this process times a sample."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import click

from proxy.command_line import folders
from proxy.option_types import ROWS
from proxy.terminal import echo, harmless_json
from recorder import spark_options
from recorder.filters import SINCE, UNTIL
from recorder.terminal import console

# rows of each table on a terminal
_LIMIT = 20


@click.command(short_help="What a capture's integers would take in other encodings (KAFKA-9927).")
@click.argument("folder", shell_complete=folders)
@SINCE
@UNTIL
@click.option(
    "--no-times", is_flag=True, help="Count bytes only. Without this, up to 50 messages of each API are timed."
)
@click.option("--format", "form", type=click.Choice(["json"]), help="All of it as one JSON object.")
@click.option("--limit", type=ROWS, default=_LIMIT, show_default=True, help="Rows on a terminal.")
@spark_options.asking
def encodings(
    folder: str,
    since: Any,
    until: Any,
    no_times: bool,
    form: str | None,
    limit: int,
    where: spark_options.Where,
) -> None:
    """Show how many bytes the integers of the capture in FOLDER take, and would take as varints, by API and by field.

    KAFKA-9927 proposes groups of 7 bits for integers of 16, 32 and 64 bits. The command sizes every body in the
    encodings fixed (as sent), signed and unsigned, and with each field's best and worst encoding over the capture.
    Times are ratios of this program's own functions. The proposal's own figures stand beside.

    If a file can't be read, the command names it, counts the others, and exits with 1.

    \b
    A capture:                        kafka-wiretap encodings capture
    All fields, for other programs:   kafka-wiretap encodings capture --format json
    One by one, on Spark:             kafka-wiretap analyze capture --table encodings
    """
    where.check()
    place, _ = spark_options.place_of(folder, where, facts=False)
    within = spark_options.ns_of(since, place), spark_options.ns_of(until, place)
    spark_options.say_begun(place, printed=form)
    with console(stderr=True).status("reading the capture ...") as status:
        found = _study(place, within, not no_times, lambda step: status.update(f"timing {step} ..."))
    if form == "json":
        echo(harmless_json(json.dumps(found.as_json())))
    else:
        _show(found, limit)
    spark_options.end_with(place.broken)


def _study(place: Any, within: tuple[int | None, int | None], with_times: bool, say: Callable[[str], None]) -> Any:
    from recorder.analysis.questions.encodings import Answer, answer
    from recorder.analysis.running import ask
    from recorder.encodings.study import chosen, study
    from recorder.encodings.times import measure

    found: Answer = ask(place, partial(answer, since_ns=within[0], until_ns=within[1], with_sample=with_times))
    times = measure(found.sample, chosen(found.rows), say) if with_times else ()
    return study(found.rows, found.unread, times)


def _show(found: Any, limit: int) -> None:
    from recorder.encodings.screen import shown

    screen = console()
    for one in shown(found, screen.width, limit):
        screen.print(one)
