"""Provides promtool, which reads Prometheus' rules and expressions."""

import pytest

from tests.programs import program


@pytest.fixture
def promtool() -> str:
    return program("promtool")
