"""The shell of `kafka-wiretap sql FOLDER`: statements from a terminal, or from standard input, one after the other.

    answer      answers one statement, on the engine's session that stays open
    tell        lines of what needs no engine: `tables` and `describe NAME`

A statement ends with a semicolon. On a terminal it may take several lines, names complete, earlier statements come back
(also those of earlier shells), and Ctrl-C ends a question, not the shell. From standard input, the first statement that
fails ends all.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

import click
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.lexers import PygmentsLexer
from pygments.lexers.sql import SqlLexer

from proxy.command_line import Ended, ending_signals, interrupt
from proxy.files import Folder
from proxy.terminal import echo, is_terminal
from proxy.user_folders import state_folder
from recorder.analysis.running import EngineGone
from recorder.analysis.sources import SOURCES
from recorder.analysis.views import split
from recorder.sql_words import asked
from recorder.terminal import duration, say

Answer = Callable[[str], None]
Tell = Callable[[tuple[str, ...], bool], Iterable[str] | None]
_PROMPT, _MORE = "sql> ", "  -> "
_HISTORY = "sql-history"
HELP = """\
tables             the tables of the capture
describe NAME      the columns of a table
\\timing            says how long each answer takes, or stops saying so
help               this list
quit               ends the shell, as Ctrl-D does
SELECT ...;        a query in SQL, up to its semicolon; only queries are answered"""
# what a shell of another database calls these; sql_words has the other ones
_SAME = {**dict.fromkeys(("\\q", "exit", ".quit", ".exit"), "quit"), **dict.fromkeys(("\\?", "\\h", ".help"), "help")}
_SAME |= {".timer": "\\timing"}
_WORDS = ("tables", "describe", "\\timing", "help", "quit")
_KEYWORDS = re.findall(
    r"\w+",
    "select from where group by order limit join left on using as and or not in like between is null distinct having "
    "count sum avg min max case when then else end with desc asc union all over partition cast",
)


class Shell:
    """One shell. Attributes: `is_ended`: it was told to quit."""

    def __init__(self, answer: Answer, tell: Tell) -> None:
        self.is_ended = False
        self._answer, self._tell = answer, tell
        self._says_times = False

    def take(self, text: str) -> None:
        """Does what a word of the shell says, or answers statements. Errors: ClickException."""
        if not self._is_own(text):
            statements, rest = split(text)
            for statement in [*statements, *([rest] if rest else [])]:
                self._timed(statement)

    def _is_own(self, text: str) -> bool:
        if (told := asked(text)) is not None:
            self._print(told)
            return True
        match _own(text.split()):
            case ["quit"]:
                self.is_ended = True
            case ["help"]:
                echo(HELP)
            case ["\\timing"]:
                self._says_times = not self._says_times
                echo(f"timing is {'on' if self._says_times else 'off'}")
            case _:
                return False
        return True

    def _print(self, words: tuple[str, ...]) -> None:
        for line in self._tell(words, False) or ():
            echo(line)

    def _timed(self, statement: str) -> None:
        begun = time.monotonic_ns()
        self._answer(statement)
        if self._says_times:
            say(f"answered in {duration(time.monotonic_ns() - begun)}", err=True)


def run(answer: Answer, tell: Tell, *, is_embedded: bool) -> None:
    """Runs a shell until its input ends, or it is told to quit.

    Errors: EngineGone; ClickException of a statement that fails, if no terminal types them.
    """
    shell = Shell(answer, tell)
    # a service may have none
    given: TextIO | None = sys.stdin
    if not is_terminal(given):
        for text in held(given or ()):
            shell.take(text)
            if shell.is_ended:
                return
        return
    engine = "the embedded engine" if is_embedded else "Spark"
    echo(f"{engine} answers; statements end with a semicolon; help lists what else there is")
    with _ended_by_signals():
        for text in typed():
            try:
                shell.take(text)
            except EngineGone:
                raise
            except click.ClickException as error:
                say(f"Error: {error.format_message()}", err=True)
            except KeyboardInterrupt as error:
                if isinstance(error, Ended):
                    raise
                echo("interrupted", err=True)
            if shell.is_ended:
                return


def held(lines: Iterable[str]) -> Iterator[str]:
    """What standard input holds, as `typed`. The last statement may lack its semicolon."""
    text = ""
    for line in lines:
        may_end = not text or ";" in line
        text += line
        # a statement of many lines is not looked at with each of them
        if may_end and is_complete(text):
            yield text
            text = ""
    yield text


def typed() -> Iterator[str]:
    """What is typed on the terminal: statements up to their semicolons, or words of the shell."""
    session: PromptSession[str] = PromptSession(
        message=_PROMPT,
        prompt_continuation=_MORE,
        history=_history(),
        completer=Names(),
        complete_while_typing=False,
        lexer=None if os.environ.get("NO_COLOR") else PygmentsLexer(SqlLexer),
        multiline=Condition(lambda: not is_complete(session.default_buffer.text)),
    )
    while True:
        try:
            yield session.prompt()
        except EOFError:
            return
        except KeyboardInterrupt as error:
            if isinstance(error, Ended):
                raise


def is_complete(text: str) -> bool:
    """True if Enter ends what is typed: nothing, words of the shell, or statements with their last semicolon."""
    words = text.split()
    return not words or asked(text) is not None or _own(words)[0] in _WORDS or not split(text)[1]


def _own(words: list[str]) -> list[str]:
    """Words that are typed, the first one as this shell has it; [""] for none."""
    first = words[0].lower().rstrip(";") if words else ""
    return [_SAME.get(first, first), *words[1:]]


class Names(Completer):
    """Completes tables, the columns of those that the text names (or of all), SQL's words, and the shell's."""

    def get_completions(self, document: Document, complete_event: Any) -> Iterator[Completion]:
        begun = document.get_word_before_cursor(pattern=None, WORD=False)
        before = document.text_before_cursor[: len(document.text_before_cursor) - len(begun)]
        for word in sorted(set(_offered(before, document.text))):
            if word.startswith(begun.lower()) and begun:
                yield Completion(word, -len(begun))


def _offered(before: str, text: str) -> Iterator[str]:
    last = before.split()[-1:]
    if not last:
        yield from (*_WORDS, "select", "with")
    elif last[0].lower() in ("from", "join", "describe"):
        yield from SOURCES
    else:
        named = [name for name in SOURCES if name in text.lower()]
        yield from (*_KEYWORDS, *SOURCES)
        for name in named or SOURCES:
            yield from SOURCES[name].table.names


def _history() -> History:
    """Statements of earlier shells, in a file that only its user may read; only of this one where none can be made."""
    folder = state_folder()
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with Folder.at(folder) as place:
            # a link there is not followed
            os.close(place.open(_HISTORY, os.O_WRONLY | os.O_CREAT | os.O_APPEND))
        return FileHistory(str(folder / _HISTORY))
    return InMemoryHistory()


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Within the block a signal other than Ctrl-C's ends the shell."""
    before = {each: signal.signal(each, interrupt) for each in ending_signals() if each is not signal.SIGINT}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
