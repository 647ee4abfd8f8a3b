"""Tests of the Makefile's slow tests: shared artifacts are made once, though several processes need them."""

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


def run(folder: Path) -> str:
    """Returns pytest's output, run as the Makefile runs the slow tests, but always in two processes."""
    (options,) = re.findall(r"^REAL := (.*)$", (PROJECT / "Makefile").read_text(), re.MULTILINE)
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
