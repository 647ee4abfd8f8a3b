"""Tests of pairing requests with responses while rows are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from proxy.wire.error_reader import Unread
from proxy.wire.errors import OverBudget
from proxy.wire.long_polls import Wait
from recorder.reading.exchanges import ROW_SIZE, Pairing, pairs

Make = Callable[..., dict[str, Any]]


class Counted(int):
    """A connection's number. All of them count together how often two of them are compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return int(self) == other

    __hash__ = int.__hash__


def told(*rows: dict[str, Any]) -> list[tuple[int, str]]:
    return [(pair.head["exchange"], pair.outcome.value) for pair in pairs(rows)]


def test_pipelined_exchanges_end_in_the_order_of_their_responses(make_request: Make, make_response: Make) -> None:
    rows = [make_request(n, 1, n, 3, 12, exchange=n) for n in range(3)]
    rows += [make_response(n, 1, n, 3, 12, exchange=n) for n in range(3)]
    assert told(*rows) == [(0, "answered"), (1, "answered"), (2, "answered")]
    told_apart = {tuple(one and one["kind"] for one in (pair.request, pair.response)) for pair in pairs(rows)}
    assert told_apart == {("request", "response")}


def test_a_response_that_came_before_its_request_was_complete_is_paired(
    make_request: Make, make_response: Make
) -> None:
    early, late = make_response(0, 1, 0, 3, 12, exchange=4), make_request(1, 1, 1, 3, 12, exchange=4)
    (pair,) = pairs([early, late], with_bodies=True)
    assert (pair.request, pair.response) == (late, early)


def test_bodies_are_read_and_not_kept(make_request: Make, make_response: Make) -> None:
    asked = make_request(0, 1, 0, 1, 12, exchange=0, values={"max_wait_ms": 500})
    (pair,) = pairs([asked, make_response(1, 1, 1, 1, 12, exchange=0)])
    assert (pair.allowed_ms, pair.reading) == (500, ([], None, Wait.EMPTY))
    assert [row and row["frame"] for row in (pair.request, pair.response)] == [None, None]
    assert asked["frame"]


@pytest.mark.parametrize("renews", [False, True])
def test_a_share_fetch_that_only_renews_locks_is_no_empty_poll(
    make_request: Make, make_response: Make, renews: bool
) -> None:
    asked = make_request(0, 1, 0, 78, 2, exchange=0, values={"group_id": "g", "is_renew_ack": renews})
    (pair,) = pairs([asked, make_response(1, 1, 1, 78, 2, exchange=0)])
    assert pair.reading == ([], None, None if renews else Wait.EMPTY)


def test_unanswered_requests_are_kept_within_a_limit(make_request: Make) -> None:
    rows = [make_request(n, 1, n, 3, 12, exchange=n) for n in range(10)]
    assert len(list(pairs(rows, most=10 * ROW_SIZE))) == 10
    with pytest.raises(OverBudget, match="exchanges that have no end"):
        list(pairs(rows, most=9 * ROW_SIZE))


def test_an_end_looks_at_no_other_connections_requests(make_request: Make) -> None:
    number = 100
    row, pairing = make_request(0, 1, 0, 3, 12, exchange=0), Pairing()
    for connection in range(number):
        assert pairing.take(row | {"connection": Counted(connection)}) is None
    before = Counted.compared
    for connection in range(number):
        (pair,) = pairing.rest(row["session"], Counted(connection))
        assert int(pair.head["connection"]) == connection
    # many more if each end compared all numbers that wait: 5,000 of 100
    assert Counted.compared - before <= 10 * number


def test_what_has_no_other_half_comes_in_the_order_of_arrival(make_request: Make) -> None:
    order = [("b", 2), ("a", 1), ("b", 1), ("a", 1), ("b", 2), ("a", 2)]
    rows = [make_request(n, c, n, 3, 12, exchange=n) | {"session": s} for n, (s, c) in enumerate(order)]

    def left(*which: Any) -> list[int]:
        pairing = Pairing()
        assert not any(map(pairing.take, rows))
        rest = [pair.head["exchange"] for pair in pairing.rest(*which)]
        assert sorted(rest + [pair.head["exchange"] for pair in pairing.rest()]) == [*range(len(rows))]
        return rest

    assert left() == [0, 1, 2, 3, 4, 5]
    assert left("b") == [0, 2, 4]
    assert left("b", 2) == [0, 4]
    assert left("b", 2, 4) == [4]
    assert left("b", 7) == left("c") == left("b", 2, 5) == []


def test_an_exchange_with_one_side_is_named_after_that_side(make_request: Make, make_response: Make) -> None:
    rows = [make_request(0, 1, 0, 3, 12, exchange=0), make_response(1, 1, 1, 3, 12, exchange=1)]
    rows.append(make_request(2, 1, 2, 0, 9, exchange=2, awaits=False))
    assert told(*rows) == [(2, "one_way"), (0, "unanswered"), (1, "request_lost")]


def test_the_answer_is_read_for_its_errors_and_its_wait(make_request: Make, make_response: Make) -> None:
    asked = make_request(0, 1, 0, 1, 12, exchange=0, values={"max_wait_ms": 500})
    refused = {"responses": [{"topic": "t", "partitions": [{"error_code": 6}, {"error_code": 6}]}]}
    (pair,) = pairs([asked, make_response(1, 1, 1, 1, 12, exchange=0, values=refused)])
    assert pair.reading == ([6, 6], None, Wait.ERROR)
    assert pair.allowed_ms == 500


def test_an_answer_that_was_not_kept_is_neither_an_error_nor_none(make_request: Make, make_response: Make) -> None:
    gone = {"omitted": [{"start": 4, "length": 9}], "frame": b"\0\0\0\7"}
    (pair,) = pairs([make_response(1, 1, 1, 1, 12, exchange=0) | gone])
    assert pair.reading == ([], Unread.OMITTED, Wait.INCLUDES_WAIT)


def test_only_a_long_poll_is_asked_how_long_it_may_wait(make_request: Make) -> None:
    (pair,) = pairs([make_request(0, 1, 0, 3, 12, exchange=0)])
    assert (pair.reading, pair.allowed_ms) == (None, None)
    (old,) = pairs([make_request(0, 1, 0, 1, 12, exchange=0) | {"dialect": "kafka-0.7"}])
    assert old.allowed_ms is None


def test_an_answer_by_the_proxy_is_counted_apart(make_request: Make, make_response: Make) -> None:
    rows = [make_request(0, 1, 0, 18, 3, exchange=0), make_response(1, 1, 1, 18, 3, exchange=0, made_by="proxy")]
    assert told(*rows) == [(0, "by_proxy")]
