"""Tests of the shell's side: text in any locale, readers that leave, Ctrl-C, full disks, terminals."""

from __future__ import annotations

import errno
import io
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import click
import pytest

from proxy.command_line import end_as_other_tools, ending_signals, folded, interrupt, text, width
from tests.recorder.small_capture import everything, request, write

# a closed terminal, Ctrl-\\, a limit of processor time
LIKE_CTRL_C = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGXCPU)
PROGRAM = (sys.executable, "-c", "import sys; from proxy.cli import main; sys.argv[0] = 'kafka-wiretap'; main()")
# Python in an ASCII locale, without its own switch to UTF-8
ASCII = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
UNICODE = "ünïcode"


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture of more lines than a pipe holds."""
    folder = tmp_path_factory.mktemp("capture")
    write(folder, "frames", [*everything(), request(7, 4, 0, 3, 12, client_id=UNICODE)])
    write(folder, "frames", [request(8 + n / 1000, 5, n, 3, 12) for n in range(2000)], first=2)
    return folder


def run(*arguments: object, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[bytes]:
    command: list[str | bytes] = [*PROGRAM, *map(os.fsencode, map(str, arguments))]
    return subprocess.run(command, env=os.environ | (environment or {}), capture_output=True, check=False)


@pytest.mark.real
def test_text_is_utf_8_in_any_locale_and_anything_else_gets_a_sentence() -> None:
    assert text("plain") == "plain"
    assert text(UNICODE) == UNICODE
    assert text(os.fsdecode(UNICODE.encode())) == UNICODE
    with pytest.raises(click.BadParameter, match="is no text: not UTF-8"):
        text("\udcff")


@pytest.mark.real
def test_a_client_id_is_found_and_shown_in_a_locale_of_ascii_alone(capture: Path) -> None:
    command = ["inspect", "exchanges", capture, "--client", UNICODE]
    for environment in (ASCII, {"LC_ALL": "C.UTF-8"}):
        done = run(*command, environment=environment)
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout.decode().splitlines()[1].endswith(f"{UNICODE}, unanswered")


@pytest.mark.real
def test_bytes_that_are_no_text_are_refused_in_a_sentence(capture: Path) -> None:
    command: list[str | bytes | Path] = [*PROGRAM, "inspect", "frames", capture, "--client", b"\xff"]
    for environment in (ASCII, {}):
        done = subprocess.run(command, env=os.environ | environment, capture_output=True, check=False)
        assert done.returncode == 2
        assert done.stderr.splitlines()[-1].endswith(b"is no text: not UTF-8")


@pytest.mark.real
@pytest.mark.parametrize("read", [0, 1, 70, 5000])
def test_a_command_whose_reader_leaves_ends_by_the_signal_that_ends_others(capture: Path, read: int) -> None:
    command = [*PROGRAM, "inspect", "frames", str(capture)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        while read > 0:
            read -= len(process.stdout.read(read))
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == -signal.SIGPIPE


@pytest.mark.real
@pytest.mark.parametrize("arguments", [["inspect"], ["config", "reference"], ["--help"]], ids=lambda words: words[0])
def test_tables_pages_and_help_do_so_too(capture: Path, arguments: list[str]) -> None:
    read, written = os.pipe()
    os.close(read)
    folder = [str(capture)] if arguments == ["inspect"] else []
    with open(written, "wb") as gone:
        done = subprocess.run([*PROGRAM, *arguments, *folder], stdout=gone, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, b"")


@pytest.mark.real
def test_ctrl_c_ends_the_command_silently(capture: Path) -> None:
    command = [*PROGRAM, "inspect", "frames", str(capture)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        # the process works, and waits until the pipe is read
        process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == b""
        assert process.wait() == -signal.SIGINT


@pytest.mark.real
@pytest.mark.parametrize("arguments", [["config", "reference"], ["--help"]], ids=lambda words: words[0])
def test_a_full_disk_is_one_line(arguments: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*PROGRAM, *arguments], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1
    assert done.stderr == b"Error: the output can't be written: No space left on device\n"


@pytest.mark.parametrize(("told", "wide"), [("60", 60), ("0", None), ("", None), ("many", None), ("-5", None)])
def test_columns_says_how_wide_lines_may_be_where_it_is_a_number(
    told: str, wide: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", told)
    monkeypatch.setattr("sys.stdout", io.StringIO())
    assert width() == wide


def test_a_line_that_is_too_long_is_wrapped_and_keeps_every_word() -> None:
    line = "  code 7     name  " + "what it means, word-by-word " * 5
    found = folded(line, 30)
    assert max(map(len, found)) <= 30
    assert found[0].startswith("  code 7     name")
    assert " ".join(found).split() == line.split()
    assert folded(line, None) == [line]


def test_an_error_that_is_not_the_outputs_is_raised_as_it_is() -> None:
    for error in (OSError(errno.ENOSPC, "full", "frames/x.parquet"), ConnectionRefusedError(errno.ECONNREFUSED, "")):
        with pytest.raises(OSError, match=r"full|111"):
            end_as_other_tools(error)


def shown_on_a_terminal(capture: Path, **environment: str) -> bytes:
    """Returns the bytes that a terminal gets of a summary."""
    usual = {"TERM": "xterm-256color", "COLUMNS": "100", "NO_COLOR": ""}
    near, far = pty.openpty()
    with open(near, "rb", buffering=0) as screen:
        process = subprocess.Popen(
            [*PROGRAM, "inspect", str(capture)], stdout=far, env=os.environ | usual | environment
        )
        os.close(far)
        found = b""
        # reading a terminal without writers is an error
        with suppress(OSError):
            while part := screen.read(1 << 16):
                found += part
        assert process.wait() == 0
    return found


@pytest.mark.real
def test_a_terminal_that_may_have_styles_gets_them(capture: Path) -> None:
    assert b"\x1b[1m" in shown_on_a_terminal(capture)


@pytest.mark.real
@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=["no-color", "dumb"])
@pytest.mark.long
def test_a_terminal_without_styles_gets_no_escapes(capture: Path, environment: dict[str, str]) -> None:
    assert b"\x1b" not in shown_on_a_terminal(capture, **environment)


@pytest.fixture
def restored() -> Iterator[None]:
    """Restores the handlers of signals behind the test."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, *LIKE_CTRL_C)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize("number", LIKE_CTRL_C)
