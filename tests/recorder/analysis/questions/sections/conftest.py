"""Provides the exchanges and events that several sections are made of."""

from __future__ import annotations

from typing import Any

import pytest

from tests.recorder.analysis.by_hand import each_second, life
from tests.recorder.analysis.questions.sections.timeline import MS


@pytest.fixture(scope="module")
def made(tables: Any) -> Any:
    """A minute of work, waits, errors and many rare APIs, on three connections."""
    rows = [
        *each_second(10, api="Produce", latency_ns=lambda at: (8 if at >= 300 else 2) * MS, request_size=100),
        *each_second(4, api_key=1, api="Fetch", wait="empty", latency_ns=500 * MS, error_codes=[70]),
        *each_second(1, (0, 10), api="Metadata", node=2, error_codes=lambda at: [3, 3] if at < 2 else []),
        *(row for at in range(30) for row in each_second(0.1, (0, 20), api=f"Rare{at:02}", request_size=1)),
    ]
    events = [*life(1, 5, 40), *life(2, 15, None), *life(3, 25, 10, "broker")]
    return tables(rows, events)
