"""Numbers of several rounds as ratios, in a table that a person reads."""

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from statistics import median

from bench.contenders import ALL_KROXYLICIOUS, DIRECT, KROXYLICIOUS, RELAY
from bench.loads import Sample, Target

# contender -> its sample of each round; all have the same rounds
Rounds = Mapping[str, Sequence[Sample]]

# the contenders that all others are compared with; widths of columns
COMPARED = (DIRECT, RELAY, KROXYLICIOUS)
NAME, NUMBER, RATIO = 25, 12, 22


def machine() -> str:
    """One line about the machine of these numbers."""
    cores = len(os.sched_getaffinity(0))
    busy = os.getloadavg()[0]
    return (
        f"{platform.system()} {platform.release()} {platform.machine()}, {cores} cores (load {busy:.1f} before), "
        f"Python {platform.python_version()}, trio {version('trio')}"
    )


def ratios(rounds: Rounds, name: str, to: str, is_time: bool = False) -> list[float]:
    """Round by round: what disturbs a round disturbs both. `to` Kroxylicious is to the faster of them."""
    others = rounds[_faster(rounds, is_time) if to == KROXYLICIOUS else to]
    return [mine.value / other.value for mine, other in zip(rounds[name], others, strict=True)]


def _faster(rounds: Rounds, is_time: bool = False) -> str:
    """Which Kroxylicious did best, with or without metrics."""
    best = min if is_time else max
    there = [name for name in ALL_KROXYLICIOUS if name in rounds]
    return best(there, key=lambda name: median(sample.value for sample in rounds[name]))


def added(rounds: Rounds, name: str) -> list[float]:
    """What one is over direct, round by round."""
    return [mine.value - direct.value for mine, direct in zip(rounds[name], rounds[DIRECT], strict=True)]


def table(title: str, rounds: Rounds, is_time: bool = False, targets: Sequence[Target] = ()) -> str:
    """Medians, ratios with the range over the rounds, microseconds of a processor; and whether targets were reached.

    Of times the columns are what is added to direct's instead of ratios.
    """
    columns = _times(rounds) if is_time else _rates(rounds)
    head = "".join(f"{column:>{RATIO}}" for column in columns)
    lines = [f"{title}\n  {'':<{NAME}} {'median':>{NUMBER}}{head}{'us of a processor':>{RATIO}}"]
    for name in rounds:
        middle = median(sample.value for sample in rounds[name])
        cells = "".join(f"{column(name):>{RATIO}}" for column in columns.values())
        line = f"  {name:<{NAME}} {middle:>{NUMBER},.{1 if is_time else 0}f}{cells}{_processor(rounds, name):>{RATIO}}"
        lines.append(line.rstrip())
    return "\n".join(lines + ["    " + verdict for verdict in verdicts(rounds, is_time, targets)])


def verdicts(rounds: Rounds, is_time: bool, targets: Sequence[Target]) -> list[str]:
    """A sentence for each target: whether it is reached. Of times, a target is the greatest ratio."""
    return [_verdict(rounds, is_time, target) for target in targets if target.name in rounds]


def _rates(rounds: Rounds) -> dict[str, Callable[[str], str]]:
    compared = [to for to in COMPARED if to in rounds]
    return {f"of {to}": partial(_ratio, rounds, to) for to in compared}


def _times(rounds: Rounds) -> dict[str, Callable[[str], str]]:
    return {"over direct": lambda name: "" if name == DIRECT else _range(added(rounds, name), "+.1f")}


def _ratio(rounds: Rounds, to: str, name: str) -> str:
    # a relay is no measure of direct, nor the bare one of anything above it
    is_kroxylicious = name in ALL_KROXYLICIOUS and to == KROXYLICIOUS
    if name == to or is_kroxylicious or (name in COMPARED and COMPARED.index(name) < COMPARED.index(to)):
        return ""
    return _range(ratios(rounds, name, to), ".2f")


def _range(values: Sequence[float], form: str) -> str:
    low, high = (format(value, form.lstrip("+")) for value in (min(values), max(values)))
    return f"{format(median(values), form)} ({low}-{high})"


def _processor(rounds: Rounds, name: str) -> str:
    """Processor time hardly depends on what else runs on the machine."""
    used = [sample.processor_us for sample in rounds[name]]
    return f"{median(used):,.1f}" if all(used) else ""


def _verdict(rounds: Rounds, is_time: bool, target: Target) -> str:
    wanted = f"{'aim' if target.is_aim else 'target'}{' at most' if is_time else ''} {target.ratio} of {target.to}"
    if target.to not in rounds:
        return f"{target.name}: {wanted}: not compared"
    found = median(ratios(rounds, target.name, target.to, is_time))
    reached = found <= target.ratio if is_time else found >= target.ratio
    return f"{target.name}: {found:.2f} of {target.to}; {wanted}: {'reached' if reached else 'MISSED'}"
