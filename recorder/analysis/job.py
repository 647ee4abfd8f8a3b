"""Opens Spark sessions, with settings that keep them small and quiet. No other module opens one.

Memory: while a task reads, it holds a row group (the capture bounds their bodies to 64 MiB), a batch of rows as
vectors, and a batch on its way to Python. The settings bound batches by rows or by bytes, whichever Spark counts, so an
executor of 2 GB processes thousands of frames of 1 MB. Network: a local master uses loopback alone, and there is no web
UI. Output: the JVM's goes to a file.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stderr
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from recorder.analysis.executor_zip import zip_for_executors
from recorder.analysis.master import is_loopback

SETTINGS = {
    "spark.app.name": "kafka-wiretap",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # Where in Python a column was made: error messages are clear without it, and it doubles the time to build columns.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # the format of each query's plan in the web UI, which is off
    "spark.sql.ui.explainMode": "simple",
    # Spark gets a capture's files by name; a listing task for each would cost more than it saves
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "16",
    # rows of a vectorized Parquet batch; a batch ends with its row group too
    "spark.sql.parquet.columnarReaderBatchSize": "128",
    # vectors that grew for large bodies are freed before the next batch, and grow by a fifth instead of doubling
    "spark.sql.inMemoryColumnarStorage.hugeVectorThreshold": "16m",
    "spark.sql.inMemoryColumnarStorage.hugeVectorReserveRatio": "1.2",
    # a batch on its way to Python ends at whichever bound is met first
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(16 << 20),
    # Spark compiles about a thousand Java classes for a report, and caches a hundred by default: concurrent questions
    # would evict each other's. A class that is not named by its place in a plan serves other plans too.
    "spark.sql.codegen.cache.maxEntries": "1000",
    "spark.sql.codegen.useIdInClassName": "false",
    # The rows of kept tables are serialized. Java's own serialization takes several times as long. Kryo's buffer grows
    # up to this limit; the largest objects are larger than Spark's default limit of 64 MB.
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.kryoserializer.buffer.max": "2047m",
    # a task's share of a file; its row groups are read one after the other
    "spark.sql.files.maxPartitionBytes": "128m",
}
_LOOPBACK = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
# Only heads are shuffled; with more partitions a laptop would spend most of its time on scheduling.
_LOCAL = {"spark.sql.shuffle.partitions": "8"}
# For a capture so small that each table is a single task: no code generation, no adaptive replanning, no broadcast
# joins.
FEW_ROWS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.optimizer.disableHints": "true",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}
# Seconds that a JVM gets for its clean-up.
_JVM_ENDS_WITHIN = 20
# For a small capture the JVM's second compiler and its parallel collector cost more than they save: without them the
# answer takes half to three quarters of the processor time. With one compiler alone, Java reserves 48 MiB for compiled
# code, and stops compiling when they are full.
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m"
# pyspark's loggers that print an exception as JSON with its stack, before the caller can catch it.
_TALKATIVE = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""


def is_local(master: str) -> bool:
    """True for a master whose driver and executors all run on this machine."""
    return master.startswith("local")


def settings(master: str, extra: Mapping[str, str]) -> dict[str, str]:
    """Returns all settings of a session; `extra` wins. Workers on this machine reach the driver by loopback."""
    is_here = is_local(master) or is_loopback(master)
    return {
        **SETTINGS,
        **(_LOCAL if is_local(master) else {}),
        **(_LOOPBACK if is_here else {}),
        **extra,
        "spark.master": master,
    }


def submitted() -> dict[str, str]:
    """Returns the settings of `spark-submit` if it runs this process, else none."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


@contextmanager
def session(
    master: str = "local[*]", *, extra: Mapping[str, str] | None = None, log: Path | None = None, quick: bool = False
) -> Iterator[SparkSession]:
    """Yields a session on `master` whose executors have this project's code; the block's end ends its JVM.

    `extra`: Spark settings by name, which win over those of `spark-submit`.
    `log`: the file for the JVM's output; by default a temporary file, which is removed.
    `quick`: a faster start but a slower run, for a local master.
    Raises pyspark's exceptions if the JVM can't start or the master can't be reached.
    """
    with tempfile.TemporaryDirectory(prefix="kafka-wiretap-") as scratch:
        folder = Path(scratch)
        (folder / "log4j2.properties").write_text(_LOG4J)
        _prepare(master)
        try:
            # a JVM may run although no session could be opened, for example because the master is gone
            with _stderr_to(log or folder / "spark.log"):
                spark = _open(
                    _placed(settings(master, {**submitted(), **(extra or {})}), folder),
                    _QUICK if quick and is_local(master) else "",
                )
            _silence(spark)
            spark.sparkContext.addPyFile(str(zip_for_executors(folder / "kafka_wiretap.zip")))
            yield spark
            spark.stop()
        finally:
            _end_jvm()


