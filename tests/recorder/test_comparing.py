"""Tests of `kafka-wiretap compare`: errors before Spark starts, tables that fit, and one full run with Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from proxy.wire.keys import HEARTBEAT
from recorder import comparing, spark_options
from recorder.comparing import compare
from recorder.report.listings import UNKNOWN, Cell
from tests import hostile_text
from tests.recorder.analysis.by_exchange import Talk
from tests.recorder.analysis.conftest import write_frames
from tests.recorder.report import some_sides as sides

UNKNOWN_MEMBER = 25


@pytest.fixture
def captures(tmp_path: Path) -> tuple[Path, Path]:
    """Two folders that pass as captures unless Spark reads them."""
    for name in ("before", "after"):
        hour = tmp_path / name / "frames" / "date=2026-11-21" / "hour=12"
        hour.mkdir(parents=True)
        (hour / "a-1-1.parquet").touch()
    return tmp_path / "before", tmp_path / "after"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Replaces Spark by two sides; lists the questions."""
    questions: list[Any] = []

    def answer(*question: Any) -> list[Any]:
        questions.append(question)
        return [sides.monday(), sides.tuesday()]

    monkeypatch.setattr(comparing, "_sides", answer)
    monkeypatch.setattr(spark_options, "check_spark", lambda: None)
    return questions


def run(*arguments: object, width: int = 160) -> Result:
    return CliRunner(env={"COLUMNS": str(width)}).invoke(compare, [str(one) for one in arguments])


@pytest.mark.parametrize("width", [60, 160])
def test_the_terminal_shows_both_sides_of_what_changed(captures: tuple[Path, Path], asked: Any, width: int) -> None:
    found = run(*captures, width=width)
    assert found.exit_code == 0, found.output
    assert max(map(len, found.stdout.splitlines())) <= width
    assert found.stdout.startswith("Better and worse. Findings: 1 new, 1 worse, 1 gone;")
    lines = [line.split("  ") for line in found.stdout.splitlines()]
    assert any(line[0].startswith("worse") and "3.1 ms → 5 ms" in "  ".join(line) for line in lines)
    assert "v11 56.25 %" not in found.stdout


def test_a_sign_marks_the_values_that_made_a_row_worse_or_better(captures: tuple[Path, Path], asked: Any) -> None:
    """Produce is slower; Fetch is faster; InitProducerId has too few answers."""
    shown = run(*captures).stdout
    assert "3.1 ms → 5 ms ↑" in shown
    assert "3 ms → 1.9 ms ↓" in shown
    assert all("↑" not in line for line in shown.splitlines() if "InitProducerId" in line)


def test_a_terminal_dims_values_of_too_few_answers_to_compare() -> None:
    few = comparing._cell([Cell("1 ms", tone="muted"), Cell(UNKNOWN)])
    assert few.plain == f"1 ms → {UNKNOWN}"
    assert [span.style for span in few.spans if span.end - span.start == len(few)] == ["dim"]


def test_a_blank_line_stands_above_each_table(captures: tuple[Path, Path], asked: Any) -> None:
    lines = run(*captures).stdout.splitlines()
    assert lines[lines.index("Work, by API") - 1] == ""


@pytest.mark.parametrize("width", [60, 160])
def test_names_that_mean_harm_are_shown_as_text(
    captures: tuple[Path, Path], asked: Any, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparing, "_sides", lambda *_: [sides.hostile(), sides.tuesday()])
    shown = run(*captures, width=width).stdout
    assert hostile_text.WORD in shown
    assert not set(shown) & set("\x1b\x07\x9b\u202e\u200b")


@pytest.mark.parametrize(
    ("name", "begins"),
    [("c.html", "<!doctype html>"), ("c.md", "# Better and worse"), ("c.json", "{")],
    ids=["html", "md", "json"],
)
def test_the_files_name_chooses_the_format(
    captures: tuple[Path, Path], asked: Any, tmp_path: Path, name: str, begins: str
) -> None:
    found = run(*captures, "-o", tmp_path / name)
    assert found.exit_code == 0, found.output
    assert (tmp_path / name).read_text().startswith(begins)
    assert found.stdout.endswith(f"comparison written to {tmp_path / name}\n")


def test_without_a_terminal_a_line_says_what_reads_both(captures: tuple[Path, Path], asked: Any) -> None:
    before, after = captures
    begun = f"reading {before} and {after} with the embedded engine\n"
    assert run(*captures, width=1000).stderr == begun
    assert run(*captures, "--format", "json").stderr == ""


