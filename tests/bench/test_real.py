"""Tests of the loads on a real broker, each way in a short run."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import real
from bench.contenders import NAMES
from bench.processes import build


@pytest.mark.long
@pytest.mark.real
@pytest.mark.long
def test_every_way_leads_there_for_every_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(real, "RECORDS", 20_000)
    monkeypatch.setattr(real, "PRODUCED_RECORDS", 20_000)
    with real.broker(tmp_path, build(tmp_path).load, 0.05) as broker:
        assert tuple(way.name for way in broker.ways) == NAMES
        for load in real.REAL_LOADS:
            for way in broker.ways:
                assert load.measure(broker, way).value > 0, (load.name, way.name)
        broker.ways[-1].settle()


@pytest.mark.parametrize(("asked", "rounds"), [(1, [3, 1, 1]), (5, [15, 4, 4])])
def test_short_loads_have_more_rounds_than_long_ones(asked: int, rounds: list[int]) -> None:
    assert [load.rounds(asked) for load in real.REAL_LOADS] == rounds
