"""Tests of Kroxylicious between the load generator and the fake broker."""

from pathlib import Path

import pytest

from bench import kroxylicious
from bench.contenders import ALL_KROXYLICIOUS, LISTENING, java_proxy
from bench.loads import LOADS, run
from bench.processes import build, running


@pytest.mark.long
@pytest.mark.real
@pytest.mark.parametrize("name", ALL_KROXYLICIOUS)
def test_kroxylicious_passes_every_load_on(name: str, tmp_path: Path) -> None:
    programs = build(tmp_path)
    with (
        running([programs.broker], tmp_path / "broker.log", LISTENING) as broker,
        java_proxy(f"{broker.said[1]}:{broker.said[2]}", tmp_path, name) as way,
    ):
        for load in LOADS:
            assert run(programs.load, load, way, 0.05).exchanges > 0, load.name


def test_jars_without_maven_can_not_be_downloaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match=r"Maven \(mvn\) is not installed"):
        kroxylicious.jars()
