"""The command `facts`: makes the facts of a capture, beside its frames, by processes or by Spark's tasks."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from proxy.option_types import POSITION
from proxy.terminal import echo, printable
from recorder.capture.frames import DamagedFileError, UnknownFormatError
from recorder.capture.remote import Place, S3Path, reason_of
from recorder.facts_at_hand import cores, facts_counted, is_ours
from recorder.inspect.options import CAPTURE
from recorder.ready import NoCapture, ready_at
from recorder.spark_options import check_reached, check_spark, for_executors, spark_options
from recorder.terminal import count, size

if TYPE_CHECKING:
    from recorder.capture.fact_files import Stem


@click.command(short_help="Make the facts of a capture: what its frames say, as small tables.")
@CAPTURE
@click.option(
    "--processes",
    type=POSITION,
    default=cores(),
    show_default="one a core",
    help="How many processes make them.",
)
@spark_options
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_context
def facts(
    context: click.Context, folder: Place, processes: int, master: str, conf: dict[str, str], as_json: bool
) -> None:
    """Make the facts of the capture in FOLDER: errors, topics, batches, groups, transactions, metadata of all frames.

    Facts are Parquet in FOLDER/facts, a few hundredths of the frames' size, which any tool can read (docs/tables.md).
    A running proxy makes them itself. Facts that are whole and of this version stay; all others are made anew from the
    frames, so FOLDER/facts may be deleted at any time. A file of frames that can't be read is named, with exit code 1.

    FOLDER may be s3://BUCKET/FOLDER: facts are then published there. With --master (or --conf), Spark's tasks make
    them, a file of frames each; all executors must reach FOLDER by this path, or the bucket.
    """
    from recorder.capture.fact_files import stems
    from recorder.capture.fact_maker import Busy, make_missing

    by_spark = _is_given(context, "master") or _is_given(context, "conf")
    if by_spark and _is_given(context, "processes"):
        raise click.UsageError("--processes are this machine's, --master and --conf are Spark's: right would be either")
    if by_spark:
        check_spark()
        check_reached(master)
    for note in ready_at(folder):
        echo(note, err=True)
    _check_ours(folder)
    try:
        total = len(stems(folder))
        elsewhere = partial(_by_spark, master, conf) if by_spark else None
        with facts_counted() as (made, say):
            failed = make_missing(folder, say=say, processes=processes, checked=True, elsewhere=elsewhere)
    except Busy as error:
        raise click.ClickException(str(error)) from error
    except (DamagedFileError, UnknownFormatError) as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"{printable(error.filename or folder)}: {reason_of(error)}") from error
    rows: Counter[str] = Counter()
    for each in made:
        rows.update(each.rows)
    written = sum(each.bytes for each in made)
    if as_json:
        current = total - len(made) - len(failed)
        told = {"made": len(made), "current": current, "bytes": written, "rows": dict(rows)}
        echo(json.dumps(told | {"failed": [one._asdict() for one in failed]}))
    elif made:
        echo(f"made the facts of {count(len(made), 'file')} of frames: {count(rows.total(), 'row')}, {size(written)}")
    elif not failed:
        echo(f"nothing to make: the facts of {count(total, 'file')} of frames are there")
    for one in failed:
        echo(f"Error: no facts of {printable(one.stem)}: {printable(one.reason)}", err=True)
    if failed:
        sys.exit(1)


def _is_given(context: click.Context, option: str) -> bool:
    """True for an option that is not at its default."""
    return context.get_parameter_source(option) is not ParameterSource.DEFAULT


def _by_spark(master: str, conf: dict[str, str], place: Place, todo: Sequence[Stem]) -> Iterator[tuple[Stem, Any]]:
    """Makes the facts of stems by Spark's tasks. Errors: as of `running.opened`."""
    from recorder.analysis.running import opened
    from recorder.analysis.tasks import by_tasks
    from recorder.capture.fact_maker import made_or_reason

    folder = place if isinstance(place, S3Path) else Path(for_executors(str(place)))
    with opened(master, conf, quick=False) as spark:
        yield from zip(todo, by_tasks(spark, partial(made_or_reason, folder), todo), strict=True)


def _check_ours(folder: Place) -> None:
    """Raises NoCapture for a folder of somebody else: nothing is written into it. A bucket says itself who may."""
    if isinstance(folder, Path) and not is_ours(folder):
        raise NoCapture(f"{printable(folder)} is another user's, so no facts are written into it; copy it first")
