"""Tests of wrong options: exit code 2, and a line with a correction."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from proxy import cli
from proxy.wire.keys import FETCH
from recorder.replay.commands import play, replay
from tests.recorder.replay.captures import request, write

WRONG = {
    "speed": (["--speed", "fast"], "'fast' is no speed; right would be --speed 1, 0.5, 10 or max"),
    "no-speed": (["--speed", "0"], "'0' is no speed"),
    "endless-speed": (["--speed", "inf"], "'inf' is no speed"),
    "speed-nan": (["--speed", "nan"], "'nan' is no speed"),
    "address": (["--to", "nowhere"], "has 'nowhere', which has no port"),
    "since": (["--since", "noon"], "'noon' is no time; right would be --since 2026-11-21T13:48"),
    "until": (["--until", "noon"], "'noon' is no time; right would be --until 2026-11-21T13:48"),
    "wait": (["--wait", "soon"], "'soon' is no duration; right would be --wait 500ms, 10s or 2m"),
    "drain": (["--drain", "-1s"], "'-1s' is no duration; right would be --drain"),
    "max-late": (["--max-late", "inf"], "'inf' is no duration; right would be --max-late"),
    "memory": (["--memory", "much"], "'much' is no size; right would be --memory 1GiB"),
    "node": (["--node", "1"], "right would be --node 1=4"),
    "node-names": (["--node", "one=two"], "right would be --node 1=4"),
    "node-digits": (["--node", "²=4"], "right would be --node 1=4"),
    "deletes": (["--deletes", "some"], "some"),
    "partial": (["--partial", "101"], "101"),
    "stop-after": (["--stop-after", "-1"], "-1"),
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
    assert "/nowhere does not exist: record one with" in found.output


def test_a_strange_file_refuses_as_all_refusals_do(tmp_path: Path) -> None:
    folder = write(tmp_path / "capture", [request(0, 1, 0, FETCH, 11, {})])
    (folder / "events" / "date=2026-11-22").symlink_to(tmp_path)
    found = CliRunner().invoke(replay, [str(folder), "--to", "127.0.0.1:1"])
    assert (found.exit_code, "is a symbolic link" in found.output) == (2, True)


@pytest.mark.parametrize("command", [["replay"], ["replay", "play"]])
def test_the_help_shows_every_option_of_playing(command: list[str]) -> None:
    shown = CliRunner().invoke(cli.main, [*command, "--help"]).stdout
    options = [option for param in play.params for option in param.opts if option.startswith("--")]
    assert len(options) > 20
    assert [option for option in options if f"  {option}" not in shown] == []
