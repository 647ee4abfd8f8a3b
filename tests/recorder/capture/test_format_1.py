"""Tests that spools of format 1, written by the program of that time, are still read.

`format_1/` holds two of them: *whole*, and *begun*, whose first three segments that program had compacted. The
streams that were recorded stand beside each.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from recorder.capture import frames as c
from recorder.capture import spool, storage
from recorder.capture.compactor import compact
from recorder.capture.partitions import range_name
from recorder.capture.storage import TableFile
from tests.recorder.capture.looks import event_rows, frame_rows, segment_path, segments, session_folder

SAMPLES = Path(__file__).parent / "format_1"
CLOSED_IN_ORDER = ["ended", "started"]


def spool_of(folder: Path, name: str) -> Path:
    """Copies a sample into a capture of its own; returns the folder of its session."""
    session = session_folder(folder, json.loads((SAMPLES / f"{name}.json").read_text())["session"])
    session.mkdir(parents=True)
    for file in (SAMPLES / name).iterdir():
        # git ignores *.log, so the samples have another name
        shutil.copy(file, session / file.name.replace(".segment", ".log"))
    return session


def played(name: str) -> dict[int, tuple[list[bytes], list[bytes]]]:
    """The frames of each connection as they were sent, with secrets blanked."""
    told = json.loads((SAMPLES / f"{name}.json").read_text())
    secret = told["secret"].encode()
    return {
        int(connection): (_frames(bytes.fromhex(requests), secret), _frames(bytes.fromhex(responses), secret))
        for connection, (requests, responses) in told["streams"].items()
    }


def _frames(stream: bytes, secret: bytes) -> list[bytes]:
    frames, at = [], 0
    while at < len(stream):
        end = at + 4 + int.from_bytes(stream[at : at + 4], "big")
        frames.append(stream[at + 4 : end])
        at = end
    # the secret goes on after its marker, with a random text of 20 letters
    return [frame[: frame.find(secret)] if secret in frame else frame for frame in frames]


def rows_of(folder: Path, connection: int, kind: str) -> list[dict[str, Any]]:
    return [row for row in frame_rows(folder, connection) if row["kind"] == kind]


def assert_has(rows: list[dict[str, Any]], frames: list[bytes]) -> None:
    assert len(rows) == len(frames)
    for row, frame in zip(rows, frames, strict=True):
        assert row["frame"].startswith(frame)
        assert row["masked"] or row["frame"] == frame


def test_a_whole_spool_of_format_1_is_compacted_to_the_last_frame(tmp_path: Path) -> None:
    spool_of(tmp_path, "whole")
    done = compact(tmp_path)
    assert (done.failed, done.damaged) == ((), ())
    for connection, (requests, responses) in played("whole").items():
        assert_has(rows_of(tmp_path, connection, "request"), requests)
        assert_has(rows_of(tmp_path, connection, "response"), responses)
    assert sorted(row["cause"] for row in event_rows(tmp_path, "session")) == CLOSED_IN_ORDER
    assert event_rows(tmp_path, "gap") == []


def test_a_begun_spool_of_format_1_is_continued_from_its_state(tmp_path: Path) -> None:
    spool_of(tmp_path, "begun")
    done = compact(tmp_path)
    assert (done.failed, done.damaged) == ((), ())
    for connection, (requests, responses) in played("begun").items():
        # the other program has made rows of the first ones
        for kind, frames in (("request", requests), ("response", responses)):
            rows = rows_of(tmp_path, connection, kind)
            assert_has(rows, frames[len(frames) - len(rows) :])
        sequences = [row["sequence"] for row in frame_rows(tmp_path, connection)]
        count = len(requests) + len(responses)
        assert sequences == list(range(count - len(sequences), count))
    assert [row["cause"] for row in event_rows(tmp_path, "session")] == ["ended"]
    assert event_rows(tmp_path, "gap") == []


def told(gap: dict[str, Any]) -> tuple[int | None, dict[str, Any]]:
    detail = json.loads(gap["detail"])
    return gap["connection"], {
        name: detail[name] for name in ("segments", "state", "connections_unknown") if name in detail
    }


@pytest.mark.parametrize("lost", [1, 2, 4])
def test_a_lost_segment_is_a_gap_of_each_known_connection_and_of_unknown_ones(tmp_path: Path, lost: int) -> None:
    segment_path(spool_of(tmp_path, "whole"), lost).unlink()
    ((_, gone),) = compact(tmp_path).damaged
    assert gone == f"segment {lost}"
    gaps = [told(gap) for gap in event_rows(tmp_path, "gap")]
    assert (None, {"segments": [lost, lost], "connections_unknown": True}) in gaps
    # nobody can tell which of the open connections have lost frames
    assert {connection for connection, _ in gaps} == {None, 0, 1, 2}
    for connection, (requests, _) in played("whole").items():
        rows = rows_of(tmp_path, connection, "request")
        assert_has(rows, requests[: len(rows)])


def test_a_flipped_bit_in_format_1_loses_the_rest_of_its_segment(tmp_path: Path) -> None:
    path = segment_path(spool_of(tmp_path, "whole"), 3)
    log = bytearray(path.read_bytes())
    log[len(log) // 2] ^= 1
    path.write_bytes(log)
    compact(tmp_path)
    (gap,) = [gap for gap in event_rows(tmp_path, "gap") if gap["connection"] is None]
    assert told(gap)[1] == {"segments": [3, 3], "connections_unknown": True}
    start = spool.decode_head(bytes(log))
    *_, (_, behind) = spool.entries(bytes(log), start.begin)
    assert json.loads(gap["detail"])["log_bytes"] == len(log) - behind


def test_a_lost_state_of_format_1_makes_its_connections_unknown(tmp_path: Path) -> None:
    session = spool_of(tmp_path, "begun")
    # the rows of the earlier segments
    rows = TableFile(tmp_path, "events", 0, range_name(session.name, 3), c.events_schema())
    rows.write(c.events_schema().empty_table())
    storage.publish([rows], storage.ignore_step)
    (session / "00000003.state").write_bytes(b"")
    ((_, gone),) = compact(tmp_path).damaged
    assert gone == "what was known of the connections after segment 3"
    gaps = event_rows(tmp_path, "gap")
    assert (None, {"state": 3, "connections_unknown": True}) in [told(gap) for gap in gaps]
    assert {(gap["connection"], gap["frames"], gap["bytes"]) for gap in gaps} == {
        (connection, None, None) for connection in (None, 0, 1, 2)
    }
    assert frame_rows(tmp_path) == []


def test_a_lost_end_looks_like_a_kill(tmp_path: Path) -> None:
    session = spool_of(tmp_path, "whole")
    segment_path(session, segments(session)[-1]).unlink()
    assert compact(tmp_path).damaged == ()
    assert sorted(row["cause"] for row in event_rows(tmp_path, "session")) == ["died", "started"]
