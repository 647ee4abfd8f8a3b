"""`python -m bench.replay`: the replay against a plain loop that writes the same frames to the same broker.

Both play captures that the bench writes, in turns. The replay's time is that of its report, from the first look at
the rows to the last answer. In that time it reads the capture, keeps its order, translates and compares. The loop has
all frames in memory and only sends them (`replay_loop`).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from bench import replay_captures, report
from bench.console import say
from bench.contenders import KAFKA_WIRETAP, LISTENING
from bench.processes import ROOT, build, running
from bench.replay_captures import Shot

MIB = 1 << 20
PATIENCE_SECONDS = 600
# what the process may take beyond --memory
MEMORY, BEYOND = 256 * MIB, 150 * MIB
# p99 of lateness: at a thousand requests a second, and at a quarter of the loop's rate
LATENESS_MS, QUARTER_LATENESS_MS = 5.0, 20.0
# how often a replay's memory is looked at
LOOK_SECONDS = 0.1
MAX = ("--speed", "max")


class Load(NamedTuple):
    """A capture, and the least part of the loop's rate that the replay must reach, and aims at."""

    title: str
    connections: int
    shots: Callable[[int], Iterator[Shot]]
    target: float
    aim: float


LOADS = {
    "small": Load(
        "small exchanges (Heartbeat, Produce, Fetch) from 16 connections, a second",
        16,
        lambda count: replay_captures.small(16, count, 100_000),
        0.35,
        0.5,
    ),
    "large": Load(
        "Produce requests of 1 MiB from 2 connections, 4 in flight on each, a second",
        2,
        lambda count: replay_captures.large(2, count, 10_000_000, 4, MIB),
        0.35,
        0.6,
    ),
}


class Played(NamedTuple):
    """What a replay reported of itself, the most memory that its process had, and the seconds that it took in all."""

    report: dict[str, Any]
    memory: int
    seconds: float

    @property
    def per_second(self) -> float:
        took: int = self.report["ended_at_ns"] - self.report["started_at_ns"]
        return float(self.report["totals"]["answered"]) / took * 1e9


def played(folder: Path, capture: Path, address: str, *more: str) -> Played:
    """Plays a capture; RuntimeError unless all of it was sent and answered as recorded."""
    report_file, log = folder / "report.json", folder / "replay.log"
    fixed = (
        "--to",
        address,
        "--yes",
        "--target-is-another",
        "--fence",
        "--memory",
        str(MEMORY),
        "--report",
        str(report_file),
    )
    command = [str(part) for part in (*KAFKA_WIRETAP, "replay", capture, *fixed, *more)]
    begun = time.monotonic()
    with log.open("wb") as output:
        child = subprocess.Popen(command, stdout=output, stderr=output, cwd=ROOT)
        memory = _most_memory(child)
    if child.returncode:
        raise RuntimeError(f"the replay ended with {child.returncode}:\n{log.read_text()}")
    found = json.loads(report_file.read_text())
    return Played(found, memory, time.monotonic() - begun)


def _most_memory(child: subprocess.Popen[bytes]) -> int:
    """The most that a process has had resident until it ended. (What wait4 tells counts the parent's, before exec.)"""
    status, most = Path(f"/proc/{child.pid}/status"), 0
    while child.poll() is None:
        lines = (line.split() for line in status.read_text().splitlines())
        most = max([most, *(int(line[1]) * 1024 for line in lines if line and line[0] == "VmHWM:")])
        time.sleep(LOOK_SECONDS)
    return most


def looped(capture: Path, address: str) -> float:
    """Exchanges a second of the plain loop."""
    command = [sys.executable, "-m", "bench.replay_loop", address, str(capture)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT, timeout=PATIENCE_SECONDS)
    _, exchanges, _, taken = done.stdout.split()
    return int(exchanges) / int(taken) * 1e9


def rounds(capture: Path, folder: Path, address: str, count: int) -> Iterator[tuple[float, float]]:
    """Rates of the replay and of the loop, each round beginning with the other one."""
    for number in range(count):
        if number % 2:
            mine = played(folder, capture, address, *MAX).per_second
            yield mine, looped(capture, address)
        else:
            other = looped(capture, address)
            yield played(folder, capture, address, *MAX).per_second, other


def compare(name: str, folder: Path, broker: Path, asked: argparse.Namespace) -> None:
    load = LOADS[name]
    count = getattr(asked, name)
    with fake_broker(folder, broker, load.connections) as address:
        capture = folder / name
        replay_captures.write(capture, load.shots(count), load.connections)
        found = [*rounds(capture, folder, address, asked.rounds)]
    ratios = [mine / other for mine, other in found]
    mine, other = (median(each[at] for each in found) for at in range(2))
    reached = [("target", load.target), ("aim", load.aim)]
    verdicts = ", ".join(
        f"{word} {least}: {'reached' if median(ratios) >= least else 'MISSED'}" for word, least in reached
    )
    say(f"{load.title}\n  replay {mine:,.0f}, loop {other:,.0f}: {_range(ratios)}; {verdicts}")


