"""Both roads make the same rows, tasks cover each byte once, and a frame that is not read is a row."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire import records
from recorder.analysis import bodies
from recorder.analysis.bodies import Captured, Road, planned, rows
from recorder.analysis.decode.messages import MESSAGES
from recorder.analysis.decode.record_rows import RECORDS
from recorder.analysis.decode.topic_partitions import TOPIC_PARTITIONS
from tests.recorder.analysis.decode.frames import request, response

Build = Callable[..., Any]
FILES = st.lists(st.tuples(st.uuids().map(str), st.integers(0, 1 << 26)), max_size=20, unique_by=lambda file: file[0])


@given(FILES, st.integers(1, 8))
def test_tasks_cover_each_byte_of_each_file_once(files: list[tuple[str, int]], least: int) -> None:
    pieces = [piece for task in planned(files, least) for piece in task]
    for path, size in files:
        ranges = sorted((one.start, one.end) for one in pieces if one.path == path)
        assert ranges[0][0] == 0
        assert ranges[-1][1] == size
        assert all(end == start for (_, end), (start, _) in pairwise(ranges))
    assert all(sum(one.end - one.start for one in task) <= bodies.TASK_BYTES for task in planned(files, least))


def test_a_capture_without_files_is_no_task() -> None:
    assert planned([], 4) == []


def some_frames(seed: int) -> list[dict[str, Any]]:
    """Requests and answers of several APIs, some of them damaged, masked, cut short or large."""
    rng = random.Random(seed)
    made = []
    for number in range(60):
        batch = records.write_batch([records.Record(n, 1000, value=b"v" * rng.randrange(60)) for n in range(3)])
        produced = {"index": number, "records": batch}
        fetched = {"partition_index": number, "records": batch, "high_watermark": 3}
        row = rng.choice(
            [
                request(0, 9, {"topic_data": [{"name": "t", "partition_data": [produced]}]}),
                response(1, 12, {"responses": [{"topic": "t", "partitions": [fetched]}]}),
                response(3, 12, {"cluster_id": "c"}),
            ]
        )
        row |= rng.choice(
            [
                {},
                {},
                {"frame": row["frame"][:15], "stored": 15, "size": 15},
                {"frame": row["frame"][:15], "stored": 15, "omitted": [{"start": 15, "length": row["size"] - 15}]},
                {"masked": [{"start": 4, "length": 10}]},
                {"api_version": 99},
            ]
        )
        made.append(row | {"sequence": number, "exchange": number})
    return made


def both(captured: Build, frames: list[dict[str, Any]], decoder: Any, **settings: Any) -> list[list[str]]:
    """The rows by each road, as text: nulls have no order."""
    found = []
    for road in (Road.WORKER, Road.JVM):
        capture: Captured = captured(*frames, row_group_size=7, road=road, **settings)
        assert capture.by_workers == (road is Road.WORKER)
        found.append(sorted(map(str, rows(capture, decoder).collect())))
    return found


@pytest.fixture
def complete(request_row: Build) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A row as the capture has it, of one of `decode.frames`."""
    return lambda row: request_row(0) | row


@pytest.mark.real
@pytest.mark.parametrize("decoder", [TOPIC_PARTITIONS, RECORDS, MESSAGES], ids=lambda one: one.name)
def test_both_roads_make_the_same_rows(captured: Build, complete: Build, decoder: Any) -> None:
    frames = [complete(row) for row in some_frames(3)]
    worker, jvm = both(captured, frames, decoder)
    assert worker == jvm
    assert len(worker) > 30


@pytest.mark.real
def test_frames_that_are_left_out_or_too_large_are_rows_on_either_road(captured: Build, complete: Build) -> None:
    frames = [complete(row) for row in some_frames(4)]
    limit = sorted(row["size"] for row in frames)[40]
    worker, jvm = both(captured, frames, MESSAGES, largest=limit)
    assert worker == jvm
    assert len(worker) == len(frames)
    reasons = [row.unread for row in rows(captured(*frames, largest=limit), MESSAGES).collect()]
    omitted = [row for row in frames if row["stored"] < row["size"]]
    large = [row for row in frames if row["size"] > limit and "omitted" not in row]
    assert (reasons.count("omitted"), reasons.count("too_large")) == (len(omitted), len(large))
    assert len(large) > 0 < len(omitted)


@pytest.mark.real
def test_tables_have_the_frames_of_the_time_asked_for_on_either_road(captured: Build, complete: Build) -> None:
    frames = [complete(row) | {"at_ns": number} for number, row in enumerate(some_frames(5))]
    worker, jvm = both(captured, frames, MESSAGES, since_ns=10, until_ns=39)
    assert worker == jvm
    assert len(worker) == 30


@pytest.mark.real
def test_a_damaged_file_is_named(captured: Build, complete: Build, tmp_path: Path) -> None:
    capture = captured(*map(complete, some_frames(6)), road=Road.WORKER)
    (file,) = tmp_path.glob("frames/*/*/*.parquet")
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(Exception, match=f"{file} can't be read"):
        rows(capture, MESSAGES).collect()