def test_signals_that_end_a_program_can_do_as_ctrl_c_does(number: signal.Signals) -> None:
    for each in ending_signals():
        signal.signal(each, interrupt)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)


@pytest.mark.usefixtures("restored")
def test_a_second_hangup_does_not_interrupt_what_the_first_one_began() -> None:
    signal.signal(signal.SIGHUP, interrupt)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGHUP)
    signal.raise_signal(signal.SIGHUP)


@pytest.mark.usefixtures("restored")
def test_a_hangup_that_is_ignored_ends_nothing() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    assert signal.SIGHUP in ending_signals()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    assert {*ending_signals()} >= {signal.SIGINT, signal.SIGTERM}
    assert signal.SIGHUP not in ending_signals()


ENDED_BY = """
import os, signal, sys, click
from proxy import cli
from proxy.command_line import ending_signals, interrupt

@cli.main.command()
def waits():
    for each in ending_signals():
        signal.signal(each, interrupt)
    os.kill(os.getpid(), getattr(signal, sys.argv[2]))

cli.main(["waits"])
"""


@pytest.mark.real
@pytest.mark.parametrize(
    ("name", "said"), [("SIGINT", ""), ("SIGTERM", "ended by SIGTERM\n"), ("SIGHUP", "ended by SIGHUP\n")]
)
def test_a_command_ends_by_the_signal_that_ends_it_and_says_which_it_was(name: str, said: str) -> None:
    command = [sys.executable, "-c", ENDED_BY, "waits", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-getattr(signal, name), "", said)
