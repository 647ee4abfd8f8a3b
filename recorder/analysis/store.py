"""Checks that Spark's file systems can reach a URL (`s3a:`, `hdfs:`, `file:`) before a question is asked.

Without the check, Spark retries an unreachable store for minutes, and then reports the store client's error in a line
of a thousand characters. Each file system has its own exceptions; the root cause holds the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from recorder.capture.remote import is_url

# Settings of this check alone: a reachable store answers at once.
_IMPATIENT: Mapping[str, str] = {
    "fs.s3a.attempts.maximum": "1",
    "fs.s3a.retry.limit": "1",
    "fs.s3a.connection.establish.timeout": "5s",
    "ipc.client.connect.max.retries": "1",
    "ipc.client.connect.retry.interval": "100",
}
# What Amazon's client appends to a message: service, error code, request id, attempts.
_ADDED = re.compile(r"\s*\((Service|SDK Attempt Count|Request ID): .*", re.DOTALL)
# Exceptions for a file system that is in none of the jars.
_NO_JAR = ("ClassNotFoundException", "UnsupportedFileSystemException")
_NEEDS_JAR = "right would be its jars on the class path, as docs/clusters.md says"


class StoreGone(click.ClickException):
    """A store went away while it was in use. One line, and exit code 2, as for a store that was never there."""

    exit_code = 2


def check_found(spark: SparkSession, folder: str, wanted: str) -> None:
    """Errors: click.UsageError if the store does not answer, or if the folder has no `wanted`."""
    if not _has_any(spark, f"{folder.rstrip('/')}/{wanted}", folder):
        raise click.UsageError(f"{folder} holds no {wanted}: right would be the URL of a folder with {wanted} in it")


def check_answers(spark: SparkSession, folder: str) -> None:
    """Errors: click.UsageError if the URL's store does not answer. The folder need not exist."""
    _has_any(spark, folder, folder)


@contextmanager
def blamed(spark: SparkSession, folders: Iterable[str]) -> Iterator[None]:
    """If the block fails and one of these URLs no longer answers, blames its store for the failure.

    Errors: StoreGone, in place of Spark's error.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError):
        for folder in filter(is_url, folders):
            _check_still_there(spark, folder)
        raise


def _check_still_there(spark: SparkSession, folder: str) -> None:
    try:
        check_answers(spark, folder)
    except click.UsageError as error:
        # the command was right, so its usage is not shown
        raise StoreGone(error.message) from error


def _has_any(spark: SparkSession, pattern: str, shown: str) -> bool:
    jvm: Any = getattr(spark, "_jvm", None)
    # Spark Connect: only the server reaches the stores
    if jvm is None:
        return True
    try:
        settings = jvm.org.apache.hadoop.conf.Configuration(spark.sparkContext._jsc.hadoopConfiguration())
        for name, value in _IMPATIENT.items():
            settings.set(name, value)
        path = jvm.org.apache.hadoop.fs.Path(pattern)
        # a new instance: the shared one keeps the retry settings of the session
        store = jvm.org.apache.hadoop.fs.FileSystem.newInstance(path.toUri(), settings)
        try:
            return bool(store.globStatus(path))
        finally:
            store.close()
    except Py4JJavaError as error:
        raise click.UsageError(f"{shown} can't be read: {_why(error.java_exception)}") from error


def _why(thrown: Any) -> str:
    """Returns the root cause's message, in one line."""
    while thrown.getCause() is not None:
        thrown = thrown.getCause()
    kind = thrown.getClass().getSimpleName()
    reason = _ADDED.sub("", thrown.getMessage() or kind).strip().split("\n", 1)[0]
    return f"{reason}; {_NEEDS_JAR}" if kind in _NO_JAR else reason
