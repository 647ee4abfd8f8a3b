"""Tests of the section on errors."""

from __future__ import annotations

from typing import Any

import pytest

from recorder.analysis.questions.sections.errors import errors
from tests.recorder.analysis.by_hand import each_second
from tests.recorder.analysis.questions.sections.timeline import LINE

pytestmark = pytest.mark.real


def test_errors_are_listed_by_code_with_flow_errors_last_and_not_plotted(made: Any) -> None:
    found = errors(made.kept, made.kept_errors, LINE)
    assert [(one.error, one.count, one.share, one.is_flow) for one in found.errors] == [
        ("UNKNOWN_TOPIC_OR_PARTITION", 4, 0.2, False),
        ("FETCH_SESSION_ID_NOT_FOUND", 240, 1, True),
    ]
    assert next(iter(found.errors)).example == "s/1/e0"
    assert [(one.name, one.values[0]) for one in found.over_time] == [("UNKNOWN_TOPIC_OR_PARTITION", 4)]


def test_errors_of_unreadable_answers_are_not_judged(tables: Any) -> None:
    made = tables(each_second(1, error_codes=None, unread="omitted"))
    found = errors(made.kept, made.kept_errors, LINE)
    assert found.not_judged == "no answer could be read"
