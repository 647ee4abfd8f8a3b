"""Tests of the shell of `kafka-wiretap sql`: what is typed, from a terminal or a pipe, without an engine."""

from __future__ import annotations

import io
import signal
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from proxy.command_line import Ended
from recorder import sql_shell
from recorder.analysis.running import EngineGone
from recorder.analysis.sources import SOURCES
from recorder.analysis.views import split
from tests.hostile_text import TEXT, WORD, obeyed
from tests.tables import each_row


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "kafka-wiretap"


@contextmanager
def keys(pressed: str) -> Iterator[None]:
    """A terminal on which these keys are pressed."""
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        pipe.send_text(pressed)
        yield


def typed(pressed: str) -> list[str]:
    with keys(pressed):
        return [*sql_shell.typed()]


class Answers:
    """Takes statements; `fails`: those that fail."""

    def __init__(self, *fails: str) -> None:
        self.asked: list[str] = []
        self._fails = fails

    def __call__(self, statement: str) -> None:
        self.asked.append(statement)
        if statement in self._fails:
            raise click.UsageError(f"{statement} fails")


def tell(words: tuple[str, ...], _markdown: bool) -> list[str]:
    return [" ".join(words)]


END = "\x04"


@each_row(
    "text, statements, rest",
    [
        ("select 1; select 2;", ["select 1", "select 2"], ""),
        ("select 1; select", ["select 1"], "select"),
        (";; ;", [], ""),
        ("select ';' as a, \"x;y\" from `a;b`;", ["select ';' as a, \"x;y\" from `a;b`"], ""),
        (r"select 'it\'s; so';", [r"select 'it\'s; so'"], ""),
        ("select 1 -- not; here\n;", ["select 1 -- not; here"], ""),
        ("select /* nor; here */ 1;", ["select /* nor; here */ 1"], ""),
        ("select 'open; ", [], "select 'open;"),
        ("select /* open; ", [], "select /* open;"),
        ("select 6 / 2;", ["select 6 / 2"], ""),
    ],
)
def test_a_statement_ends_with_a_semicolon_that_is_no_text(text: str, statements: list[str], rest: str) -> None:
    assert split(text) == (statements, rest)


def test_enter_ends_words_of_the_shell_and_statements_and_begins_a_line_otherwise() -> None:
    assert typed(f"tables\rselect 1\rfrom frames;\rselect ';\r';\r\r\\timing\r{END}") == [
        "tables",
        "select 1\nfrom frames;",
        "select ';\n';",
        "",
        "\\timing",
    ]


def test_ctrl_c_drops_what_is_typed_and_goes_on() -> None:
    assert typed(f"select nonsense\x03select 1;\r{END}") == ["select 1;"]


def test_statements_of_earlier_shells_come_back_from_a_file_that_only_the_user_reads(state: Path) -> None:
    assert typed(f"select 1;\r{END}") == ["select 1;"]
    up = "\x1b[A"
    assert typed(f"{up}\r{END}") == ["select 1;"]
    (file,) = state.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_link_in_the_place_of_the_history_is_not_followed(state: Path, tmp_path: Path) -> None:
    state.mkdir()
    (state / "sql-history").symlink_to(tmp_path / "elsewhere")
    assert typed(f"select 1;\r{END}") == ["select 1;"]
    assert not (tmp_path / "elsewhere").exists()


@each_row(
    "text, offered",
    [
        ("sel", {"select"}),
        ("tab", {"tables"}),
        ("select * from exch", {"exchanges"}),
        ("describe topic_u", {"topic_use"}),
        ("select latency_n from exchanges", {"latency_ns"}),
        ("select ", set()),
    ],
)
def test_names_complete(text: str, offered: set[str]) -> None:
    at = text.index(" from exchanges") if text.endswith(" from exchanges") else len(text)
    found = sql_shell.Names().get_completions(Document(text, at), CompleteEvent(completion_requested=True))
    assert {each.text for each in found} == offered


def test_tables_complete_behind_from() -> None:
    found = sql_shell.Names().get_completions(Document("select 1 from t"), CompleteEvent(completion_requested=True))
    assert {each.text for each in found} == {name for name in SOURCES if name.startswith("t")}


