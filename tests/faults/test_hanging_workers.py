"""Tests of workers that hang: stopped by a signal, they report nothing, do nothing, and keep their connections.

/livez must name them and the others serve meanwhile. After `hung` they are killed and replaced.
"""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from recorder.capture import session as sessions
from tests.brokers.waiting import PATIENCE, wait_for
from tests.faults.live import LiveProxy, Load
from tests.faults.live import request as asks
from tests.faults.two_workers import (
    SMALL,
    assert_recorded,
    clients_of,
    closed,
    connected,
    log_of,
    running,
    until_shared,
)
from tests.recorder.capture.looks import event_rows, frame_rows

pytestmark = pytest.mark.real

# until a worker that hangs is killed: seconds that are enough nearly everywhere, and others
HUNG_SECONDS = (24, 120)


def test_a_worker_that_hangs_is_named_and_killed_and_the_other_ones_clients_notice_nothing(tmp_path: Path) -> None:
    assert any(clients_notice_nothing(tmp_path / str(seconds), seconds) for seconds in HUNG_SECONDS)


def clients_notice_nothing(folder: Path, seconds: int) -> bool:
    """Returns False if the machine is so busy that the worker was killed before its neighbour was looked at."""
    folder.mkdir()
    with running(folder, env={"KAFKA_WIRETAP_HUNG": f"{seconds}s"}) as proxy:
        goes_on = threading.Event()
        load = Load([*proxy.nodes().values()] * 6, lambda *about: SMALL(*about) if goes_on.wait(PATIENCE) else [])
        clients = connected(proxy.listening)
        until_shared(proxy, clients)
        # the clients wait without traffic, so the capture stays small
        with going(goes_on):
            load.reach(100_000)
            # on a busy machine, one of them may have all of the load
            hangs, other = sorted(proxy.workers(), key=lambda one: len(clients_of(one) & names(load)))
            stop_for_ever(hangs)
        # from now on until it is killed
        served = clients_of(other)
        of_other = [client for client in clients if client.name in served]
        of_hung = [client for client in clients if client not in of_other]
        went_on = [talk for talk in load.talks if talk.client in served]
        assert of_other
        assert of_hung
        assert went_on
        for client in of_hung:
            client.sock.sendall(asks(random.Random(0), 0, 5))
        number = named_by_livez(proxy, hangs)
        # meanwhile, present and new clients are served
        assert all(client.is_served() for client in of_other)
        new = connected(proxy.listening, 10)
        if not hangs.is_running():
            goes_on.set()
            return False
        with going(goes_on):
            load.reach(200_000)
        wait_for(lambda: not hangs.is_running(), "its end")
        for client in of_hung:
            with pytest.raises(ConnectionResetError):
                client.stream.read(1)
        wait_for(lambda: proxy.metric("workers") == 2, "the new worker")
        assert [line for line in log_of(folder) if f"worker hangs; killed  worker={number} " in line]
        assert proxy.metric("worker_ends_total") == 1
        wait_for(lambda: not proxy.not_alive(), "the parent to be well again")
        (replaced,) = proxy.workers(other_than=[other.pid], count=1)
        new += connected(proxy.listening, 20)
        assert {client.name for client in new} & clients_of(replaced)
        assert other.is_running()
        assert all(client.is_served() for client in (*of_other, *new))
        with going(goes_on):
            load.reach(100_000)
            load.stop()
        assert all(talk.answered == len(talk.sent) for talk in went_on)
        closed(*clients, *new)
        assert proxy.stop() == 0
    capture = folder / "capture"
    wait_for(lambda: not sessions.sessions(capture), "the sessions' ends")
    rows = frame_rows(capture)
    for talk in load.talks:
        assert_recorded(rows, talk, talk.answered if talk in went_on else 0)
    assert event_rows(capture, "gap") == []
    return True


@contextmanager
def going(event: threading.Event) -> Iterator[None]:
    """Sets the event within the block."""
    event.set()
    yield
    event.clear()


@pytest.mark.long
def test_a_worker_that_hangs_before_it_works_is_named_and_killed_too(tmp_path: Path) -> None:
    with running(tmp_path, env={"KAFKA_WIRETAP_HUNG": "5s"}) as proxy:
        well, hangs = hung_at_its_start(proxy)
        # neither new clients nor a response that names nodes wait for it
        clients = connected(proxy.listening, 20)
        assert {client.name for client in clients} <= clients_of(well)
        assert proxy.nodes()
        assert proxy.metric("workers") == 1
        number = named_by_livez(proxy, hangs)
        assert number
        assert all(client.is_served() for client in clients)
        wait_for(lambda: not hangs.is_running(), "its end")
        wait_for(lambda: proxy.metric("workers") == 2, "the new worker")
        assert f"worker works  worker={number}" not in log_of(tmp_path)
        assert [line for line in log_of(tmp_path) if f"worker hangs; killed  worker={number} " in line]
        assert well.is_running()
        assert all(client.is_served() for client in clients)
        closed(*clients)
        assert proxy.stop() == 0


def hung_at_its_start(proxy: LiveProxy) -> tuple[psutil.Process, psutil.Process]:
    """Returns the working worker, and one that hangs before it has joined."""
    well, hangs = proxy.workers()
    before = [well.pid]
    # if this process was too slow, the worker has joined
    while proxy.metric("workers") == 2:
        before.append(hangs.pid)
        hangs.kill()
        (hangs,) = proxy.workers(other_than=before, count=1)
        stop_for_ever(hangs)
    return well, hangs


def names(load: Load) -> set[str]:
    return {talk.client for talk in load.talks}


def stop_for_ever(process: psutil.Process) -> None:
    process.suspend()
    wait_for(lambda: process.status() == psutil.STATUS_STOPPED, "the worker to hang")


def named_by_livez(proxy: LiveProxy, hangs: psutil.Process) -> str:
    """The number of the worker that hangs, by /livez; empty if it was killed before it was asked for."""

    def number() -> str:
        found = re.fullmatch(r"worker (\d+) has said nothing for \d+ s\n?", proxy.not_alive())
        return found[1] if found else ""

    wait_for(lambda: number() or not hangs.is_running(), "its name")
    return number()
