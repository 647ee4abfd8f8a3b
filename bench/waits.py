"""Which threads wait for a processor, how long, and who has it meanwhile: from the kernel's scheduler, by Linux' perf.

A thread that is woken, or gives its processor up while it wants one, waits until the scheduler gives it one. Only waits
that are long enough for the tails of latency are listed.
"""

from __future__ import annotations

import re
import subprocess
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from bench.contenders import Contender
from bench.processes import beside

TRACEPOINTS = Path("/sys/kernel/tracing/events/sched")
EVENTS = ("sched:sched_switch", "sched:sched_wakeup")
# microseconds; the shortest wait that is listed
LONG = 200
# threads that are listed
MOST = 7
NAME, NUMBER = 34, 12
# perf's text: seconds, event, and the event's fields
_EVENT = re.compile(r"\s*(?P<at>[\d.]+): +sched:sched_(?P<event>switch|wakeup): (?P<fields>.*)")
_SWITCH = re.compile(r".*prev_pid=(\d+) .*prev_state=(\S+) ==> .*next_pid=(\d+) ")
_WAKEUP = re.compile(r".* pid=(\d+) ")
# the modules of processes beside the proxy, as their command lines have them
_BESIDE = {"recorder.capture.compactor": "compactor", "recorder.capture.fact_maker": "maker of facts"}

T = TypeVar("T")


class Wait(NamedTuple):
    """A wait of a thread, and the thread that had the processor before it: ids of the kernel."""

    thread: int
    us: float
    behind: int


def during(folder: Path, work: Callable[[], T]) -> tuple[T, str]:
    """What the work returns, and the scheduler's events meanwhile as text."""
    file = folder / "sched.data"
    events = [argument for event in EVENTS for argument in ("-e", event)]
    done = beside(("perf", "record", "-q", "-a", "-m", "4096", "-o", str(file), *events), work)
    command = ("perf", "script", "-i", str(file), "-F", "time,event,trace")
    script = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return done, script.stdout


def waits(script: str) -> list[Wait]:
    """All waits, from perf's text."""
    found: list[Wait] = []
    # when the thread began to wait, in microseconds
    since: dict[int, float] = {}
    for event in filter(None, map(_EVENT.match, script.splitlines())):
        at, fields = float(event["at"]) * 1e6, event["fields"]
        if event["event"] == "wakeup":
            if woken := _WAKEUP.match(fields):
                since.setdefault(int(woken[1]), at)
        elif switch := _SWITCH.match(fields):
            before, state, following = int(switch[1]), switch[2], int(switch[3])
            if before and state.startswith("R"):
                since[before] = at
            else:
                # it may have been woken before it slept
                since.pop(before, None)
            if following in since:
                found.append(Wait(following, at - since.pop(following), before))
    return found


def names(way: Contender) -> dict[int, str]:
    """The names of the threads that are running now: those of the way's process, and of what runs beside it."""
    found = {}
    for task in Path("/proc").glob("[0-9]*/task/[0-9]*"):
        try:
            command, comm = (task / "cmdline").read_text().split("\0"), (task / "comm").read_text().strip()
        except OSError:
            # it has ended
            continue
        process, thread = int(task.parts[2]), int(task.name)
        if process == way.pid:
            found[thread] = "proxy, event loop" if thread == process else "proxy, another thread"
        else:
            found[thread] = next((name for module, name in _BESIDE.items() if module in command), comm)
    return found


def table(found: Sequence[Wait], named: Mapping[int, str], seconds: float) -> str:
    """The long waits of the threads that have most of them."""
    long_waits = defaultdict[str, list[Wait]](list)
    for wait in found:
        if wait.us >= LONG:
            long_waits[_name(wait.thread, named)].append(wait)
    heads = "".join(f"{head:>{NUMBER}}" for head in ("a second", "longest, us"))
    lines = [f"\n  waits for a processor of {LONG} us and more", " " * NAME + heads + "  behind"]
    for name, those in sorted(long_waits.items(), key=lambda item: -len(item[1]))[:MOST]:
        behind = Counter(_name(wait.behind, named) for wait in those)
        shares = ", ".join(f"{other} {count / len(those):.0%}" for other, count in behind.most_common(3))
        numbers = f"{len(those) / seconds:>{NUMBER},.1f}{max(wait.us for wait in those):>{NUMBER},.0f}"
        lines.append(f"  {name:<{NAME - 2}}{numbers}  {shares}")
    return "\n".join(lines)


def _name(thread: int, named: Mapping[int, str]) -> str:
    """What the thread is; `load` and what else ended meanwhile have no name any more."""
    return "nobody" if thread == 0 else named.get(thread, "client")
