"""A worker's process as the parent has started it, and the job that it is to read from its standard input."""

from __future__ import annotations

from contextlib import suppress

import trio


class Process:
    """See `WorkerProcess`. `job`: what its standard input has."""

    def __init__(self, process: trio.Process, job: bytes) -> None:
        self._process = process
        self._job = job

    async def brief(self) -> None:
        """Returns once all of the job has been taken. One that hangs never takes a job larger than a pipe."""
        stdin = self._process.stdin
        assert stdin is not None
        # one that has ended already is found out by its exit code
        with suppress(trio.BrokenResourceError):
            async with stdin:
                await stdin.send_all(self._job)

    async def wait(self) -> int:
        """The exit code, once it has ended."""
        return await self._process.wait()

    def kill(self) -> None:
        """Ends it at once."""
        self._process.kill()