def test_json_goes_to_standard_output(captures: tuple[Path, Path], asked: Any) -> None:
    found = json.loads(run(*captures, "--format", "json", "--tolerance", "50").stdout)
    assert (found["verdict"], found["tolerance"]) == ("better and worse", 0.5)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["-o", "c.txt"], "c.txt: no format; right would be .html, .htm, .md, .json, or --format"),
        (["-o", "no-folder/c.html"], "can't be written"),
        (["--format", "pdf"], "'pdf' is not one of"),
        (["--tolerance", "-1"], "-1.0 is not in the range"),
        (["--thresholds", "none.toml"], "none.toml can't be read"),
        (["--master", "bogus"], "'bogus' is no master"),
    ],
    ids=["suffix", "folder", "format", "tolerance", "thresholds", "master"],
)
def test_wrong_options_are_refused_in_a_line_before_spark_starts(
    captures: tuple[Path, Path], asked: Any, options: list[str], says: str
) -> None:
    found = run(*captures, *options)
    assert (found.exit_code, asked) == (2, [])
    assert says in found.stderr
    assert "Traceback" not in found.output


@pytest.mark.parametrize("at", [0, 1], ids=["before", "after"])
def test_the_folder_that_is_no_capture_is_named(
    captures: tuple[Path, Path], asked: Any, tmp_path: Path, at: int
) -> None:
    folders = [*captures]
    folders[at] = tmp_path / "empty"
    folders[at].mkdir()
    found = run(*folders, "-o", tmp_path / "c.html")
    assert (found.exit_code, asked) == (2, [])
    assert f"{folders[at]} holds no capture" in found.stderr
    assert not (tmp_path / "c.html").exists()


def test_files_that_can_not_be_read_are_named_and_end_with_exit_code_1(
    captures: tuple[Path, Path], asked: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(places: list[Any], *_: Any) -> list[Any]:
        places[1].broken["a-1-1.parquet"] = "no magic"
        return [sides.monday(), sides.tuesday()]

    monkeypatch.setattr(comparing, "_sides", answer)
    found = run(*captures, "--format", "json")
    assert found.exit_code == 1
    assert "left out: a-1-1.parquet can't be read: no magic" in json.loads(found.stdout)["after"]["missing"]["notes"]
    assert "a-1-1.parquet can't be read: no magic" in found.stderr


def test_a_folders_name_is_no_markup_where_a_terminal_shows_what_is_done(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], on_a_terminal: None
) -> None:
    """Spark is replaced."""

    def ask_each(asked: list[Any]) -> list[Any]:
        return [question.keywords["say"](f"rules on {question.keywords['folder']}") for _, question in asked]

    monkeypatch.setattr("recorder.analysis.running.ask_each", ask_each)
    comparing._sides([None, None], ("before", "[/after]"), {})
    assert "step 2 of 6: rules on [/after] ..." in capsys.readouterr().err


def write_heartbeats(folder: Path, latency_ms: int, version: int, *, is_bad: bool, every_s: float) -> None:
    """Writes a capture of 300 heartbeats; in a bad one, every fifth is refused."""
    talk = Talk()
    rows = []
    for number in range(300):
        code = UNKNOWN_MEMBER if is_bad and number % 5 == 0 else 0
        asked = {"group_id": "g", "member_id": "m"}
        rows += talk.exchange(HEARTBEAT, version, number * every_s, asked, {"error_code": code})
    for row in rows:
        if row["kind"] == "response":
            row["latency_ns"] = latency_ms * 1_000_000
    write_frames(folder, rows, 1000)


@pytest.mark.real
@pytest.mark.long
def test_two_captures_are_compared_by_spark(tmp_path: Path) -> None:
    """Before: 30 s, 2 ms, version 3, no error. After: 60 s, 9 ms, version 4, 60 of 300 refused."""
    write_heartbeats(tmp_path / "before", 2, 3, is_bad=False, every_s=0.1)
    write_heartbeats(tmp_path / "after", 9, 4, is_bad=True, every_s=0.2)
    program = "from recorder.comparing import compare; compare()"
    command = [sys.executable, "-c", program, tmp_path / "before", tmp_path / "after", "--format", "json"]
    done = subprocess.run([str(one) for one in command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert found["verdict"] == "worse"
    ((latency,), (error,), (traffic,), (versions,), (clients,)) = (
        found[name]["rows"] for name in ("latency", "errors", "traffic", "versions", "clients")
    )
    assert (latency["before"]["p95_ms"], latency["after"]["p95_ms"], latency["change"]) == (2, 9, "worse")
    assert latency["percentiles"] == {"p50_ms": "worse", "p95_ms": "worse", "p99_ms": "too few to tell"}
    assert (error["error"], error["before"], error["after"]) == ("UNKNOWN_MEMBER_ID", [0, 300], [60, 300])
    assert error["change"] == "new"
    assert (traffic["before"]["requests"], traffic["after"]["requests"], traffic["change"]) == (300, 300, "less")
    assert round(traffic["before"]["requests_a_second"]) == 10
    assert round(traffic["after"]["requests_a_second"]) == 5
    assert (versions["before"], versions["after"], versions["change"]) == ({"3": 1}, {"4": 1}, "changed")
    assert clients["change"] == "unchanged"
    came = [(row["rule"], row["change"]) for row in found["findings"]["rows"]]
    assert ("errors", "new") in came
