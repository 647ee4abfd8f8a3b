"""Tests of a disk that hangs: a write to it is a system call that does not return.

The proxy must end all the same, and report the loss. The capture has what was on the disk before.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from recorder.capture import session as sessions
from tests.brokers.waiting import PATIENCE, wait_for
from tests.faults.live import ROOT, Client, LiveProxy, broker
from tests.faults.two_workers import connected, until_shared
from tests.recorder.capture.looks import frame_rows

pytestmark = pytest.mark.real

HUNG = Path(__file__).parent / "hung"
LOST = re.compile(r"the recorder does not end: what it has not written is lost .*\bbytes=([1-9]\d*)")


@contextmanager
def recording(folder: Path, *flags: str) -> Iterator[LiveProxy]:
    env = {"PYTHONPATH": f"{HUNG}{os.pathsep}{ROOT}", "WIRETAP_TESTS_HUNG": str(folder / "hung")}
    with (
        broker() as upstream,
        LiveProxy(upstream, folder / "capture", folder / "proxy.log", *flags, env=env) as proxy,
    ):
        yield proxy


def hangs_while_it_records(proxy: LiveProxy, folder: Path, clients: list[Client]) -> None:
    """Makes the disk hang. Earlier exchanges are on the disk, later ones are not."""
    for client in clients:
        client.exchange()
    wait_for(lambda: proxy.metric("recorder_queue_bytes") == 0, "it to be written")
    os.mkfifo(folder / "hung")
    for client in clients:
        client.exchange()
    wait_for(lambda: proxy.metric("recorder_queue_bytes") > 0, "the disk to hang")


def log_of(folder: Path) -> str:
    return (folder / "proxy.log").read_text()


def assert_left_in_order(folder: Path, processes: int, exchanges: int) -> None:
    assert len(LOST.findall(log_of(folder))) == processes
    assert "Traceback" not in log_of(folder)
    # The next proxy's compactor finishes the log.
    capture = folder / "capture"
    wait_for(lambda: not sessions.sessions(capture), "the sessions' ends")
    rows = frame_rows(capture)
    assert sorted(row["kind"] for row in rows if not row["note"]) == ["request"] * exchanges + ["response"] * exchanges


def test_a_second_signal_ends_a_proxy_whose_disk_hangs(tmp_path: Path) -> None:
    with recording(tmp_path) as proxy:
        clients = [Client(proxy.listening) for _ in range(3)]
        hangs_while_it_records(proxy, tmp_path, clients)
        proxy.process.send_signal(signal.SIGTERM)
        wait_for(lambda: "info stopping" in log_of(tmp_path), "the signal to be heard")
        # The clients have no requests in flight, so their connections end at once.
        assert [client.stream.read() for client in clients] == [b""] * 3
        proxy.process.send_signal(signal.SIGINT)
        assert proxy.process.wait(PATIENCE) == 1
    assert_left_in_order(tmp_path, 1, 3)


def test_a_second_signal_ends_workers_whose_disk_hangs(tmp_path: Path) -> None:
    with recording(tmp_path, "--workers", "2") as proxy:
        clients = connected(proxy.listening, 20)
        until_shared(proxy, clients)
        hangs_while_it_records(proxy, tmp_path, clients)
        workers = proxy.workers()
        proxy.process.send_signal(signal.SIGTERM)
        assert [client.stream.read() for client in clients] == [b""] * len(clients)
        proxy.process.send_signal(signal.SIGTERM)
        assert proxy.process.wait(PATIENCE) == 1
        assert not any(worker.is_running() for worker in workers)
    # the exchange with which each has connected, and another one
    assert_left_in_order(tmp_path, 2, 2 * len(clients))


@pytest.mark.long
def test_a_proxy_whose_disk_hangs_ends_by_itself(tmp_path: Path) -> None:
    with recording(tmp_path) as proxy:
        hangs_while_it_records(proxy, tmp_path, [Client(proxy.listening)])
        assert proxy.stop() == 1
    assert_left_in_order(tmp_path, 1, 1)
