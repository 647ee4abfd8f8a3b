"""Tests of resuming: a state counts as far as it agrees with segments and rows, and the readable rest is read."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from recorder.capture.compactor import compact, compact_session
from recorder.capture.progress import STATE_MAGIC
from recorder.capture.session import RecordSettings
from recorder.capture.spool import SPOOL_FORMAT
from recorder.capture.tap import open_tap
from tests.recorder.capture import traffic
from tests.recorder.capture.looks import (
    assert_holds,
    event_rows,
    everything,
    frame_rows,
    kill,
    segment_path,
    segments,
    session_folder,
)
from tests.recorder.capture.traffic import Player, Talk

SESSION = "s"


def record(folder: Path, *, calls: int = 30, is_killed: bool = False, upto: float = 0) -> Talk:
    """Records a session of one connection in many segments. `upto`: the share of it that was compacted meanwhile."""
    rng = random.Random(3)
    tap = open_tap(folder, RecordSettings(segment=5000), SESSION)
    player = Player(tap)
    talk = traffic.cut(rng, traffic.talk(rng, 0, calls), 300)
    player.open(talk)
    for number, chunk in enumerate(talk.chunks):
        player.play(0, chunk)
        tap.flush()
        if number == int(upto * len(talk.chunks)) > 0:
            assert compact(folder).live == (SESSION,)
    if is_killed:
        kill(tap)
    else:
        player.close(0)
        tap.close()
    assert len(segments(session_folder(folder, SESSION))) > 2
    return talk


def state(**progress: object) -> bytes:
    """Makes a state without connections, with a valid checksum."""
    assembly: dict[str, Any] = {"clock_ns": 0, "last_mono_ns": 0, "damaged_since_ns": 0, "begun": True, "ended": False}
    assembly |= {"closed": {"connections": 0, "frames": 0, "bytes": 0}, "clusters": [], "topics": [], "connections": []}
    told = {"segment": 0, "finished": False, "cluster": None, "frames": 0, "bytes": 0, "log_bytes": 0} | progress
    text = json.dumps({"progress": told, "assembly": assembly}).encode()
    content = STATE_MAGIC + SPOOL_FORMAT.to_bytes(2, "big") + len(text).to_bytes(4, "big") + text
    return content + crc32c(content).to_bytes(4, "big")


MADE_UP = {
    "finished at 1": {"00000001.state": state(segment=1, finished=True)},
    "finished at 9999": {"00009999.state": state(segment=9999, finished=True)},
    "beyond the log": {"00009999.state": state(segment=9999)},
    "behind what nobody has read": {"00000002.state": state(segment=2)},
    "another number than its name's": {"00000001.state": state(segment=9999)},
    "empty, beyond the log": {"99999999.state": b""},
    "empty, within the log": {"00000002.state": b""},
    "several": {"00000001.state": b"", "00000002.state": state(segment=2), "00000099.state": state(segment=3)},
}


@pytest.mark.real
@pytest.mark.parametrize("made_up", MADE_UP)
def test_no_state_keeps_a_segment_that_is_there_from_being_read(tmp_path: Path, made_up: str) -> None:
    talk = record(tmp_path)
    for name, content in MADE_UP[made_up].items():
        (session_folder(tmp_path, SESSION) / name).write_bytes(content)
    done = compact(tmp_path)
    assert (done.sessions, done.damaged, done.failed) == ((SESSION,), (), ())
    assert_holds(frame_rows(tmp_path), traffic.expected(talk))
    assert event_rows(tmp_path, "gap") == []


@pytest.mark.parametrize("made_up", [b"", state(segment=99_999_999), state(segment=99_999_999, finished=True)])
def test_a_strange_state_is_ignored_when_a_part_has_been_compacted(tmp_path: Path, made_up: bytes) -> None:
    talk = record(tmp_path, upto=0.5)
    (session_folder(tmp_path, SESSION) / "99999999.state").write_bytes(made_up)
    assert compact(tmp_path).damaged == ()
    assert_holds(frame_rows(tmp_path), traffic.expected(talk))


def test_a_strange_state_is_ignored_when_the_process_crashes_meanwhile(tmp_path: Path) -> None:
    talk = record(tmp_path)
    (session_folder(tmp_path, SESSION) / "99999999.state").touch()
    for step in ("rename", "state", "remove segment", "remove state", "remove session"):
        crash(tmp_path, partial(begins_with, step))
    assert compact(tmp_path).damaged == ()
    assert_holds(frame_rows(tmp_path), traffic.expected(talk))
    assert not session_folder(tmp_path, SESSION).exists()


@pytest.mark.parametrize("is_finished", [False, True], ids=["going on", "finished"])
def test_unread_segments_are_recorded_as_a_gap_before_they_are_removed(tmp_path: Path, is_finished: bool) -> None:
    """The rows that the state names don't exist."""
    record(tmp_path)
    numbers = segments(session_folder(tmp_path, SESSION))
    last = numbers[-1]
    (session_folder(tmp_path, SESSION) / f"{last:08d}.state").write_bytes(state(segment=last, finished=is_finished))
    hour = tmp_path / "frames" / "date=2026-01-01" / "hour=00"
    hour.mkdir(parents=True)
    (hour / f"{SESSION}-{last:08d}-{last:08d}.parquet").touch()
    ((_, gone),) = compact(tmp_path).damaged
    assert gone.endswith(", ".join(f"segment {number}" for number in numbers[:-1]))
    details = [json.loads(row["detail"]) for row in event_rows(tmp_path, "gap")]
    said = [(*detail["segments"], detail["log_bytes"] > 0) for detail in details if "segments" in detail]
    assert said == [(number, number, True) for number in numbers[:-1]]


