"""Tests of the table that links a replay's exchanges to the recorded ones."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from proxy.wire.budget import DEFAULT_BUDGET
from recorder.capture import origins as module
from recorder.capture.frames import DamagedFileError, Origin, origins_schema
from recorder.capture.origins import Origins, origin_of
from recorder.capture.reader import files

RECORDED = Origin("then", 7, 3)


def found(folder: Path, session: str, connection: int, exchange: int) -> Origin | None:
    return origin_of(folder, session, connection, exchange, most=DEFAULT_BUDGET)


def written(folder: Path) -> Origins:
    origins = Origins(folder, "now")
    origins.add(1, 0, RECORDED)
    origins.add(1, 1, RECORDED._replace(exchange=4))
    origins.close(20)
    return origins


def test_an_exchange_of_a_replay_has_the_origin_that_was_given(tmp_path: Path) -> None:
    assert written(tmp_path).lost == 0
    assert found(tmp_path, "now", 1, 1) == ("then", 7, 4)
    # a retry has the same origin; the replay's own exchanges have none
    assert found(tmp_path, "now", 1, 2) is None
    assert found(tmp_path, "other", 1, 1) is None


def test_frames_and_events_are_read_as_if_there_were_no_origins(tmp_path: Path) -> None:
    written(tmp_path)
    assert files(tmp_path) == files(tmp_path, "events") == []
    assert len(files(tmp_path, "origins")) == 1


def test_a_capture_without_the_table_has_no_origins(tmp_path: Path) -> None:
    assert found(tmp_path, "now", 1, 1) is None


def test_waiting_origins_are_written_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ROWS", 2)
    origins = Origins(tmp_path, "now")
    for exchange in range(5):
        origins.add(1, exchange, RECORDED._replace(exchange=exchange))
    origins.close(20)
    assert [found(tmp_path, "now", 1, exchange) for exchange in range(5)] == [("then", 7, at) for at in range(5)]


def test_a_disk_that_fails_costs_origins_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "origins").touch()
    origins = written(tmp_path)
    assert origins.lost == 2
    assert "is a file, not a folder" in origins.error


def test_more_than_may_wait_is_counted_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 1)
    assert written(tmp_path).lost == 1


@pytest.mark.parametrize("lacking", ["origin_session", "origin_connection"])
def test_an_origin_with_a_missing_value_is_ignored(tmp_path: Path, lacking: str) -> None:
    row = {"session": "now", "connection": 1, "exchange": 1, "origin_session": "then"}
    row |= {"origin_connection": 7, "origin_exchange": 4, lacking: None}
    store(tmp_path, pa.Table.from_pylist([row], origins_schema()))
    assert found(tmp_path, "now", 1, 1) is None


def test_a_file_that_lacks_columns_is_refused_in_a_sentence(tmp_path: Path) -> None:
    table = pa.Table.from_pylist([{"session": "now"}], origins_schema())
    store(tmp_path, table.drop_columns(["exchange"]))
    with pytest.raises(DamagedFileError, match="its column exchange is missing"):
        found(tmp_path, "now", 1, 1)


def store(folder: Path, table: pa.Table) -> None:
    place = folder / "origins" / "date=2026-11-21" / "hour=12"
    place.mkdir(parents=True)
    pq.write_table(table, place / "now-1-1.parquet")
