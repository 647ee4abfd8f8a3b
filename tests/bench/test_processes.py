"""Tests of when the bench's child processes end their blocks."""

from pathlib import Path

import pytest

from bench.contenders import LISTENING, RECORDING, proxy
from bench.loads import run
from bench.processes import build, running
from bench.spool import PRODUCE
from recorder.capture import session as sessions

pytestmark = pytest.mark.real


@pytest.mark.long
def test_no_process_writes_into_the_folder_of_a_recorder_that_ended(tmp_path: Path) -> None:
    programs = build(tmp_path)
    capture = tmp_path / "capture"
    with running([programs.broker], tmp_path / "broker.log", LISTENING) as broker:
        with proxy(f"{broker.said[1]}:{broker.said[2]}", tmp_path, RECORDING, capture) as way:
            run(programs.load, PRODUCE, way, 0.05)
            assert sessions.sessions(capture), "it records"
        assert sessions.sessions(capture) == []
        assert any(capture.glob("frames/**/*.parquet"))
