"""Tests that each frame is captured exactly once, whichever process is killed at any moment."""

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from recorder.capture import session as sessions
from recorder.capture.compactor import compact
from recorder.capture.session import RecordSettings
from recorder.capture.tap import compactor_command, open_tap
from tests.faults import recording
from tests.recorder.capture import traffic
from tests.recorder.capture.looks import assert_holds, event_rows, frame_rows
from tests.recorder.capture.traffic import Player, Talk
from tests.sweeps import is_thorough, mostly_long

pytestmark = pytest.mark.real

ROOT = Path(__file__).resolve().parents[2]


class Compactions:
    """The process that runs compactions, which are killed."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.faults.compactions"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=_environment()
        )

    def run(self, folder: Path, session: str, last: int = -1) -> tuple[str, int]:
        """Runs one, which is killed before step `last`. Returns how it ended, and the number of steps that it began."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{folder} {session} {last}\n")
        self._process.stdin.flush()
        how, steps = self._process.stdout.readline().split()
        return how, int(steps)

    def close(self) -> None:
        self._process.communicate()


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT)}


@pytest.fixture(scope="module")
def compactions() -> Iterator[Compactions]:
    running = Compactions()
    yield running
    running.close()


def recorded(folder: Path, seed: int = 1) -> tuple[str, list[Talk]]:
    """A session of several segments, closed in order, with frames across the segments' ends."""
    rng = random.Random(seed)
    talks = [traffic.cut(rng, traffic.talk(rng, number, 8, recording.KINDS), 400) for number in range(2)]
    tap = open_tap(folder, RecordSettings(segment=4_000))
    player = Player(tap)
    for talk in talks:
        player.open(talk)
    for connection, chunk in recording.script(seed, talks):
        player.play(connection, chunk)
        if rng.random() < 0.1:
            tap.flush()
    for talk in talks:
        player.close(talk.connection)
    tap.close()
    return tap.session, talks


def assert_exactly_once(folder: Path, talks: list[Talk]) -> None:
    for talk in talks:
        assert_holds(frame_rows(folder, talk.connection), traffic.expected(talk))
    assert sorted(row["cause"] for row in event_rows(folder, "session")) == ["ended", "started"]
    assert len(event_rows(folder, "closed")) == len(event_rows(folder, "opened")) == len(talks)
    assert sessions.sessions(folder) == []
    assert not list((folder / "frames").rglob(".*"))


def copied(source: Path, target: Path) -> Path:
    shutil.copytree(source, target)
    return target


@pytest.mark.sweep
@pytest.mark.long
def test_a_compactor_killed_at_any_step_makes_no_row_twice_and_loses_none(
    compactions: Compactions, tmp_path: Path
) -> None:
    """Each step in a thorough run, otherwise each third one."""
    session, talks = recorded(tmp_path / "recorded")
    how, steps = compactions.run(copied(tmp_path / "recorded", tmp_path / "whole"), session)
    assert how == "finished"
    assert steps > 20
    for step in range(0, steps, 1 if is_thorough() else 3):
        folder = copied(tmp_path / "recorded", tmp_path / f"killed-{step}")
        assert compactions.run(folder, session, step)[0] == "killed"
        compact(folder)
        assert_exactly_once(folder, talks)


