"""Tests of `kafka-wiretap stream`: refused options, with a correction, before anything is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rich.status import Status

from recorder.analysis.batch_progress import Progress
from recorder.analysis.checkpoint import StreamLocks
from recorder.analysis.streaming import FORM, Streamed
from recorder.capture.frames import FRAMES_FOLDER
from recorder.capture.session import SPOOL_FOLDER
from recorder.ready import NoCapture
from recorder.stream import is_soon_over, tell_all, tell_held
from recorder.terminal import console
from tests.recorder.running import run
from tests.tables import each_row

NO_DURATIONS = ("soon", "-1m", "1m1")


def test_a_folder_that_is_no_capture_is_refused(tmp_path: Path) -> None:
    for folder, lacks in ((tmp_path, "holds no capture"), (tmp_path / "nowhere", "does not exist")):
        found = run("stream", folder, "--output", tmp_path / "out")
        assert (found.exit_code, (tmp_path / "out").exists()) == (2, False)
        assert f"{folder} {lacks}: record one with  kafka-wiretap proxy --record {folder}" in found.output


def test_a_stream_with_once_over_a_capture_without_segments_is_refused(tmp_path: Path) -> None:
    (tmp_path / "capture" / SPOOL_FOLDER).mkdir(parents=True)
    found = run("stream", tmp_path / "capture", "--output", tmp_path / "out", "--once")
    assert (found.exit_code, (tmp_path / "out").exists()) == (2, False)
    assert "holds no frames" in found.output


def test_a_path_that_spark_takes_for_a_pattern_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "capture[1]"
    (folder / FRAMES_FOLDER).mkdir(parents=True)
    found = run("stream", folder, "--output", tmp_path / "out")
    assert found.exit_code == 2
    assert "Spark takes brackets, braces, * and ? in a path for patterns" in found.output


def test_the_checkpoint_of_another_capture_is_refused(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name / SPOOL_FOLDER).mkdir(parents=True)
    checkpoint = tmp_path / "out" / "_checkpoint"
    (checkpoint / "latency_by_api").mkdir(parents=True)
    owner = json.dumps({"form": FORM, "FOLDER": str(tmp_path / "one")})
    (checkpoint / "kafka-wiretap.json").write_text(owner)
    found = run("stream", tmp_path / "other", "--output", tmp_path / "out")
    assert found.exit_code == 2
    assert f"its FOLDER is {tmp_path / 'one'}, not {tmp_path / 'other'}" in " ".join(found.output.split())
    assert (checkpoint / "kafka-wiretap.json").read_text() == owner


@pytest.mark.parametrize("shared", ["out", "out/_checkpoint", "checkpoint"])
def test_a_second_stream_with_a_folder_of_the_first_is_refused_at_once(tmp_path: Path, shared: str) -> None:
    (tmp_path / "capture" / SPOOL_FOLDER).mkdir(parents=True)
    options = ["--checkpoint", tmp_path / shared] if shared == "checkpoint" else []
    locks = StreamLocks([tmp_path / shared])
    locks.take(make=True)
    try:
        found = run("stream", tmp_path / "capture", "--output", tmp_path / "out", "--once", *options)
    finally:
        locks.release()
    assert found.exit_code == 2
    assert f"Error: another stream writes to {tmp_path / shared} now: right would be to end it first, " in found.output


@each_row(
    ("option", "value", "right"),
    [
        *(("--window", value, "10m, or 90s") for value in NO_DURATIONS),
        *(("--trigger", value, "10m, or 90s") for value in NO_DURATIONS),
        *(("--watermark", value, "10m, 90s or 0s") for value in NO_DURATIONS),
    ],
)
def test_a_bad_duration_is_refused(option: str, value: str, right: str) -> None:
    found = run("stream", "capture", "--output", "out", option, value)
    assert found.exit_code == 2
    assert f"{value!r} is no duration; right would be {option} {right}" in found.output


def test_a_watermark_may_be_nothing(started: list[Any], tmp_path: Path) -> None:
    found = run("stream", tmp_path / "capture", "--output", tmp_path / "out", "--watermark", "0s")
    assert [asked.watermark for asked in started] == ["0 milliseconds"]
    assert "a window is written when traffic has come that is newer than its end" in found.output.splitlines()


@pytest.mark.parametrize("option", ["--window", "--trigger"])
@pytest.mark.parametrize("value", ["0s", "0.1ms"])
def test_a_window_is_a_millisecond_at_least(option: str, value: str) -> None:
    found = run("stream", "capture", "--output", "out", option, value)
    assert found.exit_code == 2
    assert f"right would be {option} 10m, or 90s" in found.output


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A capture with a segment in `tmp_path`; lists the streams that would be started."""
    hour = tmp_path / "capture" / FRAMES_FOLDER / "date=2026-11-21" / "hour=12"
    hour.mkdir(parents=True)
    (hour / "a-1-1.parquet").touch()
    found: list[Any] = []
    monkeypatch.setattr("recorder.stream._run", lambda asked, *_: found.append(asked))
    return found