def mixes_up_filters(spark: SparkSession) -> bool:
    """True for a Spark that applies a Python data source's pushed filters to other queries of the same DataFrame.

    Such a Spark stores the plan with the filters in the source instead of the scan. True if the session can't tell.
    """
    jvm: Any = getattr(spark, "_jvm", None)
    if jvm is None:
        return True
    source = jvm.java.lang.Class.forName("org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2")
    return any(method.getName() == "setReadInfo" for method in source.getMethods())


def _prepare(master: str) -> None:
    """Sets the executors' interpreter, binds listeners to loopback if all is local, and mutes pyspark's error logs."""
    for name in _TALKATIVE:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)
    logging.getLogger().addFilter(_is_no_lost_call)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if is_local(master) or is_loopback(master):
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"


def _is_no_lost_call(record: logging.LogRecord) -> bool:
    """False for py4j's log record about a JVM that is gone: py4j also raises an error."""
    return record.module != "java_gateway"


def _silence(spark: SparkSession) -> None:
    """Mutes the traceback of pyspark's accumulator server for a connection that a killed JVM broke.

    The failing call reports the error anyway.
    """
    server: Any = spark.sparkContext._accumulatorServer
    server.handle_error = lambda *_request: None


def _placed(chosen: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Returns the settings with `folder` for temporary files and with the log's layout."""
    local = {"spark.local.dir": str(folder)} if is_local(chosen["spark.master"]) else {}
    quiet = f"-Dlog4j2.configurationFile=file:{folder / 'log4j2.properties'} -Djava.io.tmpdir={folder}"
    return {**local, **chosen, _JAVA_OPTIONS: f"{quiet} {chosen.get(_JAVA_OPTIONS, '')}".strip()}


def _open(chosen: Mapping[str, str], options: str) -> SparkSession:
    builder, conf = SparkSession.builder, SparkConf(loadDefaults=False)
    for name, value in {**chosen, _JAVA_OPTIONS: f"{options} {chosen[_JAVA_OPTIONS]}".strip()}.items():
        builder = builder.config(name, value)
        conf.set(name, value)
    # executors import this module from a zip without the command line
    from proxy.command_line import interrupts_wait

    # a JVM that starts would be left behind: pyspark removes what the JVM looks for, and nobody knows its process
    with interrupts_wait():
        SparkContext._ensure_initialized(conf=conf)
    return builder.getOrCreate()


def _end_jvm() -> None:
    """Ends the JVM by closing its standard input, and resets pyspark's references to it.

    It calls nothing in the JVM: after an interrupted call, the next call may receive the wrong reply.
    """
    gateway: Any = SparkContext._gateway
    # the JVM of spark-submit ends by itself, after this process
    if gateway is not None and gateway.proc is not None:
        try:
            gateway.proc.stdin.close()
            gateway.proc.wait(_JVM_ENDS_WITHIN)
        except BaseException as error:
            # also a second Ctrl-C: no process is left behind
            gateway.proc.kill()
            gateway.proc.wait()
            if not isinstance(error, subprocess.TimeoutExpired | OSError):
                raise
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None


def _is_stderr_2() -> bool:
    """False if sys.stderr is not file descriptor 2, as in tests."""
    try:
        return sys.stderr.fileno() == 2
    except (OSError, ValueError):
        return False


@contextmanager
def _stderr_to(file: Path) -> Iterator[None]:
    """Within the block, file descriptor 2 is `file`: child processes that start now keep writing there.

    sys.stderr still reaches the terminal, so a status line keeps running in its thread.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    target = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.dup2(target, 2)
        with (
            open(kept, "w", errors="backslashreplace", closefd=False) as own,
            redirect_stderr(own) if _is_stderr_2() else nullcontext(),
        ):
            yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(target)
