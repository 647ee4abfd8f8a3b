"""How the Makefile runs the tests: what a file's tests share is made once."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

MAKEFILE = Path(__file__).resolve().parents[2] / "Makefile"
SETTINGS = "[pytest]\nmarkers =\n    real\n    long\n"
SHARING = """
import pathlib
import pytest

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def shared():
    with (pathlib.Path(__file__).parent / "made").open("a") as made:
        made.write(pathlib.Path(__file__).stem + "\\n")


@pytest.mark.parametrize("number", range(8))
def test_it_is_there(shared, number):
    pass
"""


def options(name: str) -> list[str]:
    """Those of one of the Makefile's variables."""
    (line,) = re.findall(rf"^{name} := (.*)$", MAKEFILE.read_text(), re.MULTILINE)
    return shlex.split(line)


def test_what_a_file_of_slow_tests_shares_is_made_in_one_process_alone(tmp_path: Path) -> None:
    names = ["test_east", "test_west"]
    (tmp_path / "pytest.ini").write_text(SETTINGS)
    for name in names:
        (tmp_path / f"{name}.py").write_text(SHARING)
    command = [sys.executable, "-m", "pytest", *options("REAL"), "-n", "2", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert "16 passed" in done.stdout, done.stdout + done.stderr
    assert sorted((tmp_path / "made").read_text().split()) == names
