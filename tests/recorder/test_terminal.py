"""Tests of numbers as people read them."""

from __future__ import annotations

import pty
import re
import sys
import termios
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.status import Status

from proxy.command_line import width
from recorder.terminal import (
    PIPE_WIDTH,
    Column,
    cell,
    console,
    count,
    counting,
    duration,
    fitted,
    milliseconds,
    moment,
    percent,
    say,
    size,
    typed,
)
from tests.brokers.waiting import wait_for
from tests.proxy.net.threads import no_threads
from tests.tables import each_row

SECOND = 10**9


@each_row(
    ("number", "text"),
    [
        (None, ""),
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (99_900, "99.9 kB"),
        (123_456, "123 kB"),
        (999_600, "1.0 MB"),
        (5 * 10**9, "5.0 GB"),
        (10**16, "10000 TB"),
    ],
)
def test_sizes_have_three_digits_and_a_unit(number: int | None, text: str) -> None:
    assert size(number) == text


def test_counts_have_their_thousands_apart() -> None:
    assert count(1234567) == "1 234 567"


def test_a_count_of_one_is_in_the_singular() -> None:
    assert [count(number, "frame") for number in (0, 1, 1000)] == ["0 frames", "1 frame", "1 000 frames"]


@pytest.mark.parametrize(("value", "text"), [(None, ""), (0.0123, "0.012"), (1.234, "1.23"), (1234.5, "1234")])
def test_milliseconds_have_the_digits_that_matter(value: float | None, text: str) -> None:
    assert milliseconds(value) == text


def test_foreign_text_in_a_table_is_printable_and_no_markup() -> None:
    made = fitted("title", [Column("name"), Column("number", True)], [["[/red]\x1b[2J", cell("[bold]", "red")]], 80)
    paper = StringIO()
    Console(file=paper, width=PIPE_WIDTH).print(made)
    assert paper.getvalue().splitlines()[-1].split() == ["[/red]\\u001b[2J", "[bold]"]


def test_a_spinner_shows_the_seconds_since_its_start(on_a_terminal: None) -> None:
    screen, now = console(stderr=True), 100.0
    screen.get_time = lambda: now
    status = screen.status("Spark is starting ...")
    assert shown(screen, status).endswith("Spark is starting ... 0 s")
    now = 112.4
    assert shown(screen, status).endswith("Spark is starting ... 12 s")
    status.update(cell("Spark is at work: [rules] ..."))
    assert shown(screen, status).endswith("Spark is at work: [rules] ... 12 s")


def shown(screen: Console, status: Status) -> str:
    return "".join(piece.text for piece in screen.render(status)).strip()


def test_a_title_is_no_markup() -> None:
    made = fitted(
        "found [/red] in it", [Column("name"), Column("[/left out]", True, rank=1)], [["x" * 10, "1" * 10]], 12
    )
    paper = StringIO()
    Console(file=paper, width=PIPE_WIDTH).print(made)
    assert "found [/red] in it" in " ".join(paper.getvalue().split())


def test_the_lines_around_a_narrow_table_are_not_broken() -> None:
    columns = [Column("group"), Column("something that finds no room", rank=1, least=48)]
    made = fitted("Groups whose members had something else to read", columns, [["g", "x" * 48]], 50)
    paper = StringIO()
    Console(file=paper, width=50).print(made)
    assert [line.rstrip() for line in paper.getvalue().splitlines()] == [
        "Groups whose members had something else to read",
        "group",
        "g",
        "no room here for: something that finds no room",
    ]


@each_row(
    ("name", "lines"),
    [
        ("GetTelemetrySubscriptions", ["GetTelemetry", "Subscriptions"]),
        ("JoinGroup, waiting", ["JoinGroup,", "waiting"]),
        ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", ["TRANSACTIONAL_", "ID_", "AUTHORIZATION_", "FAILED"]),
        ("thermostat-1.local at 10.0.0.1", ["thermostat-1.", "local at", "10.0.0.1"]),
        ("one\nFORGED as a line", ["one\\nFORGED as a", "line"]),
        ("a line of\nFORGED", ["a line", "of\\nFORGED"]),
        ("exactly sixteen, then more", ["exactly sixteen,", "then more"]),
        ("x" * 20, ["x" * 16, "x" * 4]),
        ("日本" * 9, ["日本" * 4, "日本" * 4, "日本"]),
        ("日本x" * 6, ["日本x" * 3, "日本x" * 3]),
    ],
)
def test_names_are_broken_between_words(name: str, lines: list[str]) -> None:
    made = fitted("title", [Column("name"), Column("n", True)], [[name, "1" * 3]], 20)
    paper = StringIO()
    Console(file=paper, width=20).print(made)
    _, _, first, *others = paper.getvalue().splitlines()
    assert first.split("111")[0].strip() == lines[0]
    assert [line.strip() for line in others] == lines[1:]


def test_each_name_of_a_very_narrow_table_is_broken_once() -> None:
    made = fitted("title", [Column("a"), Column("b"), Column("n", True)], [["x" * 12, "y" * 12, "123456"]], 20)
    paper = StringIO()
    Console(file=paper, width=20).print(made)
    rows = [line.split() for line in paper.getvalue().splitlines()[2:]]
    assert rows == [["xxxxxx", "yyyyyy", "123456"], ["xxxxxx", "yyyyyy"]]


def test_the_widest_names_give_room_first() -> None:
    made = fitted("title", [Column("a"), Column("b")], [["short name", "a name of many words that is long"]], 30)
    paper = StringIO()
    Console(file=paper, width=30).print(made)
    assert paper.getvalue().splitlines()[2].startswith("short name a name of many")


