"""Tests of a worker's process alone. tests/faults/test_workers.py has its parent too."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from proxy.config import ClusterSettings, ProxySettings
from proxy.net.workers.balance import ConnectionCounts
from proxy.net.workers.job import Job
from proxy.schema.addresses import Address
from proxy.wiring import WORKER_COMMAND
from recorder.capture.session import CaptureSettings
from tests.brokers.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = ProxySettings((ClusterSettings((Address("127.0.0.1", 1),), Address("127.0.0.1", 0)),), workers=2)


def worker(told: bytes) -> subprocess.CompletedProcess[bytes]:
    """A worker whose parent has sent this much and is gone."""
    here, there = socket.socketpair()
    files = there.fileno(), ConnectionCounts.create(2).descriptor
    with here, there:
        here.shutdown(socket.SHUT_RDWR)
        command = [*WORKER_COMMAND, *map(str, files)]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        return subprocess.run(
            command,
            input=told,
            capture_output=True,
            pass_fds=files,
            cwd=ROOT,
            env=environment,
            timeout=PATIENCE,
            check=False,
        )


@pytest.mark.real
def test_a_worker_without_a_job_ends_silently():
    done = worker(b"")
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.real
def test_a_worker_with_half_a_job_ends_silently():
    done = worker(Job(5, 0, SETTINGS).dumped()[:-30])
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.real
def test_a_worker_whose_parent_is_gone_at_its_start_ends_in_order():
    done = worker(Job(5, 0, SETTINGS).dumped())
    assert done.returncode == 0
    assert b"is gone  worker=5" in done.stderr


@pytest.mark.real
def test_a_capture_that_can_not_begin_is_reported(tmp_path):
    (tmp_path / "file").write_text("")
    done = worker(Job(5, 0, SETTINGS, CaptureSettings(folder=tmp_path / "file" / "capture")).dumped())
    assert done.returncode == 2
    assert b"worker can't begin" in done.stderr
    assert b"--record" in done.stderr
