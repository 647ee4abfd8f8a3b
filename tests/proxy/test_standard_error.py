from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest

from proxy import standard_error
from proxy.standard_error import MAX_WAITING, StandardError, flush_standard_error, queue_standard_error
from tests.proxy.net.threads import no_threads
from tests.proxy.unread import fill, full_pipe

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60
LINE = "x" * 1023 + "\n"


class Pipe:
    """A pipe that takes a few lines, and a reader that reads on request."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        self._reader = os.fdopen(self.reading, encoding="utf-8", newline="\n")
        self._writer = os.fdopen(self.writing, "w", encoding="utf-8")
        self.error = StandardError(self._writer)

    def fill(self) -> None:
        """Fills the pipe."""
        fill(self.writing)

    def read(self, count: int) -> list[str]:
        """Returns the next lines other than those of `fill`."""
        found: list[str] = []
        while len(found) < count:
            found += [line for line in [self._reader.readline()] if line.strip()]
        return found

    def close_reader(self) -> None:
        self._reader.close()

    def close(self) -> None:
        """Lets the waiting lines be written, and closes the pipe."""
        reader = threading.Thread(target=self._read_all)
        reader.start()
        assert self.error.wait_written(PATIENCE)
        self._writer.close()
        reader.join()
        self._reader.close()

    def _read_all(self) -> None:
        while not self._reader.closed and os.read(self.reading, 65536):
            pass


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    pipe.close()


def test_lines_come_in_their_order(pipe):
    for number in range(100):
        pipe.error.write(f"{number}\n")
    assert pipe.read(100) == [f"{number}\n" for number in range(100)]


def test_each_threads_lines_stay_whole(pipe):
    def say(name: str) -> None:
        for number in range(50):
            pipe.error.write(f"{name} {number}\n")

    threads = [threading.Thread(target=say, args=[name]) for name in "abcd"]
    for thread in threads:
        thread.start()
    found = pipe.read(200)
    assert [line for line in found if line.startswith("a")] == [f"a {number}\n" for number in range(50)]
    assert {line[0] for line in found} == {*"abcd"}


def test_a_line_is_written_in_one_piece_when_it_ends(pipe):
    for piece in ("a", " ", "b", "\n"):
        pipe.error.write(piece)
    pipe.error.write("c")
    assert pipe.error.wait_written(PATIENCE)
    pipe.error.write("\n")
    pipe.error.write("d\n")
    assert os.read(pipe.reading, 5) == b"a b\nc"
    assert pipe.read(1) == ["d\n"]


def test_characters_that_the_encoding_lacks_are_escaped(pipe):
    pipe.error.write("\ud800\n")
    assert pipe.read(1) == ["\\ud800\n"]


def test_a_writer_does_not_wait_for_a_reader_that_hangs(pipe):
    pipe.fill()
    pipe.error.write("first\n")
    pipe.error.write("second\n")
    assert not pipe.error.wait_written(0)
    assert pipe.read(2) == ["first\n", "second\n"]


def test_lines_that_do_not_fit_are_dropped_and_their_number_is_logged_later(pipe, monkeypatch):
    said: list[int] = []
    monkeypatch.setattr(standard_error, "log", lambda level, event, lines: said.append(lines))
    pipe.fill()
    fitting = MAX_WAITING // len(LINE)
    for _ in range(fitting + 7):
        pipe.error.write(LINE)
    pipe.error.write("two\nlines\n" * 4)
    pipe.error.write("not the " + LINE * 2)
    assert said == []
    assert pipe.read(fitting) == [LINE] * fitting
    assert pipe.error.wait_written(PATIENCE)
    pipe.error.write("again\n")
    assert pipe.read(1) == ["again\n"]
    assert pipe.error.wait_written(PATIENCE)
    assert said == [7 + 8 + 2]


def test_the_log_says_how_many_lines_were_dropped(pipe, monkeypatch, caplog):
    monkeypatch.setattr(standard_error, "MAX_WAITING", 0)
    pipe.error.write("dropped\n")
    monkeypatch.setattr(standard_error, "MAX_WAITING", MAX_WAITING)
    pipe.error.write("written\n")
    assert pipe.read(1) == ["written\n"]
    assert pipe.error.wait_written(PATIENCE)
    with pipe.error._changes:
        assert pipe.error._changes.wait_for(lambda: not pipe.error._dropped, PATIENCE)
    pipe.error.write("behind\n")
    assert pipe.read(1) == ["behind\n"]
    (record,) = caplog.records
    assert (record.levelno, record.keys["lines"]) == (logging.ERROR, 1)


def test_a_pipe_made_non_blocking_by_another_process_loses_nothing(pipe):
    pipe.fill()
    os.set_blocking(pipe.writing, False)
    for number in range(100):
        pipe.error.write(f"{number} {LINE}")
    assert [line.split()[0] for line in pipe.read(100)] == [str(number) for number in range(100)]


def test_a_closed_standard_error_is_not_logged(pipe, caplog):
    pipe.close_reader()
    for _ in range(3):
        pipe.error.write("unheard\n")
    assert pipe.error.wait_written(PATIENCE)
    assert not caplog.records


def test_standard_error_stays_unchanged_without_a_file_or_a_thread(monkeypatch, tmp_path):
    text = StringIO()
    monkeypatch.setattr(sys, "stderr", text)
    queue_standard_error()
    assert sys.stderr is text
    flush_standard_error(PATIENCE)
    with (tmp_path / "log").open("w") as file, no_threads():
        monkeypatch.setattr(sys, "stderr", file)
        queue_standard_error()
        assert sys.stderr is file


# whole processes

NEVER = "import sys; from proxy import standard_error as own; own.LAST_SECONDS = {}; own.queue_standard_error(); "


def python(program: str, stderr: int = subprocess.PIPE, patience: float = PATIENCE) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", NEVER.format(patience) + program],
        cwd=ROOT,
        stderr=stderr,
        stdout=subprocess.PIPE,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_the_traceback_of_a_fatal_exception_comes_last():
    done = python("print('before', file=sys.stderr); sys.stderr.write('no end'); {}['missing']")
    assert done.returncode == 1
    assert done.stderr.startswith("before\nno endTraceback")
    assert done.stderr.endswith("KeyError: 'missing'\n")


@pytest.mark.parametrize(("ends", "code"), [("sys.exit(0)", 0), ("sys.exit(3)", 3), ("{}['missing']", 1)])
def test_a_process_ends_with_its_code_though_its_output_is_not_read(ends, code):
    with full_pipe() as unread:
        assert python(f"print('unheard', file=sys.stderr); {ends}", unread, patience=0).returncode == code


def test_a_child_has_standard_error_as_it_was():
    done = python("import subprocess; subprocess.run([sys.executable, '-c', 'import os; os.write(2, b\"child\")'])")
    assert done.stderr == "child"
