"""ConsumerPerformance from a real broker, through every way: a short run of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import consumer
from bench.contenders import DIRECT, PROXY, RELAY

pytestmark = pytest.mark.real


def test_every_way_leads_to_all_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer, "RECORDS", 20_000)
    with consumer.ways(tmp_path, recording=False) as (cluster, ways):
        assert [way.name for way in ways] == [DIRECT, RELAY, PROXY]
        for way in ways:
            assert consumer.megabytes_per_second(cluster, way).value > 0
