from pathlib import Path

import pytest

from bench import memory
from bench.contenders import LISTENING, PROXY, proxy
from bench.processes import build, running

pytestmark = pytest.mark.real


@pytest.mark.long
@pytest.mark.long
def test_idle_and_busy_connections_and_a_short_soak(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"IDLE": 20, "BUSY": 2, "BUSY_SECONDS": 0.1, "CONNECTION_SECONDS": 0.2, "SAMPLES": 2}.items():
        monkeypatch.setattr(memory, name, value)
    programs = build(tmp_path)
    with (
        running([programs.broker], tmp_path / "broker.log", LISTENING) as broker,
        proxy(f"{broker.said[1]}:{broker.said[2]}", tmp_path, PROXY, tmp_path / "capture") as way,
    ):
        assert "MB with 20 idle connections (target < 120 MB: reached)" in memory.connections(programs, way)
        # the table counts in thousands of exchanges, and on a busy machine few pass in tenths of a second
        head, _, *rows = memory.soak(programs, way, 3)
        way.settle()
    assert len(rows) == 3
    assert all(row.count("|") == head.count("|") for row in rows)
    exchanges = [float(row.split("|")[4].replace(",", "")) for row in rows]
    assert exchanges[0] < exchanges[-1]
