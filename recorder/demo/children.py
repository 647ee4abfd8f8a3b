"""Starts processes that end with the demo, however it ends.

There are three safeguards. Each child leads a process group of its own, so Ctrl-C at the terminal reaches only the
demo, which then ends its children in the reverse order of their start (SIGTERM to the group, then SIGKILL). The demo is
the subreaper of its grandchildren: one that outlives its parent, as the compactor does on purpose, becomes the demo's
own child, and the demo waits for it. If the demo itself is killed, the kernel sends the children SIGTERM, and their
standard input ends. The last two safeguards need Linux.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from proxy.command_line import ending_signals, interrupt, interrupts_wait

# prctl's numbers, from linux/prctl.h
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
# Seconds between two checks of a state that can only be polled.
_GLANCE = 0.05
# Seconds that a process may take to end after SIGTERM.
_GRACE = 5.0


class ChildFailed(Exception):
    """A child ended early or never became ready; `log` is its log file."""

    def __init__(self, name: str, why: str, log: Path) -> None:
        super().__init__(f"the {name} {why}")
        self.log = log


@dataclass(slots=True)
class Child:
    """A running child; `log` holds what it wrote to its standard error."""

    name: str
    process: subprocess.Popen[str]
    log: Path

    @property
    def output(self) -> IO[str]:
        """Lines of its standard output, if it was started `piped`."""
        if self.process.stdout is None:
            raise ValueError(f"the {self.name} was not started piped")
        return self.process.stdout

    def announced(self, pattern: str, *, within: float) -> str:
        """Group 1 of `pattern` once the log holds it. Raises ChildFailed if that takes longer than `within` seconds."""
        deadline = time.monotonic() + within
        while True:
            ended = self.process.poll() is not None
            found = re.search(pattern, self.log.read_text(errors="replace"))
            if found:
                return found[1]
            if ended or time.monotonic() > deadline:
                raise ChildFailed(self.name, "ended early" if ended else "did not become ready in time", self.log)
            time.sleep(_GLANCE)

    def end(self, *, within: float = _GRACE) -> None:
        """Ends the child and its group: SIGTERM, and SIGKILL if the child still runs after `within` seconds."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self.process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(self.process.pid, number)
                with suppress(subprocess.TimeoutExpired):
                    self.process.wait(within)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()


@dataclass(slots=True)
class Children:
    """Starts children; leaving `children()` ends them."""

    logs: Path
    _before: frozenset[int]
    _started: list[Child] = field(default_factory=list)

    def start(self, name: str, command: Sequence[str], *, piped: bool = False, shown: bool = False) -> Child:
        """Starts `command`. `piped`: its output can be read. `shown`: its output and errors go where the demo's go.

        Raises OSError if it can't be started.
        """
        log = self.logs / f"{name.replace(' ', '-')}.log"
        with log.open("w") as file, interrupts_wait():
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if piped else None if shown else file,
                stderr=None if shown else file,
                text=True,
                start_new_session=True,
                preexec_fn=_dies_with(os.getpid()),
            )
            child = Child(name, process, log)
            self._started.append(child)
        return child

    def orphans_gone(self, *, within: float) -> bool:
        """Waits until all processes left by ended children have ended too. False after `within` seconds."""
        deadline = time.monotonic() + within
        while self._orphans():
            if time.monotonic() > deadline:
                return False
            time.sleep(_GLANCE)
        return True

    def end_all(self) -> None:
        """Ends every child, the youngest first, and then the processes that they left."""
        for child in reversed(self._started):
            child.end()
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in self._orphans():
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
            if self.orphans_gone(within=_GRACE):
                return

    def _orphans(self) -> frozenset[int]:
        """Running children of this process that it did not start; ended ones are reaped."""
        strangers = _own_children() - self._before - {child.process.pid for child in self._started}
        return frozenset(pid for pid in strangers if not _reaped(pid))


@contextmanager
def children(logs: Path) -> Iterator[Children]:
    """Starts children that end with the block, by Ctrl-C and its like, too. Their logs go to the folder `logs`."""
    _adopt_orphans(True)
    started = Children(logs, _own_children())
    before = {number: signal.signal(number, interrupt) for number in ending_signals()}
    try:
        yield started
    finally:
        for number in before:
            signal.signal(number, signal.SIG_IGN)
        started.end_all()
        _adopt_orphans(False)
        for number, handler in before.items():
            signal.signal(number, handler)


def _adopt_orphans(yes: bool) -> None:
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(yes))


def _dies_with(parent: int) -> Callable[[], None] | None:
    """The function that the child runs before its program; None outside Linux.

    It asks the kernel for SIGTERM at the parent's death, and ends the child if the parent is dead already.
    """
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)  # loaded before the fork: nothing may be loaded after it

    def tie() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(0)

    return tie


def _own_children() -> frozenset[int]:
    """Process ids of all children of this process, from Linux's /proc; empty on other systems."""
    me = str(os.getpid())
    return frozenset(int(stat.parent.name) for stat in Path("/proc").glob("[0-9]*/stat") if _parent(stat) == me)


def _parent(stat: Path) -> str | None:
    try:
        return stat.read_text(errors="replace").rpartition(")")[2].split()[1]
    except (OSError, IndexError):
        return None


def _reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return True
