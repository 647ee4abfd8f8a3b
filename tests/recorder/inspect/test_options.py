"""Tests of the commands' options, and of shell completion through click's own machinery."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from proxy.cli import main
from recorder.inspect.options import shown_id
from tests.brokers.waiting import PATIENCE
from tests.tables import each_row


def completed(*words: str) -> list[str]:
    """Returns the completions that a shell is offered for the last word; `<dir>` if it is to complete folders."""
    asked = ShellComplete(main, {}, "kafka-wiretap", "_KAFKA_WIRETAP_COMPLETE")
    found = asked.get_completions([*words[:-1]], words[-1])
    return ["<dir>" if one.type == "dir" else str(one.value) for one in found]


def test_apis_complete_by_their_names_in_any_case_those_of_0_7_too(folder: Path) -> None:
    assert completed("inspect", "frames", str(folder), "--api", "fe") == ["Fetch", "FetchSnapshot"]
    assert completed("inspect", "exchanges", str(folder), "--api", "0.7/m") == ["0.7/multifetch", "0.7/multiproduce"]


def test_sessions_complete_by_what_the_capture_holds(folder: Path) -> None:
    for command in ("frames", "exchanges"):
        assert completed("inspect", command, str(folder), "--session", "2") == ["20261121T120000Z-abc"]
        assert completed("inspect", command, "--session", "2") == []
    assert completed("inspect", "frames", str(folder), "--limit", "3", "--session", "x") == []


@pytest.mark.parametrize("name", ["$(reboot)", "a b", "a;b", "a\nplain,b", "\x1b[2J", "\u202eb"], ids=range(6))
def test_a_shell_is_handed_nothing_that_no_session_is_called(folder: Path, name: str) -> None:
    """The shell writes completions into the command line, or its own code prints them to the terminal."""
    place = folder / "frames" / "date=2026-11-21" / "hour=12"
    (place / f"{name}-1-1.parquet").touch()
    assert completed("inspect", "frames", str(folder), "--session", "") == ["20261121T120000Z-abc"]


def test_folders_complete_where_a_capture_must_stand(folder: Path) -> None:
    for words in (["inspect", ""], ["inspect", "fr"], ["inspect", "frames", ""], ["compact", ""], ["analyze", "c"]):
        assert completed(*words)[0] == "<dir>"
    assert completed("inspect", "fr") == ["<dir>", "frames"]
    assert completed("analyze", "c", "--out", "") == ["<dir>"]


@each_row(
    ("words", "found"),
    [
        (["inspect", "frames", "c", "--kind", "re"], ["request", "response"]),
        (["inspect", "show", "c", "1", "--h"], ["--hex", "--help"]),
        (["inspect", "exchanges", "c", "--e"], ["--errors"]),
        (["analyze", "c", "--master", "local-"], ["local-cluster[2,1,1024]"]),
        (["analyze", "c", "--window", "1 "], ["1 minute", "1 hour"]),
        (["ins"], ["inspect"]),
    ],
    ids=["kind", "format", "option", "master", "window", "command"],
)
def test_options_of_a_known_set_complete(words: list[str], found: list[str]) -> None:
    assert completed(*words) == found


def test_a_shell_that_completes_opens_no_capture(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(folder: Path) -> list[str]:
        raise AssertionError

    monkeypatch.setattr("recorder.inspect.commands.ready_at", opened)
    assert completed("inspect", "frames", str(folder), "--api", "Fetc")
    assert completed("inspect", "show", str(folder), "--h") == ["--hex", "--help"]


BASH = """
eval "$(_KAFKA_WIRETAP_COMPLETE=bash_source kafka-wiretap)"
COMP_WORDS=(kafka-wiretap inspect frames "$1" --api Fe) COMP_CWORD=5
_kafka_wiretap_completion kafka-wiretap 2>/dev/null
echo "${COMPREPLY[@]}"
"""


@pytest.mark.real
def test_bash_completes_with_what_the_help_tells_to_paste(folder: Path, tmp_path: Path) -> None:
    assert 'eval "$(_KAFKA_WIRETAP_COMPLETE=bash_source kafka-wiretap)"' in (main.help or "")
    program = tmp_path / "bin" / "kafka-wiretap"
    program.parent.mkdir()
    start = "import sys; from proxy.cli import main; sys.argv[0] = 'kafka-wiretap'; main()"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{start}" "$@"\n')
    program.chmod(0o755)
    environment = os.environ | {"PATH": f"{program.parent}:{os.environ['PATH']}"}
    command = ["bash", "-c", BASH, "bash", str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.stdout, done.stderr) == ("Fetch FetchSnapshot\n", "")


def test_a_bad_id_is_refused_with_right_examples() -> None:
    with pytest.raises(click.BadParameter, match="'4/x8' is no id; right would be 4 "):
        shown_id("4/x8")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--limit", "9" * 30], "is more than 9223372036854775807; right would be"),
        (["--connection", "9" * 30], "is more than 9223372036854775807; right would be"),
        (["--connection", "-1"], "is less than 0; right would be --connection 0"),
        (["--api", "99999"], "is an int16, which 99999 is not"),
    ],
    ids=["limit", "connection", "below", "api"],
)
def test_numbers_that_no_column_can_hold_are_refused(folder: Path, options: list[str], said: str) -> None:
    result = CliRunner().invoke(main, ["inspect", "frames", str(folder), *options])
    assert (result.exit_code, said in result.stderr) == (2, True), result.stderr