@pytest.mark.parametrize(
    ("options", "windows", "newer"),
    [
        ((), "by api in windows of 1m", "10m newer"),
        (
            ("--by", "api,client_id", "--window", "10s", "--watermark", "90s", "--once"),
            "by api, client_id in windows of 10s",
            "90s newer",
        ),
    ],
    ids=["default", "options"],
)
def test_a_stream_says_at_once_what_it_is_starting(
    started: list[Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    windows: str,
    newer: str,
) -> None:
    def refuse(_: Path) -> None:
        raise NoCapture("compaction has begun")

    monkeypatch.setattr("recorder.stream.ready", refuse)
    *lines, last = run("stream", tmp_path / "capture", "--output", tmp_path / "out", *options).output.splitlines()
    assert lines == [
        f"starting a stream of {tmp_path}/capture to {tmp_path}/out",
        f"latency_by_api, errors_by_api {windows}",
        f"a window is written when traffic has come that is {newer} than its end",
    ]
    assert last == "Error: compaction has begun"
    assert started == []


@pytest.mark.real
@pytest.mark.parametrize(("option", "value"), [("--window", "90s"), ("--window", "1500ms"), ("--by", "version,node")])
def test_another_streams_options_are_named_as_the_command_takes_them(
    started: list[Any], tmp_path: Path, option: str, value: str
) -> None:
    arguments = ("stream", tmp_path / "capture", "--output", tmp_path / "out")
    run(*arguments, option, value)
    (tmp_path / "out" / "_checkpoint" / "latency_by_api").mkdir()
    found = run(*arguments)
    assert (found.exit_code, len(started)) == (2, 1)
    assert f"right would be {option} {value}, or" in " ".join(found.output.split())
    run(*arguments, option, value)
    assert len(started) == 2


def test_the_checkpoint_of_another_form_is_refused_before_spark_is_started(
    started: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("stream", tmp_path / "capture", "--output", tmp_path / "out")
    run(*arguments)
    (tmp_path / "out" / "_checkpoint" / "latency_by_api").mkdir()
    monkeypatch.setattr("recorder.analysis.streaming.FORM", FORM + 1)
    found = run(*arguments)
    assert (found.exit_code, len(started)) == (2, 1)
    *_, line = found.output.splitlines()
    assert line.startswith(f"Error: {tmp_path}/out/_checkpoint was written by an older kafka-wiretap, ")
    assert "starting a stream" not in found.output


@pytest.mark.parametrize("options", [("--output", "{}"), ("--output", "{}/frames/x"), ("--output", "out")])
def test_a_stream_writes_nothing_into_its_capture(
    started: list[Any], tmp_path: Path, options: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    more = ("--checkpoint", tmp_path / "capture" / "kept") if options[1] == "out" else ()
    found = run("stream", tmp_path / "capture", *(one.format(tmp_path / "capture") for one in options), *more)
    assert (found.exit_code, started) == (2, [])
    assert "is within the capture: right would be a folder beside it" in " ".join(found.output.split())
    assert [one.name for one in (tmp_path / "capture").iterdir()] == [FRAMES_FOLDER]


@pytest.mark.parametrize(("every", "small", "is_over"), [(None, 10, True), ("10 seconds", 10, False), (None, 9, False)])
def test_a_stream_that_ends_soon_starts_a_lighter_jvm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: str | None, small: int, is_over: bool
) -> None:
    hour = tmp_path / "capture" / FRAMES_FOLDER / "date=2026-11-21" / "hour=12"
    hour.mkdir(parents=True)
    (hour / "a-1-1.parquet").write_bytes(bytes(9))
    monkeypatch.setattr("recorder.analysis.running.SMALL_CAPTURE", small)
    assert is_soon_over(Streamed(str(tmp_path / "capture"), "out", "checkpoint", every=every)) is is_over


def test_the_size_of_a_capture_behind_a_url_is_unknown() -> None:
    assert not is_soon_over(Streamed("s3a://bucket/capture", "out", "checkpoint", every=None))


def nothing_shown() -> Status:
    return console(stderr=True).status("")


def progress(table: str, written: int, late: int = 0) -> Progress:
    return Progress(table, written, 55, late, "2026-11-21T12:00:00.000Z")


@pytest.mark.parametrize(
    ("batches", "says"),
    [
        ((), "nothing new: no segment has come since the last look"),
        (
            (progress("latency_by_api", 0),),
            "latency_by_api: 0 rows written, 55 wait; watermark: 2026-11-21 12:00:00 UTC",
        ),
        ((progress("latency_by_api", 3), progress("errors_by_api", 0)), "errors_by_api: 0 rows written, 55 wait"),
    ],
    ids=["nothing-new", "all-wait", "one-table-waits"],
)
def test_a_run_with_once_that_writes_nothing_says_so(
    batches: tuple[Progress, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tell_all(batches, nothing_shown(), is_once=True)
    found = capsys.readouterr().err
    assert says in found
    assert len(found.splitlines()) == max(len(batches), 1)


def test_the_end_of_one_look_says_what_is_held_back_and_how_to_get_it(
    started: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("stream", tmp_path / "capture", "--output", tmp_path / "out", "--once", "--window", "90s", "--by", "api,node")
    newest = [progress("latency_by_api", 3), progress("errors_by_api", 0)]
    tell_held(newest, started[0], ("api", "node"))
    rows, later, command = capsys.readouterr().err.splitlines()
    assert rows == (
        "held back by the watermark: 55 rows of latency_by_api and 55 rows of errors_by_api, "
        "of windows that end after 2026-11-21 12:00:00 UTC"
    )
    assert later.startswith("A later look writes them when traffic has come that is 10m newer.")
    assert command == f"  kafka-wiretap analyze {tmp_path}/capture --window 90s --by api,node --out DIR"


def test_nothing_is_said_to_be_held_back_when_nothing_is(capsys: pytest.CaptureFixture[str]) -> None:
    told = progress("errors_by_api", 0)._replace(held=0)
    tell_held([told], Streamed("capture", "out", "checkpoint"), ("api",))
    assert capsys.readouterr().err == ""


def test_on_a_narrow_terminal_no_word_of_a_progress_line_is_broken(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    tell_all((progress("latency_by_api", 0),), nothing_shown(), is_once=True)
    lines = capsys.readouterr().err.splitlines()
    assert max(map(len, lines)) <= 60
    assert "0 rows written, 55 wait; watermark: 2026-11-21 12:00:00 UTC" in " ".join(" ".join(lines).split())


def test_a_continued_stream_reports_only_what_it_writes_itself(capsys: pytest.CaptureFixture[str]) -> None:
    batches = (progress("latency_by_api", 0), progress("errors_by_api", 2), progress("latency_by_api", 0))
    tell_all(batches, nothing_shown(), is_once=False)
    (line,) = capsys.readouterr().err.splitlines()
    assert "errors_by_api: 2 rows written" in line


def test_a_terminal_shows_what_waits_until_there_is_a_first_line(
    capsys: pytest.CaptureFixture[str], on_a_terminal: None
) -> None:
    with nothing_shown() as status:
        tell_all((progress("latency_by_api", 0), progress("errors_by_api", 2)), status, is_once=False)
    waiting, _, behind = capsys.readouterr().err.partition("no window is over yet: 55 rows wait for the watermark")
    assert "written" not in waiting
    *_, line = behind.splitlines()
    assert "errors_by_api: 2 rows written" in line


def test_a_stream_can_not_group_by_columns_of_bodies() -> None:
    found = run("stream", "capture", "--output", "out", "--by", "api,topic")
    assert found.exit_code == 2
    assert "'topic' is nothing to ask by; right would be api, version, client_id" in found.output


@pytest.mark.parametrize("option", ["folder", "--output", "--checkpoint"])
def test_a_bucket_by_the_wrong_name_is_refused(tmp_path: Path, option: str) -> None:
    (tmp_path / "capture" / SPOOL_FOLDER).mkdir(parents=True)
    places: dict[str, Path | str] = {
        "folder": tmp_path / "capture",
        "--output": tmp_path / "out",
        "--checkpoint": tmp_path / "checkpoint",
    }
    places |= {option: "s3://bucket/kept"}
    found = run("stream", places.pop("folder"), *(word for pair in places.items() for word in pair))
    assert found.exit_code == 2
    assert "right would be s3a://bucket/kept" in found.output
    assert [one.name for one in tmp_path.iterdir()] == ["capture"]