def lateness(folder: Path, broker: Path, asked: argparse.Namespace) -> None:
    """In recorded time, a thousand requests a second."""
    _lateness(folder / "late", broker, asked, 1000, LATENESS_MS)


def quarter(folder: Path, broker: Path, asked: argparse.Namespace) -> None:
    """In recorded time, a quarter of the rate that the loop has in this run."""
    load, capture = LOADS["small"], folder / "quarter-of"
    replay_captures.write(capture, load.shots(asked.small), load.connections)
    with fake_broker(folder, broker, load.connections) as address:
        rate = median(looped(capture, address) for _ in range(asked.rounds)) / 4
    _lateness(folder / "quarter", broker, asked, round(rate), QUARTER_LATENESS_MS)


def _lateness(capture: Path, broker: Path, asked: argparse.Namespace, rate: int, target: float) -> None:
    """`rate`: requests a second; `target`: ms."""
    connections, folder = 16, capture.parent
    gap_ns = connections * 10**9 // rate
    replay_captures.write(capture, replay_captures.small(connections, asked.late * rate, gap_ns), connections)
    with fake_broker(folder, broker, connections) as address:
        found = [played(folder, capture, address).report["late"] for _ in range(asked.rounds)]
    p50, p99 = ([one[f"{name}_ns"] / 1e6 for one in found] for name in ("p50", "p99"))
    verdict = "reached" if median(p99) < target else "MISSED"
    say(
        f"lateness at 1x, {rate:,} requests a second, ms (load of the machine: {os.getloadavg()[0]:.1f})\n"
        f"  p50 {_range(p50)}, p99 {_range(p99)}; target {target:g} on an idle machine: {verdict}"
    )


def memory(folder: Path, broker: Path, asked: argparse.Namespace) -> None:
    """A capture that is larger than what the replay may have."""
    capture, count = folder / "memory", asked.gb * 10**9 // MIB
    size = replay_captures.write(capture, replay_captures.large(2, count, 10_000_000, 4, MIB), 2)
    with fake_broker(folder, broker, 2) as address:
        found = played(folder, capture, address, *MAX)
    limit = MEMORY + BEYOND
    verdict = "reached" if found.memory <= limit else "MISSED"
    say(
        f"memory, planned and played at max: {size / 1e9:.1f} GB of frames in {found.seconds:.1f} s\n"
        f"  {found.memory / MIB:,.0f} MiB; target {limit / MIB:,.0f}: {verdict}"
    )


@contextmanager
def fake_broker(folder: Path, program: Path, connections: int) -> Iterator[str]:
    """The fake broker, told what to answer, as long as the block runs: its address."""
    answers, log = folder / "answers", folder / f"broker-{time.monotonic_ns()}.log"
    with running([program, answers], log, LISTENING) as child:
        # read when the first client connects: only now is the port known
        answers.write_bytes(replay_captures.told(connections, int(child.said[2])))
        yield f"{child.said[1]}:{child.said[2]}"


def _range(values: Sequence[float]) -> str:
    return f"{median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


def main(arguments: Sequence[str] | None = None) -> int:
    parts = [*LOADS, "late", "quarter", "memory"]
    parser = argparse.ArgumentParser(prog="python -m bench.replay", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", choices=parts, default=parts)
    parser.add_argument("--small", type=int, default=16_000, help="small exchanges in a round")
    parser.add_argument("--large", type=int, default=512, help="requests of 1 MiB in a round")
    parser.add_argument("--late", type=int, default=5, help="seconds in recorded time, for late and quarter")
    parser.add_argument("--gb", type=int, default=1, help="GB of the capture whose replay's memory is measured")
    parser.add_argument("--folder", type=Path, help="where captures are written; a disk with room for --gb")
    asked = parser.parse_args(arguments)
    say(f"machine: {report.machine()}\n{asked.rounds} rounds; medians, and ratios with their range over the rounds\n")
    with tempfile.TemporaryDirectory(prefix="kafka-wiretap-bench-", dir=asked.folder) as name:
        folder = Path(name)
        broker = build(folder).broker
        for part in asked.only:
            if part in LOADS:
                compare(part, folder, broker, asked)
            else:
                {"late": lateness, "quarter": quarter, "memory": memory}[part](folder, broker, asked)
    return 0


if __name__ == "__main__":
    sys.exit(main())
