"""The command `prune`: removes the oldest hours of a capture by hand."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import click

from proxy.option_types import of_kind
from proxy.terminal import echo, printable
from recorder.capture.keep import AGE, FLOOR, KEPT_SIZE, Declared, Floor
from recorder.capture.remote import was_url
from recorder.capture.retention import Remover, Round
from recorder.ready import NoCapture, check_is_capture
from recorder.terminal import count, size


@click.command(short_help="Remove the oldest hours of a capture.")
@click.argument("given", metavar="FOLDER")
@click.option("--keep-age", type=of_kind(AGE, "7d", metavar="TIME"), help="Remove hours that are older.")
@click.option(
    "--keep-size", type=of_kind(KEPT_SIZE, "200GiB"), help="Remove down to this size of the whole folder, log included."
)
@click.option("--keep-free", type=of_kind(FLOOR, "10%"), help="Remove until so much of the volume is free: 10%, 5GiB.")
@click.option("--dry-run", is_flag=True, help="Say what would go, and remove nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def prune(
    given: str, keep_age: float | None, keep_size: int | None, keep_free: Floor | None, dry_run: bool, as_json: bool
) -> None:
    """Remove the oldest hours of the capture in FOLDER: frames, events, facts and origins together.

    At least one of --keep-age, --keep-size and --keep-free says what stays. Whatever the settings of the recording
    were, all of your sessions' hours may go; of sessions that are shipped, only what a bucket has. Another user's stay,
    and are named. A running proxy removes by itself what its `capture.keep` no longer keeps.

    \b
    kafka-wiretap prune capture --keep-age 7d --dry-run
    kafka-wiretap prune capture --keep-size 200GiB --keep-free 10%
    """
    if was_url(given):
        raise NoCapture(f"{printable(given)} is a URL; right would be a folder of this machine")
    if keep_age is None and keep_size is None and keep_free is None:
        raise click.UsageError("nothing says what to keep; right would be --keep-age 7d")
    folder = Path(given)
    check_is_capture(folder)
    try:
        done = Remover(folder, Declared(keep_age, keep_size, keep_free or Floor())).round(dry=dry_run)
    except OSError as error:
        raise click.ClickException(f"{printable(error.filename or folder)}: {error.strerror or error}") from error
    if done is None:
        raise click.ClickException("another process removes files of this capture: try again")
    if as_json:
        echo(json.dumps(_as_json(done, dry_run)))
    else:
        _print(done, dry_run)
    if done.is_delayed:
        echo("Error: a command reads the capture, so not everything was removed: try again", err=True)
        sys.exit(1)


def _print(done: Round, dry_run: bool) -> None:
    verb = "would remove" if dry_run else "removed"
    for hour in _hours(done):
        echo(
            f"{verb} {hour['hour']} UTC (keep.{hour['reason']}): {count(hour['files'], 'file')}, {size(hour['bytes'])}"
        )
    for session in sorted(done.of_others):
        echo(f"session {printable(session)} is another user's, and stays", err=True)
    if not done.went:
        echo(f"nothing to remove: the folder has {size(done.size)}")
    else:
        echo(f"the folder {'would have' if dry_run else 'has'} {size(done.size)}")


def _hours(done: Round) -> list[dict[str, Any]]:
    """What went by hour and reason."""
    found = []
    for (until_ns, reason), units in groupby(done.went, key=lambda one: (one[0].until_ns, one[1])):
        begins = datetime.fromtimestamp(until_ns // 10**9 - 3600, UTC)
        each = [unit for unit, _ in units]
        sizes = {"files": sum(len(unit.files) for unit in each), "bytes": sum(unit.size for unit in each)}
        found.append({"hour": f"{begins:%Y-%m-%d %H:00}", "reason": reason.value, **sizes})
    return found


def _as_json(done: Round, dry_run: bool) -> dict[str, Any]:
    return {"dry_run": dry_run, "removed": _hours(done), "bytes": done.size, "of_others": sorted(done.of_others)}
