"""Tests that the bench makes valid captures, and that both readers give the same answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import spark, spark_captures
from proxy.wire import decode_response, keys, records
from recorder.capture import frames as c
from recorder.capture.reader import ALL, files, row_groups


def rows(folder: Path) -> list[dict[str, object]]:
    (file,) = files(folder)
    return [row for table in row_groups(file, ALL) for row in table.to_pylist()]


def test_small_exchanges_have_numbers_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_captures, "BLOCK", 100)
    found = rows(spark_captures.small_exchanges(tmp_path / "small", 250))
    assert len(found) == 600
    assert len({(row[c.CONNECTION], row[c.SEQUENCE]) for row in found}) == 600
    assert len({(row[c.CONNECTION], row[c.EXCHANGE], row[c.KIND]) for row in found}) == 600


def test_kafka_python_reads_the_records_that_are_there(tmp_path: Path) -> None:
    row = rows(spark_captures.fetched(tmp_path / "fetched", 1))[0]
    frame = row[c.FRAME]
    assert isinstance(frame, bytes)
    ((_, _, data),) = [(topic, partition, held) for topic, partition, held in spark.answer_parts(frame)]
    ours = [(record.offset, record.timestamp, record.key, record.value) for record in records.read(data)]
    assert [found[2:] for found in spark.read_by_kafka_python(frame)] == ours
    assert len(ours) == spark_captures.IN_BATCH


def test_a_connection_of_the_mix_reads_what_it_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_captures, "BLOCK", 700)
    found = rows(spark_captures.mixed(tmp_path / "mixed", 3))
    frames = [row[c.FRAME] for row in found if isinstance(row[c.FRAME], bytes)]
    assert 800 < sum(map(len, frames)) / len(found) < 1200
    answers = [row for row in found if row[c.KIND] == c.RESPONSE and row[c.API] in ("Produce", "Fetch")]
    logs: dict[str, list[tuple[object, int | None]]] = {"Produce": [], "Fetch": []}
    for row in answers:
        frame = row[c.FRAME]
        assert isinstance(frame, bytes)
        logs[str(row[c.API])] += [(row[c.CONNECTION], offset) for offset in offsets_in(row, frame)]
    assert len(logs["Fetch"]) > 500
    assert set(logs["Fetch"]) <= set(logs["Produce"])
    assert len(set(logs["Produce"])) == len(logs["Produce"])


def offsets_in(row: dict[str, object], frame: bytes) -> list[int | None]:
    """Returns the first offsets of the batches in an answer."""
    key = keys.PRODUCE if row[c.API] == "Produce" else keys.FETCH
    answer = decode_response(frame, key, spark_captures.VERSIONS[key])
    assert isinstance(answer, tuple)
    if key == keys.PRODUCE:
        return [part["base_offset"] for topic in answer[1]["responses"] for part in topic["partition_responses"]]
    held = [part["records"] for topic in answer[1]["responses"] for part in topic["partitions"]]
    return [batch.base_offset for data in held for batch in records.batches(data)]
