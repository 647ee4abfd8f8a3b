"""The loads that every contender gets, and their results."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bench.contenders import KROXYLICIOUS, PROXY, RECORDING, Contender
from bench.processes import processor_ns

# seconds beyond a load's own: connecting, draining, and a slow machine
PATIENCE_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Result:
    """One run of the load generator; the percentiles (50, 99, 99.9) are those of one exchange, or one burst.

    processor_ns: processor time of the relay or proxy meanwhile; 0 without one.
    """

    exchanges: int
    ns: int
    p50_ns: int
    p99_ns: int
    p999_ns: int
    processor_ns: int = 0

    @property
    def per_second(self) -> float:
        return self.exchanges / self.ns * 1e9


class Sample(NamedTuple):
    """A round's result: the rate or time of the load, and microseconds of a processor for each exchange."""

    value: float
    processor_us: float = 0.0


class Target(NamedTuple):
    """The least ratio of one contender to another; of times, the greatest.

    is_aim: where to get to; else what must be reached.
    """

    name: str
    to: str
    ratio: float
    is_aim: bool = False


@dataclass(frozen=True, slots=True)
class Load:
    """A kind of traffic.

    Args:
        arguments: of the load generator, behind the port: the kind, and what goes behind the seconds.
        is_time: measured as the p50 in microseconds, less is better; else as exchanges a second.
    """

    name: str
    title: str
    arguments: tuple[str, ...]
    is_time: bool = False
    targets: tuple[Target, ...] = ()

    def value(self, result: Result) -> Sample:
        number = result.p50_ns / 1e3 if self.is_time else result.per_second
        return Sample(number, result.processor_ns / result.exchanges / 1e3)


_LONE = (Target(PROXY, KROXYLICIOUS, 1.0), Target(PROXY, KROXYLICIOUS, 0.8, is_aim=True))
_BURST = (
    Target(PROXY, KROXYLICIOUS, 1.4),
    Target(PROXY, KROXYLICIOUS, 2.0, is_aim=True),
    Target(RECORDING, KROXYLICIOUS, 1.1),
    Target(RECORDING, KROXYLICIOUS, 1.6, is_aim=True),
)
_LARGE = (
    Target(PROXY, KROXYLICIOUS, 1.4),
    Target(PROXY, KROXYLICIOUS, 1.5, is_aim=True),
    Target(RECORDING, KROXYLICIOUS, 0.85),
    Target(RECORDING, KROXYLICIOUS, 1.0, is_aim=True),
)

LOADS = (
    Load("lone", "a lone small exchange: p50, microseconds", ("lone",), is_time=True, targets=_LONE),
    Load("burst", "small exchanges in bursts of 64, a second", ("burst",), targets=_BURST),
    Load("produce", "Produce requests of 1 MiB, a second", ("produce", "11"), targets=_LARGE),
    # the same from a producer of before flexible versions: no answer of these is looked into
    Load("produce-7", "Produce 7 requests of 1 MB, acks 1, a second", ("produce", "7"), targets=_LARGE),
    Load("fetch", "Fetch responses of 1 MiB, a second", ("fetch", "12"), targets=_LARGE),
    # from version 16 on brokers' addresses may stand behind the records: walked to, while they stream. Kroxylicious
    # knows versions up to 17
    Load("fetch-16", "Fetch 16+ responses of 1 MiB (walked), a second", ("fetch", "17"), targets=_LARGE),
)


def run(program: Path, load: Load, contender: Contender, seconds: float, *, within: Sequence[str] = ()) -> Result:
    """Runs the load generator. Raises CalledProcessError if an answer is missing or wrong.

    `within`: a command that runs it, and leaves its output alone.
    """
    kind, *rest = load.arguments
    command = [*within, str(program), contender.address, kind, str(seconds), *rest]
    before = processor_ns(contender.pid) if contender.pid else 0
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=seconds + PATIENCE_SECONDS)
    after = processor_ns(contender.pid) if contender.pid else 0
    words = done.stdout.split()
    numbers = {name: int(value) for name, value in zip(words[::2], words[1::2], strict=True)}
    return Result(**numbers, processor_ns=after - before)
