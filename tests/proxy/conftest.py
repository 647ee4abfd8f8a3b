"""Fixtures for tests of the command line."""

from pathlib import Path

import pytest

from tests.proxy.cli_runs import Run


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs in place of the proxy."""
    run = Run()
    monkeypatch.setattr("proxy.net.Proxy", run)
    monkeypatch.setattr("proxy.net.run", lambda code: code)
    return run


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of settings."""
    path = tmp_path / "wiretap.toml"
    path.write_text('drain = "3s"\n[clusters.east]\nupstream = "b1:9092"\nlisten = "127.0.0.1:0"\n')
    return path
