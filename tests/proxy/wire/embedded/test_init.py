"""Tests of the package as a library."""

import doctest
import subprocess
import sys
from pathlib import Path

import pytest

from proxy.wire import embedded
from recorder.analysis.executor_zip import write_zip

ROOT = Path(__file__).parents[4]


def test_the_example_of_the_room_runs() -> None:
    result = doctest.testmod(embedded)
    assert result.attempted >= 5
    assert result.failed == 0


def test_every_public_name_is_there_and_documented() -> None:
    for name in embedded.__all__:
        assert getattr(embedded, name).__doc__, name


def test_the_wire_room_does_without_it() -> None:
    code = "import sys, proxy.wire; print([name for name in sys.modules if name.startswith('proxy.wire.embedded')])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert ran.stdout.strip() == "[]"


@pytest.mark.real
def test_a_process_that_has_only_the_zip_reads_blobs(tmp_path: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from proxy.wire import embedded; "
        "print(embedded.decode_blob('ConsumerProtocolAssignment', bytes(10)).values)"
    )
    command = [sys.executable, "-I", "-c", code, str(write_zip(tmp_path / "code.zip"))]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert ran.stdout.strip() == "{'assigned_partitions': [], 'user_data': b''}"
