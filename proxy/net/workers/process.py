"""A worker's process as the parent has started it, and the job that the parent writes to its standard input."""

from __future__ import annotations

from contextlib import suppress

import trio


class Process:
    """A worker's process. `job`: the bytes for its standard input."""

    def __init__(self, process: trio.Process, job: bytes) -> None:
        self._process = process
        self._job = job

    async def send_job(self) -> None:
        """Writes the job to standard input; returns once the process has read it, or has ended.

        A process that hangs never reads a job that is larger than a pipe.
        """
        stdin = self._process.stdin
        assert stdin is not None
        # a process that has ended already: `wait` returns its exit code
        with suppress(trio.BrokenResourceError):
            async with stdin:
                await stdin.send_all(self._job)

    async def wait(self) -> int:
        """The exit code, once the process has ended."""
        return await self._process.wait()

    def kill(self) -> None:
        """Ends the process at once."""
        self._process.kill()
