"""`python -m bench.profile`: where an exchange's time goes, in the proxy and in its peers.

Each load goes through each way in turns. The first table says what an exchange costs: processor time, how much of it in
the kernel, system calls, waits (voluntary context switches) and, where the processor lends its counters, instructions,
cycles and cache misses. Linux' perf counts them beside the load without slowing it. The second has the steps of the
event loop's thread: its system calls, and its own work between two of them. perf notes when each call begins and ends,
which makes each step up to a microsecond longer. The third says in which modules the proxy's threads were found; py-spy
looks 200 times a second, and a C function counts for the line that calls it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench import loads, real
from bench.__main__ import interleaved, measure, warm_up
from bench.console import options, say, say_machine
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
from bench.processes import Programs, beside, can_trace

# perf's name of an event -> the column's heading
EVENTS = {
    "raw_syscalls:sys_enter": "system calls",
    "context-switches": "switches",
    "instructions": "instructions",
    "cycles": "cycles",
    "cache-misses": "cache misses",
}
NAME, NUMBER, STEP_NAME = 25, 14, 42
# Kafka's own tool on a real broker, and how many of its records fill one of its batches
PRODUCER, RECORDS_IN_BATCH = "producer", 16
# the kernel's calls on the way of a chunk, as tracepoints; a machine has some of them
CALLS = ("recvfrom", "sendto", "epoll_wait", "epoll_pwait", "epoll_ctl", "sched_yield", "futex")
TRACEPOINTS = Path("/sys/kernel/tracing/events/syscalls")
# thread, seconds, tracepoint, and a call's arguments or result
_CALL = re.compile(r"\s*\d+ +(?P<at>[\d.]+): +syscalls:sys_(?P<end>enter|exit)_(?P<call>\w+): *(?P<rest>.*)")
# calls that are told apart by the descriptor of their socket, the client's or the broker's
OF_CONNECTIONS = ("recvfrom", "sendto")
# modules of a way that are listed, and the part of the whole below which no module and no step is
MOST_MODULES, LEAST_SHARE = 14, 0.01
_LEAF = re.compile(r"[^;]* \((?P<file>[^;]*?)(:\d+)?\) (?P<count>\d+)$")
# where threads are that wait for another one, which py-spy takes for work while the waiting is short
WAITING = "threading.py"


class Costs(NamedTuple):
    """What one exchange took. `counts`: by perf's names; None where this machine can't count."""

    processor_us: float
    in_kernel: float
    counts: Mapping[str, float | None]


class StepTime(NamedTuple):
    """A step of the event loop's thread: `times` an exchange, each `us` long at the median."""

    name: str
    times: float
    us: float

    @property
    def each_ns(self) -> float:
        """Nanoseconds of an exchange."""
        return self.times * self.us * 1e3


def main(arguments: Sequence[str] | None = None) -> int:
    parser = options("bench.profile", __doc__, rounds=5, seconds=1)
    names = [*(load.name for load in LOADS), PRODUCER]
    parser.add_argument("--only", nargs="*", choices=names, default=["lone", "burst", "produce-7"])
    parser.add_argument("--no-java", action="store_true", help="leave Kroxylicious out")
    asked = parser.parse_args(arguments)
    say_machine()
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
            say(costs_table(load, rounds))
            for way in ways:
                if way.name in (PROXY, RECORDING):
                    if can_trace(TRACEPOINTS):
                        say(steps_table(way.name, steps(programs, load, asked.seconds, folder, way)))
                    say(modules_table(way.name, modules(programs, load, 4 * asked.seconds, folder, way)))
        if PRODUCER in asked.only and can_trace(TRACEPOINTS):
            _profile_producer(programs, folder / "real", asked.seconds)
    return 0


def _profile_producer(programs: Programs, folder: Path, seconds: float) -> None:
    folder.mkdir()
    with real.broker(folder, programs.load, seconds, java=False) as broker:
        for way in broker.ways:
            if way.pid is not None:
                broker.produced(way)
                say("\nProducerPerformance" + steps_table(way.name, steps_of_producer(broker, folder, way)))


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


def steps(programs: Programs, load: Load, seconds: float, folder: Path, way: Contender) -> list[StepTime]:
    """The steps of the way's main thread, the longest of an exchange first."""
    noted = folder / "perf.data"
    result = loads.run(programs.load, load, way, seconds, within=(*_noting(noted, way), "--"))
    way.settle()
    return _steps(noted, way, result.exchanges)


def steps_of_producer(broker: real.Broker, folder: Path, way: Contender) -> list[StepTime]:
    """As `steps`, while Kafka's ProducerPerformance sends through the way. An exchange: a batch of 16 KiB."""
    noted = folder / "perf.data"
    beside(_noting(noted, way), partial(broker.produced, way))
    way.settle()
    return _steps(noted, way, real.PRODUCED_RECORDS // RECORDS_IN_BATCH)


def _noting(file: Path, way: Contender) -> tuple[str, ...]:
    """The command that notes the way's system calls."""
    calls = [call for call in CALLS if (TRACEPOINTS / f"sys_enter_{call}").exists()]
    points = ",".join(f"syscalls:sys_{end}_{call}" for call in calls for end in ("enter", "exit"))
    return ("perf", "record", "-q", "-m", "4096", "-o", str(file), "-e", points, "-p", str(way.pid))


def _steps(noted: Path, way: Contender, exchanges: int) -> list[StepTime]:
    command = ("perf", "script", "-i", str(noted), "--ns", "-F", "tid,time,event,trace", "--tid", str(way.pid))
    script = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    by_name = step_times(script.stdout)
    found = [StepTime(name, len(times) / exchanges, median(times)) for name, times in by_name.items()]
    return sorted(found, key=lambda step: step.each_ns, reverse=True)


def step_times(script: str) -> dict[str, list[float]]:
    """Microseconds by step, from perf's text. A step is a call, or the way from the end of one to the next."""
    times = defaultdict[str, list[float]](list)
    name = before = ""
    since = 0.0
    for found in filter(None, map(_CALL.match, script.splitlines())):
        at, call, rest = float(found["at"]) * 1e6, found["call"], found["rest"]
        if found["end"] == "enter":
            name = f"{call} {int(rest.split()[1].rstrip(','), 16)}" if call in OF_CONNECTIONS else call
            step = f"{before} -> {name}" if before else ""
        elif not name:
            # the call had begun when perf did
            continue
        else:
            # after a look that finds nothing the thread does something else
            found_nothing = call in ("epoll_wait", "epoll_pwait") and not int(rest, 16)
            step = before = f"{name}, nothing" if found_nothing else name
        if step:
            times[step].append(at - since)
        since = at
    return times


def steps_table(name: str, steps: Sequence[StepTime]) -> str:
    heads = ("an exchange", "median, us", "ns an exchange")
    lines = [f"\n  {name}: steps of the event loop's thread", " " * STEP_NAME + _cells(heads)]
    least = LEAST_SHARE * sum(step.each_ns for step in steps)
    listed = [step for step in steps if step.each_ns >= least]
    rows = ((step.name, _cells((f"{step.times:.3f}", f"{step.us:.1f}", f"{step.each_ns:,.0f}"))) for step in listed)
    return "\n".join([*lines, *(f"  {title:<{STEP_NAME - 2}}{cells}" for title, cells in rows)])


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
