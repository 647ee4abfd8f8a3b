"""Tests of captures whose rows contradict their frames or their file: the frame decides, or the request is withheld."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from proxy.wire.keys import (
    CREATE_TOPICS,
    FETCH,
    JOIN_GROUP,
    LIST_OFFSETS,
    METADATA,
    OFFSET_COMMIT,
    PRODUCE,
    SHARE_FETCH,
)
from recorder.capture.frames import FRAME_COLUMNS, DamagedFileError, frames_schema
from recorder.replay.options import Options
from recorder.replay.outcome import Result
from recorder.replay.plan import Reason
from recorder.replay.stream import RequestRecorded, happenings
from tests.recorder.replay.captures import SESSION, Row, request, response
from tests.recorder.replay.simple import LIST_VERSION, PRODUCE_VERSION, list_answer, listed, produce, produced
from tests.recorder.replay.simulation import Recording, Simulation, one_node

# larger than the frames whose values are remembered by API and bytes
MANY = 60
PARTITIONS = [{"partition_index": index, "committed_offset": 1} for index in range(MANY)]
BROKER = {"node_id": 1, "host": "h", "port": 1}
TALKS: dict[str, tuple[int, int, Row, Row]] = {
    "Produce": (PRODUCE, PRODUCE_VERSION, produce(), produced()),
    "ListOffsets": (LIST_OFFSETS, LIST_VERSION, listed(), list_answer()),
    "large ListOffsets": (
        LIST_OFFSETS,
        LIST_VERSION,
        {"topics": [{"name": "a" * 200, "partitions": [{"partition_index": 0}]}] * MANY},
        {"topics": []},
    ),
    "large OffsetCommit": (
        OFFSET_COMMIT,
        7,
        {"group_id": "g", "topics": [{"name": "a", "partitions": PARTITIONS}]},
        {},
    ),
    "Metadata": (METADATA, 9, {"topics": None}, {"brokers": [BROKER], "topics": []}),
    "CreateTopics": (CREATE_TOPICS, 5, {"topics": [{"name": "b", "configs": []}]}, {"topics": []}),
    "ShareFetch": (SHARE_FETCH, 1, {"group_id": "s", "member_id": "m"}, {"responses": []}),
    "JoinGroup": (JOIN_GROUP, 5, {"group_id": "g", "protocols": [{"name": "x", "metadata": b""}]}, {"members": []}),
    "Fetch": (FETCH, 11, {"topics": []}, {"responses": []}),
}
# values that a row's column may have whatever its frame says
WRONG: dict[str, list[Any]] = {
    "api_key": [None, -1, PRODUCE, METADATA, CREATE_TOPICS, SHARE_FETCH, JOIN_GROUP, 32767],
    "api_version": [None, -1, 0, 1, 9, 32767],
    "correlation_id": [None, -1, 8],
    "exchange": [None, -1, 0, 10**6],
    "kind": ["request", "response", "token", "bytes", "other"],
    "made_by": ["proxy", "client", "broker"],
    "dialect": ["kafka-0.7", "other"],
    "awaits": [None, True, False],
    "first_mono_ns": [None, -(2**63), 2**63 - 1],
    "node": [None, -1, 2**31 - 1, -(2**31)],
    "client": [None, "", "::"],
    "client_id": [None, "another"],
    "principal": [None, "User:x"],
    "size": [-1, 0],
    "stored": [None, -1, 0],
    "note": [None, "cut: by hand"],
    "masked": [[], [{"start": 0, "length": 8}], [{"start": -5, "length": 2**31 - 1}]],
    "omitted": [[], [{"start": 0, "length": 8}]],
    "dropped": [[], [{"start": 9, "length": 1}], [{"start": -5, "length": 2**31 - 1}]],
    "records": ["drop", "hash", ""],
    "batches": [[], [{"rule": "drop", "codec": "", "size": -1, "is_intact": None, "batches": 2**31 - 1}]],
    "frame": [None, b"", b"\0", b"\0\3\0\t\0\0\0\1", bytes(8), b"\0\0\0\x09" * 400],
    "session": ["other"],
}


def contradicting() -> Iterator[Row]:
    """Exchanges, each on a connection of its own, with one wrong column in the request, the response or both."""
    connection = 0
    for key, version, values, answer in TALKS.values():
        for column, wrong in WRONG.items():
            for value in wrong:
                connection += 1
                at = connection * 1000
                rows = [
                    request(at, connection, 0, key, version, values),
                    response(at + 10, connection, 0, key, version, answer),
                ]
                for side in ((0,), (1,), (0, 1))[connection % 3]:
                    rows[side][column] = value
                yield from rows


def written(folder: Path, rows: list[Row]) -> Path:
    """Writes all rows into one file, whatever session they name."""
    place = folder / "frames" / "date=2026-11-21" / "hour=12"
    place.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows, frames_schema()), place / f"{SESSION}-1-1.parquet", row_group_size=500)
    return folder


def played(folder: Path) -> Result:
    recording = Recording()
    recording.happenings = [*happenings(folder)]
    simulation = Simulation(
        recording, lambda got: {}, Options(speed=None, admin=True, wait=10**9, drain=0), cluster=one_node(("a", 1))
    )
    result = simulation.run()
    assert simulation.engine.finished
    return result


@pytest.mark.real
def test_a_capture_whose_columns_contradict_its_frames_is_played_to_its_end(tmp_path: Path) -> None:
    result = played(written(tmp_path, [*contradicting()]))
    assert sum(counts.sent for counts in result.apis.values()) > len(TALKS)


def test_the_frame_of_a_request_decides_which_api_and_client_it_is_of(tmp_path: Path) -> None:
    key, version, values, _ = TALKS["large ListOffsets"]
    lying = {"api_key": METADATA, "api_version": 1, "client_id": "another"}
    (found,) = happenings(written(tmp_path, [request(0, 1, 0, key, version, values) | lying]))
    assert isinstance(found, RequestRecorded)
    exchange = found.exchange
    assert (exchange.api_key, exchange.version, exchange.peer.client_id) == (key, version, "app")
    assert len(exchange.request["topics"]) == MANY


@pytest.mark.parametrize("acks", [0, 1])
def test_the_frame_of_a_produce_decides_whether_it_awaits_an_answer(tmp_path: Path, acks: int) -> None:
    asked = request(0, 1, 0, PRODUCE, PRODUCE_VERSION, produce(acks=acks), awaits=acks == 0)
    rows = [asked, response(10, 1, 0, PRODUCE, PRODUCE_VERSION, produced())][: 1 + acks]
    counts = played(written(tmp_path, rows)).apis["Produce"]
    assert (counts.sent, counts.answered) == (1, acks)


def test_rows_of_another_session_than_their_files_are_withheld_with_their_reason(tmp_path: Path) -> None:
    key, version, values, answer = TALKS["ListOffsets"]
    rows = [
        row
        for number, session in enumerate((SESSION, "other", SESSION))
        for row in (
            request(number * 1000, number, 0, key, version, values, session=session),
            response(number * 1000 + 10, number, 0, key, version, answer, session=session),
        )
    ]
    counts = played(written(tmp_path, rows)).apis["ListOffsets"]
    assert (counts.recorded, counts.sent, dict(counts.withheld)) == (3, 2, {Reason.OTHER_SESSION.value: 1})


@pytest.mark.parametrize("column", ["session", "sequence", "at_ns", "mono_ns"])
def test_a_row_without_a_place_in_time_is_an_error_in_one_line(tmp_path: Path, column: str) -> None:
    key, version, values, _ = TALKS["ListOffsets"]
    folder = written(tmp_path, [request(0, 1, 0, key, version, values) | {column: None}])
    with pytest.raises(DamagedFileError, match=f"its column {column} has holes"):
        [*happenings(folder)]


def test_every_column_that_a_replay_reads_is_contradicted() -> None:
    stay = {"connection", "sequence", "at", "at_ns", "mono_ns", "cluster", "listener", "api"}
    times = {"request_size", "latency_ns", "queued_ns", "transfer_ns"}
    assert WRONG.keys() == {name for name, _ in FRAME_COLUMNS} - stay - times