def run(text: str, answer: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    sql_shell.run(answer, tell, is_embedded=True)


def test_a_pipe_holds_statements_and_words_of_the_shell(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = Answers()
    run("\\dt\nselect 1;\n.tables\nshow tables;\n\\d `exchanges`\nselect\n 2; select 3;\nselect 4", answer, monkeypatch)
    assert answer.asked == ["select 1", "select\n 2", "select 3", "select 4"]
    assert capsys.readouterr().out.splitlines() == ["tables", "tables", "tables", "describe exchanges"]


def test_a_statement_of_many_lines_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[str] = []
    is_complete = sql_shell.is_complete

    def noted(text: str) -> bool:
        looked_at.append(text)
        return is_complete(text)

    monkeypatch.setattr(sql_shell, "is_complete", noted)
    lines = ["select * from values\n", *["(1),\n"] * 500, "(2);\n", "tables\n"]
    whole = "".join(lines[:-1])
    assert [*sql_shell.held(lines)] == [whole, "tables\n", ""]
    assert sum(map(len, looked_at)) < 2 * len(whole)


def test_in_a_pipe_nothing_behind_a_failure_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Answers("select 1")
    with pytest.raises(click.UsageError, match="select 1 fails"):
        run("select 1; select 2;", answer, monkeypatch)
    assert answer.asked == ["select 1"]


def test_without_standard_input_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Answers()
    monkeypatch.setattr("sys.stdin", None)
    sql_shell.run(answer, tell, is_embedded=True)
    assert answer.asked == []


@each_row("word", ["quit", "exit", "\\q", "QUIT;", ".quit", ".exit"])
def test_nothing_behind_quit_is_asked(word: str) -> None:
    answer = Answers()
    with pytest.MonkeyPatch.context() as monkeypatch:
        run(f"select 1;\n{word}\nselect 2;", answer, monkeypatch)
    assert answer.asked == ["select 1"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_a_failure_or_ctrl_c_ends_a_question_and_not_the_shell(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Interrupted(Answers):
        def __call__(self, statement: str) -> None:
            super().__call__(statement)
            if statement == "select 2":
                raise KeyboardInterrupt

    answer = Interrupted("select 1")
    monkeypatch.setattr("sys.stdin", Terminal())
    with keys(f"select 1;\rselect 2;\r\\timing\rselect 3;\r{END}"):
        sql_shell.run(answer, tell, is_embedded=True)
    assert answer.asked == ["select 1", "select 2", "select 3"]
    said = capsys.readouterr()
    assert "select 1 fails" in said.err
    assert "interrupted" in said.err
    assert said.err.count("answered in ") == 1
    assert "timing is on" in said.out


def test_what_an_error_quotes_of_a_capture_gives_a_terminal_no_orders(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(_statement: str) -> None:
        raise click.ClickException(f"can't cast {TEXT}")

    monkeypatch.setattr("sys.stdin", Terminal())
    with keys(f"select 1;\r{END}"):
        sql_shell.run(answer, tell, is_embedded=True)
    said = capsys.readouterr().err
    assert WORD in said
    assert obeyed(said) == []


def test_an_engine_that_is_gone_ends_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def answer(statement: str) -> None:
        asked.append(statement)
        raise EngineGone

    monkeypatch.setattr("sys.stdin", Terminal())
    with keys(f"select 1;\rselect 2;\r{END}"), pytest.raises(EngineGone, match="has ended"):
        sql_shell.run(answer, tell, is_embedded=True)
    assert asked == ["select 1"]


def test_another_signal_ends_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    class Ends(Answers):
        def __call__(self, statement: str) -> None:
            super().__call__(statement)
            raise Ended(signal.SIGTERM)

    answer = Ends()
    monkeypatch.setattr("sys.stdin", Terminal())
    with keys(f"select 1;\rselect 2;\r{END}"), pytest.raises(KeyboardInterrupt):
        sql_shell.run(answer, tell, is_embedded=True)
    assert answer.asked == ["select 1"]
