"""Tests of flags as conditions: the flag and the filter that it is short for pass the same."""

from __future__ import annotations

from typing import Any

import pytest

from recorder.query.evaluation import Subject, predicate
from recorder.query.fields import ALL, FAULTS
from recorder.query.language import FilterError, parse
from recorder.query.shorthand import filter_of
from recorder.query.syntax import resolved
from recorder.query.values import Api

SUBJECTS = [
    Subject(
        {"api_key": key, "dialect": "kafka", "session": session, "client": (client, "10.0.0.1:5000"), "at": at},
        [{"topic": topic, "error": error, "key": "a*"}],
    )
    for key, session, client, at, topic, error in [
        (0, "2026-a", "app", 10, "orders", 0),
        (0, "2026-ab", "other", 20, "orders-2", 6),
        (1, "2027-a", "app", 30, "payments", 27),
        (1, "2027-a", None, 40, "a[1]", 0),
    ]
]


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ({"given": {"api": [Api(0, "kafka")]}}, "api == Produce"),
        ({"given": {"session": ["2026-a"]}}, "session in (2026-a, 2026-ab)"),
        ({"given": {"topic": ["orders", "payments"]}}, "topic in (orders, payments)"),
        ({"given": {"topic": ["ord*", "payments"]}}, "topic ~ 'ord*' or topic == payments"),
        ({"given": {"topic": ["a[1]"]}}, "topic == 'a[1]'"),
        ({"given": {"key": ["a*"]}}, "key == 'a*'"),
        ({"given": {"key": ["b*"]}}, "key == 'b*'"),
        ({"given": {"client": ["app"], "topic": ["payments"]}}, "client == app and topic == payments"),
        ({"given": {"client": ["10.0.0.1"]}}, "client == 10.0.0.1"),
        ({"given": {"client": ["a*", "[::1]"]}}, "client ~ 'a*' or client == '[::1]'"),
        ({"given": {}, "errors": FAULTS}, "error"),
        ({"given": {}, "errors": ALL}, "error != NONE"),
        ({"given": {"topic": ["orders*"]}, "errors": FAULTS}, "topic ~ 'orders*' and error"),
        (
            {"given": {"api": [Api(1, "kafka")]}, "where": ["error != NONE", "at < 1970-01-02"]},
            "api == 1 and error != 0",
        ),
    ],
)
def test_flags_are_short_for_a_filter(flags: dict[str, Any], text: str) -> None:
    short = predicate(resolved(filter_of(**flags).node, lambda: 0))
    long = predicate(parse(text))
    assert [*map(short, SUBJECTS)] == [*map(long, SUBJECTS)]


def test_times_bound_the_time_of_a_subject() -> None:
    within = predicate(filter_of({}, since_ns=20, until_ns=30).node)
    assert [within(each) for each in SUBJECTS] == [False, True, True, False]


def test_no_flag_passes_everything() -> None:
    assert all(map(predicate(filter_of({}).node), SUBJECTS))


def test_a_filter_is_said_as_it_was_typed() -> None:
    found = filter_of({"topic": ["a b"], "api": [Api(0, "kafka")]}, where=["size > 1"], since_ns=0, errors=ALL)
    assert (
        " ".join(found.words)
        == "--api Produce --topic 'a b' --since 1970-01-01T00:00:00 --all-errors --where 'size > 1'"
    )
    assert found.names == {"topic", "api", "at", "error", "size"}


def test_a_text_that_is_no_filter_is_refused() -> None:
    with pytest.raises(FilterError):
        filter_of({}, where=["topic = x"])
