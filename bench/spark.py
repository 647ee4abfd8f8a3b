"""The Spark toolbox, as ratios to other ways of doing the same, measured in turns in one run.

    heads     requests, bytes and latency percentiles by api: `latency_by_api`, against a plain `groupBy` over the same
              columns in a Spark of default settings
    analyze   the whole answer of `kafka-wiretap analyze` over small exchanges, errors and waits of each answer included
    records   the table `records` of Fetch answers, against kafka-python's decoder in `mapInPandas`

`python -m bench.spark --exchanges N --answers N --cores N`. Each timing makes its DataFrames anew: a second `collect`
would reuse the first one's shuffles. Wall clock, because the work is the JVM's and its Python workers'. Of the rounds
the fastest counts, on both sides: other work on the machine only ever adds.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from proxy.wire import api_name, encode_request, encode_response, records
from proxy.wire.keys import FETCH, HEARTBEAT, PRODUCE
from recorder.capture import frames as c

ROUNDS = 3
# exchanges that are written once and repeated with other numbers
BLOCK = 12_000
CONNECTIONS = 50
BEGAN_NS = int(datetime(2026, 11, 21, 12, tzinfo=UTC).timestamp()) * 10**9
HOUR = "frames/date=2026-11-21/hour=12"
VERSIONS = {HEARTBEAT: 4, PRODUCE: 9, FETCH: 11}
# records in an answer, a batch of 16 KiB as a producer's default fills it
IN_BATCH, VALUE = 150, 100


def small_exchanges(folder: Path, count: int) -> Path:
    """A capture of heartbeats (half), produces and empty fetches (a quarter each)."""
    block = _table([row for number in range(BLOCK) for row in _exchange(number)])
    return _write(folder, (_shifted(block, at * BLOCK) for at in range(-(-count // BLOCK))))


def fetched(folder: Path, count: int) -> Path:
    """A capture of Fetch answers with one batch of IN_BATCH records each."""
    batch = records.write_batch([records.Record(n, 1000 + n, b"key-%03d" % n, bytes(VALUE)) for n in range(IN_BATCH)])
    partition = {"partition_index": 0, "high_watermark": IN_BATCH, "records": batch}
    frame = encode_response(FETCH, VERSIONS[FETCH], 1, {"responses": [{"topic": "bench", "partitions": [partition]}]})
    block = _table([_row(c.RESPONSE, FETCH, frame, number) for number in range(500)])
    return _write(folder, (_shifted(block, at * 500) for at in range(-(-count // 500))))


def _exchange(number: int) -> Iterator[dict[str, Any]]:
    key = HEARTBEAT if number % 2 else PRODUCE if number % 4 else FETCH
    asked: dict[int, dict[str, Any]] = {
        HEARTBEAT: {"group_id": "g", "member_id": "m"},
        PRODUCE: {"acks": -1, "topic_data": [{"name": "bench", "partition_data": [{"index": 0, "records": _SMALL}]}]},
        FETCH: {"max_wait_ms": 500, "topics": [{"topic": "bench", "partitions": [{"partition": 0}]}]},
    }
    told: dict[int, dict[str, Any]] = {
        HEARTBEAT: {"error_code": 27 if number % 1000 == 1 else 0},
        PRODUCE: {"responses": [{"name": "bench", "partition_responses": [{"index": 0, "base_offset": number}]}]},
        FETCH: {"responses": [{"topic": "bench", "partitions": [{"partition_index": 0, "high_watermark": 1}]}]},
    }
    request = encode_request(key, VERSIONS[key], number, "client", asked[key])
    yield _row(c.REQUEST, key, request, number)
    times = {c.REQUEST_SIZE: len(request), c.LATENCY_NS: 1_000_000 + number * 997 % 9_000_000}
    yield _row(c.RESPONSE, key, encode_response(key, VERSIONS[key], number, told[key]), number) | times


_SMALL = records.write_batch([records.Record(0, 1000, value=bytes(100))])


def _row(kind: str, key: int, frame: bytes, number: int) -> dict[str, Any]:
    is_answer = kind == c.RESPONSE
    at_ns = BEGAN_NS + number * 1000 + is_answer
    row = {c.SESSION: "20261121T120000Z-bench", c.CLUSTER: "main", c.CONNECTION: number % CONNECTIONS}
    row |= {c.SEQUENCE: number // CONNECTIONS * 2 + is_answer, c.EXCHANGE: number // CONNECTIONS, c.DIALECT: c.KAFKA}
    row |= {c.KIND: kind, c.MADE_BY: c.BY_BROKER if is_answer else c.BY_CLIENT, c.AT_NS: at_ns, c.MONO_NS: at_ns}
    row |= {c.NODE: number % 3, c.CLIENT: f"10.0.0.{number % CONNECTIONS}:5000", c.API_KEY: key, c.API: api_name(key)}
    row |= {c.API_VERSION: VERSIONS[key], c.CLIENT_ID: "client", c.CORRELATION_ID: number, c.FRAME: frame}
    return row | {c.SIZE: len(frame), c.STORED: len(frame), c.AWAITS: None if is_answer else True, c.AT: at_ns // 1000}


def _table(rows: list[dict[str, Any]]) -> Any:
    return pa.Table.from_pylist(rows, c.frames_schema())


def _shifted(block: Any, by: int) -> Any:
    """The block's rows as the exchanges that come `by` later."""
    turns = by // CONNECTIONS
    steps = {c.SEQUENCE: 2 * turns, c.EXCHANGE: turns, c.AT_NS: by * 1000, c.MONO_NS: by * 1000}
    for name, step in steps.items():
        at = block.schema.get_field_index(name)
        block = block.set_column(at, block.schema.field(at), pc.add(block[name], step))
    micros = pc.cast(pc.divide(block[c.AT_NS], 1000), block.schema.field(c.AT).type)
    return block.set_column(block.schema.get_field_index(c.AT), block.schema.field(c.AT), micros)


