"""Tests that tables made of facts are those that are made of frames, row by row, on both engines."""

from __future__ import annotations

import pkgutil
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from proxy.wire.kafka07 import RequestType
from recorder import facts
from recorder.analysis import decode, embedded
from recorder.analysis.bodies import Captured, fresh_rows
from recorder.analysis.from_facts import stands_on_facts
from recorder.analysis.report_decoders import OF_REPORT
from recorder.analysis.scan import files_in
from recorder.analysis.sources import SOURCES, captured
from recorder.analysis.table_cache import Deferred, TableCache
from recorder.analysis.tables.answers import answers
from recorder.capture import frames as c
from recorder.capture.fact_maker import make_missing
from recorder.capture.frames import frames_schema
from recorder.facts.batches import BATCHES
from recorder.facts.fetch_sessions import FETCH_ANSWERS, FETCH_REQUESTS
from recorder.facts.log_ends import FETCHED_ENDS, PAIRED_ENDS
from recorder.facts.rows import Decoder
from recorder.facts.tables import TABLES
from recorder.facts.topic_errors import TOPIC_ERRORS
from recorder.facts_at_hand import facts_at_hand
from tests.recorder.capture.recorded import two_sessions
from tests.recorder.facts.test_tables import CHOSEN, SPOILT

NOON_NS = 1_795_867_200 * 10**9
HOUR = "date=2026-11-28/hour=12"
DECODERS = (*filter(stands_on_facts, OF_REPORT), TOPIC_ERRORS, FETCH_REQUESTS, FETCH_ANSWERS, BATCHES)
# nobody asks for their rows of frames that can't be read: facts lack those
LACK_UNREAD = (FETCHED_ENDS, PAIRED_ENDS, TOPIC_ERRORS)
ON_BOTH = pytest.mark.parametrize(
    "engine", ["embedded", pytest.param("on_spark", marks=pytest.mark.long)], indirect=True
)


def decoders_in(room: ModuleType) -> list[Decoder]:
    """All decoders that the modules of a room declare."""
    names = (each.name for each in pkgutil.walk_packages(room.__path__, f"{room.__name__}."))
    return [one for name in names for one in vars(import_module(name)).values() if isinstance(one, Decoder)]


def test_only_tables_of_records_and_messages_open_frames() -> None:
    of_facts = {one.name for one in decoders_in(facts) if one not in TABLES and not stands_on_facts(one)}
    of_analysis = {one.name for one in decoders_in(decode) if not stands_on_facts(one)}
    assert of_facts == set()
    assert of_analysis == {"records", "cloudevents", "messages", "field_sizes"}


