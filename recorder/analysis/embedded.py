"""The embedded engine: Sail runs the same DataFrames in this process. It needs no Java, and starts within a second.

pyspark's Spark Connect client talks to it over loopback. What Sail can't do the tables avoid (`expressions.py`), except
where this module says which engine runs. Answers are the same as Spark's. Spark stays what clusters, streams and large
captures use.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

# Sail's log, of which a user can make no use
_LOG = "RUST_LOG"
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
    """Returns the table, computed now and kept in a file, on the embedded engine.

    Sail's own checkpoints fail where a plan's types differ from their Parquet in what may be null.
    """
    place = (_scratch[-1] / f"table-{next(_numbers)}").as_uri()
    table.write.parquet(place)
    return table.sparkSession.read.schema(table.schema).parquet(place)


@contextmanager
def session() -> Iterator[SparkSession]:
    """Yields a session on the embedded engine; the block's end ends the engine and removes its files."""
    with (
        tempfile.TemporaryDirectory(prefix="kafka-wiretap-sail-") as scratch,
        _environment({_LOG: os.environ.get(_LOG, "off"), _CLIENT: "1"}),
    ):
        # imported here: Sail's log reads the environment then
        from pysail.spark import SparkConnectServer
        from pyspark.sql.connect.session import SparkSession as Client

        server = SparkConnectServer("127.0.0.1", 0)
        server.start(background=True)
        try:
            host, port = server.listening_address
            spark = Client.builder.remote(f"sc://{host}:{port}").create()
            for name, value in _SETTINGS.items():
                spark.conf.set(name, value)
            _scratch.append(Path(scratch))
            try:
                yield spark
            finally:
                _scratch.pop()
                spark.stop()
        finally:
            server.stop()


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    kept = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in kept.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
