"""Tests of the checks of a folder before anything is read from it."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recorder import ready as module
from recorder.capture.compactor import Summary
from recorder.capture.frames import FORMAT, FORMAT_KEY, frames_schema
from recorder.capture.lock import WRITER_LOCK
from recorder.capture.session import RecordSettings
from recorder.capture.tap import open_tap
from recorder.ready import NoCapture, ready
from tests.recorder.capture.looks import take_lock


@pytest.fixture
def captured(tmp_path: Path) -> Path:
    """A folder with a closed file, and a session in its log."""
    (tmp_path / "frames" / "date=2026-11-21" / "hour=12").mkdir(parents=True)
    (tmp_path / "frames" / "date=2026-11-21" / "hour=12" / "a-1-1.parquet").touch()
    (tmp_path / "_spool" / "a").mkdir(parents=True)
    return tmp_path


def compaction(monkeypatch: pytest.MonkeyPatch, outcome: Summary | Exception) -> list[Path]:
    """Replaces compact() by this result; lists the folders of its calls."""
    called: list[Path] = []

    def compact(folder: Path, *, only_own: bool, say: object) -> Summary:
        assert only_own
        called.append(folder)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr("recorder.capture.compactor.compact", compact)
    return called


def test_a_folder_that_is_no_capture_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(NoCapture, match="holds no capture: record one with") as caught:
        ready(tmp_path)
    assert caught.value.exit_code == 2


def test_a_path_that_is_no_utf_8_is_refused_in_a_sentence(captured: Path) -> None:
    strange = captured.rename(os.fsdecode(bytes(captured) + b"\xff"))
    with pytest.raises(NoCapture, match="Parquet needs a path in UTF-8"):
        ready(strange)


def test_a_missing_folder_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    with pytest.raises(NoCapture, match=r"/nowhere does not exist: record one with"):
        ready(tmp_path / "nowhere")


def test_a_file_whose_columns_names_are_no_utf_8_is_left_to_its_reader_to_name(
    captured: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compaction(monkeypatch, Summary())
    path = next(captured.rglob("*.parquet"))
    pq.write_table(frames_schema().empty_table(), path)
    path.write_bytes(path.read_bytes().replace(b"kind", b"\xff\xff\xff\xff"))
    assert ready(captured) == []


def test_a_sessions_log_is_compacted_before_the_capture_is_read(
    captured: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = compaction(monkeypatch, Summary(sessions=("a",), frames=3))
    assert ready(captured) == []
    assert called == [captured]


def test_without_a_log_nothing_is_compacted(captured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called = compaction(monkeypatch, Summary())
    (captured / "_spool" / "a").rmdir()
    assert ready(captured) == []
    assert called == []


def test_sessions_that_live_or_are_worked_on_are_named(captured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compaction(monkeypatch, Summary(live=("a",), busy=("b",)))
    assert ready(captured) == [
        "a proxy is still recording session a, or has just ended: "
        "frames appear once a segment of its log is full or old enough (capture.segment_age) after they passed; "
        "0 B of log are still to come",
        "session b is being compacted by another process: try again",
    ]


def test_a_session_that_its_own_compactor_follows_is_still_being_recorded(
    captured: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compaction(monkeypatch, Summary(busy=("a",)))
    writer = take_lock(captured / "_spool" / "a", WRITER_LOCK)
    assert writer is not None
    (note,) = ready(captured)
    assert note.startswith("a proxy is still recording session a")
    writer.release()
    assert ready(captured) == ["session a is being compacted by another process: try again"]


@pytest.mark.parametrize(("seconds", "said"), [(60.0, "up to 60 s"), (7.0, "up to 7 s"), (0.5, "up to 0.5 s")])
def test_the_message_names_the_proxys_segment_age(tmp_path: Path, seconds: float, said: str) -> None:
    tap = open_tap(tmp_path, RecordSettings(segment_seconds=seconds))
    tap.node(1, "b:1", "l:1", "main")
    tap.flush()
    with pytest.raises(NoCapture) as caught:
        ready(tmp_path)
    assert f"frames appear {said} (capture.segment_age) after they passed; " in caught.value.message
    waiting = sum(path.stat().st_size for path in (tmp_path / "_spool" / tap.session).glob("*.log"))
    assert caught.value.message.endswith(f"{waiting} B of log are still to come)")
    tap.close()


def test_a_log_without_a_segment_age_has_no_number(captured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compaction(monkeypatch, Summary(live=("a",)))
    (captured / "_spool" / "a" / "00000001.log").write_bytes(b"KWSPOOL")
    (note,) = ready(captured)
    assert "frames appear once a segment of its log is full or old enough" in note
    assert note.endswith("7 B of log are still to come")


def test_foreign_parquet_is_no_capture(captured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compaction(monkeypatch, Summary())
    file = captured / "frames" / "date=2026-11-21" / "hour=12" / "a-1-1.parquet"
    pq.write_table(pa.table({"user": [1], "kind": ["x"]}), file)
    with pytest.raises(NoCapture, match=r"holds no capture: .*a-1-1.parquet is Parquet without") as caught:
        ready(captured)
    assert caught.value.exit_code == 2
    pq.write_table(pa.table({"session": ["s"], "kind": ["x"], "at_ns": [1]}), file)
    assert ready(captured) == []


def test_a_session_of_a_newer_format_is_refused(captured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compaction(monkeypatch, Summary())
    hour = captured / "frames" / "date=2026-11-21" / "hour=12"
    ours = frames_schema()
    pq.write_table(ours.empty_table(), hour / "a-1-1.parquet")
    assert ready(captured) == []
    newer = ours.with_metadata({FORMAT_KEY: str(FORMAT + 1).encode()})
    pq.write_table(newer.empty_table(), hour / "b-1-1.parquet")
    with pytest.raises(NoCapture, match=rf"b-1-1.parquet: capture format {FORMAT + 1}, .* use a newer") as caught:
        ready(captured)
    assert caught.value.exit_code == 2


def test_a_finished_capture_without_a_frame_does_not_promise_any(captured: Path) -> None:
    (captured / "frames" / "date=2026-11-21" / "hour=12" / "a-1-1.parquet").unlink()
    (captured / "_spool" / "a").rmdir()
    with pytest.raises(NoCapture, match=r"holds no frames$"):
        ready(captured)


def test_a_folder_that_may_not_be_written_is_read_as_far_as_it_goes(
    captured: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compaction(monkeypatch, PermissionError("the capture can't be written"))
    assert ready(captured) == ["the capture can't be written"]


def test_a_capture_without_a_frame_says_why(captured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compaction(monkeypatch, Summary(live=("a",)))
    (captured / "frames" / "date=2026-11-21" / "hour=12" / "a-1-1.parquet").unlink()
    with pytest.raises(NoCapture, match=r"holds no frames yet \(a proxy is still recording session a"):
        module.ready(captured)


def test_a_log_that_is_no_folder_is_reported(captured: Path) -> None:
    (captured / "_spool" / "a").rmdir()
    (captured / "_spool").rmdir()
    (captured / "_spool").touch()
    (note,) = ready(captured)
    assert note.endswith("_spool is a file, not a folder")


def test_a_file_that_is_removed_while_the_capture_is_listed_is_not_missed(
    captured: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Path] = []

    def listed(folder: Path) -> list[Path]:
        calls.append(folder)
        if len(calls) == 1:
            raise FileNotFoundError(2, "No such file or directory")
        return [*folder.rglob("*.parquet")]

    compaction(monkeypatch, Summary())
    monkeypatch.setattr(module, "_files", listed)
    assert ready(captured) == []
    assert len(calls) == 2
