"""Tests of frames and exchanges as cells and as JSON: times, ids, directions, errors, waits."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from proxy.wire.error_reader import Unread
from proxy.wire.long_polls import Wait
from recorder.facts.response_errors import ResponseErrors
from recorder.inspect.lines import (
    UNREAD,
    errors_json,
    errors_text,
    exchange_cells,
    exchange_json,
    frame_cells,
    frame_json,
    moment,
    wait_text,
)
from recorder.reading.exchanges import Pair
from tests.tables import each_row

Make = Callable[..., dict[str, Any]]
FAILED = {"responses": [{"topic": "t", "partitions": [{"error_code": 6}, {"error_code": 3}, {"error_code": 6}]}]}


def test_moments_are_utc_to_the_microsecond() -> None:
    assert moment(1795262400_000_001_999) == "2026-11-21 12:00:00.000001"


@pytest.mark.parametrize(("kind", "arrow"), [("request", "->"), ("response", "<-"), ("token", "->")])
def test_an_arrow_shows_a_frames_direction(make_request: Make, kind: str, arrow: str) -> None:
    assert frame_cells(make_request(0, 1, 0, 3, 12) | {"kind": kind}).columns["direction"] == arrow


def test_unusual_facts_of_a_frame_come_last_in_its_line(make_request: Make) -> None:
    row = make_request(0, 1, 0, 0, 9, awaits=False, masked=[{"start": 1, "length": 1}], note="odd")
    assert frame_cells(row).rest == "app, odd, one-way, masked"


def test_a_responses_errors_are_named_beside_it_and_in_json(make_response: Make) -> None:
    row = make_response(0, 1, 1, 1, 12, values=FAILED)
    assert frame_cells(row).rest == "app, NOT_LEADER_OR_FOLLOWER x2, UNKNOWN_TOPIC_OR_PARTITION"
    told = json.loads(frame_json(row))
    assert told["errors"] == {"NOT_LEADER_OR_FOLLOWER": 2, "UNKNOWN_TOPIC_OR_PARTITION": 1}
    assert "unread" not in told


def test_no_errors_are_distinguished_from_unknown_ones(make_response: Make) -> None:
    fine, gone = make_response(0, 1, 1, 1, 12), make_response(0, 1, 1, 1, 12) | {"frame": None}
    assert [frame_cells(row).rest for row in (fine, gone)] == ["app", "app, errors not kept"]
    assert json.loads(frame_json(fine))["errors"] == {}
    assert json.loads(frame_json(gone)) | {"errors": None, "unread": "omitted"} == json.loads(frame_json(gone))


def test_a_request_has_no_errors_to_tell(make_request: Make) -> None:
    assert "errors" not in json.loads(frame_json(make_request(0, 1, 0, 3, 12)))


@each_row("why", Unread)
def test_every_reason_why_errors_are_unknown_has_its_words(why: Unread) -> None:
    assert errors_text(ResponseErrors([], why), 1) == UNREAD[why]
    assert errors_json(ResponseErrors([], why)) == {"errors": None, "unread": why.value}


@pytest.mark.parametrize(
    ("wait", "allowed_ms", "text"),
    [
        (Wait.EMPTY, 500, "long poll: empty, 500 ms allowed"),
        (Wait.MEMBERS, 300_000, "long poll: members, 300 000 ms allowed"),
        (Wait.TAIL, None, "long poll: tail"),
        (Wait.INCLUDES_WAIT, 500, "long poll, 500 ms allowed"),
        (Wait.FULL, 500, ""),
        (None, None, ""),
    ],
)
def test_a_long_poll_says_what_its_answer_shows_unless_data_was_there(
    make_request: Make, make_response: Make, wait: Wait | None, allowed_ms: int | None, text: str
) -> None:
    request, response = make_request(0, 1, 0, 1, 12), make_response(1, 1, 1, 1, 12)
    pair = Pair(request, response, ResponseErrors([], None, wait), allowed_ms)
    assert wait_text(pair) == text
    assert exchange_cells(pair).rest == ", ".join(filter(None, ["app", text]))
    told = exchange_json(pair)
    assert (told.get("wait"), told.get("allowed_ms")) == (wait, allowed_ms)


def test_an_exchange_without_an_answer_has_neither_errors_nor_a_wait(make_request: Make) -> None:
    pair = Pair(make_request(0, 1, 0, 1, 12), None, None, 500)
    assert exchange_cells(pair).rest == "app, unanswered"
    assert not {"errors", "unread", "wait"} & exchange_json(pair).keys()
