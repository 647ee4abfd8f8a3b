"""The command `facts`: makes the facts of a capture, beside its frames."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import click

from proxy.terminal import echo, printable
from recorder.capture.frames import DamagedFileError, UnknownFormatError
from recorder.capture.remote import was_url
from recorder.facts_at_hand import cores, is_ours
from recorder.ready import NoCapture, ready
from recorder.terminal import console, count, size


@click.command(short_help="Make the facts of a capture: what its frames say, as small tables.")
@click.argument("given", metavar="FOLDER")
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    default=cores(),
    show_default="one a core",
    help="How many processes make them.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def facts(given: str, processes: int, as_json: bool) -> None:
    """Make the facts of the capture in FOLDER: errors, topics, batches, groups, transactions, metadata of all frames.

    Facts are Parquet in FOLDER/facts, a few hundredths of the frames' size, which any tool can read (docs/tables.md).
    A running proxy makes them itself. Facts that are whole and of this version stay; all others are made anew from the
    frames, so FOLDER/facts may be deleted at any time. A file of frames that can't be read is named, with exit code 1.
    """
    from recorder.capture.fact_files import stems
    from recorder.capture.fact_maker import Busy, Made, make_missing

    if was_url(given):
        raise NoCapture(f"{printable(given)} is a URL; right would be a folder of this machine")
    folder = Path(given)
    for note in ready(folder):
        echo(note, err=True)
    _check_ours(folder)
    rows: Counter[str] = Counter()
    made = written = 0
    try:
        total = len(stems(folder))
        with console(stderr=True).status("making facts ...") as status:

            def say(what: str, stem: str, more: Any) -> None:
                nonlocal made, written
                if isinstance(more, Made):
                    rows.update(more.rows)
                    made, written = made + 1, written + more.bytes
                    status.update(f"making facts: {count(made, 'file')} done ...")

            failed = make_missing(folder, say=say, processes=processes, checked=True)
    except Busy as error:
        raise click.ClickException(str(error)) from error
    except (DamagedFileError, UnknownFormatError) as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"{printable(error.filename or folder)}: {error.strerror or error}") from error
    if as_json:
        told = {"made": made, "current": total - made - len(failed), "bytes": written, "rows": dict(rows)}
        echo(json.dumps(told | {"failed": [one._asdict() for one in failed]}))
    elif made:
        echo(f"made the facts of {count(made, 'file')} of frames: {count(sum(rows.values()), 'row')}, {size(written)}")
    elif not failed:
        echo(f"nothing to make: the facts of {count(total, 'file')} of frames are there")
    for one in failed:
        echo(f"Error: no facts of {printable(one.stem)}: {printable(one.reason)}", err=True)
    if failed:
        sys.exit(1)


def _check_ours(folder: Path) -> None:
    """Raises NoCapture for a folder of somebody else: nothing is written into it."""
    if not is_ours(folder):
        raise NoCapture(f"{printable(folder)} is another user's, so no facts are written into it; copy it first")
