"""The recorder's commands, for `kafka-wiretap` to add to its own: compact, inspect, analyze, sql, demo.

Each command reads its options, makes one call and prints. Optional packages (pyspark, the demo's clients) are imported
inside the command that needs them, so that the others work without.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from proxy.terminal import echo
from recorder.analyze import analyze, sql
from recorder.inspect.commands import inspect
from recorder.ready import troubles
from recorder.replay.commands import Reports, replay
from recorder.report import files
from recorder.reporting import report
from recorder.terminal import count, size

FOLDER = click.Path(path_type=Path, file_okay=False)


@click.command(short_help="Make Parquet of what a proxy that has ended left in its log.")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False, exists=True))
def compact(folder: Path) -> None:
    """Make Parquet of everything in FOLDER that no running proxy is still writing.

    The proxy does this itself while it runs; this is for what a crash left behind. `inspect` and `analyze` do it too.
    Exit code 1 where a session can't be compacted, or has lost a part of its log: each is named, and keeps no other
    from being compacted.
    """
    from recorder.capture.compactor import compact as run

    try:
        done = run(folder)
    except OSError as error:
        raise click.ClickException(str(error)) from error
    if done.sessions or done.frames:
        what = f"{count(done.frames, 'frame')}, {size(done.bytes)}"
        echo(f"compacted {count(len(done.sessions), 'session')}: {what}")
    elif not (done.live or done.busy or done.failed):
        echo("nothing to compact")
    for name in done.live:
        echo(f"session {name} is still being recorded: its closed segments are done")
    for name in done.busy:
        echo(f"session {name} is being compacted by another process")
    for trouble in troubles(done):
        echo(f"Error: {trouble}", err=True)
    if troubles(done):
        sys.exit(1)


@click.command(short_help="Show it all: a small cluster, clients, the proxy, a capture, an analysis.")
@click.option("--folder", type=FOLDER, help="Where the capture goes. Default: a new folder capture-demo-<time> here.")
def demo(folder: Path | None) -> None:
    """The whole way on this machine, in less than a minute: clients, proxy, cluster, capture, Spark.

    Nothing to prepare: the cluster is librdkafka's mock of three brokers, everything listens on loopback, and
    everything but the capture is gone afterwards (Ctrl-C too). Exit code 1 where Java is missing for the analysis.
    """
    from recorder.demo.run import run

    sys.exit(run(folder))


replay.context_settings["obj"] = Reports(files.check, files.write)
COMMANDS: dict[str, click.Command] = {
    "analyze": analyze,
    "compact": compact,
    "demo": demo,
    "inspect": inspect,
    "replay": replay,
    "report": report,
    "sql": sql,
}
