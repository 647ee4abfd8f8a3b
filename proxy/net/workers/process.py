"""A worker's process as the parent has started it, and the job that the parent writes to its standard input."""

from __future__ import annotations

from contextlib import suppress

import trio


class Process:
    """See `WorkerProcess`. `job`: the bytes for its standard input."""

    def __init__(self, process: trio.Process, job: bytes) -> None:
        self._process = process
        self._job = job

    async def send_job(self) -> None:
        """See `WorkerProcess`. A process that hangs never reads a job that is larger than a pipe."""
        stdin = self._process.stdin
        assert stdin is not None
        # a process that has ended already: `wait` returns its exit code
        with suppress(trio.BrokenResourceError):
            async with stdin:
                await stdin.send_all(self._job)

    async def wait(self) -> int:
        """See `WorkerProcess`."""
        return await self._process.wait()

    def kill(self) -> None:
        """See `WorkerProcess`."""
        self._process.kill()
