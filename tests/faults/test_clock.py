"""Tests of a wall clock that is set forward and back while the proxy records, as by an administrator or NTP.

Traffic must go on, and no frame may be lost or doubled. No latency may be negative, and a connection's monotonic times
never go back. Each jump is an event with its size. Rows are in the hour of the clock at that time.
"""

from __future__ import annotations

import struct
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from recorder.capture import session as sessions
from tests.brokers.waiting import wait_for
from tests.faults.live import ROOT, LiveProxy, Load, broker, mixed
from tests.recorder.capture.looks import event_rows, frame_rows

pytestmark = pytest.mark.real

BATCH = mixed((5, 300), 5)
HOUR = 3600
# seconds by which the clock is set, one after the other
JUMPS = (2 * HOUR, -5 * HOUR, 400 * 24 * HOUR, -1)

# Python imports this at the start of each process with its folder on the path: the proxy and its compactor
SITE = """
import mmap, os, struct, time
_file = os.open(os.environ["WIRETAP_TEST_CLOCK"], os.O_RDONLY)
_moved = mmap.mmap(_file, 8, prot=mmap.PROT_READ)
_time_ns, _unpack = time.time_ns, struct.Struct("=q").unpack
time.time_ns = lambda: _time_ns() + _unpack(_moved[:8])[0]
time.time = lambda: time.time_ns() / 1e9
"""


class WallClock:
    """The clock of a child process, and of its children."""

    def __init__(self, folder: Path) -> None:
        site = folder / "site"
        site.mkdir()
        (site / "sitecustomize.py").write_text(SITE)
        self._file = folder / "clock"
        self._moved_ns = 0
        self._file.write_bytes(bytes(8))
        self.environment = {"PYTHONPATH": f"{site}:{ROOT}", "WIRETAP_TEST_CLOCK": str(self._file)}

    def jump(self, seconds: int) -> None:
        self._moved_ns += seconds * 10**9
        with self._file.open("r+b", buffering=0) as file:
            file.write(struct.pack("=q", self._moved_ns))


def clock_events(folder: Path) -> list[int]:
    """Returns the seconds by which the clock was set, by the capture."""
    rows = sorted(event_rows(folder, "clock"), key=lambda row: row["mono_ns"])
    return [round(int(row["detail"].partition(":")[2].strip(" }")) / 1e9) for row in rows]


def test_a_clock_that_is_set_changes_no_latency_and_loses_nothing(tmp_path: Path) -> None:
    folder, clock = tmp_path / "capture", WallClock(tmp_path)
    with broker() as upstream:
        flags = ("--record-when-full", "wait", "--log-level", "debug")
        proxy = LiveProxy(upstream, folder, tmp_path / "proxy.log", *flags, env=clock.environment)
        try:
            load = Load([proxy.listening] * 3, BATCH)
            for seconds in JUMPS:
                load.reach(20_000)
                with load.paused():
                    # later rows have the new clock
                    wait_for(lambda: not proxy.metric("recorder_queue_bytes"), "the log")
                    clock.jump(seconds)
                load.reach(20_000)
            load.stop()
            assert proxy.not_ready() == ""
            assert proxy.metric("recorder_lag_seconds") >= 0
            latency = proxy.metric("latency_seconds_sum")
            assert 0 <= latency < HOUR
            answered = sum(talk.answered for talk in load.talks)
            wait_for(lambda: proxy.metric("exchanges_total") == answered, "all to be counted")
            assert proxy.stop() == 0
        finally:
            proxy.kill()
    wait_for(lambda: not sessions.sessions(folder), "the session's end")
    assert "Traceback" not in (tmp_path / "proxy.log").read_text()
    assert clock_events(folder) == [*JUMPS]
    assert event_rows(folder, "gap") == []
    rows = frame_rows(folder)
    assert Counter(row["kind"] for row in rows) == {"request": answered, "response": answered}
    for before, row in pairwise(rows):
        if before["connection"] == row["connection"]:
            assert before["sequence"] + 1 == row["sequence"]
            assert before["mono_ns"] <= row["mono_ns"]
    for row in rows:
        assert row["first_mono_ns"] <= row["mono_ns"]
        assert all(row[name] is None or row[name] >= 0 for name in ("latency_ns", "queued_ns", "transfer_ns"))
    # the wall clock of each row is that of its time. Counted from the first row's: a whole number of seconds, nearly
    offsets = [row["at_ns"] - row["mono_ns"] for row in rows]
    assert len({round((offset - offsets[0]) / 1e9) for offset in offsets}) == len(JUMPS) + 1
    hours = {path.parent.name + path.parent.parent.name for path in (folder / "frames").rglob("*.parquet")}
    assert len(hours) >= 4
