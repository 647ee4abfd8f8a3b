"""Tests of `kafka-wiretap encodings`: its question to Spark, and its output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from recorder import spark_options
from recorder.analysis import running
from recorder.analysis.questions.encodings import Answer
from tests.recorder.encodings.test_study import ROWS
from tests.recorder.running import run, unread_capture


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    return unread_capture(tmp_path)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Replaces Spark by an answer; lists the questions."""
    found: list[dict[str, Any]] = []

    def ask(place: Any, question: Any) -> Answer:
        found.append(question.keywords)
        place.broken["x.parquet"] = "it is damaged"
        return Answer(ROWS, {"masked": 3})

    monkeypatch.setattr(running, "ask", ask)
    monkeypatch.setattr(spark_options, "check_spark", lambda: None)
    return found


def test_json_has_all_of_it_and_a_broken_file_is_named(capture: Path, asked: list[Any]) -> None:
    done = run("encodings", capture, "--format", "json", "--since", "2026-11-21T12:00")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["total"]["sizes"]["fixed"] == 180
    assert done.stderr.splitlines() == ["Error: left out: x.parquet can't be read: it is damaged"]
    ((question),) = asked
    assert question == {"since_ns": 1_795_262_400 * 10**9, "until_ns": None, "with_sample": True}


def test_a_terminal_gets_the_first_rows(capture: Path, asked: list[Any]) -> None:
    done = run("encodings", capture, "--no-times", "--limit", 1)
    assert done.stderr.startswith(f"reading {capture} with the embedded engine")
    assert "3 frames could not be read: masked 3." in done.stdout
    assert "the first 1 of 2 fields" in done.stdout
    assert not asked[0]["with_sample"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--since", "noon"), "'noon' is no time; right would be "),
        (("--master", "bogus"), "'bogus' is no master; right "),
    ],
    ids=["time", "master"],
)
def test_a_wrong_option_is_refused_before_spark_starts(capture: Path, options: tuple[str, str], says: str) -> None:
    done = run("encodings", capture, *options)
    assert done.exit_code == 2
    assert says in done.stderr.splitlines()[-1]


def test_a_folder_that_is_no_capture_is_refused(tmp_path: Path, asked: list[Any]) -> None:
    done = run("encodings", tmp_path / "nothing")
    assert done.exit_code == 2
    assert asked == []
