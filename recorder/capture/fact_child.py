"""The compactor's child that makes facts: started when the compactor has caught up, looked at while it is idle.

Facts may wait, a recording may not: so they are made by a process of its own (`fact_maker`), and whatever that process
meets costs no frame. The files of frames that it fails at are named once, counted, and not tried again by this
compactor. A session's end doesn't wait for facts: the child is ended, and whoever comes next makes the rest.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from recorder.capture.storage import ignore_step

# what the child tells of a file of frames
BEGUN, MADE, FAILED = "begun", "made", "failed"
_BLOCK = 1 << 16


class FactChild:
    """Makes the facts of a capture's new files of frames, in a child.

    `say`: called with a line on each file whose facts can't be made. Attributes: failed: how many there were.
    """

    def __init__(
        self,
        folder: Path,
        say: Callable[[str], None] = ignore_step,
        command: Sequence[str] = (sys.executable, "-P", "-m", "recorder.capture.fact_maker"),
    ) -> None:
        self.failed = 0
        self._folder = folder
        self._say = say
        self._command = command
        self._is_due = False
        self._left_out: list[str] = []
        self._child: subprocess.Popen[bytes] | None = None
        self._told = b""
        # the file that the child is at
        self._begun: str | None = None

    def step(self, name: str) -> None:
        """A step of the compaction: at "state", a segment's files have just been published."""
        self._is_due = self._is_due or name == "state"

    def idle(self) -> None:
        """Looks at the child, and starts one if there may be files without facts. Doesn't wait."""
        if self._child is not None:
            self._look(self._child)
        elif self._is_due:
            self._is_due = False
            self._start()

    def close(self) -> None:
        """Ends the child, if one runs."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self._end(self._child)

    def _start(self) -> None:
        options = [option for stem in self._left_out for option in ("--except", stem)]
        command = [*self._command, str(self._folder), *options]
        try:
            self._child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        except OSError as error:
            # a machine without processes for now; the next segment is the next occasion
            self.failed += 1
            self._say(f"no facts are made: {error.strerror or error}")
            return
        assert self._child.stdout is not None
        os.set_blocking(self._child.stdout.fileno(), False)

    def _look(self, child: subprocess.Popen[bytes]) -> None:
        has_ended = child.poll() is not None
        self._read(child)
        if not has_ended:
            return
        if self._begun is not None:
            self._give_up(self._begun, f"the process that made them ended with {_ending(child.returncode)}")
        elif child.returncode not in (0, 1, 3):
            self.failed += 1
            self._say(f"no facts are made: their process ended with {_ending(child.returncode)}")
        self._end(child)

    def _read(self, child: subprocess.Popen[bytes]) -> None:
        assert child.stdout is not None
        with suppress(BlockingIOError):
            while block := os.read(child.stdout.fileno(), _BLOCK):
                self._told += block
        *lines, self._told = self._told.split(b"\n")
        for line in lines:
            what, stem, reason = json.loads(line)
            self._begun = stem if what == BEGUN else None
            if what == FAILED:
                self._give_up(stem, reason)

    def _give_up(self, stem: str, reason: str) -> None:
        self.failed += 1
        self._left_out.append(stem)
        self._say(f"no facts of {stem}: {reason}")

    def _end(self, child: subprocess.Popen[bytes]) -> None:
        assert child.stdout is not None
        child.stdout.close()
        self._child, self._told, self._begun = None, b"", None


def _ending(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
