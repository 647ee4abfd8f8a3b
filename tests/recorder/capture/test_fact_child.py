"""Tests of the compactor's child: it makes facts while the compactor is idle, and costs no recording."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from recorder.capture.fact_child import FactChild
from recorder.capture.fact_files import State, state_of, stems
from tests.brokers.waiting import wait_for
from tests.recorder.capture.recorded import two_sessions

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return two_sessions(tmp_path_factory.mktemp("capture"))


@pytest.fixture
def folder(recorded: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(recorded, tmp_path / "capture"))


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def child_of(tmp_path: Path, said: list[str]) -> Iterator[Callable[[str], FactChild]]:
    """A `FactChild` whose process runs this Python code, with the arguments in `sys.argv`."""
    made: list[FactChild] = []

    def build(code: str) -> FactChild:
        made.append(FactChild(tmp_path, said.append, (sys.executable, "-S", "-c", code)))
        return made[-1]

    yield build
    for one in made:
        one.close()


def idle_until(child: FactChild, happened: Callable[[], object]) -> None:
    """Is idle as a compactor is, until something has happened."""

    def has_happened() -> object:
        child.idle()
        return happened()

    wait_for(has_happened, "the child")


def noting(path: Path, more: str = "") -> str:
    """Code that notes its arguments, one line a run."""
    return f"import json, os, sys\nopen({str(path)!r}, 'a').write(json.dumps(sys.argv[1:]) + '\\n')\n{more}"


def runs(path: Path) -> list[list[str]]:
    """The arguments of each run so far."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_the_child_makes_all_facts_once_a_segment_is_published(folder: Path, said: list[str]) -> None:
    child = FactChild(folder, said.append)
    child.idle()
    assert not (folder / "facts").exists()
    child.step("state")
    idle_until(child, lambda: all(state_of(folder, stem) is State.CURRENT for stem in stems(folder)))
    child.close()
    assert (said, child.failed) == ([], 0)


def test_frames_that_can_not_be_read_are_said_once(folder: Path, said: list[str]) -> None:
    bad, *others = stems(folder)
    path = Path(str(bad.files[0].path))
    path.write_bytes(path.read_bytes()[:-50])
    child = FactChild(folder, said.append)
    child.step("state")
    idle_until(child, lambda: all(state_of(folder, stem) is State.CURRENT for stem in others))
    idle_until(child, lambda: said)
    child.step("state")
    child.idle()
    child.close()
    (line,) = said
    assert line.startswith(f"no facts of {bad.name}: {path} can't be read")
    assert child.failed == 1


def test_a_file_that_ends_the_process_is_left_out_from_then_on(
    tmp_path: Path, said: list[str], child_of: Callable[[str], FactChild]
) -> None:
    notes = tmp_path / "notes"
    dies = "print(json.dumps(['begun', 'bad', None]), flush=True)\nos.kill(os.getpid(), 9)\n"
    child = child_of(noting(notes, f"if len(sys.argv) < 3:\n {dies.replace(chr(10), chr(10) + ' ')}"))
    child.step("state")
    idle_until(child, lambda: said)
    assert said == ["no facts of bad: the process that made them ended with signal 9"]
    assert child.failed == 1
    child.step("state")
    idle_until(child, lambda: len(runs(notes)) == 2)
    assert runs(notes) == [[str(tmp_path)], [str(tmp_path), "--except", "bad"]]


def test_nothing_is_started_while_nothing_is_new(tmp_path: Path, child_of: Callable[[str], FactChild]) -> None:
    notes, other = tmp_path / "notes", tmp_path / "other"
    child = child_of(noting(notes))
    child.step("rename")
    for _ in range(3):
        child.idle()
    assert not runs(notes)
    child.step("state")
    idle_until(child, lambda: runs(notes))
    # until the first has ended, a second one waits
    last = child_of(noting(other))
    last.step("state")
    idle_until(last, lambda: runs(other))
    assert len(runs(notes)) == 1


def test_a_process_that_does_not_start_is_said(tmp_path: Path, said: list[str]) -> None:
    child = FactChild(tmp_path, said.append, (str(tmp_path / "missing"),))
    child.step("state")
    child.idle()
    assert said == ["no facts are made: No such file or directory"]
    assert child.failed == 1


def test_the_end_of_a_session_ends_the_child(tmp_path: Path, child_of: Callable[[str], FactChild]) -> None:
    notes = tmp_path / "notes"
    child = child_of(noting(notes, "import time\ntime.sleep(1000)"))
    child.step("state")
    idle_until(child, lambda: runs(notes))
    child.close()
    child.close()
    assert child.failed == 0
