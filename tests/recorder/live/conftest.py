"""Streams within the tests' process pass nothing over, unless a test sets the clock: a busy machine may stand still."""

import pytest

BEHIND_NS = 600 * 10**9


@pytest.fixture(autouse=True)
def _no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recorder.live.stream.BEHIND_NS", BEHIND_NS)
