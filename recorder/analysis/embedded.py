"""The embedded engine: Sail computes the same DataFrames in a child process, without Java, and starts sooner.

pyspark's Spark Connect client talks to it. What Sail can't do the tables avoid (`expressions.py`), except where they
ask `is_embedded`. Answers are the same as Spark's, which stays what clusters, streams and large captures use.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import DataFrame, SparkSession

from recorder.analysis.embedded_server import OWN

# pyspark's functions ask it which client makes expressions
_CLIENT = "SPARK_CONNECT_MODE_ENABLED"
_SETTINGS = {"spark.sql.session.timeZone": "UTC"}
# Seconds that the child gets for its end.
_ENDS_WITHIN = 10
# where the running engine keeps tables that it has computed; empty while it doesn't run
_scratch: list[Path] = []
_numbers = count()


def is_embedded() -> bool:
    """True while the embedded engine runs: expressions are made for it then."""
    return bool(_scratch)


def stored(table: DataFrame) -> DataFrame:
    """Returns the table, computed now and kept in a file, on the embedded engine.

    Sail's own checkpoints fail where a plan's types differ from their Parquet in what may be null.
    """
    place = (_scratch[-1] / f"table-{next(_numbers)}").as_uri()
    table.write.parquet(place)
    return table.sparkSession.read.schema(table.schema).parquet(place)


@contextmanager
def session() -> Iterator[SparkSession]:
    """Yields a session on the embedded engine; the block's end ends the engine and removes its files.

    Errors: PySparkRuntimeError if the engine can't start.
    """
    with (
        tempfile.TemporaryDirectory(prefix="kafka-wiretap-engine-") as folder,
        _engine(Path(folder)) as place,
        _connect_client(),
    ):
        from pyspark.sql.connect.session import SparkSession as Client

        spark = Client.builder.channelBuilder(_channel(place)).create()
        # an engine that has died does not come back
        spark.client.set_retry_policies([])
        for name, value in _SETTINGS.items():
            spark.conf.set(name, value)
        _scratch.append(Path(folder))
        try:
            # pyspark's two sessions have one interface, but no common class
            yield cast(SparkSession, spark)
        finally:
            _scratch.pop()
            spark.client.close()


@contextmanager
def _engine(folder: Path) -> Iterator[Path]:
    """Runs the engine's process; yields the Unix socket by which it is reached."""
    place, log = folder / "engine", folder / "log"
    with log.open("wb") as output:
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "recorder.analysis.embedded_server", place],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            # what it spills goes with the folder
            env={"RUST_LOG": "off", **os.environ, "TMPDIR": str(folder)},
            # a terminal's Ctrl-C ends a question, and not the engine
            process_group=0,
        )
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        network = child.stdout.readline().decode().strip()
        if not network:
            last = log.read_text(errors="replace").strip().rpartition("\n")[2]
            raise PySparkRuntimeError(f"it did not start: {last}")
        if network != OWN:
            # imported here: a process that plans a data source has no click
            from recorder.terminal import say

            say(
                "other users of this machine can reach the embedded engine: it may have no network of its own", err=True
            )
        yield place
    finally:
        child.stdin.close()
        try:
            child.wait(_ENDS_WITHIN)
        except BaseException as error:
            # also a second Ctrl-C: no process is left behind
            child.kill()
            child.wait()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
        finally:
            child.stdout.close()


def _channel(place: Path) -> Any:
    from pyspark.sql.connect.client import ChannelBuilder

    class OfSocket(ChannelBuilder):
        """Reaches the engine by its Unix socket."""

        def toChannel(self) -> Any:  # noqa: N802 - pyspark's name
            # a URI: the path of a user's temporary folder may have blanks and signs
            return self._insecure_channel(f"unix:{quote(str(place))}")

    found = OfSocket()
    # by itself gRPC names the socket, in letters that no host's name has
    found.setChannelOption("grpc.default_authority", "localhost")
    return found


@contextmanager
def _connect_client() -> Iterator[None]:
    kept = os.environ.get(_CLIENT)
    os.environ[_CLIENT] = "1"
    try:
        yield
    finally:
        del os.environ[_CLIENT]
        if kept is not None:
            os.environ[_CLIENT] = kept
