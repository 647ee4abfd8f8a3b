"""The embedded engine: Sail computes the same DataFrames in a child process, without Java, and starts sooner.

pyspark's Spark Connect client talks to it. What Sail can't do the tables avoid (`expressions.py`), except where they
ask `is_embedded`. Answers are the same as Spark's, which stays what clusters, streams and large captures use.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import DataFrame, SparkSession

from recorder.analysis import embedded_process
from recorder.analysis.embedded_process import EngineProcess, NotStarted

# pyspark's functions ask it which client makes expressions
_CLIENT = "SPARK_CONNECT_MODE_ENABLED"
_SETTINGS = {"spark.sql.session.timeZone": "UTC"}
# where the running engine keeps tables that it has computed; empty while it doesn't run
_scratch: list[Path] = []
_numbers = count()


def is_embedded() -> bool:
    """True while the embedded engine runs: expressions are made for it then."""
    return bool(_scratch)


def stored(table: DataFrame) -> DataFrame:
    """Returns the table, computed now and kept in a file as long as the engine runs."""
    return _stored(table, _new_place())


@contextmanager
def stored_meanwhile(table: DataFrame) -> Iterator[DataFrame]:
    """Yields the table, computed now and kept in a file within the block."""
    place = _new_place()
    try:
        yield _stored(table, place)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _new_place() -> Path:
    return _scratch[-1] / f"table-{next(_numbers)}"


def _stored(table: DataFrame, place: Path) -> DataFrame:
    """Sail's own checkpoints fail where a plan's types differ from their Parquet in what may be null."""
    table.write.parquet(place.as_uri())
    return table.sparkSession.read.schema(table.schema).parquet(place.as_uri())


@contextmanager
def session() -> Iterator[SparkSession]:
    """Yields a session on the embedded engine; the block's end ends the engine and removes its files.

    Errors: PySparkRuntimeError if the engine can't start.
    """
    with embedded_process.running() as engine, _connect_client():
        # this import takes longer than the engine's start
        from pyspark.sql.connect.session import SparkSession as Client

        _check_started(engine)
        spark = Client.builder.channelBuilder(_channel(engine.socket)).create()
        # an engine that has died does not come back
        spark.client.set_retry_policies([])
        for name, value in _SETTINGS.items():
            spark.conf.set(name, value)
        _scratch.append(engine.folder)
        try:
            # pyspark's two sessions have one interface, but no common class
            yield cast(SparkSession, spark)
        finally:
            _scratch.pop()
            spark.client.close()


def _check_started(engine: EngineProcess) -> None:
    try:
        is_alone = engine.serves_alone()
    except NotStarted as error:
        raise PySparkRuntimeError(f"it did not start: {error}") from error
    if not is_alone:
        # imported here: a process that plans a data source has no click
        from recorder.terminal import say

        say("other users of this machine can reach the embedded engine: it may have no network of its own", err=True)


def _channel(place: str) -> Any:
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
