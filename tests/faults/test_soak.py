"""Three minutes of all kinds of traffic: nothing grows, nothing is lost."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from recorder.capture import frames as c
from recorder.capture import session as sessions
from tests.brokers.waiting import wait_for
from tests.faults.live import LiveProxy, Load, broker, mixed
from tests.recorder.capture import looks
from tests.recorder.capture.looks import event_rows

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

SECONDS = 180
SAMPLE_SECONDS = 0.5
MIB = 1024 * 1024
# Segments of 16 MiB, so that the compactor finishes many of them.
FLAGS = ("--record-spool", "64MiB", "--record-when-full", "wait")
SMALL = mixed((5, 30, 300), 15)
LARGE = mixed((5, 20_000, 1_000_000), 3)
# The load of short connections.
SHORT = mixed((5, 30), 3)


@dataclass
class Usage:
    """Samples of one process: memory in bytes, open files."""

    memory: list[int] = field(default_factory=list)
    files: list[int] = field(default_factory=list)

    def sample(self, process: psutil.Process) -> None:
        self.memory.append(process.memory_info().rss)
        self.files.append(process.num_fds())

    def assert_flat(self) -> None:
        third = len(self.memory) // 3
        first, last = max(self.memory[:third]), max(self.memory[-third:])
        assert last <= 1.25 * first + 16 * MIB
        assert max(self.files[-third:]) <= max(self.files[:third]) + 8

    def __str__(self) -> str:
        third = len(self.memory) // 3
        parts = (self.memory[:third], self.memory[third:-third], self.memory[-third:])
        memory = ", ".join(f"{max(part) / MIB:.0f}" for part in parts)
        return f"MiB at most in each third: {memory}; files: {max(self.files[:third])}, {max(self.files[-third:])}"


@contextmanager
def loads_on(proxy: LiveProxy) -> Iterator[list[Load]]:
    nodes = list(proxy.nodes().values())
    loads = [
        Load(nodes, SMALL, 1, batches=500),
        Load(nodes[:1], LARGE, 2, batches=40),
        Load(nodes, SHORT, 3, batches=2),
    ]
    yield loads
    for load in loads:
        load.stop()


def watched(process: psutil.Process, seconds: float, *others: psutil.Process) -> list[Usage]:
    """Samples the memory and open files of processes for some time."""
    processes = [process, *others]
    usages = [Usage() for _ in processes]
    until, tick = time.monotonic() + seconds, threading.Event()
    while time.monotonic() < until:
        for one, usage in zip(processes, usages, strict=True):
            usage.sample(one)
        tick.wait(SAMPLE_SECONDS)
    return usages


def rows_by_kind(folder: Path) -> dict[str, int]:
    counted: dict[str, int] = {}
    for row in looks.rows(folder, [c.KIND]):
        counted[row[c.KIND]] = counted.get(row[c.KIND], 0) + 1
    return counted


def test_under_mixed_load_nothing_grows_and_nothing_is_lost(tmp_path: Path) -> None:
    folder = tmp_path / "capture"
    with broker() as upstream:
        proxy = LiveProxy(upstream, folder, tmp_path / "proxy.log", *FLAGS)
        compactor = proxy.compactor()
        with loads_on(proxy) as loads:
            usages = watched(psutil.Process(proxy.process.pid), SECONDS, compactor)
        answered = sum(talk.answered for load in loads for talk in load.talks)
        # the question for the nodes is one, too. An exchange counts after its client has the response
        exchanges = answered + 1
        wait_for(lambda: proxy.metric("exchanges_total") == exchanges, "all to be counted")
        assert proxy.metric("recorder_dropped_bytes_total") == proxy.metric("recorder_gaps_total") == 0
        assert proxy.compactor().pid == compactor.pid
        assert proxy.stop() == 0
    wait_for(lambda: not sessions.sessions(folder), "the session's end", seconds=120)
    for name, usage in zip(("proxy", "compactor"), usages, strict=True):
        print(f"{name}: {usage}")
    connections = sum(len(load.talks) for load in loads)
    print(f"{answered} exchanges on {connections} connections, {sum(load.bytes for load in loads) / 1e6:.0f} MB")
    assert rows_by_kind(folder) == {"request": exchanges, "response": exchanges}
    assert event_rows(folder, "gap") == []
    for usage in usages:
        usage.assert_flat()
