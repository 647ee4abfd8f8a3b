"""The Spark toolbox, as ratios to other ways of doing the same, measured in turns in one run.

    heads     requests, bytes and latency percentiles by api: `latency_by_api`, against a plain `groupBy` over the same
              columns in a Spark of default settings
    analyze   the whole answer of `kafka-wiretap analyze` over small exchanges, errors and waits of each answer included
    records   the table `records` of Fetch answers, against kafka-python's decoder in `mapInPandas`
    sources   the ways into a capture (`bench.spark_sources`), of captures of that many MB, and the memory that all
              processes of each had
    streams   a stream's time and memory, and its rate against the proxy and the compactor that record what it reads
              (`bench.spark_streams`)
    report    `kafka-wiretap report` of captures of some sizes, in MB, and the memory that all its processes had
    masters   the whole answer of `analyze` over captures of some sizes, in MB, on threads, on one and two executors and
              on a standalone cluster of two workers, by either road, and the memory that all processes had

`python -m bench.spark --exchanges N --answers N --sources N --streams SECONDS --report N,N --masters N,N --cores N`;
0 leaves a part out.
Each timing makes its DataFrames anew: a second `collect` would reuse the first one's shuffles. Wall clock, because the
work is the JVM's and its Python workers'. Of the rounds the fastest counts, on both sides (`bench.timing`).
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench import spark_sources, spark_streams
from bench.console import say
from bench.spark_captures import BLOCK, HOUR, IN_BATCH, VERSIONS, fetched, mixed, small_exchanges
from bench.spark_memory import resident
from bench.timing import ROUNDS, fastest, seconds
from proxy.wire.keys import FETCH
from recorder.capture import frames as c
from tests.recorder.analysis.standalone import standalone

# exchanges of the stream that opens bodies in Python
_MIXED = 480_000
STANDALONE = "a standalone cluster"
# threads of one process; one executor and two, of a core each; a Master and two Workers, each a process
MASTERS = ("local[1]", "local[2]", "local-cluster[1,1,1024]", "local-cluster[2,1,1024]", STANDALONE)


def _captured(spark: Any, folder: Path) -> Any:
    from recorder.analysis.sources import captured

    return captured(spark, str(folder), {"frames": [str(file) for file in (folder / HOUR).glob("*")], "events": []})


def heads(folder: Path, cores: int) -> tuple[float, float]:
    """Seconds of `latency_by_api`, and of the plain `groupBy`."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

    from recorder.analysis import job
    from recorder.analysis.questions.latency import latency_by_api
    from recorder.analysis.tables.exchanges import answered_exchanges

    with job.session(f"local[{cores}]") as spark:
        ours = fastest(lambda: latency_by_api(answered_exchanges(_captured(spark, folder))).collect())

    def plain() -> None:
        told = spark.read.parquet(str(folder / "frames")).filter(F.col(c.KIND) == c.RESPONSE)
        shares = (F.percentile_approx(c.LATENCY_NS, share, 10_000) for share in (0.5, 0.95, 0.99))
        told.groupBy(c.API).agg(F.count("*"), F.sum(c.SIZE), F.sum(c.REQUEST_SIZE), *shares).collect()

    settings = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false"}
    builder = SparkSession.builder.master(f"local[{cores}]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        return ours, fastest(plain)
    finally:
        spark.stop()
        job._end_jvm()


def analyzed(folder: Path, cores: int) -> float:
    """Seconds of the whole answer, in a session that is open."""
    from recorder.analysis import job
    from recorder.analysis.report import report

    with job.session(f"local[{cores}]") as spark:
        return fastest(lambda: report(_captured(spark, folder)), 2)


def reported(folder: Path, cores: int) -> tuple[float, int]:
    """Seconds of the command, from its start to the page; the most bytes that its processes had."""
    program = [sys.executable, "-c", "from proxy.cli import main; main()"]
    command = [*program, "report", str(folder), "-o", str(folder / "page.html"), "--master", f"local[{cores}]"]
    with resident() as most:
        spent = seconds(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))
    return spent, max(most)


