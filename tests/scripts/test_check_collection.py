"""Tests of the check of test names: processes of xdist must agree on them, and people be able to read them."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.real

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "check-collection"

# a parameter, and the complaint about the test's name
UNFIT = {
    "str(time.time_ns() // 10**9)": "differs between two collections",
    "str({'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'})": "differs between two collections",
    r"b'\x00\xff'": "holds bytes",
    "pytest.param(1, id='x' * 200)": "is longer than 200 characters",
}


def checked(folder: Path, *values: str) -> subprocess.CompletedProcess[str]:
    """Checks a test file with one parametrized test for each value."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_it.py").write_text(
        "import pytest, time\n"
        + "\n".join(
            f"@pytest.mark.parametrize('value', [{value}])\ndef test_{number}(value): pass"
            for number, value in enumerate(values)
        )
    )
    return subprocess.run([sys.executable, SCRIPT, folder], capture_output=True, text=True)


def test_each_name_that_is_unfit_is_printed(tmp_path: Path) -> None:
    done = checked(tmp_path, *UNFIT)
    assert done.returncode == 1
    for number, said in enumerate(UNFIT.values()):
        assert any(said in line and f"test_it.py::test_{number}[" in line for line in done.stdout.splitlines())


@pytest.mark.long
def test_names_that_stay_are_fit(tmp_path: Path) -> None:
    done = checked(tmp_path, "'a', 1, None, 2.5")
    assert (done.returncode, done.stdout) == (0, "")


def test_a_suite_that_can_not_be_collected_is_a_failure(tmp_path: Path) -> None:
    done = checked(tmp_path, "1 / 0")
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr
