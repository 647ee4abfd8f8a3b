"""Requests find their responses while rows pass by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from recorder.inspect.exchanges import error_names, pairs

Make = Callable[..., dict[str, Any]]


def told(*rows: dict[str, Any]) -> list[tuple[int, str]]:
    return [(pair.head["exchange"], pair.outcome.value) for pair in pairs(rows)]


def test_pipelined_exchanges_end_in_the_order_of_their_responses(make_request: Make, make_response: Make) -> None:
    rows = [make_request(n, 1, n, 3, 12, exchange=n) for n in range(3)]
    rows += [make_response(n, 1, n, 3, 12, exchange=n) for n in range(3)]
    assert told(*rows) == [(0, "answered"), (1, "answered"), (2, "answered")]
    assert {(pair.request["kind"], pair.response["kind"]) for pair in pairs(rows)} == {("request", "response")}


def test_a_response_that_came_before_its_request_was_complete_is_paired(
    make_request: Make, make_response: Make
) -> None:
    early, late = make_response(0, 1, 0, 3, 12, exchange=4), make_request(1, 1, 1, 3, 12, exchange=4)
    assert [(pair.request, pair.response) for pair in pairs([early, late])] == [(late, early)]


def test_what_has_no_other_half_is_named_for_the_half_it_has(make_request: Make, make_response: Make) -> None:
    rows = [make_request(0, 1, 0, 3, 12, exchange=0), make_response(1, 1, 1, 3, 12, exchange=1)]
    rows.append(make_request(2, 1, 2, 0, 9, exchange=2, awaits=False))
    assert told(*rows) == [(2, "one_way"), (0, "unanswered"), (1, "request_lost")]


def test_errors_of_0_7_have_their_present_names(make_response: Make) -> None:
    old = {"dialect": "kafka-0.7", "api_version": None, "omitted": None, "masked": None}
    frame = b"\0\0" + b"\0\0\0\2\0\3" + b"\0\0\0\2\0\1" + b"\0\0\0\2\0\3"
    assert error_names(make_response(0, 1, 1, 3, 12) | old | {"api_key": 2, "frame": frame}) == [
        "UNKNOWN_TOPIC_OR_PARTITION",
        "OFFSET_OUT_OF_RANGE",
    ]
    assert error_names(make_response(0, 1, 1, 3, 12) | old | {"api_key": 9, "frame": b"\0\3"}) == []


def test_an_answer_by_the_proxy_is_told_apart(make_request: Make, make_response: Make) -> None:
    rows = [make_request(0, 1, 0, 18, 3, exchange=0), make_response(1, 1, 1, 18, 3, exchange=0, made_by="proxy")]
    assert told(*rows) == [(0, "by_proxy")]
