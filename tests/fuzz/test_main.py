"""Tests of `python -m fuzz` as `make fuzz` calls it; it stores its finds in the current folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.checks import CHECKS, GROUPS

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[2]


def fuzz(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fuzz", *map(str, arguments)]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.mark.long
def test_an_input_is_run_again_by_its_file(tmp_path: Path) -> None:
    file = tmp_path / "input"
    file.write_bytes(bytes([list(CHECKS).index("heads")]) + b"\0\3\0\x0c\0\0\0\7\xff\xff\0")
    done = fuzz(tmp_path, file)
    assert done.returncode == 0, done.stderr
    assert f"Executed {file}" in done.stderr
    assert not list((tmp_path / ".fuzz").iterdir())


@pytest.mark.long
def test_minutes_of_inputs_break_nothing(tmp_path: Path) -> None:
    done = fuzz(tmp_path, "--seconds", 120)
    assert done.returncode == 0, done.stderr[-5000:]
    assert {found.name for found in (tmp_path / ".fuzz").iterdir()} == {f"corpus-{group}" for group in GROUPS}
