"""Tests of a disk that fills while the proxy records: for a time, no file of the proxy may grow.

With `drop`, traffic must go on, and /readyz names the fault. With `wait`, traffic must wait, and go on once there is
space. The gaps count the missing frames exactly, all other frames are captured once, and the proxy stops in order.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from recorder.capture import session as sessions
from tests.brokers.waiting import wait_for
from tests.faults.live import ROOT, LiveProxy, Load, broker, mixed, stopped_behind
from tests.faults.small_volume import FLOOR_PERCENT, VOLUME
from tests.recorder.capture.looks import event_rows, frame_rows

pytestmark = pytest.mark.real

BATCH = mixed((300, 5_000), 5)
# the size limit of each file once the disk is full: less than the log has by then
FULL = 300_000


def may_grow_to(proxy: LiveProxy, size: int) -> None:
    """Limits the size of the proxy's files, not of its compactor's; writes beyond it fail as on a full disk."""
    psutil.Process(proxy.process.pid).rlimit(psutil.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


@contextmanager
def recording(folder: Path, *flags: str) -> Iterator[tuple[LiveProxy, Load]]:
    with (
        broker() as upstream,
        stopped_behind(LiveProxy(upstream, folder / "capture", folder / "proxy.log", *flags)) as proxy,
    ):
        yield proxy, Load([proxy.listening] * 3, BATCH)
    wait_for(lambda: not sessions.sessions(folder / "capture"), "the session's end")


def test_traffic_continues_while_the_disk_is_full_and_gaps_record_the_losses(tmp_path: Path) -> None:
    folder = tmp_path / "capture"
    with recording(tmp_path, "--record-queue", "200KiB") as (proxy, load):
        load.reach(FULL)
        assert proxy.not_ready() == ""
        may_grow_to(proxy, FULL // 2)
        wait_for(lambda: "the capture can't be written" in proxy.not_ready(), "the full disk to be noticed")
        load.reach(2_000_000)
        assert proxy.metric("recorder_failed") == 1
        assert proxy.metric("recorder_dropped_bytes_total") > 0
        assert proxy.most_resident < 120 * 1024 * 1024
        may_grow_to(proxy, resource.RLIM_INFINITY)
        wait_for(lambda: proxy.not_ready() == "", "the proxy to record again")
        load.reach(FULL)
        load.stop()
        # and the disk may fill up again
        answered = sum(talk.answered for talk in load.talks)
        assert answered == sum(len(talk.sent) for talk in load.talks)
        wait_for(lambda: proxy.metric("exchanges_total") == answered, "all to be counted")
    gaps = event_rows(folder, "gap")
    assert {gap["cause"] for gap in gaps} == {"queue_full"}
    rows = frame_rows(folder)
    numbers = Counter((row["connection"], row["sequence"]) for row in rows)
    assert set(numbers.values()) == {1}
    assert all(row["note"] is None for row in rows)
    assert len(rows) + sum(gap["frames"] for gap in gaps) == 2 * answered


def test_traffic_waits_for_a_full_disk_where_nothing_may_be_missing(tmp_path: Path) -> None:
    folder = tmp_path / "capture"
    flags = ("--record-queue", "200KiB", "--record-when-full", "wait")
    with recording(tmp_path, *flags) as (proxy, load):
        load.reach(FULL)
        may_grow_to(proxy, FULL // 2)
        wait_for(lambda: "the capture can't be written" in proxy.not_ready(), "the full disk to be noticed")
        # at most this much may be in flight
        wait_for(lambda: proxy.metric("recorder_queue_bytes") > 200 * 1024, "the traffic to wait")
        may_grow_to(proxy, resource.RLIM_INFINITY)
        load.reach(FULL)
        load.stop()
        answered = sum(talk.answered for talk in load.talks)
        assert answered == sum(len(talk.sent) for talk in load.talks)
        wait_for(lambda: proxy.not_ready() == "", "the proxy to be well again")
    assert event_rows(folder, "gap") == []
    assert Counter(row["kind"] for row in frame_rows(folder)) == {"request": answered, "response": answered}


def test_a_small_volume_is_never_filled_and_keeps_the_newest_traffic(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    inside = ["unshare", "--user", "--map-root-user", "--mount", sys.executable, "-m", "tests.faults.small_volume"]
    done = subprocess.run([*inside, volume], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["answered"] == seen["sent"]
    assert seen["ready"]
    assert seen["failed"] == 0
    # what is in memory is still written once recording has stopped
    assert seen["least_free"] > VOLUME * FLOOR_PERCENT // 100 // 2
    assert seen["removed"][0] > 0
    assert seen["removed"][1:] == ["free"]
    assert seen["removals"] > 0
    assert seen["rows"] == seen["all_rows"]
    assert seen["rows"] + seen["gaps"] < 2 * seen["answered"]
    # a busy machine's compactor may be late, too
    assert {*seen["causes"]} <= {"keep", "queue_full"}
    assert seen["left_out"] == 0