def on_master(folder: Path, master: str, road: str) -> tuple[float, int]:
    """Seconds of all that `analyze` answers, in a session that is open; the most bytes that its processes had."""
    from recorder.analysis import job
    from recorder.analysis.bodies import Road
    from recorder.analysis.report import report

    with job.session(master, extra={"spark.executor.memory": "1g"}) as spark, resident() as most:
        # executors take their first task a while after the session was opened
        spark.range(0, 8, 1, 8).mapInArrow(lambda batches: batches, "id bigint").collect()
        spent = seconds(lambda: report(replace(_captured(spark, folder), road=Road(road))))
    return spent, max(most)


def record_rows(folder: Path, cores: int) -> dict[str, float]:
    """Seconds of the table by either road, and of kafka-python's."""
    from recorder.analysis import job
    from recorder.analysis.bodies import Road, rows
    from recorder.analysis.decode.record_rows import RECORDS
    from recorder.analysis.tables.frames import frames
    from recorder.facts.batches import BATCHES

    def table(spark: Any, decoder: Any, road: Road) -> Any:
        return rows(replace(_captured(spark, folder), road=road), decoder)

    def kafka_python(spark: Any) -> Any:
        return (
            frames(spark, str(folder))
            .select(c.SEQUENCE, c.FRAME)
            .mapInPandas(
                _by_kafka_python,
                "sequence bigint, topic string, partition int, offset bigint, timestamp bigint, "
                "key binary, value binary",
            )
        )

    with job.session(f"local[{cores}]") as spark:
        ways: dict[str, Callable[[], Any]] = {
            "records, worker road": lambda: table(spark, RECORDS, Road.WORKER),
            "records, jvm road": lambda: table(spark, RECORDS, Road.JVM),
            "batches, worker road": lambda: table(spark, BATCHES, Road.WORKER),
            "kafka-python in mapInPandas": lambda: kafka_python(spark),
        }
        found = dict.fromkeys(ways, float("inf"))
        for _ in range(ROUNDS):
            for name, way in ways.items():
                spent = seconds(lambda: way().write.format("noop").mode("overwrite").save())  # noqa: B023 - called here
                found[name] = min(found[name], spent)
        return found


def _by_kafka_python(tables: Iterable[Any]) -> Iterable[Any]:
    """Runs in Spark's Python workers: the same rows, by kafka-python's reader of answers and of records."""
    import pandas as pd

    for table in tables:
        found = zip(table[c.SEQUENCE], table[c.FRAME], strict=True)
        rows = [(sequence, *row) for sequence, frame in found for row in read_by_kafka_python(frame)]
        yield pd.DataFrame(rows, columns=["sequence", "topic", "partition", "offset", "timestamp", "key", "value"])


def read_by_kafka_python(frame: bytes) -> Iterator[tuple[Any, ...]]:
    """Topic, partition, offset, timestamp, key and value of each record in an answer."""
    from kafka.record.memory_records import MemoryRecords

    for topic, partition, data in answer_parts(frame):
        found = MemoryRecords(data)
        while (batch := found.next_batch()) is not None:
            for one in batch:
                yield topic, partition, one.offset, one.timestamp, one.key, one.value


def answer_parts(frame: bytes) -> Iterator[tuple[str, int, bytes]]:
    """Topic, partition and records of an answer, by kafka-python's decoder."""
    from kafka.protocol.consumer.fetch import FetchResponse

    for topic in FetchResponse.decode(frame[4:], version=VERSIONS[FETCH]).responses:
        for partition in topic.partitions:
            yield topic.topic, partition.partition_index, partition.records


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exchanges", type=int, default=2_400_000)
    parser.add_argument("--answers", type=int, default=20_000, help=f"of {IN_BATCH} records each")
    parser.add_argument("--sources", type=int, default=200, help="MB")
    parser.add_argument("--streams", type=float, default=10, help="seconds of recording")
    parser.add_argument("--report", default="100,1000", help="captures' sizes in MB, with commas between")
    parser.add_argument("--masters", default="100,1000,5000", help="captures' sizes in MB, with commas between")
    parser.add_argument("--cores", type=int, default=2)
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="kafka-wiretap-bench-") as place:
        if asked.exchanges:
            _say_small(small_exchanges(Path(place) / "small", asked.exchanges), asked)
        if asked.answers:
            _say_records(fetched(Path(place) / "fetched", asked.answers), asked)
        if asked.sources:
            _say_sources(Path(place) / "sources", asked)
        if asked.streams:
            _say_streams(Path(place) / "streams", asked)
        for megabytes in _sizes(asked.report):
            _say_report(mixed(Path(place) / f"mixed-{megabytes}", megabytes), megabytes, asked.cores)
        for megabytes in _sizes(asked.masters):
            _say_masters(Path(place) / f"masters-{megabytes}", megabytes)


