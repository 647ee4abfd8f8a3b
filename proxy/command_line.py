"""A command's arguments from the shell, and its end: by a signal, or when its output can't be written.

A shell passes bytes, in any locale. They are read as UTF-8; other bytes are an error in one sentence. The reader of the
output may close the pipe at any byte. The command then ends as other tools do: by the same signal, without a message.

All signals that would end a command at once end it as Ctrl-C does, if it has something to tidy up. A terminal that
closes sends SIGHUP twice, from the kernel and from the shell, and a limit of processor time SIGXCPU each second, so
that only a person's second signal means: at once.
"""

from __future__ import annotations

import codecs
import errno
import os
import signal
import sys
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from types import FrameType
from typing import NoReturn, TextIO

import click
from click.shell_completion import CompletionItem

# the indent of a line that continues the one above
INDENT = "    "
# errors of writing to a full or broken disk
_UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})

# signals by which people, terminals and service managers end a command
_ENDS = (
    *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU),
)
# those whose second one means: at once
IMPATIENT = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGQUIT})


class Ended(KeyboardInterrupt):
    """A signal other than Ctrl-C's ends the command, as that does. `number`: the signal."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = signal.Signals(number)


def text(value: str) -> str:
    """An argument as text. In a locale without UTF-8, Python passes the bytes of non-ASCII letters as surrogates.

    Errors: click.BadParameter for an argument that is not UTF-8.
    """
    try:
        return os.fsencode(value).decode()
    except UnicodeError:
        raise click.BadParameter(f"{value!r} is no text: not UTF-8") from None


def folders(_context: click.Context, _param: click.Parameter, begun: str) -> list[CompletionItem]:
    """Makes the shell complete the names of folders."""
    return [CompletionItem(begun, type="dir")]


def beginning_with(begun: str, names: Iterable[str]) -> list[CompletionItem]:
    """The names that begin with `begun`, in any case."""
    return [CompletionItem(name) for name in names if name.lower().startswith(begun.lower())]


def width(*, err: bool = False) -> int | None:
    """The width of lines on standard output or error: the terminal's, or COLUMNS; None for a pipe or a file."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size((sys.stderr if err else sys.stdout).fileno()).columns or None
    except (OSError, ValueError, AttributeError):
        return None


def folded(line: str, width: int | None) -> list[str]:
    """The line in parts of at most `width`: a line that is too long continues below, indented. None: no limit."""
    if width is None or len(line) <= width:
        return [line]
    return textwrap.wrap(line, width, subsequent_indent=INDENT, break_on_hyphens=False)


def write_any_text() -> None:
    """Makes any text printable from now on: in UTF-8 if the locale has only ASCII, otherwise with escapes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding="utf-8" if _is_ascii(stream) else None, errors="backslashreplace")


def _is_ascii(stream: TextIO) -> bool:
    return codecs.lookup(stream.encoding or "ascii").name == "ascii"


def end_as_other_tools(error: BaseException) -> NoReturn:
    """Ends a command that is interrupted or can't write its output; raises any other error again.

    If the reader is gone, the command ends by SIGPIPE. After Ctrl-C it ends by SIGINT, so that a shell's loop ends too;
    after another signal by that one (143 in a shell after SIGTERM), with a line, since nobody sat there who would know.
    A full or broken disk raises a ClickException, whose text is one line.
    """
    if isinstance(error, BrokenPipeError):
        _end_by(signal.SIGPIPE)
    if isinstance(error, Ended):
        click.echo(f"ended by {error.number.name}", err=True)
        _end_by(error.number)
    if isinstance(error, KeyboardInterrupt):
        _end_by(signal.SIGINT)
    if isinstance(error, OSError) and error.errno in _UNWRITABLE and error.filename is None:
        raise click.ClickException(f"the output can't be written: {error.strerror}") from error
    raise error


def ending_signals() -> tuple[signal.Signals, ...]:
    """The signals that end a command in order. Those that are ignored stay ignored, as SIGHUP is under nohup."""
    always = (signal.SIGINT, signal.SIGTERM)
    return tuple(one for one in _ENDS if one in always or signal.getsignal(one) is not signal.SIG_IGN)


def interrupt(number: int, frame: FrameType | None) -> NoReturn:
    """A handler of `ending_signals` that does as Ctrl-C does: raises KeyboardInterrupt, for other signals `Ended`."""
    if number not in IMPATIENT:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt if number == signal.SIGINT else Ended(number)


@contextmanager
def interrupts_wait() -> Iterator[None]:
    """Delays `ending_signals` to the block's end, for what must not be left half done. Call it in the main thread.

    Python that forks, for example, loses an exception that is raised meanwhile.
    """
    came: list[int] = []
    before = {number: signal.signal(number, lambda got, _: came.append(got)) for number in ending_signals()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


def _end_by(number: signal.Signals) -> NoReturn:
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    # not reached: the signal has its default effect before `kill` returns
    raise SystemExit(128 + number)
