"""The embedded engine's process, as its parent runs it: started early, used by one session, ended with it.

The process takes as long to start as this one takes to import pyspark. So a command starts it (`begin`) once it knows
that the embedded engine will answer, and only then imports what the question needs. No pyspark here.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from recorder.analysis.embedded_server import OWN

# Seconds that the process gets for its end.
_ENDS_WITHIN = 10
# What Sail's own Python imports for the first function of Python that it runs, and what our functions need: the process
# imports these while it waits for its first question.
_NEEDED = ("pandas", "pyspark.worker", "recorder.analysis.bodies")

# bytes of the longest name that a Unix socket may have, less some
_LONGEST_NAME = 100


def _settings() -> dict[str, str]:
    """Sail's settings as variables, which a user's own override."""
    return {
        # a capture that this engine is asked about is small: its plans take longer than its rows, so no table is split
        "SAIL_EXECUTION__DEFAULT_PARALLELISM": "1",
        # the tables that it keeps for a session
        "SAIL_PARQUET__COMPRESSION": "uncompressed",
    }


class NotStarted(Exception):
    """The engine did not start: its last words."""


class EngineProcess:
    """A process of the engine, with a folder of its own for its socket and its files.

    Resource handling: `end` ends the process and removes the folder; a second call does nothing.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="kafka-wiretap-engine-")
        self.folder = Path(self._folder.name)
        with (self.folder / "log").open("wb") as output:
            self._child = subprocess.Popen(
                [sys.executable, "-P", "-m", "recorder.analysis.embedded_server", self.folder / "engine", *_NEEDED],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                # what it spills goes with the folder
                env={"RUST_LOG": "off", **_settings(), **os.environ, "TMPDIR": str(self.folder)},
                # a terminal's Ctrl-C ends a question, and not the engine
                process_group=0,
            )
        self._opened = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)

    @property
    def socket(self) -> str:
        """The path of its Unix socket; by way of an open folder if it would be too long for one."""
        path = str(self.folder / "engine")
        return path if len(os.fsencode(path)) <= _LONGEST_NAME else f"/proc/self/fd/{self._opened}/engine"

    def serves_alone(self) -> bool:
        """Waits until the engine serves; returns True if only this process reaches it. Errors: NotStarted."""
        assert self._child.stdout is not None
        network = self._child.stdout.readline().decode().strip()
        if not network:
            log = (self.folder / "log").read_text(errors="replace")
            raise NotStarted(log.strip().rpartition("\n")[2])
        return network == OWN

    def end(self) -> None:
        """Ends the process, by force if it takes too long, and removes its files."""
        child = self._child
        if child.returncode is not None:
            return
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.close()
        try:
            child.wait(_ENDS_WITHIN)
        except BaseException as error:
            # also a second Ctrl-C: no process is left behind
            child.kill()
            child.wait()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
        finally:
            child.stdout.close()
            os.close(self._opened)
            self._folder.cleanup()


# the process that waits for its session, if there is one
_begun: list[EngineProcess] = []


def begin() -> None:
    """Starts a process that the next session will use, unless one is there already."""
    if not _begun:
        _begun.append(EngineProcess())


def forget() -> None:
    """Ends the process that was begun, if no session has used it."""
    while _begun:
        _begun.pop().end()


@contextmanager
def running() -> Iterator[EngineProcess]:
    """Yields the process that was begun, or a new one; the block's end ends it."""
    begin()
    process = _begun.pop()
    try:
        yield process
    finally:
        process.end()
