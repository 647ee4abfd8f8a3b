"""Tests of `make setup`: it names in one line what it lacks and may not install, and touches nothing else."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.brokers.waiting import PATIENCE

SETUP = Path(__file__).resolve().parents[2] / "scripts" / "setup"
# programs that the script needs; the machine has nothing else, least of all a package manager
NEEDED = ("bash", "cat", "dirname", "env", "grep", "id", "realpath", "rm", "sed", "sha256sum")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the files that setup reads."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(SETUP, tmp_path / "scripts")
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    return tmp_path


@pytest.fixture
def bare(tmp_path: Path) -> str:
    """A PATH with NEEDED alone."""
    (tmp_path / "bin").mkdir()
    for name in NEEDED:
        program = shutil.which(name)
        assert program is not None, name
        (tmp_path / "bin" / name).symlink_to(program)
    return str(tmp_path / "bin")


def setup(checkout: Path, **environment: str) -> tuple[int, list[str]]:
    """Returns the exit code and the printed lines."""
    command = [checkout / "scripts" / "setup"]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, timeout=PATIENCE)
    return done.returncode, done.stderr.splitlines()


def made_before(checkout: Path) -> Path:
    """A virtual environment in which everything is installed already."""
    venv, stamp = checkout / "venv", f"sha256sum <{checkout / 'pyproject.toml'}"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to(sys.executable)
    (venv / ".path").write_text(str(venv))
    sums = subprocess.run(["sh", "-c", stamp], capture_output=True, text=True, check=True).stdout.strip()
    (venv / ".stamp").write_text(f"{checkout} {sums}")
    return venv


def test_too_old_a_python_is_one_line(checkout: Path) -> None:
    code, said = setup(checkout, VENV=str(checkout / "venv"), PYTHON="/bin/false")
    assert (code, len(said)) == (1, 1)
    assert "Python 3.11 or newer is needed" in said[0]


def test_missing_packages_are_one_line_where_nothing_may_be_installed(checkout: Path, bare: str) -> None:
    code, (said,) = setup(checkout, VENV=str(made_before(checkout)), PATH=bare)
    assert code == 0
    assert "missing on this machine: jdk maven gcc tshark tcpdump kcat chromium prometheus kubectl." in said
    assert "apt-get install openjdk-17-jdk-headless" in said


def test_a_folder_that_is_no_virtual_environment_is_left_alone(checkout: Path) -> None:
    (checkout / "data").mkdir()
    (checkout / "data" / "precious").touch()
    code, (said,) = setup(checkout, VENV=str(checkout / "data"))
    assert code == 1
    assert "is no virtual environment" in said
    assert (checkout / "data" / "precious").exists()