@pytest.mark.parametrize(("width", "head"), [(20, "name number"), (40, "name principal number")])
def test_a_column_without_a_value_gives_room_first_and_is_not_missed(width: int, head: str) -> None:
    columns = [Column("name"), Column("principal", rank=1), Column("number", is_number=True, rank=2)]
    paper = StringIO()
    Console(file=paper, width=width).print(fitted("title", columns, [["shop", "", "3"]], width))
    lines = paper.getvalue().splitlines()
    assert lines[1].rstrip() == head
    assert len(lines) == 3


def test_a_line_on_standard_error_is_broken_only_if_that_is_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = " ".join(["words"] * 10)
    near, far = pty.openpty()
    termios.tcsetwinsize(far, (24, 20))
    monkeypatch.setenv("COLUMNS", "")
    with open(near, "rb"), open(far, "w") as screen, (tmp_path / "log").open("w+") as log:
        monkeypatch.setattr("sys.stdout", screen)
        monkeypatch.setattr("sys.stderr", log)
        say(line, err=True)
        assert (tmp_path / "log").read_text() == f"{line}\n"
        assert width() == 20


def test_a_table_in_a_pipe_is_as_wide_as_it_needs() -> None:
    assert console().width == PIPE_WIDTH


@each_row(
    ("nanoseconds", "text"),
    [
        (None, ""),
        (0, "0"),
        (999, "999 ns"),
        (1_500, "1.5 µs"),
        (99_960, "100 µs"),
        (4_310_000, "4.31 ms"),
        (59 * SECOND + SECOND // 2, "59.5 s"),
        (60 * SECOND, "1 min"),
        (3725 * SECOND, "1 h 2 min"),
        (3_600_000 * SECOND, "1 000 h"),
    ],
)
def test_a_duration_has_three_digits_or_two_units(nanoseconds: int | None, text: str) -> None:
    assert duration(nanoseconds) == text


@pytest.mark.parametrize(("share", "text"), [(0, "0 %"), (0.001, "less than 0.01 %"), (0.15, "0.15 %"), (100, "100 %")])
def test_a_share_is_never_0_where_there_is_some(share: float, text: str) -> None:
    assert percent(share) == text


@given(st.integers())
def test_any_number_is_a_moment(at_ns: int) -> None:
    """A report or a capture may come from anywhere."""
    assert moment(at_ns)


@pytest.mark.parametrize("number", [-1, 0, 60 * SECOND])
def test_a_duration_of_any_sign_has_words(number: int) -> None:
    assert duration(number)


def script(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation in `folder` that is not on the PATH, run by its own Python."""
    found = folder / "bin" / "kafka-wiretap"
    found.parent.mkdir()
    found.touch()
    monkeypatch.setattr(sys, "executable", str(found.with_name("python")))
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("MAKELEVEL", raising=False)
    return found


def test_a_command_that_is_not_on_the_path_is_named_by_where_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = script(tmp_path, monkeypatch)
    assert typed() == str(found)
    monkeypatch.chdir(tmp_path)
    assert typed() == "bin/kafka-wiretap"


def test_a_command_on_the_path_is_named_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = script(tmp_path, monkeypatch)
    found.chmod(0o755)
    monkeypatch.setenv("PATH", str(found.parent))
    assert typed() == "kafka-wiretap"


def test_make_has_a_path_of_its_own_and_what_it_prints_is_for_the_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = script(tmp_path, monkeypatch)
    found.chmod(0o755)
    monkeypatch.setenv("PATH", str(found.parent))
    monkeypatch.setenv("MAKELEVEL", "1")
    monkeypatch.chdir(tmp_path)
    assert typed() == "bin/kafka-wiretap"


def test_another_installation_on_the_path_is_not_this_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = script(tmp_path, monkeypatch)
    other = tmp_path / "other" / "kafka-wiretap"
    other.parent.mkdir()
    other.touch(0o755)
    monkeypatch.setenv("PATH", str(other.parent))
    assert typed() == str(found)


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines about long work come at once."""
    monkeypatch.setattr("recorder.terminal.EVERY_SECONDS", 0.02)


class Pipe:
    """What standard error, which is no terminal, got so far."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self._text = ""

    @property
    def text(self) -> str:
        self._text += self._capsys.readouterr().err
        return self._text

    @property
    def lines(self) -> list[str]:
        return self.text.split("\n")[:-1]


@pytest.fixture
def pipe(capsys: pytest.CaptureFixture[str]) -> Pipe:
    return Pipe(capsys)


@pytest.mark.usefixtures("often")
def test_in_a_pipe_long_work_says_how_far_it_is(pipe: Pipe) -> None:
    with console(stderr=True).status("reading ...") as status, counting(range(5), "row") as rows:
        wait_for(lambda: pipe.lines, "a line")
        assert re.fullmatch(r"\d+ s: reading \.\.\. 0 rows", pipe.lines[0])
        assert [*rows] == [0, 1, 2, 3, 4]
        wait_for(lambda: pipe.lines[-1].endswith("reading ... 5 rows"), "a line with the rows")
        status.update(cell("at work: [rules]\x1b ..."))
        wait_for(lambda: pipe.lines[-1].endswith(r"at work: [rules]\u001b ... 5 rows"), "a line with the step")
    assert {*pipe.text} < {*map(chr, range(32, 127)), "\n"}


def test_in_a_pipe_short_work_says_nothing(pipe: Pipe) -> None:
    with console(stderr=True).status("reading ..."):
        pass
    assert pipe.text == ""


@pytest.mark.usefixtures("often")
def test_a_machine_without_threads_gets_no_lines(pipe: Pipe) -> None:
    with no_threads(), console(stderr=True).status("reading ..."):
        pass
    assert pipe.text == ""
