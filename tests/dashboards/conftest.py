"""Prometheus' own program, which reads rules and expressions."""

import shutil

import pytest


@pytest.fixture
def promtool() -> str:
    found = shutil.which("promtool")
    assert found, "promtool is missing: `make setup` installs it"
    return found
