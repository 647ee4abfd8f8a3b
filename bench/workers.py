"""`python -m bench.workers`: several workers against one process, small exchanges from many connections.

Each connection is a load generator of its own, which sends the next request as soon as it has an answer. If load
generators and broker keep all processors busy, the rate says little. Then compare the processor time of the proxy's
processes: the difference is the cost of workers.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil

from bench.console import say, say_machine
from bench.contenders import ANY_PORT, KAFKA_WIRETAP, LISTENING, fake_cluster
from bench.processes import processor_ns, running

PATIENCE_SECONDS = 60
# of one process, where two workers have processors of their own
TARGET = 1.6


class Way(NamedTuple):
    """A proxy with so many workers."""

    workers: int
    address: str
    pid: int

    def processor_ns(self) -> int:
        """What its processes have had of processors, the parent and all workers."""
        processes = [self.pid, *(child.pid for child in psutil.Process(self.pid).children())]
        return sum(processor_ns(pid) for pid in processes)


class Sample(NamedTuple):
    """Exchanges a second, microseconds of a processor for each, and processors that the proxy kept busy."""

    per_second: float
    processor_us: float
    processors: float


@contextmanager
def proxy(upstream: str, folder: Path, workers: int) -> Iterator[Way]:
    where = ("--upstream", upstream, "--listen", ANY_PORT, "--state", folder / f"{workers}.state")
    command = (*KAFKA_WIRETAP, "proxy", *where, "--workers", str(workers))
    with running(command, folder / f"{workers}.log", LISTENING) as child:
        yield Way(workers, f"{child.said[1]}:{child.said[2]}", child.pid)


def measure(load: Path, way: Way, kind: str, connections: int, seconds: float) -> Sample:
    before, begun = way.processor_ns(), time.monotonic()
    command = [str(load), way.address, kind, str(seconds)]
    loads = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(connections)]
    said = [one.communicate(timeout=seconds + PATIENCE_SECONDS)[0].split() for one in loads]
    took = time.monotonic() - begun
    used = way.processor_ns() - before
    if any(one.returncode for one in loads):
        raise RuntimeError("a load generator has failed; its stderr says why")
    exchanges = sum(int(words[1]) for words in said)
    return Sample(exchanges / took, used / exchanges / 1e3, used / took / 1e9)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.workers", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kind", choices=["lone", "burst"], default="burst")
    asked = parser.parse_args(arguments)
    say_machine()
    with tempfile.TemporaryDirectory(prefix="kafka-wiretap-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        programs, upstream = stack.enter_context(fake_cluster(folder))
        ways = [stack.enter_context(proxy(upstream, folder, count)) for count in (1, asked.workers)]
        rounds: list[tuple[Sample, ...]] = []
        for number in range(asked.rounds):
            order = ways if number % 2 == 0 else ways[::-1]
            found = {way: measure(programs.load, way, asked.kind, asked.connections, asked.seconds) for way in order}
            rounds.append(tuple(found[way] for way in ways))
    for index, way in enumerate(ways):
        middle = Sample(*(statistics.median(column) for column in zip(*(one[index] for one in rounds), strict=True)))
        print(
            f"{way.workers} workers: {middle.per_second:,.0f} exchanges a second, {middle.processor_us:.2f} us of a "
            f"processor each, {middle.processors:.2f} processors busy"
        )
    ratios = sorted(many.per_second / one.per_second for one, many in rounds)
    middle_ratio = statistics.median(ratios)
    verdict = "reached" if middle_ratio >= TARGET else "MISSED"
    said = f"ratio {middle_ratio:.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
    say(f"{said}; target {TARGET} where processors are free: {verdict}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
