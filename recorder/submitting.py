"""The toolbox on a cluster by `spark-submit`: the files to submit, and the program that it runs.

`kafka-wiretap spark-package` writes a zip and a three-line program that calls `main`. The master and the settings are
those of the `spark-submit` call.
"""

from __future__ import annotations

import shlex
import signal
from collections.abc import Callable
from pathlib import Path

import click

from proxy.command_line import ending_signals, folders, interrupt
from proxy.terminal import echo, printable
from recorder.analyze import analyze, sql
from recorder.comparing import compare
from recorder.report.files import put_whole
from recorder.reporting import report
from recorder.spark_options import check_spark
from recorder.stream import stream

ZIP, PROGRAM = "kafka_wiretap.zip", "kafka_wiretap_main.py"
_PROGRAM = '''\
"""What `spark-submit` runs: spark-submit --py-files kafka_wiretap.zip kafka_wiretap_main.py analyze FOLDER"""

from recorder.submitting import main

main()
'''


@click.command(
    "spark-package", short_help="Write what spark-submit takes to run analyze, compare, report and the like."
)
@click.argument("folder", type=click.Path(path_type=Path), shell_complete=folders)
def spark_package(folder: Path) -> None:
    """Write a zip and a program for `spark-submit` into FOLDER, which is made if it is not there.

    Driver and executors need Python with pyarrow. The driver also needs pandas, click, rich and msgspec. A capture must
    have the same path on all machines of the cluster, or a URL.

    \b
    Write it:       kafka-wiretap spark-package package
    Run it:         cd package && spark-submit --master spark://host:7077 --py-files kafka_wiretap.zip \\
                      kafka_wiretap_main.py analyze /captures/today
    """
    # all signals that end it work like Ctrl-C: no file is left behind
    for number in ending_signals():
        signal.signal(number, interrupt)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, write in _FILES.items():
            put_whole(folder / name, write)
    except OSError as error:
        raise click.UsageError(f"{printable(folder)} can't be written: {error.strerror or error}") from error
    zipped, program = (shlex.quote(str(folder / name)) for name in _FILES)
    echo(f"spark-submit --master spark://HOST:7077 --py-files {zipped} {program} analyze FOLDER")


def _zip(target: Path) -> None:
    from recorder.analysis.executor_zip import write_whole

    write_whole(target)


def _program(target: Path) -> None:
    target.write_text(_PROGRAM)


_FILES: dict[str, Callable[[Path], None]] = {ZIP: _zip, PROGRAM: _program}


def main() -> None:
    """Runs a command of the toolbox with the master that `spark-submit` was given as the default."""
    check_spark()
    from recorder.analysis import job

    commands = [analyze, compare, report, sql, stream]
    group = click.Group("kafka_wiretap_main.py", {command.name or "": command for command in commands})
    master = job.submitted().get("spark.master")
    group.main(default_map={name: {"master": master} for name in group.commands} if master else {})
