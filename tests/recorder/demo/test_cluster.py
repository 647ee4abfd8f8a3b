"""Tests of the mock cluster: it has three brokers on loopback, and ends when its standard input closes."""

from __future__ import annotations

import subprocess
import sys

from recorder.demo.cluster import start
from tests.brokers.waiting import PATIENCE


def test_three_brokers_listen_on_loopback() -> None:
    owner, servers = start()
    hosts = [server.rpartition(":") for server in servers.split(",")]
    assert len({port for _, _, port in hosts}) == 3
    assert {host for host, _, _ in hosts} == {"127.0.0.1"}
    assert owner.list_topics(timeout=PATIENCE).brokers.keys() == {1, 2, 3}


def test_the_program_ends_with_its_standard_input() -> None:
    command = [sys.executable, "-m", "recorder.demo.cluster"]
    done = subprocess.run(command, input="", capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0
    assert done.stderr.startswith("listening on 127.0.0.1:")
