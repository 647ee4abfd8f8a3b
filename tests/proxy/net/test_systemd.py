from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from proxy.net.systemd import Systemd


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[socket.socket, str]]:
    """A service manager's socket, and its name for it."""
    name = "@" + secrets.token_hex(8) if request.param == "abstract" else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind("\0" + name[1:] if name.startswith("@") else name)
        sock.setblocking(False)
        yield sock, name


def told(sock: socket.socket) -> list[str]:
    messages = []
    while True:
        try:
            messages.append(sock.recv(4096).decode())
        except BlockingIOError:
            return messages


def test_systemd_is_notified_when_the_proxy_is_ready_and_when_it_stops(manager):
    sock, name = manager
    systemd = Systemd({"NOTIFY_SOCKET": name})
    systemd.ready()
    systemd.stopping(12.5)
    assert told(sock) == ["READY=1", "STOPPING=1\nEXTEND_TIMEOUT_USEC=12500000"]


def test_systemd_is_notified_when_a_reload_began(manager):
    sock, name = manager
    before = time.monotonic_ns() // 1000
    Systemd({"NOTIFY_SOCKET": name}).reloading()
    (message,) = told(sock)
    first, since = message.split("\n")
    assert first == "RELOADING=1"
    assert before <= int(since.removeprefix("MONOTONIC_USEC=")) <= time.monotonic_ns() // 1000


def test_an_endless_drain_is_a_finite_number_for_systemd(manager):
    sock, name = manager
    Systemd({"NOTIFY_SOCKET": name}).stopping(float("inf"))
    assert told(sock) == [f"STOPPING=1\nEXTEND_TIMEOUT_USEC={2**63}"]


@pytest.mark.parametrize("process", [{}, {"WATCHDOG_PID": str(os.getpid())}])
async def test_the_watchdog_hears_twice_in_its_time_that_the_loop_runs(manager, process, autojump_clock: MockClock):
    sock, name = manager
    systemd = Systemd({"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "20000000"} | process)
    with trio.move_on_after(45):
        await systemd.keep_alive()
    assert told(sock) == ["WATCHDOG=1"] * 5


@pytest.mark.parametrize(
    "asked", [{}, {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": "x"}, {"WATCHDOG_USEC": "1", "WATCHDOG_PID": "1"}]
)
async def test_another_processs_watchdog_is_not_fed(manager, asked):
    sock, name = manager
    await Systemd({"NOTIFY_SOCKET": name} | asked).keep_alive()
    assert told(sock) == []


def test_no_notification_is_sent_without_systemd(caplog):
    Systemd({}).ready()
    assert not caplog.records


def test_a_failed_notification_is_logged_once(tmp_path, caplog):
    systemd = Systemd({"NOTIFY_SOCKET": str(tmp_path / "nobody")})
    systemd.ready()
    systemd.stopping(1)
    assert [record.message for record in caplog.records] == ["systemd can't be notified"]


def test_a_socket_that_is_full_stops_nothing(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(tmp_path / "notify"))
        systemd = Systemd({"NOTIFY_SOCKET": str(tmp_path / "notify")})
        for _ in range(5000):
            systemd.ready()