@pytest.mark.long
@pytest.mark.parametrize("seed", mostly_long(range(4), usual=1))
def test_a_compactor_killed_again_and_again_gets_there(compactions: Compactions, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    session, talks = recorded(tmp_path, seed)
    for _ in range(8):
        compactions.run(tmp_path, session, rng.randrange(2, 25))
    compact(tmp_path)
    assert_exactly_once(tmp_path, talks)


@pytest.mark.parametrize("seed", mostly_long(range(3), usual=1))
def test_a_compactor_killed_while_the_proxy_records_gets_there(
    compactions: Compactions, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    talks = [traffic.cut(rng, traffic.talk(rng, number, 30, recording.KINDS), 400) for number in range(2)]
    tap = open_tap(tmp_path, RecordSettings(segment=2_000))
    player = Player(tap)
    for talk in talks:
        player.open(talk)
    for connection, chunk in recording.script(seed, talks):
        player.play(connection, chunk)
        if rng.random() < 0.1:
            tap.flush()
            assert compactions.run(tmp_path, tap.session, rng.randrange(12))[0] in ("killed", "waiting")
    for talk in talks:
        player.close(talk.connection)
    tap.close()
    compact(tmp_path)
    assert_exactly_once(tmp_path, talks)


def record(folder: Path, seed: int, limit: int = 0) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.faults.recording", str(folder), str(seed), str(limit)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=_environment())


def assert_holds_what_was_played(folder: Path, seed: int, played: int) -> None:
    """The capture has the whole frames in the log, perhaps some in flight, nothing twice, and nothing else."""
    made = recording.talks(seed)
    arrived = recording.script(seed, made)[:played]
    for talk in made:
        wanted = traffic.expected(talk)
        came = sum(connection == talk.connection for connection, _ in arrived)
        last_ns = talk.chunks[came - 1].at_ns if came else 0
        # after an incomplete secret, everything was kept back, and is lost with the process
        secrets = [row["first_mono_ns"] for row in wanted if row["masked"] and row["mono_ns"] > last_ns]
        kept_back_since = min([*secrets, last_ns + 1])
        least = sum(row["mono_ns"] < kept_back_since for row in wanted)
        rows = [row for row in frame_rows(folder, talk.connection) if not (row["note"] or "").startswith("cut")]
        rows = [row for row in rows if row["kind"] != "bytes"]
        assert_holds(rows, wanted[: len(rows)])
        assert len(rows) >= least


@pytest.mark.parametrize("seed", mostly_long(range(5), usual=1))
def test_a_killed_proxys_capture_has_every_frame_that_reached_the_log(tmp_path: Path, seed: int) -> None:
    lines = random.Random(seed).randrange(2, 60)
    with record(tmp_path, seed) as proxy:
        assert proxy.stdout is not None
        proxy.stdout.readline()
        for _ in range(lines):
            played = int(proxy.stdout.readline().split()[0])
        proxy.kill()
    compact(tmp_path)
    assert_holds_what_was_played(tmp_path, seed, played)
    assert sessions.sessions(tmp_path) == []


@pytest.mark.parametrize("seed", mostly_long(range(5), usual=1))
def test_a_capture_has_every_logged_frame_after_the_proxy_and_compactors_were_killed(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    compactors: list[subprocess.Popen[bytes]] = []
    with record(tmp_path, seed) as proxy:
        assert proxy.stdout is not None
        session = proxy.stdout.readline().strip()
        for _ in range(rng.randrange(3, 60)):
            if rng.random() < 0.1:
                compactors.append(subprocess.Popen(compactor_command(tmp_path, session)))
            played = int(proxy.stdout.readline().split()[0])
            if compactors and rng.random() < 0.1:
                killed = compactors.pop()
                killed.kill()
                # a process of the lowest priority may hold its lock for a while yet
                killed.wait()
        proxy.kill()
    for compactor in compactors:
        compactor.kill()
        compactor.wait()
    compact(tmp_path)
    assert_holds_what_was_played(tmp_path, seed, played)


@pytest.mark.long
def test_a_compactor_outlives_its_proxy_and_finishes_what_is_written(tmp_path: Path) -> None:
    with record(tmp_path, 1) as proxy:
        assert proxy.stdout is not None
        compactor = subprocess.Popen(compactor_command(tmp_path, proxy.stdout.readline().strip()))
        for _ in range(20):
            played = int(proxy.stdout.readline().split()[0])
        proxy.kill()
    assert compactor.wait(timeout=120) == 0
    assert sessions.sessions(tmp_path) == []
    assert_holds_what_was_played(tmp_path, 1, played)


def test_a_disk_that_fills_costs_frames_that_are_counted_and_nothing_after_it(tmp_path: Path) -> None:
    with record(tmp_path, 2, limit=20_000) as proxy:
        assert proxy.stdout is not None
        proxy.stdout.readline()
        failed = [int(line.split()[1]) for line in proxy.stdout]
    assert proxy.returncode == 0
    assert 1 in failed
    assert failed[-1] == 0
    compact(tmp_path)
    gaps = event_rows(tmp_path, "gap")
    for talk in recording.talks(2):
        lost = sum(gap["frames"] for gap in gaps if gap["connection"] == talk.connection)
        assert lost > 0
        assert len(frame_rows(tmp_path, talk.connection)) + lost == len(traffic.expected(talk))
