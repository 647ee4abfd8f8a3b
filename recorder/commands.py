"""The recorder's commands, for `kafka-wiretap` to add to its own.

Each command reads its options, makes one call and prints. Optional packages (pyspark, the demo's clients) are imported
inside the command that needs them, so that the others work without.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click
from click.core import ParameterSource

from proxy.option_types import FOLDER, SIZE
from proxy.terminal import echo, printable
from recorder.analyze import analyze, sql
from recorder.capture.frames import DamagedFileError, UnknownFormatError
from recorder.capture.remote import was_url
from recorder.comparing import compare
from recorder.encodings.commands import encodings
from recorder.export.commands import export
from recorder.inspect.commands import inspect
from recorder.inspect_tables import COMMANDS as VIEWS
from recorder.making_facts import facts
from recorder.mcp.commands import mcp
from recorder.page.command import view
from recorder.pcap.commands import import_dump
from recorder.pruning import prune
from recorder.ready import NoCapture, check_encodes, check_is_capture, troubles
from recorder.redacting import redact
from recorder.replay.commands import Reports, replay
from recorder.report import files
from recorder.reporting import report
from recorder.shipping.command import ship
from recorder.stream import stream
from recorder.submitting import spark_package
from recorder.terminal import console, count, size
from recorder.top.command import top


@click.command(short_help="Make Parquet of what a proxy that has ended left in its log.")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option(
    "--merge", "out", type=FOLDER, metavar="OUT", help="Then merge small files into large ones, in the folder OUT."
)
@click.option(
    "--file-size", type=SIZE, default="1GiB", show_default=True, help="About how large the merged files become."
)
def compact(folder: Path, out: Path | None, file_size: int) -> None:
    """Turn everything in FOLDER that no running proxy is still writing into Parquet.

    A running proxy does this itself, and `inspect` and `analyze` do it before they read. Use this command for logs that
    a crash left behind. If a session can't be compacted, or has lost a part of its log, the command names it, compacts
    the others, and exits with 1.

    A proxy publishes a file a minute. --merge makes one file for each hour and session, in OUT, which is then a capture
    like any other. FOLDER stays as it is. Hours that are not over wait for the next run.
    """
    from recorder.capture.compactor import compact as run

    _check_merge(out)
    check_is_capture(folder)
    try:
        with console(stderr=True).status("compacting ...") as status:
            done = run(folder, say=lambda far: status.update(f"compacting {far} ..."))
    except OSError as error:
        raise click.ClickException(str(error)) from error
    if done.sessions or done.frames:
        what = f"{count(done.frames, 'frame')}, {size(done.bytes)}"
        echo(f"compacted {count(len(done.sessions), 'session')}: {what}")
    elif not (done.live or done.busy or done.failed or out):
        echo("nothing to compact")
    for name in done.live:
        echo(f"session {name} is still being recorded: its closed segments are done")
    for name in done.busy:
        echo(f"session {name} is being compacted by another process")
    wrong = [*troubles(done), *(() if out is None else _merge(folder, out, file_size))]
    for trouble in wrong:
        echo(f"Error: {trouble}", err=True)
    if wrong:
        sys.exit(1)


def _check_merge(out: Path | None) -> None:
    """Checks the options of merging. Errors: UsageError for a URL, or for --file-size without --merge."""
    if out is not None and was_url(str(out)):
        raise click.UsageError(f"{printable(out)} is a URL; right would be --merge with a folder of this machine")
    size_from = click.get_current_context().get_parameter_source("file_size")
    if out is None and size_from is ParameterSource.COMMANDLINE:
        raise click.UsageError("--file-size is how large merged files become; right would be --merge OUT as well")


def _merge(folder: Path, out: Path, file_size: int) -> tuple[str, ...]:
    """Merges, prints the result, and returns the sessions or files that could not be merged. Errors: ClickException."""
    from recorder.capture.merging import CannotMerge, merge

    for path in (folder, out):
        check_encodes(path)
    try:
        with console(stderr=True).status("merging ...") as status:
            done = merge(folder, out, file_bytes=file_size, say=lambda far: status.update(f"merging {far} ..."))
    except CannotMerge as error:
        raise NoCapture(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"{printable(error.filename or out)}: {error.strerror or error}") from error
    except (DamagedFileError, UnknownFormatError) as error:
        raise click.ClickException(str(error)) from error
    if done.large_files:
        into = f"{count(done.small_files, 'file')} into {count(done.large_files, 'file')} of {printable(out)}"
        echo(f"merged {into}: {count(done.frames, 'frame')}")
    elif not done.waiting and not done.failed:
        echo(
            "nothing to merge"
            + (f": {count(done.merged_before, 'file')} of it are merged" if done.merged_before else "")
        )
    if done.waiting:
        until = f" to {done.waiting[-1]}" if len(done.waiting) > 1 else ""
        echo(f"not merged yet, because more may come: {done.waiting[0]}{until} UTC")
    return done.failed


@click.command(short_help="Show it all: a small cluster, clients, the proxy, a capture, analysis, replay, report.")
@click.option("--folder", type=FOLDER, help="Where the capture goes. Default: a new folder capture-demo-<time> here.")
@click.option("--healthy", is_flag=True, help="Only clients that do nothing wrong: the report finds nothing.")
def demo(folder: Path | None, healthy: bool) -> None:
    """The whole way on this machine, in about two minutes: clients, proxy, cluster, capture, Spark, replay, report.

    There is nothing to prepare: the cluster is librdkafka's mock of three brokers, and everything listens on loopback.
    Afterwards, also after Ctrl-C, only the capture and its report are left. Three of the clients have a bad habit,
    and so has the mock (it answers acks=0): the report finds them. The exit code is 1 if Java is missing for the
    analysis.
    """
    from recorder.demo.run import run

    sys.exit(run(folder, healthy=healthy))


for name, command in VIEWS.items():
    inspect.add_command(command, name)
replay.context_settings["obj"] = Reports(files.check, files.write)
COMMANDS: dict[str, click.Command] = {
    "analyze": analyze,
    "compact": compact,
    "compare": compare,
    "demo": demo,
    "encodings": encodings,
    "export": export,
    "facts": facts,
    "import": import_dump,
    "inspect": inspect,
    "mcp": mcp,
    "prune": prune,
    "redact": redact,
    "replay": replay,
    "report": report,
    "ship": ship,
    "spark-package": spark_package,
    "sql": sql,
    "stream": stream,
    "top": top,
    "view": view,
}
