"""The programs that are measured, and those that measure: each a child process that ends with the block it runs in."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from recorder.capture import session as sessions
from tests.brokers import children
from tests.brokers.waiting import wait_for

HERE = Path(__file__).parent
ROOT = HERE.parent

# Enough to load a Python program on a busy machine, and to end one.
START_SECONDS, END_SECONDS = 60, 60
# enough for a compactor, which yields to everything else, to finish what a bench has recorded
COMPACT_SECONDS = 600

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Programs:
    """The fake broker and the load generator, built."""

    broker: Path
    load: Path


@dataclass(frozen=True, slots=True)
class Child:
    """A process that is ready, and the line that said so."""

    pid: int
    said: re.Match[str]


def processor_ns(pid: int) -> int:
    """Nanoseconds that a process has had a processor, all its threads together. Source: Linux' schedstat."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks)


def build(folder: Path) -> Programs:
    """Compile the C programs into `folder`. CalledProcessError when the compiler finds something."""
    programs = Programs(folder / "broker", folder / "load")
    for program in programs.broker, programs.load:
        source = HERE / f"{program.name}.c"
        flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-pthread"]
        subprocess.run(["cc", *flags, "-o", str(program), str(source)], check=True)
    return programs


@contextmanager
def running(
    command: Sequence[str | Path], log: Path, ready: str, env: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Child]:
    """A child within a block, once it has said what it says when it is ready.

    Args:
        log: the file that takes what it says.
        ready: a regular expression of a whole line.
        env: added to this process' environment.
    """
    line = re.compile(f"^{ready}$", re.MULTILINE)
    child = children.spawn([str(part) for part in command], output=log, cwd=ROOT, env=os.environ | env)
    try:
        wait_for(
            lambda: line.search(log.read_text()),
            f"{command[0]} to say {ready}",
            seconds=START_SECONDS,
            hopeless=lambda: None if child.poll() is None else f"it ended with {child.returncode}:\n{log.read_text()}",
        )
        found = line.search(log.read_text())
        assert found is not None
        yield Child(child.pid, found)
    finally:
        children.stop(child, seconds=END_SECONDS)


def beside(command: Sequence[str], work: Callable[[], T]) -> T:
    """What the work returns. The command, which goes on until it is ended, runs meanwhile."""
    child = subprocess.Popen(command)
    try:
        return work()
    finally:
        child.terminate()
        child.wait()


def can_trace(tracepoints: Path) -> bool:
    """Whether Linux' perf is here, and may note these events of the kernel."""
    return shutil.which("perf") is not None and os.access(tracepoints, os.R_OK)


@contextmanager
def compacted(capture: Path) -> Iterator[None]:
    """A block in which a proxy records. Ends with the capture's last session: the compactor outlives the proxy.

    Who removes the folder earlier removes it under the compactor, which writes further files there.
    """
    yield
    wait_for(lambda: not sessions.sessions(capture), "the capture to be compacted", seconds=COMPACT_SECONDS)
