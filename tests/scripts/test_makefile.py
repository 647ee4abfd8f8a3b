"""Tests of the Makefile's options for pytest: shared artifacts are made once, though several processes need them."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.scheduling import ON_SPARK

pytestmark = [pytest.mark.real, pytest.mark.long]
PROJECT = Path(__file__).resolve().parents[2]
SETTINGS = "[pytest]\naddopts = -p tests.scheduling --import-mode=importlib\nmarkers =\n    real\n    long\n"
# a fixture that notes in a file of its name that it was made
SHARED = """
from pathlib import Path
import pytest

pytestmark = pytest.mark.real


@pytest.fixture(scope="{scope}")
def {name}():
    with Path("{name}").open("a") as made:
        made.write("made\\n")
"""
TESTS = """
import pytest

pytestmark = pytest.mark.real


@pytest.mark.parametrize("number", range(8))
def test_it_is_there({name}, number):
    pass
"""


# notes in a file that it was imported
NOTED = """
from pathlib import Path

with Path("imported").open("a") as imported:
    imported.write(Path(__file__).name + "\\n")


def test_one():
    pass


def test_two():
    pass
"""


def run(folder: Path, options_of: str = "REAL") -> str:
    """Returns pytest's output, run as the Makefile runs the slow or FAST tests, but always in two processes."""
    (options,) = re.findall(rf"^{options_of} := (.*)$", (PROJECT / "Makefile").read_text(), re.MULTILINE)
    (folder / "pytest.ini").write_text(SETTINGS)
    command = [sys.executable, "-m", "pytest", *shlex.split(options), "-n", "2", "-p", "no:cacheprovider"]
    environment = os.environ | {"PYTHONPATH": str(PROJECT)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    return done.stdout + done.stderr


def test_a_files_shared_fixture_is_made_once(tmp_path: Path) -> None:
    for name in ("east", "west"):
        (tmp_path / f"test_{name}.py").write_text(SHARED.format(scope="module", name=name) + TESTS.format(name=name))
    assert "16 passed" in run(tmp_path)
    assert [(tmp_path / name).read_text() for name in ("east", "west")] == ["made\n"] * 2


def test_the_analysis_session_fixture_is_made_once(tmp_path: Path) -> None:
    folder = tmp_path / ON_SPARK
    folder.mkdir(parents=True)
    (folder / "conftest.py").write_text(SHARED.format(scope="session", name="spark"))
    for name in ("test_east.py", "test_west.py"):
        (folder / name).write_text(TESTS.format(name="spark"))
    assert "16 passed" in run(tmp_path)
    assert (tmp_path / "spark").read_text() == "made\n"


def test_each_file_of_fast_tests_is_imported_by_one_process_and_its_tests_run_once(tmp_path: Path) -> None:
    files = [f"test_{number}.py" for number in range(5)]
    for name in files:
        (tmp_path / name).write_text(NOTED)
    output = run(tmp_path, "FAST")
    assert "10 passed" in output
    assert "[100%]" in output
    assert sorted((tmp_path / "imported").read_text().split()) == files


def test_a_process_without_a_file_of_fast_tests_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "test_alone.py").write_text(NOTED)
    assert "2 passed" in run(tmp_path, "FAST")
