"""Whether Spark's file systems find what a URL names (`s3a:`, `hdfs:`, `file:`): asked before a question is.

Otherwise Spark tries a store that is gone for minutes, and says what the store's client made of its refusal, in a line
of a thousand characters. Each file system has exceptions of its own; the root of their causes says why.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from recorder.capture.remote import is_url

# of this look alone: a store that is there answers at once
_IMPATIENT: Mapping[str, str] = {
    "fs.s3a.attempts.maximum": "1",
    "fs.s3a.retry.limit": "1",
    "fs.s3a.connection.establish.timeout": "5s",
    "ipc.client.connect.max.retries": "1",
    "ipc.client.connect.retry.interval": "100",
}
# what Amazon's client adds to a reason: the service, its code, a request's id, tries
_ADDED = re.compile(r"\s*\((Service|SDK Attempt Count|Request ID): .*", re.DOTALL)
# what is thrown where a file system is in none of the jars
_NO_JAR = ("ClassNotFoundException", "UnsupportedFileSystemException")
_NEEDS_JAR = "right would be its jars on the class path, as docs/clusters.md says"


def check_found(spark: SparkSession, folder: str, wanted: str) -> None:
    """Errors: click.UsageError, if the store of a capture's URL does not answer, or has no `wanted` in the folder."""
    if not _has_any(spark, f"{folder.rstrip('/')}/{wanted}", folder):
        raise click.UsageError(f"{folder} holds no {wanted}: right would be the URL of a folder with {wanted} in it")


def check_answers(spark: SparkSession, folder: str) -> None:
    """Errors: click.UsageError, if the store of a URL does not answer, whatever it has there."""
    _has_any(spark, folder, folder)


@contextmanager
def blamed(spark: SparkSession, folders: Iterable[str]) -> Iterator[None]:
    """What Spark says where the block fails is about a store, if one of these URLs does not answer any more.

    Errors: click.UsageError for that one, in place of Spark's.
    """
    try:
        yield
    except PySparkException:
        for folder in folders:
            if is_url(folder):
                check_answers(spark, folder)
        raise


def _has_any(spark: SparkSession, pattern: str, shown: str) -> bool:
    jvm: Any = getattr(spark, "_jvm", None)
    # Spark Connect, where only the server sees its stores
    if jvm is None:
        return True
    try:
        settings = jvm.org.apache.hadoop.conf.Configuration(spark.sparkContext._jsc.hadoopConfiguration())
        for name, value in _IMPATIENT.items():
            settings.set(name, value)
        path = jvm.org.apache.hadoop.fs.Path(pattern)
        # its own: the one that Spark is to use is as patient as it is set
        store = jvm.org.apache.hadoop.fs.FileSystem.newInstance(path.toUri(), settings)
        try:
            return bool(store.globStatus(path))
        finally:
            store.close()
    except Py4JJavaError as error:
        raise click.UsageError(f"{shown} can't be read: {_why(error.java_exception)}") from error


def _why(thrown: Any) -> str:
    """The root's reason, in one line."""
    while thrown.getCause() is not None:
        thrown = thrown.getCause()
    kind = thrown.getClass().getSimpleName()
    reason = _ADDED.sub("", thrown.getMessage() or kind).strip().split("\n", 1)[0]
    return f"{reason}; {_NEEDS_JAR}" if kind in _NO_JAR else reason
