"""Runs one of this program's own commands in a child process, and takes its rows within limits.

A command may read gigabytes, start an engine, or meet a hostile capture. In a process of its own it can be ended at any
moment, and its memory goes with it. It is asked to end first (SIGINT), so that it removes its temporary files, and
ended by force if it does not.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import anyio
from anyio import CancelScope
from anyio.abc import Process

from proxy.terminal import harmless_lines
from recorder.mcp.answers import Allowance
from recorder.terminal import count, size

# `kafka-wiretap` of this installation, not the one on the PATH
_PROGRAM = "import sys; from proxy.cli import main; sys.argv[0] = 'kafka-wiretap'; main()"
# bytes of what a command says on standard error: notes, an error
_MAX_SAID = 64 << 10
# bytes of a line of output, or of a document: an exchange may unfold to gigabytes
MAX_LINE = 64 << 20
# seconds that a command has for its end
_ENDS_WITHIN = 5
# exit code of a command that refuses its arguments
_REFUSED = 2
_NOTE = re.compile(r"^(?:note|Error): (.*)", re.MULTILINE)
# click's first lines, which are about the command line
_USAGE = re.compile(r"\AUsage: .*\n(?:Try .*\n)?\n?")
Rows = Callable[[bytes], list[Any]]


@dataclass(frozen=True, slots=True)
class Limits:
    """What an answer may take: rows; bytes of JSON; seconds."""

    rows: int
    bytes: int
    seconds: float


class Refused(Exception):
    """A command did not answer. The message says why, as the command does."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a command has told: its rows, its notes, and why there are no more rows; None if these are all."""

    rows: list[Any]
    notes: list[str]
    cut: str | None


def each_line(line: bytes) -> list[Any]:
    """The row of a line of JSON."""
    return [json.loads(line)]


class Commands:
    """Runs commands. `at_once`: so many at a time; others wait."""

    def __init__(self, at_once: int) -> None:
        self._limiter = anyio.CapacityLimiter(at_once)
        self._running: set[Process] = set()

    async def ask(
        self, arguments: Sequence[str], limits: Limits, *, rows_of: Rows = each_line, is_document: bool = False
    ) -> Told:
        """Runs `kafka-wiretap` with these arguments; takes its rows until it ends, or until a limit is reached.

        Args:
            rows_of: the rows of a line of its output.
            is_document: its whole output is one line.
        Errors: Refused.
        """
        said = bytearray()
        taking = _Taking(limits, rows_of)
        code = None
        async with self._limiter, _running(arguments, said, self._running) as child:
            with anyio.move_on_after(limits.seconds) as time:
                async with aclosing(_texts(child, taking, is_document=is_document)) as lines:
                    await taking.take(lines)
                if taking.cut is None:
                    code = await child.wait()
        words = harmless_lines(said.decode("utf-8", "replace"))
        cut = f"it took more than {limits.seconds:g} s" if time.cancelled_caught else taking.cut
        if time.cancelled_caught and not taking.rows:
            raise Refused(f"{cut}; right would be a narrower question, or a server with a longer --max-time")
        if code == _REFUSED or (code and not taking.rows):
            raise Refused(_USAGE.sub("", words).strip() or f"the command ended with exit code {code}")
        if cut is None and taking.allowance.was_cut:
            cut = "long texts in it are shortened"
        return Told(taking.rows, _NOTE.findall(words), cut)

    async def end(self) -> None:
        """Ends all commands that run."""
        for child in [*self._running]:
            await _end(child)


class _Taking:
    """Takes rows while there is room for them. `cut`: why there was none for more, or None."""

    def __init__(self, limits: Limits, rows_of: Rows) -> None:
        self._limits, self._rows_of = limits, rows_of
        self.rows: list[Any] = []
        self.allowance = Allowance(limits.bytes)
        self.cut: str | None = None

    async def take(self, lines: AsyncIterator[bytes]) -> None:
        """Takes the rows of lines. Errors: Refused."""
        async for line in lines:
            for row in self._rows_of(line):
                self._take(row)
                if self.cut is not None:
                    return

    def _take(self, row: Any) -> None:
        if len(self.rows) == self._limits.rows:
            self.cut = f"this answer has {count(self._limits.rows, 'row')} at most"
            return
        self.rows.append(self.allowance.fitted(row))
        if self.allowance.left <= 0:
            self.cut = f"this answer has {size(self._limits.bytes)} at most"


@asynccontextmanager
async def _running(arguments: Sequence[str], said: bytearray, running: set[Process]) -> AsyncIterator[Process]:
    """Runs the command within the block, in which it is in `running`; adds what it says on standard error to `said`."""
    child = await anyio.open_process([sys.executable, "-P", "-c", _PROGRAM, *arguments], stdin=subprocess.DEVNULL)
    async with child, anyio.create_task_group() as tasks:
        tasks.start_soon(_listen, child, said)
        running.add(child)
        try:
            yield child
        finally:
            with CancelScope(shield=True):
                await _end(child)
            running.discard(child)


async def _end(child: Process) -> None:
    """Ends a command that still runs."""
    if child.returncode is None:
        # it may have ended meanwhile
        with suppress(ProcessLookupError):
            child.send_signal(signal.SIGINT)
        with anyio.move_on_after(_ENDS_WITHIN):
            await child.wait()
    if child.returncode is None:
        child.kill()
        await child.wait()


async def _listen(child: Process, said: bytearray) -> None:
    """Reads all that a command says on standard error, so that it never waits; keeps the first of it."""
    assert child.stderr is not None
    async for chunk in child.stderr:
        said += chunk[: _MAX_SAID - len(said)]


async def _texts(child: Process, taking: _Taking, *, is_document: bool) -> AsyncGenerator[bytes]:
    """The lines of a command's output; of a document all of it, once it is there. Ends at one above MAX_LINE."""
    assert child.stdout is not None
    held = bytearray()
    async for chunk in child.stdout:
        held += chunk
        if not is_document and b"\n" in chunk:
            *lines, held = held.split(b"\n")
            for line in lines:
                yield bytes(line)
        if len(held) > MAX_LINE:
            taking.cut = f"a row of it is longer than {size(MAX_LINE)}"
            return
    if is_document:
        yield bytes(held)