def _write(folder: Path, tables: Iterable[Any]) -> Path:
    (folder / HOUR).mkdir(parents=True)
    file = folder / HOUR / "20261121T120000Z-bench-00000001-00000001.parquet"
    with pq.ParquetWriter(file, c.frames_schema(), compression="zstd") as writer:
        for table in tables:
            writer.write_table(table, row_group_size=100_000)
    return folder


def _fastest(run: Callable[[], Any], rounds: int = ROUNDS) -> float:
    return min(_seconds(run) for _ in range(rounds))


def _seconds(run: Callable[[], Any]) -> float:
    began = perf_counter()
    run()
    return perf_counter() - began


def _captured(spark: Any, folder: Path) -> Any:
    from recorder.analysis.sources import captured

    return captured(spark, str(folder), {"frames": [str(file) for file in (folder / HOUR).glob("*")], "events": []})


def heads(folder: Path, cores: int) -> tuple[float, float]:
    """Seconds of `latency_by_api`, and of the plain `groupBy`."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

    from recorder.analysis import job
    from recorder.analysis.questions.latency import latency_by_api
    from recorder.analysis.tables.exchanges import told_alone

    with job.session(f"local[{cores}]") as spark:
        ours = _fastest(lambda: latency_by_api(told_alone(_captured(spark, folder))).collect())

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
        return ours, _fastest(plain)
    finally:
        spark.stop()
        job._end_jvm()


def analyzed(folder: Path, cores: int) -> float:
    """Seconds of the whole answer, in a session that is open."""
    from recorder.analysis import job
    from recorder.analysis.report import report

    with job.session(f"local[{cores}]") as spark:
        return _fastest(lambda: report(_captured(spark, folder)), 2)


def record_rows(folder: Path, cores: int) -> dict[str, float]:
    """Seconds of the table by either road, and of kafka-python's."""
    from recorder.analysis import job
    from recorder.analysis.bodies import Road, rows
    from recorder.analysis.decode.batches import BATCHES
    from recorder.analysis.decode.record_rows import RECORDS
    from recorder.analysis.tables.frames import frames

    def table(spark: Any, decoder: Any, road: Road) -> Any:
        from dataclasses import replace

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
                spent = _seconds(lambda made=way: made().write.format("noop").mode("overwrite").save())
                found[name] = min(found[name], spent)
        return found


def _by_kafka_python(tables: Iterator[Any]) -> Iterator[Any]:
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
    parser.add_argument("--cores", type=int, default=2)
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="kafka-wiretap-bench-") as place:
        folder = small_exchanges(Path(place) / "small", asked.exchanges)
        ours, plain = heads(folder, asked.cores)
        print(
            f"latency_by_api over {asked.exchanges:,} exchanges: {ours:.1f} s; plain groupBy: {plain:.1f} s, "
            f"{ours / plain:.2f} times its time",
            flush=True,
        )
        print(f"analyze, everything: {analyzed(folder, asked.cores):.1f} s", flush=True)
        found = record_rows(fetched(Path(place) / "fetched", asked.answers), asked.cores)
        other = found["kafka-python in mapInPandas"]
        for name, spent in found.items():
            rate = asked.answers * IN_BATCH / spent / asked.cores
            print(f"{name}: {spent:.1f} s, {rate:,.0f} records/s a core, {other / spent:.1f} times as fast", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