def _sizes(told: str) -> list[int]:
    """Numbers with commas between; 0 is none."""
    return [int(one) for one in told.split(",") if one.strip("0 ")]


def _say_small(folder: Path, asked: argparse.Namespace) -> None:
    ours, plain = heads(folder, asked.cores)
    print(
        f"latency_by_api over {asked.exchanges:,} exchanges: {ours:.1f} s; plain groupBy: {plain:.1f} s, "
        f"{ours / plain:.2f} times its time",
        flush=True,
    )
    say(f"analyze, everything: {analyzed(folder, asked.cores):.1f} s")


def _say_records(folder: Path, asked: argparse.Namespace) -> None:
    found = record_rows(folder, asked.cores)
    other = found["kafka-python in mapInPandas"]
    for name, spent in found.items():
        rate = asked.answers * IN_BATCH / spent / asked.cores
        say(f"{name}: {spent:.1f} s, {rate:,.0f} records/s a core, {other / spent:.1f} times as fast")


def _say_sources(place: Path, asked: argparse.Namespace) -> None:
    folder = mixed(place, asked.sources)
    ways = [
        (f"of {asked.sources} MB", spark_sources.reading(folder, asked.cores), "records, jvm road"),
        ("OffsetCommit's messages", spark_sources.pushing(folder, asked.cores, "OffsetCommit"), "filtered by Spark"),
    ]
    for what, found, other in ways:
        for name, (spent, most) in found.items():
            ratio = f"{spent / found[other][0]:.2f} times {other}'s"
            say(f"{what}: {name}: {spent:.1f} s, {ratio}, {most / 1e6:,.0f} MB resident")


def _say_streams(place: Path, asked: argparse.Namespace) -> None:
    place.mkdir()
    tiny = small_exchanges(place / "tiny", BLOCK)
    made = spark_streams.recorded(place, asked.streams)
    say(f"recording Heartbeats: {made.rate:,.0f} frames a second of processor time")
    captures = {
        "those": place / "capture",
        "Heartbeats, Produces and Fetches": small_exchanges(place / "small", _MIXED),
    }
    for name, capture in captures.items():
        read = spark_streams.streamed(capture, tiny, asked.cores)
        ratio = f"{read.work.rate / made.rate:.2f} times the recording's rate"
        say(f"a stream over {name}: {read.work.rate:,.0f} frames a second of processor time, {ratio}")
        say(f"the first one: {read.first:.1f} s; {read.resident / 1e6:,.0f} MB resident")


def _say_report(folder: Path, megabytes: int, cores: int) -> None:
    spent, most = reported(folder, cores)
    say(f"report of {megabytes:,} MB: {spent:.0f} s, {most / 1e6:,.0f} MB resident")


def _say_masters(folder: Path, megabytes: int) -> None:
    mixed(folder, megabytes)
    for master in MASTERS:
        for road in ("worker", "jvm"):
            with _at(master) as address:
                spent, most = on_master(folder, address, road)
            told = f"analyze of {megabytes:,} MB on {master} by the {road} road"
            say(f"{told}: {spent:.0f} s, {most / 1e6:,.0f} MB resident")
    shutil.rmtree(folder)


@contextmanager
def _at(master: str) -> Iterator[str]:
    """What Spark calls a master; a standalone cluster is begun, and ended."""
    if master != STANDALONE:
        yield master
        return
    with tempfile.TemporaryDirectory(prefix="kafka-wiretap-bench-") as place, standalone(Path(place)) as address:
        yield address


if __name__ == "__main__":
    main(sys.argv[1:])
