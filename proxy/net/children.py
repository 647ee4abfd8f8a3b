"""Keeps child processes running beside the proxy: the recorder's compactor, and what ships or reads its capture.

A child that is watched writes bytes to its standard output as signs of life; one that is silent for long is killed, and
started again as one that ended. The child runs in a session of its own, so a Ctrl-C at the terminal does not end it. A
proxy that ends leaves its child running. What the child must know and nobody else may is given to it on its standard
input: arguments and environment can be read by others.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from logging import ERROR, WARNING
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from proxy.log import log
from proxy.metrics.admin import MoreMetrics
from proxy.net.blocking import open_process

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

# seconds before the child is started again; each pause doubles
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
# after a child that lived this long, the next pause is FIRST_PAUSE again
WELL_SECONDS = 60.0
# a child that is watched and silent for so long is killed; so many times longer until its first sign of life
HUNG_SECONDS, START_FACTOR = 30.0, 3
# how long a sign of life is waited for at a time, in seconds
BEAT_SECONDS = 1.0
# in /proc (proc(5)): the state of a thread that runs or waits for a processor, and the unit of the time it had one
_WANTS_PROCESSOR = "R"
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Companion:
    """A process that runs beside the whole proxy, not beside each of its workers: what ships the capture, for example.

    Attributes:
        ended: called whenever it has ended.
        counters: numbers for the metrics; called in any thread.
        metrics: makes a text of further metrics (`proxy.metrics.admin.MoreMetrics`); None: there are none.
        doors: pages of its own below the admin page (`admin_app`).
        hung: called when it is killed because it hangs; None: it is not watched (`look_after`).
    """

    command: Sequence[str]
    ended: Callable[[], None]
    counters: Callable[[], Mapping[str, float]]
    metrics: MoreMetrics | None = None
    doors: Mapping[str, WSGIApplication] = field(default_factory=dict)
    hung: Callable[[], None] | None = None


async def look_after(
    command: Sequence[str],
    on_end: Callable[[], None],
    given: bytes = b"",
    *,
    on_hang: Callable[[], None] | None = None,
) -> None:
    """Keeps one process of `command` running. If cancelled, leaves that process running.

    Args:
        on_end: called whenever the process has ended or could not be started.
        given: what each process reads on its standard input.
        on_hang: called when the process is killed, because it gave no sign of life for HUNG_SECONDS; None: it is not
            watched.
    """
    pause = FIRST_PAUSE
    while True:
        started = trio.current_time()
        try:
            process = await open_process(
                command,
                stdin=subprocess.PIPE if given else subprocess.DEVNULL,
                stdout=subprocess.PIPE if on_hang else subprocess.DEVNULL,
                start_new_session=True,
            )
            if process.stdin is not None:
                await _give(process.stdin, given)
            ended = f"exit code {await _end_of(process, on_hang)}"
        except OSError as error:
            ended = str(error)
        on_end()
        if trio.current_time() - started > WELL_SECONDS:
            pause = FIRST_PAUSE
        log(WARNING, "child process ended; starting it again", command=" ".join(command[:4]), reason=ended, pause=pause)
        await trio.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE)


async def _end_of(process: trio.Process, on_hang: Callable[[], None] | None) -> int:
    """Waits for the exit code; kills the process if it is watched and hangs."""
    async with trio.open_nursery() as nursery:
        if on_hang is not None and process.stdout is not None:
            nursery.start_soon(_watch, process, process.stdout, on_hang)
        code = await process.wait()
        nursery.cancel_scope.cancel()
    return code


async def _watch(process: trio.Process, signs: trio.abc.ReceiveStream, on_hang: Callable[[], None]) -> None:
    """Kills a process that hangs.

    Counts beats instead of time: a proxy that was suspended, or had no processor, must kill no child. A beat in which
    the child wanted a processor counts only as far as it had one.
    """
    silent, longest = 0.0, START_FACTOR * HUNG_SECONDS
    processor = _Processor(process.pid)
    async with signs:
        while silent < longest:
            if await _gives_sign(signs):
                silent, longest = 0.0, HUNG_SECONDS
            else:
                silent += processor.share_of(BEAT_SECONDS)
    log(ERROR, "child process hangs; killed", pid=process.pid, silent=round(silent))
    on_hang()
    process.kill()


async def _gives_sign(signs: trio.abc.ReceiveStream) -> bool:
    with trio.move_on_after(BEAT_SECONDS):
        if await signs.receive_some():
            return True
        # the child has closed its standard output
        await trio.sleep_forever()
    return False


class _Processor:
    """What a process has had of the processors, by Linux; elsewhere it counts as one that never had to wait."""

    def __init__(self, pid: int) -> None:
        self._folder = Path(f"/proc/{pid}")
        self._had = 0.0

    def share_of(self, seconds: float) -> float:
        """Of so many seconds that have passed: how many the process had a processor, or wanted none."""
        if not (values := _stat(self._folder)):
            return seconds
        before, self._had = self._had, sum(map(int, values[11:13])) / _TICKS
        # the process's own state is that of its main thread, its time that of all
        wants = any(_stat(thread)[:1] == [_WANTS_PROCESSOR] for thread in self._folder.glob("task/*"))
        return min(self._had - before, seconds) if wants else seconds


def _stat(folder: Path) -> list[str]:
    """What Linux says of a process or a thread: first its state, from the twelfth value on its time. Empty: gone."""
    try:
        # behind the name, which may hold anything
        return (folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return []


async def _give(stdin: trio.abc.SendStream, given: bytes) -> None:
    """Writes it all, and closes. A process that ends meanwhile has its reason, which its exit code tells."""
    async with stdin:
        with suppress(trio.BrokenResourceError):
            await stdin.send_all(given)
