"""A command that is started beside the proxy and started again when it ends: the recorder's compactor.

The child runs in a session of its own, so that a Ctrl-C at the terminal lets it finish. The proxy does not wait for it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from logging import WARNING

import trio

from proxy.log import log
from proxy.net.blocking import open_process

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
# a child that lived this long was well: the next pause is short again
WELL_SECONDS = 60.0


async def look_after(command: Sequence[str], on_end: Callable[[], None]) -> None:
    """Keeps one process of `command` running until cancelled; the process then goes on alone.

    Args:
        on_end: called each time that the process has ended, or could not be started.
    """
    pause = FIRST_PAUSE
    while True:
        started = trio.current_time()
        try:
            process = await open_process(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True
            )
            ended = f"exit code {await process.wait()}"
        except OSError as error:
            ended = str(error)
        on_end()
        if trio.current_time() - started > WELL_SECONDS:
            pause = FIRST_PAUSE
        log(WARNING, "child process ended; starting it again", command=" ".join(command[:4]), reason=ended, pause=pause)
        await trio.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE)
