"""Tests of the section on connections."""

from __future__ import annotations

from typing import Any

import pytest

from recorder.analysis.questions.sections.connections import connections
from tests.recorder.analysis.questions.sections.timeline import LINE

pytestmark = pytest.mark.real


def test_connections_are_counted_by_when_they_opened_and_why_they_closed(made: Any) -> None:
    found = connections(made.captured, made.kept, LINE)
    assert found.total == 3
    assert found.opened.values == (1, 1, 1, 0, 0, 0)
    assert {one.cause: one.connections for one in found.causes} == {"client": 1, "broker": 1}
