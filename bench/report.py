"""Numbers of several rounds as ratios, in lines that a person reads."""

import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from statistics import median

from bench.contenders import DIRECT, RELAY
from bench.loads import Sample

# contender -> its sample of each round; all have the same rounds
Rounds = Mapping[str, Sequence[Sample]]


def machine() -> str:
    """One line: what these numbers were taken on."""
    cores = len(os.sched_getaffinity(0))
    busy = os.getloadavg()[0]
    return (
        f"{platform.system()} {platform.release()} {platform.machine()}, {cores} cores (load {busy:.1f} before), "
        f"Python {platform.python_version()}, trio {version('trio')}"
    )


def ratios(rounds: Rounds, name: str, to: str) -> list[float]:
    """Round by round: what disturbs a round disturbs both."""
    return [mine.value / other.value for mine, other in zip(rounds[name], rounds[to], strict=True)]


def processor_ratio(rounds: Rounds, name: str) -> float:
    """The bare relay's processor time for an exchange over this one's: the ratio, had they processors of their own."""
    pairs = zip(rounds[name], rounds[RELAY], strict=True)
    return median(relay.processor_us / mine.processor_us for mine, relay in pairs)


def table(title: str, rounds: Rounds, is_time: bool = False, targets: Mapping[str, float] | None = None) -> str:
    """The medians of one load, and their ratios with the range over the rounds."""
    lines = [_line(rounds, name, is_time, (targets or {}).get(name)) for name in rounds]
    return "\n".join([title, *lines])


def _line(rounds: Rounds, name: str, is_time: bool, target: float | None) -> str:
    value = median(sample.value for sample in rounds[name])
    line = f"  {name:<18} {value:>12,.{1 if is_time else 0}f}"
    if name != DIRECT:
        line += f"   {_ratio(rounds, name, DIRECT, is_time)} direct"
    if name not in (DIRECT, RELAY):
        line += f"   {_ratio(rounds, name, RELAY, is_time)} the bare relay"
    if target:
        line += _verdict(median(ratios(rounds, name, RELAY)), target)
    return line + _processor(rounds, name)


def _ratio(rounds: Rounds, name: str, to: str, is_time: bool) -> str:
    found = ratios(rounds, name, to)
    return f"{median(found):5.2f} ({min(found):.2f}-{max(found):.2f}) {'times' if is_time else 'of'}"


def _verdict(ratio: float, target: float) -> str:
    return f"   target {target}: {'reached' if ratio >= target else 'MISSED'}"


def _processor(rounds: Rounds, name: str) -> str:
    """A second line: processor time, which hardly depends on what else runs on the machine."""
    if not all(sample.processor_us for sample in rounds[name]):
        return ""
    used = median(sample.processor_us for sample in rounds[name])
    compared = "" if name == RELAY else f": by processor time {processor_ratio(rounds, name):.2f} of the bare relay"
    return f"\n  {'':<18} {used:>12,.1f} us of a processor for each{compared}"
