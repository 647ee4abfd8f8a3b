"""The bench's captures are captures, and both readers of its answers read the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import spark
from proxy.wire import records
from recorder.capture import frames as c
from recorder.capture.reader import ALL, files, row_groups


def rows(folder: Path) -> list[dict[str, object]]:
    (file,) = files(folder)
    return [row for table in row_groups(file, ALL) for row in table.to_pylist()]


def test_small_exchanges_have_numbers_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark, "BLOCK", 100)
    found = rows(spark.small_exchanges(tmp_path / "small", 250))
    assert len(found) == 600
    assert len({(row[c.CONNECTION], row[c.SEQUENCE]) for row in found}) == 600
    assert len({(row[c.CONNECTION], row[c.EXCHANGE], row[c.KIND]) for row in found}) == 600


def test_kafka_python_reads_the_records_that_are_there(tmp_path: Path) -> None:
    row = rows(spark.fetched(tmp_path / "fetched", 1))[0]
    frame = row[c.FRAME]
    assert isinstance(frame, bytes)
    ((_, _, data),) = [(topic, partition, held) for topic, partition, held in spark.answer_parts(frame)]
    ours = [(record.offset, record.timestamp, record.key, record.value) for record in records.read(data)]
    assert [found[2:] for found in spark.read_by_kafka_python(frame)] == ours
    assert len(ours) == spark.IN_BATCH
