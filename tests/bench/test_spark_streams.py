"""Tests of the cost of a stream beside that of recording, in frames and processor seconds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench import spark_captures
from bench.spark_streams import Work
from tests.faults.live import ROOT

# A process of its own: the bench ends its JVM, which would be that of other tests. Two passes are enough for a first
# stream and a last one.
BENCH = """
import json, sys
from pathlib import Path
from bench import spark_streams
spark_streams._PASSES = 2
whole, tiny = map(Path, sys.argv[1:])
found = spark_streams.streamed(whole, tiny, 1)
print(json.dumps([found.first, found.work.frames, found.resident]))
"""


def test_a_rate_is_frames_by_processor_seconds() -> None:
    assert Work(600, 1.5).rate == 400


@pytest.mark.long
def test_a_stream_is_counted_without_the_frames_of_the_tiny_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_captures, "BLOCK", 100)
    whole = spark_captures.small_exchanges(tmp_path / "whole", 500)
    tiny = spark_captures.small_exchanges(tmp_path / "tiny", 100)
    command = [sys.executable, "-c", BENCH, str(whole), str(tiny)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    first, frames, resident = json.loads(done.stdout)
    assert frames == 2 * (500 - 100)
    assert first > 0
    # a JVM and a driver
    assert resident > 100_000_000
