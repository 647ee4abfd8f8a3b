"""`python -m bench.profile`: where an exchange's time goes, in the proxy and in its peers.

Each load goes through each way in turns. The first table says what an exchange costs: processor time, how much of it in
the kernel, system calls, waits (voluntary context switches) and, where the processor lends its counters, instructions,
cycles and cache misses. Linux' perf counts them beside the load without slowing it. The second says in which modules
the proxy's threads were found; py-spy looks 200 times a second, and a C function counts for the line that calls it.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench import loads, report
from bench.__main__ import interleaved, measure, warm_up
from bench.contenders import (
    KROXYLICIOUS_UNMEASURED,
    PROXY,
    RECORDING,
    Contender,
    bare_relay,
    fake_cluster,
    java_proxy,
    proxy,
)
from bench.loads import LOADS, Load
from bench.processes import Programs

# perf's name of an event -> the column's heading
EVENTS = {
    "raw_syscalls:sys_enter": "system calls",
    "context-switches": "switches",
    "instructions": "instructions",
    "cycles": "cycles",
    "cache-misses": "cache misses",
}
NAME, NUMBER = 25, 14
# modules of a way that are listed, and the part of the samples below which none is
MOST_MODULES, LEAST_SHARE = 14, 0.01
_LEAF = re.compile(r"[^;]* \((?P<file>[^;]*?)(:\d+)?\) (?P<count>\d+)$")
# where threads are that wait for another one, which py-spy takes for work while the waiting is short
WAITING = "threading.py"


class Costs(NamedTuple):
    """What one exchange took. `counts`: by perf's names; None where this machine can't count."""

    processor_us: float
    in_kernel: float
    counts: Mapping[str, float | None]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.profile", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="how long each load runs in a round (default 1)")
    names = [load.name for load in LOADS]
    parser.add_argument("--only", nargs="*", choices=names, default=["lone", "burst", "produce-7"])
    parser.add_argument("--no-java", action="store_true", help="leave Kroxylicious out")
    asked = parser.parse_args(arguments)
    print("machine: " + report.machine(), flush=True)
    if shutil.which("perf") is None:
        print("Linux' perf is not here (Debian's linux-perf), so system calls and the like are not counted")
    with tempfile.TemporaryDirectory(prefix="kafka-wiretap-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        programs, upstream = stack.enter_context(fake_cluster(folder))
        ways = [stack.enter_context(bare_relay(upstream, folder))]
        if not asked.no_java:
            ways.append(stack.enter_context(java_proxy(upstream, folder, KROXYLICIOUS_UNMEASURED)))
        ways.append(stack.enter_context(proxy(upstream, folder)))
        ways.append(stack.enter_context(proxy(upstream, folder, RECORDING, folder / "capture")))
        for load in (load for load in LOADS if load.name in asked.only):
            warm_up(ways, partial(measure, programs, load, 3 * asked.seconds), load.is_time)
            rounds = interleaved(ways, asked.rounds, partial(costs, programs, load, asked.seconds, folder))
            print(costs_table(load, rounds), flush=True)
            for way in ways:
                if way.name in (PROXY, RECORDING):
                    print(modules_table(way.name, modules(programs, load, 4 * asked.seconds, folder, way)), flush=True)
    return 0


def costs(programs: Programs, load: Load, seconds: float, folder: Path, way: Contender) -> Costs:
    """What an exchange takes of a way's process."""
    assert way.pid is not None
    counted = folder / "perf.csv"
    perf = ("perf", "stat", "-x", ";", "-o", str(counted), "-e", ",".join(EVENTS), "-p", str(way.pid), "--")
    user, kernel = _ticks(way.pid)
    result = loads.run(programs.load, load, way, seconds, within=perf if shutil.which("perf") else ())
    user, kernel = (after - before for after, before in zip(_ticks(way.pid), (user, kernel), strict=True))
    counts = _counted(counted.read_text()) if counted.exists() else {}
    each = {event: None if count is None else count / result.exchanges for event, count in counts.items()}
    return Costs(result.processor_ns / result.exchanges / 1e3, kernel / max(user + kernel, 1), each)


def _ticks(pid: int) -> tuple[int, int]:
    """Hundredths of seconds in the program and in the kernel. Source: proc_pid_stat(5), utime and stime."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]), int(fields[12])


def _counted(csv: str) -> dict[str, float | None]:
    """perf's CSV: count;unit;event;…, the count in words where the machine has no such counter."""
    rows = [line.split(";") for line in csv.splitlines() if line.count(";") > 2]
    return {row[2]: float(row[0]) if row[0].replace(".", "").isdigit() else None for row in rows}


def costs_table(load: Load, rounds: Mapping[str, Sequence[Costs]]) -> str:
    heads = ("us of processor", "in the kernel", *EVENTS.values())
    lines = [f"\n{load.title.partition(',')[0]}: what one takes, medians of the rounds", " " * NAME + _cells(heads)]
    for name, taken in rounds.items():
        values = [f"{median(one.processor_us for one in taken):.1f}", f"{median(one.in_kernel for one in taken):.0%}"]
        for event in EVENTS:
            counts = [count for one in taken if (count := one.counts.get(event)) is not None]
            values.append(f"{median(counts):,.2f}" if counts else "not counted")
        lines.append(f"{name:<{NAME}}" + _cells(values))
    return "\n".join(lines)


def _cells(values: Sequence[str]) -> str:
    return "".join(f"{value:>{NUMBER + 2}}" for value in values)


def modules(programs: Programs, load: Load, seconds: float, folder: Path, way: Contender) -> Counter[str]:
    """Samples by the module in which a thread of the way's process was found."""
    stacks = folder / "stacks"
    look = ("py-spy", "record", "-p", str(way.pid), "-d", str(round(seconds)), "-r", "200", "-f", "raw")
    command = [str(Path(sys.executable).with_name(look[0])), *look[1:], "-o", str(stacks)]
    spy = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        loads.run(programs.load, load, way, seconds)
        said = spy.communicate(timeout=loads.PATIENCE_SECONDS)[1]
    finally:
        spy.kill()
        spy.wait()
    way.settle()
    if spy.returncode:
        raise RuntimeError(f"py-spy can't look at the proxy: {said.strip()}")
    found = Counter[str]()
    for line in stacks.read_text().splitlines():
        if (leaf := _LEAF.search(line)) and leaf["file"] != WAITING:
            found[leaf["file"]] += int(leaf["count"])
    return found


def modules_table(name: str, found: Counter[str]) -> str:
    total = found.total() or 1
    listed = [(file, count) for file, count in found.most_common(MOST_MODULES) if count / total >= LEAST_SHARE]
    lines = [f"\n  {name}: where it was found, of {total} looks"]
    return "\n".join([*lines, *(f"  {count / total:>6.1%}  {file}" for file, count in listed)])


if __name__ == "__main__":
    sys.exit(main())
