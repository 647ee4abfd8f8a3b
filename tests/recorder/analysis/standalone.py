"""Runs a standalone Spark cluster: a Master and Workers, each a process, from PySpark's own jars.

All listen on loopback, on ports that the kernel chooses. Each process is ended by its id, and ends its executors.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from time import monotonic

import pyspark

SPARK_HOME = Path(pyspark.__file__).parent
# Seconds for a JVM on a machine that is busy with other tests.
BEGINS_WITHIN_S = 120
ENDS_WITHIN_S = 30
_LOCATED = re.compile(r"Starting Spark master at (spark://\S+)")
# the REST server would listen on a fixed port
_SETTINGS = "-Dspark.master.rest.enabled=false -Dspark.ui.enabled=false"


@contextmanager
def standalone(folder: Path, workers: int = 2, mib: int = 1024) -> Iterator[str]:
    """Yields the master's address, once all workers (of one core each) have joined."""
    with ExitStack() as cluster:
        log = folder / "master.log"
        master = cluster.enter_context(_process("master.Master", log))
        (address,) = _said(master, log, _LOCATED, 1)
        for number in range(workers):
            options = ["--cores", "1", "--memory", f"{mib}m", "--work-dir", str(folder / f"worker-{number}"), address]
            cluster.enter_context(_process("worker.Worker", folder / f"worker-{number}.log", *options))
        _said(master, log, re.compile("Registering worker (.*)"), workers)
        yield address


@contextmanager
def _process(name: str, log: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Starts a process: `spark-class` becomes the JVM, under its own id."""
    own = {"SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_JAVA_OPTS": _SETTINGS}
    command = [SPARK_HOME / "bin" / "spark-class", f"org.apache.spark.deploy.{name}", "--host", "127.0.0.1"]
    # 0: the kernel chooses
    command += ["--port", "0", "--webui-port", "0", *options]
    with log.open("wb") as out:
        made = subprocess.Popen(
            [str(one) for one in command], stdout=out, stderr=subprocess.STDOUT, env=os.environ | own
        )
    try:
        yield made
    finally:
        made.terminate()
        try:
            made.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            made.kill()
            made.wait()


def _said(process: subprocess.Popen[bytes], log: Path, what: re.Pattern[str], times: int) -> list[str]:
    """Waits until a process has printed this so often."""
    began = monotonic()
    while len(found := what.findall(log.read_text(errors="replace"))) < times:
        if process.poll() is not None or monotonic() - began > BEGINS_WITHIN_S:
            raise AssertionError(f"no {what.pattern!r} in:\n{log.read_text(errors='replace')[-4000:]}")
        _wait(process)
    return found[:times]


def _wait(process: subprocess.Popen[bytes]) -> None:
    """Waits until the process ends, or for a tenth of a second."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(0.1)
