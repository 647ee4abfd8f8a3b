"""Keeps child processes running beside the proxy: the recorder's compactor, and what ships the capture.

The child runs in a session of its own, so a Ctrl-C at the terminal does not end it. A proxy that ends leaves its child
running. What the child must know and nobody else may is given to it on its standard input: arguments and environment
can be read by others.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from logging import WARNING
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


@dataclass(frozen=True, slots=True)
class Companion:
    """A process that runs beside the whole proxy, not beside each of its workers: what ships the capture, for example.

    Attributes:
        ended: called whenever it has ended.
        counters: numbers for the metrics; called in any thread.
        metrics: makes a text of further metrics (`proxy.metrics.admin.MoreMetrics`); None: there are none.
        doors: pages of its own below the admin page (`admin_app`).
    """

    command: Sequence[str]
    ended: Callable[[], None]
    counters: Callable[[], Mapping[str, float]]
    metrics: MoreMetrics | None = None
    doors: Mapping[str, WSGIApplication] = field(default_factory=dict)


async def look_after(command: Sequence[str], on_end: Callable[[], None], given: bytes = b"") -> None:
    """Keeps one process of `command` running. If cancelled, leaves that process running.

    Args:
        on_end: called whenever the process has ended or could not be started.
        given: what each process reads on its standard input.
    """
    pause = FIRST_PAUSE
    while True:
        started = trio.current_time()
        try:
            process = await open_process(
                command,
                stdin=subprocess.PIPE if given else subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
            if process.stdin is not None:
                await _give(process.stdin, given)
            ended = f"exit code {await process.wait()}"
        except OSError as error:
            ended = str(error)
        on_end()
        if trio.current_time() - started > WELL_SECONDS:
            pause = FIRST_PAUSE
        log(WARNING, "child process ended; starting it again", command=" ".join(command[:4]), reason=ended, pause=pause)
        await trio.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE)


async def _give(stdin: trio.abc.SendStream, given: bytes) -> None:
    """Writes it all, and closes. A process that ends meanwhile has its reason, which its exit code tells."""
    async with stdin:
        with suppress(trio.BrokenResourceError):
            await stdin.send_all(given)
