"""Tests of the bench of workers, at its smallest size: both ways are measured and compared."""

import os
import re

import pytest

from bench import workers

pytestmark = pytest.mark.real


@pytest.mark.parametrize("kind", ["lone", "burst"])
@pytest.mark.long
def test_workers_are_compared_with_one_process(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert workers.main(["--rounds", "1", "--seconds", "0.1", "--connections", "3", "--kind", kind]) == 0
    said = capsys.readouterr().out
    assert re.search(r"^1 workers: [\d,]+ exchanges a second, \d+\.\d\d us of a processor each", said, re.MULTILINE)
    assert re.search(r"^2 workers: [\d,]+ exchanges a second, \d+\.\d\d us of a processor each", said, re.MULTILINE)
    assert re.search(r"^ratio \d+\.\d\d \(", said, re.MULTILINE)


def test_a_load_generator_that_fails_is_no_measurement(tmp_path) -> None:
    broken = tmp_path / "load"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    way = workers.Way(1, "0", os.getpid())
    with pytest.raises(RuntimeError, match="has failed"):
        workers.measure(broken, way, "lone", 1, 0.1)
