"""Tests of the cost of a stream beside that of recording, in frames and processor seconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import spark_captures, spark_streams
from bench.spark_streams import Work


def test_a_rate_is_frames_by_processor_seconds() -> None:
    assert Work(600, 1.5).rate == 400


@pytest.mark.long
def test_a_stream_is_counted_without_the_frames_of_the_tiny_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_captures, "BLOCK", 100)
    # enough for a first stream and a last one
    monkeypatch.setattr(spark_streams, "_PASSES", 2)
    whole = spark_captures.small_exchanges(tmp_path / "whole", 500)
    tiny = spark_captures.small_exchanges(tmp_path / "tiny", 100)
    found = spark_streams.streamed(whole, tiny, 1)
    assert found.work.frames == 2 * (500 - 100)
    assert found.first > 0
    # a JVM and a driver
    assert found.resident > 100_000_000
