"""Tests that a replay's report has every option and filter, as it would be typed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from proxy.wire.keys import METADATA
from recorder.replay.commands import replay
from recorder.replay.options import Options
from recorder.replay.player import run as module
from recorder.replay.player.run import Job
from tests.recorder.replay.captures import request, write

# options as typed, each with a value other than its default
FILTERS = {
    "--since": "2026-11-21T11:00:00",
    "--until": "2026-11-21T13:00:00",
    "--client": "'an app'",
    "--connection": "1",
    "--session": "2026",
    "--cluster": "main",
    "--where": "'api == Metadata'",
}
OPTIONS = {
    "--speed": "2",
    "--only": "Metadata",
    "--prefix": "p-",
    "--deletes": "own",
    "--timestamps": "shift",
    "--node": "1=4",
    "--wait": "5s",
    "--drain": "1500ms",
    "--memory": "1MiB",
    "--max-late": "3m",
    "--stop-after": "7",
}
SWITCHES = (
    *("--read-only", "--admin", "--telemetry", "--create-topics", "--fence"),
    *("--onto-recorded", "--same-address", "--target-is-another"),
)
# durations as typed in another unit
SAME = {"1500ms": "1.5s"}


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Returns the job that the command makes of these arguments."""
    capture = write(tmp_path, [request(10, 1, 0, METADATA, 12, {"topics": None})])

    def of(*arguments: str) -> Job:
        made: list[Job] = []

        def run(job: Job) -> int:
            made.append(job)
            return 0

        monkeypatch.setattr(module, "run", run)
        done = CliRunner().invoke(replay, [str(capture), "--to", "127.0.0.1:1", *arguments])
        assert done.exit_code == 0, done.output
        return made[0]

    return of


@pytest.fixture
def told(jobs: Any) -> Any:
    """Returns the words of the job that the command makes of these arguments."""
    return lambda *arguments: jobs(*arguments).words()


def test_every_given_option_and_filter_is_reported(told: Any) -> None:
    given = FILTERS | OPTIONS
    typed = [part for name, value in given.items() for part in (name, value.strip("'"))]
    expected = {f"{name} {SAME.get(value, value)}" for name, value in given.items()}
    assert {*told(*typed, *SWITCHES)} == expected | {*SWITCHES}


def test_the_reported_options_make_the_same_job_again(told: Any) -> None:
    first = told("--since", "-5m", "--speed", "max", "--wait", "90s", "--produce-only")
    assert told(*(part for word in first for part in word.split(" "))) == first


def test_without_options_only_the_speed_is_reported(told: Any) -> None:
    assert told() == ("--speed 1",)


def test_no_option_of_a_replay_is_forgotten() -> None:
    left_out = {"--to", "--settings", "--dry-run", "--yes", "--report", "--record", "--record-when-full", "--help"}
    # the verdict has these options
    left_out |= {"--partial", "--max-mismatches"}
    names = {option for parameter in replay.commands["play"].params for option in parameter.opts if option[0] == "-"}
    assert names - left_out == {*FILTERS, *OPTIONS, *SWITCHES, "--produce-only"}


SECOND = 10**9


@pytest.mark.parametrize(
    ("speed", "recorded", "wait", "drain"),
    [(None, 32, 32, 10), (None, 300, 60, 10), (None, 0, 10, 10), (1.0, 32, 60, 10)],
    ids=["max", "long", "short", "recorded time"],
)
def test_at_max_no_default_wait_is_longer_than_the_recording(
    speed: float | None, recorded: int, wait: int, drain: int
) -> None:
    found = Options(speed=speed).within(recorded * SECOND)
    assert (found.wait, found.drain) == (wait * SECOND, drain * SECOND)


@pytest.mark.parametrize(("given", "seconds"), [("90s", 90), ("1m", 60)], ids=["another", "the default"])
def test_at_max_a_given_wait_stays(jobs: Any, given: str, seconds: int) -> None:
    options: Options = jobs("--speed", "max", "--wait", given).options.within(SECOND)
    assert options.wait == seconds * SECOND
    assert f"--wait {given}" in options.words()
