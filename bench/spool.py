"""The rate of recording everything without gaps, compared with dd on the same disk.

The compactor is off, because it would read the same disk. Both are timed until the bytes are on the disk (fdatasync).
"""

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

from bench.contenders import RECORDING, Contender, proxy
from bench.loads import LOADS, Target, run
from tests.brokers.waiting import wait_for

PRODUCE = next(load for load in LOADS if load.name == "produce")
DISK = "dd, fdatasync"
TITLE = "recording Produce requests of 1 MiB, waiting for the disk, without the compactor: MB a second"
TARGETS = (Target(RECORDING, DISK, 0.8), Target(RECORDING, DISK, 0.95, is_aim=True))

WAITING = ("--record-when-full", "wait", "--record-spool", "64GiB")
WITHOUT_COMPACTOR = {"KAFKA_WIRETAP_CAPTURE__COMPACTOR": "false"}


class Round(NamedTuple):
    """MB a second, and the bytes."""

    rate: float
    size: float


def recorded(program: Path, upstream: str, folder: Path, seconds: float) -> Round:
    """Records a load of `seconds` through a proxy of its own, until all bytes are on the disk."""
    folder.mkdir()
    capture = folder / "capture"
    # not as `record`: nothing here is compacted
    with proxy(upstream, folder, RECORDING, None, "--record", str(capture), *WAITING, env=WITHOUT_COMPACTOR) as way:
        begun = time.monotonic()
        run(program, PRODUCE, way, seconds)
        wait_for(lambda: not way.metrics()["recorder_queue_bytes"], "the queue to be written", seconds=60)
        _sync(capture)
        took = time.monotonic() - begun
        size = _recorded_bytes(way)
    shutil.rmtree(folder)
    return Round(size / took / 1e6, size)


def _recorded_bytes(way: Contender) -> float:
    metrics = way.metrics()
    assert not metrics["recorder_dropped_bytes_total"], "it should have waited"
    return metrics["recorder_bytes_total"]


def _sync(folder: Path) -> None:
    for segment in folder.rglob("*.log"):
        descriptor = os.open(segment, os.O_RDONLY)
        os.fdatasync(descriptor)
        os.close(descriptor)


def copied(folder: Path, size: float) -> Round:
    """Writes as many bytes with dd; the better of two runs, because the second one gets the first one's memory."""
    target = folder / "dd"
    count = max(1, round(size / 2**20))
    command = ["dd", "if=/dev/zero", f"of={target}", "bs=1M", f"count={count}", "conv=fdatasync"]
    took = min(_seconds_of(command, target) for _ in range(2))
    return Round(count * 2**20 / took / 1e6, count * 2**20)


def _seconds_of(command: list[str], target: Path) -> float:
    begun = time.monotonic()
    subprocess.run(command, check=True, capture_output=True)
    took = time.monotonic() - begun
    target.unlink()
    return took
