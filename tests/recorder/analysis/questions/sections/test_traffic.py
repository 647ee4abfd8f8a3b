"""Tests of the section on traffic."""

from __future__ import annotations

from typing import Any

import pytest

from recorder.analysis.questions.sections.traffic import traffic
from recorder.analysis.summary.bounds import MAX_TOP
from tests.recorder.analysis.questions.sections.timeline import LINE

pytestmark = pytest.mark.real


def test_traffic_has_the_largest_apis_and_the_rest_as_one(made: Any) -> None:
    found = traffic(made.kept, LINE)
    assert len(found.apis) == MAX_TOP
    assert found.apis.total == 33
    first = next(iter(found.apis))
    assert (first.api, first.requests, first.request_bytes) == ("Produce", 600, 60_000)
    assert found.apis.other is not None
    assert sum(one.requests for one in found.apis) + found.apis.other.requests == 600 + 240 + 10 + 60
    assert next(iter(found.bytes_over_time)).values == (10_000,) * 6
