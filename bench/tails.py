"""`python -m bench.tails`: the slowest exchanges of a connection whose neighbours are busy, against Kroxylicious.

One connection sends a small exchange at a time. Beside it, on the same listener: nobody; bursts of small exchanges;
requests of a megabyte; a thousand connections that say nothing. Each way gets each neighbour in turns; the numbers are
microseconds, medians of the rounds, for the 50th, 99th and 99.9th percentile. Another round of the proxies is looked at
by Linux' perf: which threads wait for a processor, and who has it meanwhile.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench import loads, waits
from bench.__main__ import interleaved
from bench.console import options, say, say_machine
from bench.contenders import (
    KROXYLICIOUS,
    KROXYLICIOUS_UNMEASURED,
    PROXY,
    RECORDING,
    Contender,
    fake_cluster,
    java_proxy,
    proxy,
)
from bench.loads import LOADS, PATIENCE_SECONDS
from bench.processes import Programs, can_trace

IDLE = 1000
# times that Kroxylicious sees each neighbour before anything is measured
WARM_UPS = 3
# before a measurement, as a part of its time
OPENING = 0.5
NAME, NUMBER = 25, 11

_LONE = next(load for load in LOADS if load.name == "lone")


class Tail(NamedTuple):
    """Microseconds of a lone exchange."""

    middle: float
    percentile_99: float
    percentile_999: float


Neighbour = Callable[[Contender], AbstractContextManager[None]]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = options("bench.tails", __doc__, rounds=5, seconds=1)
    asked = parser.parse_args(arguments)
    say_machine()
    with tempfile.TemporaryDirectory(prefix="kafka-wiretap-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        programs, upstream = stack.enter_context(fake_cluster(folder))
        java = [stack.enter_context(java_proxy(upstream, folder, KROXYLICIOUS_UNMEASURED))]
        ways = [*java, stack.enter_context(proxy(upstream, folder))]
        ways.append(stack.enter_context(proxy(upstream, folder, RECORDING, folder / "capture")))
        neighbours: dict[str, Neighbour] = {
            "nobody": lambda way: nullcontext(),
            "bursts of 64": partial(_loaded, programs, asked.seconds, "burst", ()),
            "Produce requests of 1 MB": partial(_loaded, programs, asked.seconds, "produce", ("7",)),
            f"{IDLE} idle connections": _idle,
        }
        for title, neighbour in neighbours.items():
            measure = partial(tail, programs, asked.seconds, neighbour)
            for _ in range(WARM_UPS):
                measure(java[0])
            say(table(title, interleaved(ways, asked.rounds, measure)))
            if can_trace(waits.TRACEPOINTS):
                for way in ways[len(java) :]:
                    named, script = waits.during(folder, partial(_while_named, measure, way))
                    say(
                        f"\n{way.name}, beside {title}"
                        + waits.table(waits.waits(script), named, (1 + OPENING) * asked.seconds)
                    )
                    way.settle()
    return 0


def _while_named(measure: Callable[[Contender], Tail], way: Contender) -> Mapping[int, str]:
    """Measures once; returns the threads' names."""
    measure(way)
    return waits.names(way)


def tail(programs: Programs, seconds: float, neighbour: Neighbour, way: Contender) -> Tail:
    """A lone exchange's percentiles beside such a neighbour."""
    with neighbour(way):
        # not measured: the neighbours' connections are being opened
        loads.run(programs.load, _LONE, way, OPENING * seconds)
        found = loads.run(programs.load, _LONE, way, seconds)
    return Tail(found.p50_ns / 1e3, found.p99_ns / 1e3, found.p999_ns / 1e3)


@contextmanager
def _loaded(programs: Programs, seconds: float, kind: str, version: Sequence[str], way: Contender) -> Iterator[None]:
    """The other load, from before the block until after it: twice as long, and ended then."""
    command = [str(programs.load), way.address, kind, str(2 * seconds + PATIENCE_SECONDS), *version]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
        if child.poll() is not None:
            raise RuntimeError(f"the neighbour ended early, with {child.returncode}")
    finally:
        child.kill()
        child.wait()


@contextmanager
def _idle(way: Contender) -> Iterator[None]:
    with ExitStack() as stack:
        for _ in range(IDLE):
            stack.enter_context(socket.create_connection((way.host, way.port)))
        yield


def table(title: str, rounds: Mapping[str, Sequence[Tail]]) -> str:
    heads = "".join(f"{head:>{NUMBER}}" for head in ("p50", "p99", "p99.9"))
    lines = [f"\nbeside {title}: microseconds of a lone exchange", " " * NAME + heads]
    middles = {name: Tail(*map(median, zip(*tails, strict=True))) for name, tails in rounds.items()}
    for name, middle in middles.items():
        lines.append(f"{name:<{NAME}}" + "".join(f"{value:>{NUMBER},.1f}" for value in middle))
    for name in (PROXY, RECORDING):
        pairs = zip(rounds[name], rounds[KROXYLICIOUS_UNMEASURED], strict=True)
        each = [[mine / other for mine, other in zip(*pair, strict=True)] for pair in pairs]
        of = [median(values) for values in zip(*each, strict=True)]
        verdict = "reached" if max(of[1:]) <= 1 else "MISSED"
        ratios = ", ".join(f"{ratio:.2f}" for ratio in of)
        lines.append(f"  {name}: {ratios} of {KROXYLICIOUS}'s; target: p99 and p99.9 at most 1: {verdict}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
