"""Tests of the sizes in Fetch requests and the sessions in responses, as rows."""

from __future__ import annotations

from recorder.facts.fetch_sessions import FETCH_ANSWERS, FETCH_REQUESTS, FETCH_SIZES
from tests.recorder.facts.frames import own, request, response

SESSION = {"fetch_session": 9, "fetch_epoch": 4}


def test_a_request_is_a_row_and_so_are_the_partitions_that_it_names_or_forgets() -> None:
    topics = [{"topic": "t", "partitions": [{"partition": 1, "fetch_offset": 5}]}]
    forgotten = [{"topic": "u", "partitions": [2, 3]}]
    asked = {"session_id": 9, "session_epoch": 4, "topics": topics, "forgotten_topics_data": forgotten}
    assert own(FETCH_REQUESTS, request(1, 12, asked)) == [
        SESSION,
        SESSION | {"topic": "t", "partition": 1, "fetch_offset": 5, "is_forgotten": False},
        SESSION | {"topic": "u", "partition": 2, "is_forgotten": True},
        SESSION | {"topic": "u", "partition": 3, "is_forgotten": True},
    ]


def test_a_request_has_a_size() -> None:
    topics = [{"topic": "t", "partitions": [{"partition": 1}, {"partition": 2}]}, {"topic": "u", "partitions": [{}]}]
    asked = {"session_id": 9, "session_epoch": 4, "topics": topics}
    assert own(FETCH_SIZES, request(1, 12, asked)) == [SESSION | {"partitions": 3}]


def test_before_version_7_there_are_no_sessions() -> None:
    topics = [{"topic": "t", "partitions": [{"partition": 1, "fetch_offset": 5}]}]
    place = {"topic": "t", "partition": 1, "fetch_offset": 5, "is_forgotten": False}
    assert own(FETCH_REQUESTS, request(1, 6, {"topics": topics})) == [{}, place]
    assert own(FETCH_ANSWERS, response(1, 6, {})) == [{}]


def test_an_answer_names_its_session_and_says_whether_it_is_lost() -> None:
    rows = own(FETCH_ANSWERS, response(1, 12, {"session_id": 9}), response(1, 12, {"error_code": 70}))
    assert rows == [{"answered_session": 9, "answered_error": 0}, {"answered_session": 0, "answered_error": 70}]
