"""Tests of joining requests and responses to exchanges, even if one side is missing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row

from recorder.analysis import sources
from recorder.analysis.bodies import Captured
from recorder.analysis.tables.exchanges import EXCHANGES, Doubtful, doubtful, exchanges
from recorder.capture.frames import frames_schema
from tests.recorder.analysis.conftest import with_ns

pytestmark = pytest.mark.real
Build = Callable[..., Any]
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
CLOSED = {"kind": "closed", "cause": "client"}
GAP = {"kind": "gap", "cause": "queue_full"}


@pytest.fixture(params=["told alone", "joined"])
def by_exchange(request: pytest.FixtureRequest) -> Callable[[Captured], dict[int, Row]]:
    """Returns the exchanges by their numbers, made in either way."""

    def made(found: Captured) -> dict[int, Row]:
        joined = doubtful(found) if request.param == "told alone" else None
        return {row["exchange"]: row for row in exchanges(found, joined, decode=False).collect()}

    return made


def test_a_request_and_its_response_are_one_exchange(
    by_exchange: Build, captured: Build, request_row: Build, response_row: Build
) -> None:
    peers = {"node": 2, "client": "127.0.0.1:5"}
    found = by_exchange(captured(request_row(0, **peers), response_row(0, size=77, latency_ns=5_000_000, **peers)))
    row = found.pop(0)
    assert not found
    assert (row.outcome, row.api, row.api_version, row.client_id) == ("answered", "Metadata", 12, "app")
    assert (row.node, row.client) == (2, "127.0.0.1:5")
    assert (row.request_size, row.response_size, row.latency_ns) == (20, 77, 5_000_000)
    assert (row.answered_at - row["at"]).total_seconds() == 0.005


def test_the_same_number_on_another_connection_or_session_is_another_exchange(
    captured: Build, request_row: Build, response_row: Build
) -> None:
    rows = [request_row(0), response_row(0), request_row(0, connection=2), request_row(0, session="t")]
    ended = [CLOSED | {"connection": 2}]
    for joined in (None, Doubtful()):
        found = exchanges(captured(*rows, events=ended), joined, decode=False).collect()
        assert sorted((row.session, row.connection, row.outcome) for row in found) == [
            ("s", 1, "answered"),
            ("s", 2, "unanswered"),
            ("t", 1, "pending"),
        ]


def test_a_request_that_awaits_nothing_is_one_way_and_not_unanswered(
    by_exchange: Build, captured: Build, request_row: Build
) -> None:
    found = by_exchange(captured(request_row(0, awaits=False), request_row(1), events=[CLOSED]))
    assert (found[0].outcome, found[1].outcome) == ("one_way", "unanswered")
    assert found[0].answered_at is None


def test_an_answer_that_the_proxy_made_is_marked(
    by_exchange: Build, captured: Build, request_row: Build, response_row: Build
) -> None:
    found = by_exchange(captured(request_row(0), response_row(0, made_by="proxy", latency_ns=None)))
    assert found[0].outcome == "by_proxy"
    assert found[0].latency_ns is None


def test_a_response_whose_request_fell_into_a_gap_keeps_what_it_knows(
    by_exchange: Build, captured: Build, response_row: Build
) -> None:
    row = by_exchange(captured(response_row(7, request_size=31), events=[GAP]))[7]
    assert (row.outcome, row.api, row.request_size, row.client_id) == ("request_lost", "Metadata", 31, "app")
    assert row["at"] == row.answered_at


def test_tokens_and_bytes_without_frames_are_no_exchanges(
    by_exchange: Build, captured: Build, request_row: Build
) -> None:
    unpaired = {"exchange": None, "api_key": None, "api": None}
    token, loose = ({**request_row(0), "kind": kind, **unpaired} for kind in ("token", "bytes"))
    assert by_exchange(captured(token, loose)) == {}


def test_an_exchange_across_midnight_is_one(
    spark: Any, tmp_path: Any, by_exchange: Build, request_row: Build, response_row: Build
) -> None:
    for part, row in (("date=2026-11-20/hour=23", request_row(0)), ("date=2026-11-21/hour=00", response_row(0))):
        (tmp_path / "frames" / part).mkdir(parents=True)
        pq.write_table(
            pa.Table.from_pylist([with_ns(row)], frames_schema()), tmp_path / "frames" / part / "s-1-1.parquet"
        )
    assert by_exchange(sources.captured(spark, str(tmp_path)))[0].outcome == "answered"


def test_a_request_after_the_last_answer_of_an_open_connection_may_still_be_answered(
    by_exchange: Build, captured: Build, request_row: Build, response_row: Build
) -> None:
    found = by_exchange(captured(request_row(0), response_row(0), request_row(1), request_row(2)))
    assert [found[number].outcome for number in range(3)] == ["answered", "pending", "pending"]


@pytest.mark.parametrize("odd_ns", [0, 1, 999, 500], ids=str)
def test_a_requests_time_is_known_from_its_answer(
    captured: Build, request_row: Build, response_row: Build, odd_ns: int
) -> None:
    """It is exact to the microsecond, and includes the transfer."""
    asked_ns = int(NOON.timestamp()) * 10**9 + 123_456_789_000 + odd_ns
    told_ns = asked_ns + 7_000_123 + 2_000_456
    late = response_row(0, at=moment(told_ns), at_ns=told_ns, latency_ns=7_000_123, transfer_ns=2_000_456)
    found = captured(request_row(0, at=moment(asked_ns), at_ns=asked_ns), late)
    (row,) = exchanges(found, Doubtful(), decode=False).collect()
    assert row["at"] == moment(asked_ns).replace(tzinfo=None)


def moment(ns: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=ns // 1000)


@pytest.mark.parametrize("joined", [None, Doubtful(), Doubtful(("s",))], ids=["all", "none", "session"])
def test_an_exchange_belongs_to_the_time_of_its_request(
    captured: Build, request_row: Build, response_row: Build, joined: Doubtful | None
) -> None:
    """The response may arrive after the chosen time. A response to an earlier request is not one without a request."""
    second = 10**9
    start = int(NOON.timestamp()) * second
    rows = [make(number) for number in range(3) for make in (request_row, response_row)]
    found = captured(*rows, since_ns=start + 1000, until_ns=start + second)
    made = exchanges(found, joined, decode=False).collect()
    assert [(row.exchange, row.outcome) for row in made] == [(1, "answered")]


def test_both_ways_make_the_same_exchanges(captured: Build, request_row: Build, response_row: Build) -> None:
    """Takes answered, one-way, unanswered and pending exchanges, with and without an opaque request beside them."""
    rows = [
        *(
            make(number, connection=connection)
            for connection in (1, 2)
            for number in (0, 1)
            for make in (request_row, answered)
        ),
        *(request_row(2, connection=connection, awaits=False) for connection in (1, 2)),
        *(request_row(3, connection=connection) for connection in (1, 2)),
        request_row(4, connection=2, note="unknown_api", api=None),
        answered(5, connection=2),
    ]
    found = captured(*rows, events=[CLOSED])
    joined = doubtful(found)
    assert joined == Doubtful((), (("s", 2),))
    either, other = (sorted(exchanges(found, way).drop("error_codes", "unread").collect()) for way in (joined, None))
    assert either == other
    assert [row.outcome for row in other].count("unanswered") == 1


def answered(number: int, **other: Any) -> dict[str, Any]:
    """A Heartbeat's response 5 ms after its request."""
    at = NOON + timedelta(seconds=number, milliseconds=5)
    row = {"session": "s", "sequence": 2 * number + 1, "exchange": number, "dialect": "kafka", "kind": "response"}
    row |= {"made_by": "broker", "at": at, "api_key": 3, "api": "Metadata", "api_version": 12, "client_id": "app"}
    return row | {"size": 9, "stored": 9, "correlation_id": number, "request_size": 20, "latency_ns": 5_000_000} | other


@pytest.mark.parametrize("decode", [False, True], ids=["heads", "bodies"])
def test_exchanges_have_the_columns_that_are_declared(captured: Build, request_row: Build, decode: bool) -> None:
    for joined in (None, Doubtful(), Doubtful(("s",), (("t", 1),))):
        found = exchanges(captured(request_row(0)), joined, decode=decode)
        assert found.columns == EXCHANGES.names
        assert [kind for _, kind in found.dtypes] == [column.kind for column in EXCHANGES.columns]