def test_segments_that_came_back_are_not_read_again(tmp_path: Path) -> None:
    """As if a backup was restored over a session that was partly compacted."""
    twin = tmp_path / "twin"
    record(twin, upto=0)
    talk = record(tmp_path, upto=0.5)
    for number in segments(session_folder(twin, SESSION)):
        if not segment_path(session_folder(tmp_path, SESSION), number).exists() and number < 3:
            log = segment_path(session_folder(twin, SESSION), number).read_bytes()
            segment_path(session_folder(tmp_path, SESSION), number).write_bytes(log)
    compact(tmp_path)
    assert_holds(frame_rows(tmp_path), traffic.expected(talk))


class Crash(BaseException):
    """An exception that no code catches."""


def begins_with(step: str, now: str) -> bool:
    return now.startswith(step)


def crash(folder: Path, at: Callable[[str], bool]) -> None:
    """Compacts, and ends before the first of these steps."""

    def before_step(step: str) -> None:
        if at(step):
            raise Crash

    with pytest.raises(Crash):
        compact_session(folder, SESSION, before_step=before_step)


@pytest.mark.parametrize("step", ["close", "rename", "sync", "state", "remove segment"])
def test_a_crash_does_not_hide_that_the_first_segment_is_lost(tmp_path: Path, step: str) -> None:
    said = []
    for name in ("smooth", "crashed"):
        folder = tmp_path / name
        record(folder)
        segment_path(session_folder(folder, SESSION), 1).unlink()
        if name == "crashed":
            crash(folder, lambda now: now.startswith(step))
        compact(folder)
        gaps = event_rows(folder, "gap")
        assert any("segments" in json.loads(gap["detail"]) for gap in gaps)
        said.append([(gap["connection"], gap["frames"], gap["bytes"], gap["detail"]) for gap in gaps])
        assert {event["cause"] for event in event_rows(folder, "session")} == {"started", "ended"}
    without_times = [[(*gap[:3], sorted(json.loads(gap[3]))) for gap in gaps] for gaps in said]
    assert without_times[0] == without_times[1]


def lose(folder: Path, state: Callable[[Path], object]) -> None:
    """Removes all of a session from the spool, except its locks and what `state` leaves."""
    for file in session_folder(folder, SESSION).iterdir():
        if file.suffix == ".log":
            file.unlink()
        elif file.suffix == ".state":
            state(file)


LOSSES: dict[str, Callable[[Path], object]] = {"gone": Path.unlink, "empty": lambda path: path.write_bytes(b"")}


@pytest.mark.parametrize("how", LOSSES)
def test_a_session_of_which_only_rows_are_left_has_died(tmp_path: Path, how: str) -> None:
    record(tmp_path, upto=0.5, is_killed=True)
    before = frame_rows(tmp_path)
    lose(tmp_path, LOSSES[how])
    ((_, gone),) = compact(tmp_path).damaged
    assert gone.startswith("what was known of the connections after segment ")
    assert frame_rows(tmp_path) == before
    assert [event["cause"] for event in event_rows(tmp_path, "session")] == ["started", "died"]


@pytest.mark.parametrize("how", LOSSES)
def test_a_session_that_had_ended_needs_no_state(tmp_path: Path, how: str) -> None:
    talk = record(tmp_path)
    crash(tmp_path, lambda step: step == "remove session")
    before = everything(tmp_path / "events")
    lose(tmp_path, LOSSES[how])
    done = compact(tmp_path)
    assert (done.sessions, done.damaged) == ((SESSION,), ())
    assert everything(tmp_path / "events") == before
    assert_holds(frame_rows(tmp_path), traffic.expected(talk))


def test_an_older_state_is_not_believed_once_later_rows_cannot_be_made_again(tmp_path: Path) -> None:
    """A crash left two states, of which the newer one is damaged."""
    talk = record(tmp_path)
    crash(tmp_path, lambda step: step == "remove state 1")
    states = sorted(session_folder(tmp_path, SESSION).glob("*.state"))
    assert [path.name for path in states] == ["00000001.state", "00000002.state"]
    states[1].write_bytes(b"")
    before = frame_rows(tmp_path)
    ((_, gone),) = compact(tmp_path).damaged
    assert gone == "what was known of the connections after segment 2"
    rows = frame_rows(tmp_path)
    assert all(row in rows for row in before)
    assert len(before) < len(rows) < len(traffic.expected(talk))
