"""A worker's process, which `parent.py` starts, and the job that is written to its standard input."""

from __future__ import annotations

from contextlib import suppress

import trio


class WorkerProcess:
    """A worker's process. `job`: the bytes for its standard input."""

    def __init__(self, process: trio.Process, job: bytes) -> None:
        self._process = process
        self._job = job

    async def send_job(self) -> None:
        """Writes the job to standard input. Returns once the job is written, or the process has ended.

        Does not return while the process hangs, if the job is larger than a pipe.
        """
        stdin = self._process.stdin
        assert stdin is not None
        # the process has ended; `wait` returns its exit code
        with suppress(trio.BrokenResourceError):
            async with stdin:
                await stdin.send_all(self._job)

    async def wait(self) -> int:
        """Waits for the process to end. Returns its exit code."""
        return await self._process.wait()

    def kill(self) -> None:
        """Ends the process at once."""
        self._process.kill()