@pytest.fixture(scope="module")
def engine(request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """A session on the engine that a test names: pytest runs the tests of one engine together."""
    if request.param == "on_spark":
        yield request.getfixturevalue("on_spark")
        return
    with embedded.session() as opened:
        yield opened


def generated(folder: Path, seed: int) -> Path:
    """A capture of two files: chosen frames, many of them spoilt, in any order."""
    rng = random.Random(seed)
    frames = [frame | spoilt for frame in CHOSEN for spoilt in ({}, *SPOILT)] + [dict(one) for one in CHOSEN]
    frames += [frame | {"frame": frame["frame"][: rng.randrange(len(frame["frame"]))]} for frame in CHOSEN]
    rng.shuffle(frames)
    frames.append(CHOSEN[0] | {"api_key": None, "api": None, "api_version": None, "kind": "response"})
    rows = [_placed(number, frame) for number, frame in enumerate(frames)]
    (folder / "frames" / HOUR).mkdir(parents=True)
    for number, part in ((1, rows[: len(rows) // 2]), (2, rows[len(rows) // 2 :])):
        table = pa.Table.from_pylist(part, frames_schema())
        path = folder / "frames" / HOUR / f"20261128T120000Z-abc-{number:08}-{number:08}.parquet"
        pq.write_table(table, path, row_group_size=50, write_page_checksum=True)
    return folder


def _placed(number: int, frame: dict[str, Any]) -> dict[str, Any]:
    """The frame as a row of a capture: a request and its answer are neighbours on one of three connections."""
    at_ns = NOON_NS + number * 1_000_700
    row: dict[str, Any] = {"session": "20261128T120000Z-abc", "cluster": "main", "made_by": "broker", "at_ns": at_ns}
    row |= {"client": "10.0.0.1:5000", "at": at_ns // 1000, "mono_ns": at_ns, "awaits": True, "node": number % 3}
    row |= frame | {"api": _api(row | frame), "connection": number % 3, "sequence": number, "exchange": number // 6}
    data = row["frame"]
    row["size"] = len(data) if data is not None else row["size"]
    return row | {"stored": len(data or b"")}


def _api(row: dict[str, Any]) -> str | None:
    """The API's name, as its dialect has it."""
    known: str | None = row["api"]
    is_named = row["dialect"] == "kafka" or row["api_key"] is None
    return known if is_named else RequestType(row["api_key"]).api


def rows(table: DataFrame) -> list[str]:
    """The rows as text, sorted: nulls can't be."""
    return sorted(map(str, table.collect()))


@contextmanager
def both_ways(spark: SparkSession, folder: Path, *, drop: int = 0) -> Iterator[tuple[Captured, Captured]]:
    """The capture with its facts, and without them. `drop`: so many files of frames are left without facts."""
    files = files_in(str(folder))
    known = dict(facts_at_hand(folder).files)
    assert known.keys() == {*files[c.FRAMES_FOLDER]}
    for path in files[c.FRAMES_FOLDER][:drop]:
        del known[path]
    yield captured(spark, str(folder), files, facts=known), captured(spark, str(folder), files)


def compared(decoder: Decoder, capture: Captured) -> list[str]:
    found = fresh_rows(capture, decoder)
    return rows(found.filter("unread IS NULL") if decoder in LACK_UNREAD else found)


@pytest.fixture(scope="module")
def mixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = generated(tmp_path_factory.mktemp("mixture") / "capture", 1)
    assert make_missing(folder) == []
    return folder


@pytest.mark.real
@ON_BOTH
def test_rows_from_facts_are_those_from_frames(engine: SparkSession, mixture: Path) -> None:
    with both_ways(engine, mixture, drop=1) as (with_facts, without):
        told = {one.name: compared(one, with_facts) for one in DECODERS}
        wrong = [one.name for one in DECODERS if told[one.name] != compared(one, without)]
        assert not wrong
        assert sum(map(len, told.values())) > 300
        assert rows(answers(with_facts)) == rows(answers(without))


@pytest.mark.real
@ON_BOTH
def test_rows_from_facts_are_of_the_chosen_time(engine: SparkSession, mixture: Path) -> None:
    first, last = NOON_NS + 30 * 1_000_700, NOON_NS + 90 * 1_000_700 + 300
    with both_ways(engine, mixture) as pair:
        chosen = [replace(one, since_ns=first, until_ns=last) for one in pair]
        for decoder in DECODERS:
            with_facts, without = (compared(decoder, one) for one in chosen)
            assert with_facts == without, decoder.name
        told, twin = (rows(answers(one)) for one in chosen)
        assert told == twin
        assert 0 < len(told) < 61


@pytest.mark.real
@ON_BOTH
def test_tables_of_a_report_are_the_same_in_one_pass(engine: SparkSession, mixture: Path) -> None:
    with both_ways(engine, mixture, drop=1) as pair:
        shared = [replace(one, together=OF_REPORT, cache=TableCache()) for one in pair]
        for decoder in OF_REPORT:
            with_facts, without = (compared(decoder, one) for one in shared)
            assert with_facts == without, decoder.name


@pytest.mark.real
@ON_BOTH
def test_each_table_of_a_recorded_capture_is_the_same_from_facts(engine: SparkSession, tmp_path: Path) -> None:
    folder = two_sessions(tmp_path / "capture")
    assert make_missing(folder) == []
    with both_ways(engine, folder) as (with_facts, without):
        wrong = [
            name for name, source in SOURCES.items() if rows(source.make(with_facts)) != rows(source.make(without))
        ]
    assert not wrong


@pytest.mark.real
@ON_BOTH
def test_no_body_is_opened_for_what_facts_tell(engine: SparkSession, tmp_path: Path) -> None:
    folder = generated(tmp_path / "capture", 2)
    assert make_missing(folder) == []
    with both_ways(engine, folder) as (with_facts, _):
        for file in (folder / "frames").rglob("*.parquet"):
            file.write_bytes(b"")
        assert [len(rows(fresh_rows(with_facts, one))) for one in (BATCHES, FETCH_REQUESTS)] > [0, 0]


@pytest.mark.real
@ON_BOTH
def test_heads_of_frames_are_not_read_for_groups(engine: SparkSession, mixture: Path) -> None:
    def read() -> DataFrame:
        raise AssertionError("nothing of this stands in heads alone")

    with both_ways(engine, mixture) as (with_facts, _):
        blind = replace(with_facts, frames_read=Deferred(read), events_read=Deferred(read))
        assert rows(SOURCES["rebalances"].make(blind)) == rows(SOURCES["rebalances"].make(with_facts))
        assert rows(SOURCES["lag"].make(blind)) == rows(SOURCES["lag"].make(with_facts))
