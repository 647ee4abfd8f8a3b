"""Tests of a tap's compactor: the command that starts it, and the counters of its progress."""

import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from recorder.capture import compaction
from recorder.capture.compactor import compact
from recorder.capture.fact_files import State, state_of, stems
from recorder.capture.fact_maker import make_missing
from recorder.capture.status import Status, write_status
from recorder.capture.tap import Tap, compactor_command
from tests.brokers.waiting import PATIENCE, wait_for
from tests.recorder.capture import traffic
from tests.recorder.capture.looks import assert_holds, frame_rows, log_bytes, segments, spool_of
from tests.recorder.capture.traffic import Player, some_talks

TapOf = Callable[..., Tap]


def test_the_counters_tell_of_the_compactor_too(tap_of: TapOf, tmp_path: Path) -> None:
    tap = tap_of()
    player = Player(tap)
    (talk,) = some_talks(random.Random(20), 1, 5, 100)
    player.all_of([talk])
    tap.flush()
    size = len(log_bytes(spool_of(tmp_path, tap)))
    assert tap.counters()["spool_bytes"] == tap.counters()["lag_bytes"] == size
    assert tap.counters()["lag_seconds"] > 0
    report = Status(frames=7, bytes=70, segment=1, position=size, at_ns=time.monotonic_ns())
    write_status(tap._folder, report)
    counters = tap.counters()
    assert (counters["compacted_frames"], counters["compacted_bytes"]) == (7, 70)
    assert (counters["lag_bytes"], counters["lag_seconds"], counters["compactor_restarts"]) == (0, 0, 0)
    tap.child_ended()
    counters = tap.counters()
    assert (counters["lag_bytes"], counters["compactor_restarts"]) == (size, 1)


def test_a_compactor_that_has_read_the_whole_log_has_no_lag(
    tap_of: TapOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "STATUS_SECONDS", 0)
    tap = tap_of(segment=2_000)
    player = Player(tap)
    for talk in some_talks(random.Random(21), 3, 20, 300):
        player.all_of([talk])
        # bytes that are written at once are one segment
        tap.flush()
        assert tap.counters()["lag_bytes"] > 0
        # all of the newest segment is read, though it is not in a file yet
        assert compact(tmp_path).live == (tap.session,)
        assert tap.counters()["lag_bytes"] == tap.counters()["lag_seconds"] == 0


@pytest.mark.real
def test_nothing_in_the_proxys_process_imports_what_only_the_compactor_needs(tmp_path: Path) -> None:
    probe = "import sys, recorder.capture.tap; sys.exit(bool({'pyarrow', 'msgspec'} & {*sys.modules}))"
    assert subprocess.run([sys.executable, "-c", probe], check=False).returncode == 0


@pytest.mark.real
def test_the_compactors_command_is_one_that_finishes_the_session(tap_of: TapOf, tmp_path: Path) -> None:
    rng = random.Random(6)
    (talk,) = some_talks(rng, 1, 20, 500)
    tap = tap_of()
    Player(tap).all_of([talk])
    tap.close()
    assert subprocess.run(compactor_command(tmp_path, tap.session), check=False).returncode == 0
    assert_holds(frame_rows(tmp_path), traffic.expected(talk))
    assert segments(spool_of(tmp_path, tap)) == []


@pytest.mark.real
def test_a_compactor_that_has_caught_up_makes_facts_while_the_session_goes_on(tap_of: TapOf, tmp_path: Path) -> None:
    talks = some_talks(random.Random(7), 3, 20, 300)
    tap = tap_of(segment=2_000)
    player = Player(tap)
    for talk in talks:
        player.all_of([talk])
        tap.flush()
    with subprocess.Popen(compactor_command(tmp_path, tap.session, facts=True)) as compactor:
        try:
            wait_for(lambda: any(state_of(tmp_path, stem) is State.CURRENT for stem in stems(tmp_path)), "facts")
            tap.close()
            assert compactor.wait(PATIENCE) == 0
        finally:
            compactor.kill()
    # what the session's end has left
    assert make_missing(tmp_path) == []
    assert {state_of(tmp_path, stem) for stem in stems(tmp_path)} == {State.CURRENT}
