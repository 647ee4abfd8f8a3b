"""Tests of wrong options: exit code 2, and a line with a correction."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from recorder.replay.commands import replay

WRONG = {
    "speed": (["--speed", "fast"], "right would be 1, 0.5, 10 or max"),
    "no-speed": (["--speed", "0"], "right would be 1, 0.5, 10 or max"),
    "endless-speed": (["--speed", "inf"], "right would be 1, 0.5, 10 or max"),
    "speed-nan": (["--speed", "nan"], "right would be 1, 0.5, 10 or max"),
    "address": (["--to", "nowhere"], "nowhere"),
    "since": (["--since", "noon"], "right would be 2026-11-21T13:48, 13:48 or -5m"),
    "until": (["--until", "noon"], "right would be 2026-11-21T13:48, 13:48 or -5m"),
    "wait": (["--wait", "soon"], "right would be 500ms, 10s or 2m"),
    "negative-wait": (["--wait", "-5s"], "right would be 500ms, 10s or 2m"),
    "endless-wait": (["--wait", "inf"], "right would be 500ms, 10s or 2m"),
    "wait-nan": (["--wait", "nan"], "right would be 500ms, 10s or 2m"),
    "drain": (["--drain", "1x"], "right would be 500ms, 10s or 2m"),
    "max-late": (["--max-late", "x"], "right would be 500ms, 10s or 2m"),
    "memory": (["--memory", "much"], "right would be 256MiB"),
    "node": (["--node", "1"], "right would be --node 1=4"),
    "node-names": (["--node", "one=two"], "right would be --node 1=4"),
    "node-digits": (["--node", "²=4"], "right would be --node 1=4"),
    "deletes": (["--deletes", "some"], "some"),
    "partial": (["--partial", "101"], "101"),
    "stop-after": (["--stop-after", "-1"], "-1"),
    "wait-exponent": (["--wait", "1e3s"], "right would be 500ms, 10s or 2m"),
    "prefix": (["--prefix", "bad name/"], "'bad name/' can't stand before a topic's name: right would be replay-"),
    "prefix-of-kafka": (["--prefix", "__p"], "but neither '_' alone nor '__' first"),
    "prefix-that-makes-kafkas": (["--prefix", "_"], "but neither '_' alone nor '__' first"),
    "report-twice": (["--report", "r.json", "--report", "r.json"], "'r.json' stands twice"),
    "both": (["--read-only", "--produce-only"], "right would be one of them"),
}


@pytest.mark.parametrize("which", WRONG)
def test_a_wrong_option_is_refused_with_what_would_be_right(which: str, tmp_path: Path) -> None:
    options, sentence = WRONG[which]
    to = [] if "--to" in options else ["--to", "127.0.0.1:1"]
    found = CliRunner().invoke(replay, [str(tmp_path), *to, *options])
    assert found.exit_code == 2, found.output
    assert found.exception is None or isinstance(found.exception, SystemExit)
    last = found.output.strip().splitlines()[-1]
    assert last.startswith("Error: ")
    assert sentence in last


def test_a_settings_file_that_is_missing_is_refused(tmp_path: Path) -> None:
    found = CliRunner().invoke(replay, [str(tmp_path), "--to", "h:1", "--settings", str(tmp_path / "no.toml")])
    assert found.exit_code == 2
    assert "no.toml" in found.output


def test_without_a_target_nothing_is_played(tmp_path: Path) -> None:
    found = CliRunner().invoke(replay, [str(tmp_path)])
    assert found.exit_code == 2
    assert "--to" in found.output


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    found = CliRunner().invoke(replay, [str(tmp_path / "nowhere"), "--to", "127.0.0.1:1"])
    assert found.exit_code == 2
    assert found.output.endswith("/nowhere does not exist\n")
