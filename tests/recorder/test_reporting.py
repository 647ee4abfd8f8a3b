"""Tests of `kafka-wiretap report`: one error line before Spark starts; the file is whole or absent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from recorder import reporting, spark_options
from recorder.analysis.summary.bounds import Table
from recorder.analysis.summary.sections.findings import Finding, Findings, Severity
from recorder.analysis.summary.whole import Summary, of_json
from recorder.reporting import report
from tests.recorder.running import unread_capture

BAD = Finding("slow", Severity.CRITICAL, "Fetch on node 2", "Fetch on node 2 took 400 ms\x1b[31m", "look at it")
FOUND = Summary(findings=Findings(found=Table((BAD,)), quiet=("gaps",)))


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    return unread_capture(tmp_path)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Replaces Spark by an answer; lists the questions."""
    questions: list[tuple[Any, ...]] = []

    def answer(*question: Any) -> Summary:
        questions.append(question)
        return FOUND

    monkeypatch.setattr(reporting, "_summary", answer)
    monkeypatch.setattr(spark_options, "check_spark", lambda: None)
    return questions


def run(*arguments: object) -> Result:
    return CliRunner().invoke(report, [str(one) for one in arguments])


@pytest.mark.parametrize(
    ("name", "begins"),
    [("r.html", "<!doctype html>"), ("r.md", "# 1 finding"), ("R.JSON", "{")],
    ids=["html", "md", "json"],
)
def test_the_files_name_chooses_the_format(capture: Path, asked: Any, tmp_path: Path, name: str, begins: str) -> None:
    found = run(capture, "-o", tmp_path / name)
    assert found.exit_code == 0, found.output
    assert (tmp_path / name).read_text().lower().startswith(begins.lower())
    assert "1 finding: 1 critical. 2 rules were judged, 1 fired." in found.stdout
    assert f"report written to {tmp_path / name}" in found.stdout
    assert "\x1b" not in found.stdout


def test_without_a_file_the_report_goes_to_standard_output(capture: Path, asked: Any) -> None:
    assert run(capture).stdout.startswith("# 1 finding")
    assert of_json(run(capture, "--format", "json").stdout).findings == FOUND.findings


def test_without_a_terminal_a_line_says_what_reads_the_capture(capture: Path, asked: Any, tmp_path: Path) -> None:
    begun = f"reading {capture} with the embedded engine\n"
    assert run(capture).stderr == begun
    assert run(capture, "-o", tmp_path / "r.json").stderr == begun
    assert run(capture, "--format", "json").stderr == ""


def test_times_and_thresholds_reach_the_question(capture: Path, asked: Any, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text("slow = 5")
    found = run(
        capture, "--since", "2026-11-21T12:00", "--until", "2026-11-21T12:01", "--thresholds", tmp_path / "own.toml"
    )
    assert found.exit_code == 0, found.output
    ((_, _, since, until, own),) = asked
    assert (until - since, own) == (60 * 10**9, {"slow": 5.0})


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["-o", "report.txt"], "report.txt: no format; right would be .html, .htm, .md, .json, or --format"),
        (["-o", "no-folder/report.html"], "can't be written"),
        (["-o", "."], "no format"),
        (["-o", "9" * 400 + ".html"], "File name too long"),
        (["-o", ".", "--format", "html"], "can't be written"),
        (["--format", "pdf"], "'pdf' is not one of"),
        (["--thresholds", "none.toml"], "none.toml can't be read"),
        (["--since", "tomorrow"], "tomorrow"),
        (["--master", "bogus"], "'bogus' is no master"),
    ],
    ids=["suffix", "folder", "dot", "long", "directory", "format", "thresholds", "since", "master"],
)
def test_wrong_options_are_refused_in_a_line_before_spark_starts(
    capture: Path, asked: Any, options: list[str], says: str
) -> None:
    found = run(capture, *options)
    assert found.exit_code == 2
    assert says in found.stderr
    assert "Traceback" not in found.output
    assert not asked


def test_a_folder_that_is_no_capture_is_refused(asked: Any, tmp_path: Path) -> None:
    found = run(tmp_path)
    assert (found.exit_code, asked) == (2, [])
    assert "holds no capture" in found.stderr


def test_files_that_can_not_be_read_are_named_in_the_report_and_end_with_exit_code_1(
    capture: Path, asked: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(place: Any, *_: Any) -> Summary:
        place.broken["a-1-1.parquet"] = "no magic"
        return FOUND

    monkeypatch.setattr(reporting, "_summary", answer)
    found = run(capture, "--format", "json")
    assert found.exit_code == 1
    assert json.loads(found.stdout)["coverage"]["missing"]["notes"] == [
        "left out: a-1-1.parquet can't be read: no magic"
    ]
    assert "a-1-1.parquet can't be read: no magic" in found.stderr
