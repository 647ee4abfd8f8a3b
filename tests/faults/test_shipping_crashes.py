"""Tests that each published file reaches the bucket exactly once, whoever is killed, and while the store is away."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from recorder.capture import session as sessions
from recorder.capture import unshipped
from recorder.capture.compactor import compact
from recorder.capture.fact_maker import make_missing
from tests.brokers.children import spawn
from tests.brokers.waiting import wait_for
from tests.faults.live import LiveProxy, Load, broker, mixed, stopped_behind
from tests.faulty_s3 import Fault, Front
from tests.recorder.capture.test_compaction import record
from tests.recorder.shipping.shipped import URL, local, puts, remote
from tests.s3 import Store
from tests.sweeps import mostly_long

pytestmark = [pytest.mark.real, pytest.mark.long]

ROOT = Path(__file__).resolve().parents[2]
# seconds: compactor and shipper are nicer than all else, so on a busy machine they get a processor late
PATIENCE = 900


def shipping(folder: Path, output: Path) -> subprocess.Popen[bytes]:
    """The process that a proxy starts; it ends once all is shipped, because its proxy is gone."""
    command = [sys.executable, "-P", "-m", "recorder.shipping.process", str(folder), URL, "--proxy", "1"]
    return spawn(command, output=output, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)})


@pytest.mark.parametrize("seed", mostly_long(range(8), usual=1))
def test_a_shipper_killed_at_random_moments_leaves_each_file_once_in_the_bucket(
    server: Store, store_front: Front, tmp_path: Path, seed: int
) -> None:
    """Killed while a request is on its way: before the store takes it, after, or while it is answered."""
    rng = random.Random(seed)
    folder = tmp_path / "capture"
    folder.mkdir()
    record(folder, rng, 2, 6, 2500)
    compact(folder)
    make_missing(folder)
    kills, child = 0, None
    moment, requests = 0, 0
    what: Fault | None = None

    def kill(method: str, key: str) -> Fault | None:
        nonlocal requests
        requests += 1
        if requests == moment and child is not None:
            child.send_signal(signal.SIGKILL)
            return what
        return None

    store_front.fault = kill
    while True:
        requests, moment = 0, rng.randint(1, 20)
        what = rng.choice([None, None, Fault.CUT, Fault.ANSWER_LOST])
        child = shipping(folder, tmp_path / "log")
        code = child.wait()
        store_front.wait_until_idle()
        held = remote(server)
        assert held.items() <= local(folder).items()
        if code == 0:
            break
        assert code == -signal.SIGKILL
        kills += 1
    assert kills
    assert remote(server) == local(folder)
    assert puts(store_front) == dict.fromkeys(local(folder), 1)
    assert unshipped.waiting(folder) == []


@pytest.mark.parametrize("workers", [1, 2])
def test_a_proxy_ships_while_its_shipper_is_killed_and_the_store_is_away(
    server: Store, store_front: Front, tmp_path: Path, workers: int
) -> None:
    folder = tmp_path / "capture"
    settings = {"SHIP": URL, "SEGMENT": "512KiB", "SEGMENT_AGE": "1s"}
    environment = {f"KAFKA_WIRETAP_CAPTURE__{name}": value for name, value in settings.items()}
    with (
        broker() as upstream,
        stopped_behind(
            LiveProxy(upstream, folder, tmp_path / "log", "--workers", str(workers), env=environment)
        ) as proxy,
    ):
        load = Load([proxy.listening] * 2, mixed([100, 2000], 20))
        load.reach(1 << 20)
        # compactor and shipper yield to the proxy: where processors are few they get one once nobody sends
        with load.paused():
            wait_for(lambda: proxy.metric("recorder_shipped_files_total"), "files in the bucket", seconds=PATIENCE)
        assert proxy.metric("recorder_shipper_runs") == 1
        store_front.fault = lambda method, key: Fault.ERROR
        load.reach(1 << 20)
        with load.paused():
            wait_for(lambda: proxy.metric("recorder_ship_failing"), "the store's failure", seconds=PATIENCE)
            assert proxy.is_ready()
            wait_for(
                lambda: proxy.metric("recorder_ship_failures_total", 'cause="store"'),
                "the failures' cause",
                seconds=PATIENCE,
            )
            wait_for(lambda: proxy.metric("recorder_ship_lag_bytes"), "the lag", seconds=PATIENCE)
            first = proxy.shipper()
            first.kill()
            second = proxy.shipper(other_than=first.pid)
        store_front.fault = lambda method, key: None
        load.reach(1 << 20)
        load.stop()
        wait_for(lambda: not proxy.metric("recorder_ship_failing"), "shipping to go on", seconds=PATIENCE)
        assert proxy.metric("recorder_shipper_restarts_total") >= 1
    wait_for(lambda: not sessions.sessions(folder), "the session's end", seconds=PATIENCE)
    # it outlives the proxy until the rest is shipped
    wait_for(
        lambda: not second.is_running() or second.status() == psutil.STATUS_ZOMBIE,
        "the shipper's end",
        seconds=PATIENCE,
    )
    store_front.wait_until_idle()
    assert remote(server) == local(folder)
    assert {*puts(store_front).values()} == {1}
    assert unshipped.waiting(folder) == []
