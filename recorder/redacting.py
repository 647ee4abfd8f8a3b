"""The command `redact`: a copy of a capture by rules for records, and of chosen parts, to hand out."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click

from proxy.command_line import folders
from proxy.limited_files import UnusableFile
from proxy.option_types import FILE, FOLDER, ReadBy, of_kind
from proxy.terminal import echo, printable
from recorder import spark_options
from recorder.capture.frames import DamagedFileError, UnknownFormatError
from recorder.capture.record_rules import RIGHT_KEY, RULE, TOPIC_PATTERN, RecordRule, hash_key_of
from recorder.capture.remote import is_url
from recorder.capture.selection import SelectionSettings
from recorder.ready import NoCapture
from recorder.selection_options import selecting
from recorder.terminal import console, count, measured


def _topic_rule(text: str) -> tuple[str, RecordRule]:
    pattern, sign, rule = text.rpartition("=")
    if not sign:
        raise ValueError("names no rule")
    return TOPIC_PATTERN.read(pattern.strip()), RULE.read(rule.strip())


@click.command(short_help="Copy a capture without its records, or only a part of it.")
@click.argument("folder", metavar="IN", shell_complete=folders)
@click.argument("out", metavar="OUT", type=FOLDER)
@click.option(
    "--records", type=of_kind(RULE, "drop"), help="The rule of topics that no --topic matches.  [default: keep]"
)
@click.option(
    "--topic",
    "topic_rules",
    type=ReadBy("PATTERN=RULE", _topic_rule, "'payments-*=drop'"),
    multiple=True,
    help="The rule of topics whose names match: keep, hash or drop. Repeatable; the strictest of several holds.",
)
@click.option("--hash-key", type=FILE, metavar="FILE", help=f"The key of hashes: {RIGHT_KEY}.")
@selecting("topics", "share", "shares", "seed")
@spark_options.asking
def redact(
    folder: str,
    out: Path,
    records: RecordRule | None,
    topic_rules: tuple[tuple[str, RecordRule], ...],
    hash_key: Path | None,
    where: spark_options.Where,
    **chosen: Any,
) -> None:
    """Copy the capture in IN to the new folder OUT, with what producers wrote left out or hashed, or a part of it.

    The rules are those of `capture.records`, `capture.only.topics` and `capture.share` (docs/privacy.md): OUT is the
    capture that a recording with them would have made. Events are copied, and facts are made anew. IN stays as it is.
    A file that can't be read is named, and its rows are missing in OUT (exit code 1). If the command is killed, the
    files in OUT are whole, and others missing.

    \b
    kafka-wiretap redact capture for-them --records drop
    kafka-wiretap redact capture for-them --topic 'payments-*=hash' --hash-key hash.key
    kafka-wiretap redact capture for-them --only-topics 'orders-*' --share 0.1
    """
    rules, key = _rules(records, topic_rules, hash_key, {name: one for name, one in chosen.items() if one is not None})
    where.check()
    if is_url(folder):
        raise NoCapture(f"{printable(folder)} is a URL; right would be a folder of this machine")
    from recorder.capture.redacting import CannotRedact, check_apart

    try:
        check_apart(Path(folder), out)
        place, _ = spark_options.place_of(folder, where, facts=False)
        with console(stderr=True).status("redacting ..."):
            done = _done(place, Path(folder), out, rules, key)
    except (CannotRedact, DamagedFileError, UnknownFormatError) as error:
        raise click.ClickException(printable(str(error))) from error
    except OSError as error:
        raise click.ClickException(f"{printable(error.filename or out)}: {error.strerror or error}") from error
    failed = [one for one in done if one[2] is not None]
    rows = sum(number for _, number, _ in done)
    echo(f"{count(len(done) - len(failed), 'file')} of {count(rows, 'row')} in {printable(out)}")
    for path, _, reason in failed:
        echo(f"Error: {printable(path)} is missing: {printable(reason)}", err=True)
    if failed:
        sys.exit(1)


def _rules(
    records: RecordRule | None,
    topic_rules: tuple[tuple[str, RecordRule], ...],
    path: Path | None,
    chosen: Mapping[str, Any],
) -> tuple[SelectionSettings, bytes | None]:
    """The rules and the key of hashes. Errors: UsageError."""
    if records is None and not topic_rules and not {*chosen} - {"seed"}:
        raise click.UsageError("nothing says what to leave out; right would be --records drop")
    rules = SelectionSettings(
        records=records or RecordRule.KEEP, topic_records=dict(topic_rules), hash_key=path, **chosen
    )
    if len(rules.topic_records) < len(topic_rules):
        raise click.UsageError("--topic names a pattern twice; right would be one rule for each pattern")
    if rules.hashed and path is None:
        raise click.UsageError("the rule hash needs a key; right would be --hash-key FILE")
    try:
        return rules, hash_key_of(rules)
    except UnusableFile as error:
        raise click.UsageError(f"--hash-key {printable(path)} {error}; right would be {RIGHT_KEY}") from error


def _done(
    place: Any, folder: Path, out: Path, rules: SelectionSettings, key: bytes | None
) -> list[tuple[str, int, str | None]]:
    from recorder.analysis.running import ask
    from recorder.analysis.tasks import by_tasks
    from recorder.capture.fact_maker import make_missing
    from recorder.capture.redacting import Redaction, captured_files, left_out, redact_file, topics_told

    paths = captured_files(folder.absolute())
    topics = topics_told(paths, rules)
    redaction = Redaction(str(out.absolute()), rules, key, topics, left_out(paths, rules, topics))
    os.makedirs(out)
    work = partial(redact_file, redaction)
    with measured(lambda: f"({sum(1 for _ in out.rglob('*.parquet'))} of {count(len(paths), 'file')})"):
        done: list[tuple[str, int, str | None]] = ask(
            place, lambda captured: by_tasks(captured.frames.sparkSession, work, paths)
        )
    make_missing(out)
    return done
