"""Tests of partitions in fetch sessions, from the request that adds them to their end, with their positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from recorder.analysis.tables.fetch_sessions import FETCH_SESSIONS, fetch_sessions
from recorder.analysis.tables.records import RECORDS_WITH_POSITIONS, records
from tests.recorder.analysis.by_exchange import Row, Talk, batch

pytestmark = pytest.mark.real
Build = Callable[..., Any]
Offsets = dict[int, int]


class Consumer:
    """A consumer's Fetch requests on a connection, one a second."""

    def __init__(self, connection: int, node: int) -> None:
        self.rows: list[Row] = []
        self._talk, self._at = Talk(connection=connection, node=node), 0

    def fetch(
        self,
        session: int,
        epoch: int,
        offsets: Offsets,
        told: int = 0,
        *,
        forget: tuple[int, ...] = (),
        code: int = 0,
        got: Offsets | None = None,
        version: int = 12,
    ) -> None:
        """A request of a session, with offsets by partition. `told`: the session in the response. `got`: partitions
        with a batch of three records in the response, and its base offset.
        """
        named = [{"partition": number, "fetch_offset": offset} for number, offset in offsets.items()]
        asked = {"topics": [{"topic": "t", "partitions": named}], "max_wait_ms": 500}
        if version >= 7:
            asked |= {"session_id": session, "session_epoch": epoch}
            asked["forgotten_topics_data"] = [{"topic": "t", "partitions": [*forget]}] if forget else []
        parts = [
            {"partition_index": number, "records": batch(3, base_offset=base), "high_watermark": 100}
            for number, base in (got or {}).items()
        ]
        answer: dict[str, Any] = {"responses": [{"topic": "t", "partitions": parts}]}
        if version >= 7:
            answer |= {"session_id": told, "error_code": code}
        self.rows += self._talk.exchange(1, version, self._at, asked, answer)
        self._at += 1


def left_in_all_ways(it: Consumer) -> None:
    it.fetch(0, 0, {0: 5, 1: 9}, told=77)
    it.fetch(77, 1, {1: 12}, told=77, forget=(0,))
    it.fetch(77, 2, {0: 8}, told=77)
    it.fetch(77, 0, {2: 1}, told=78)
    it.fetch(78, -1, {2: 4})
    it.fetch(0, 0, {2: 6}, told=79)
    it.fetch(79, 1, {}, code=70)
    it.fetch(0, 0, {3: 0}, told=80)
    it.fetch(0, 0, {3: 0}, told=0)


def one_id(it: Consumer) -> None:
    it.fetch(0, 0, {0: 1}, told=5)
    it.fetch(5, -1, {})
    it.fetch(0, 0, {0: 3}, told=5)


def the_same_id_of_another_node(it: Consumer) -> None:
    it.fetch(0, 0, {1: 1}, told=5)
    it.fetch(5, 1, {1: 2}, told=5)


def partly_seen(it: Consumer) -> None:
    it.fetch(9, 4, {0: 1}, told=9)
    it.fetch(9, 7, {0: 3}, told=9)


def position_left_unsaid(it: Consumer) -> None:
    it.fetch(0, 0, {0: 11, 1: 0}, told=7)
    it.fetch(7, 1, {}, told=7, got={0: 10})
    it.fetch(7, 2, {0: 13}, told=7, got={0: 13, 1: 0})


def without_sessions(it: Consumer) -> None:
    it.fetch(0, 0, {0: 2}, got={0: 0}, version=6)


def position_not_seen(it: Consumer) -> None:
    """The session was opened before the capture, and another one lacks a request."""
    it.fetch(7, 3, {}, told=7, got={0: 10})
    it.fetch(7, 4, {0: 13}, told=7, got={0: 12})
    it.fetch(7, 6, {}, told=7, got={0: 15})


# each has its own connection; nodes choose their ids themselves
SCRIPTS = (
    left_in_all_ways, one_id, the_same_id_of_another_node, partly_seen, position_left_unsaid, without_sessions,
    position_not_seen,
)  # fmt: skip
Rows = dict[Callable[[Consumer], None], list[Any]]


@pytest.fixture(scope="module")
def capture(captured_once: Build) -> Any:
    rows: list[Row] = []
    for number, script in enumerate(SCRIPTS):
        consumer = Consumer(number, node=number)
        script(consumer)
        rows += consumer.rows
    return captured_once(*rows)


def by_script(table: Any) -> Rows:
    found: Rows = {script: [] for script in SCRIPTS}
    for row in table.collect():
        found[SCRIPTS[row.connection]].append(row)
    return found


@pytest.fixture(scope="module")
def stays(capture: Any) -> Rows:
    found = fetch_sessions(capture)
    assert found.columns == FETCH_SESSIONS.names
    return by_script(found.orderBy("from_at", "fetch_session", "partition"))


def told(rows: list[Any]) -> list[tuple[Any, ...]]:
    """Returns (session, partition, from, to, ended_by, first and last offset), by the numbers of exchanges."""
    return [
        (
            one.fetch_session,
            one.partition,
            one.from_exchange,
            one.to_exchange,
            one.ended_by,
            one.first_offset,
            one.last_offset,
        )
        for one in rows
    ]


def test_a_stay_ends_when_forgotten_replaced_closed_or_lost(stays: Rows) -> None:
    assert told(stays[left_in_all_ways]) == [
        (77, 0, 0, 1, "forgotten", 5, 5),
        (77, 1, 0, 3, "replaced", 9, 12),
        (77, 0, 2, 3, "replaced", 8, 8),
        (78, 2, 3, 4, "closed", 1, 1),
        (79, 2, 5, 6, "error", 6, 6),
        (80, 3, 7, None, None, 0, 0),
    ]


def test_nodes_choose_ids_of_their_own_and_may_choose_one_again(stays: Rows) -> None:
    assert told(stays[one_id]) == [(5, 0, 0, 1, "closed", 1, 1), (5, 0, 2, None, None, 3, 3)]
    assert told(stays[the_same_id_of_another_node]) == [(5, 1, 0, None, None, 1, 2)]


def test_a_session_whose_opening_or_whose_requests_are_missing_says_so(stays: Rows) -> None:
    (row,) = stays[partly_seen]
    assert (row.opened_at, row.unseen, row.first_offset, row.last_offset) == (None, 2, 1, 3)


@pytest.fixture(scope="module")
def below(capture: Any) -> Rows:
    found = records(capture, positions=True)
    assert found.columns == RECORDS_WITH_POSITIONS.names
    return by_script(found.orderBy("exchange", "partition", "offset"))


def test_records_below_the_position_are_marked_though_the_request_omits_the_position(below: Rows) -> None:
    assert [(row.exchange, row.offset, row.below_position) for row in below[position_left_unsaid]] == [
        (1, 10, True), (1, 11, False), (1, 12, False),
        (2, 13, False), (2, 14, False), (2, 15, False),
        (2, 0, False), (2, 1, False), (2, 2, False),
    ]  # fmt: skip


def test_without_sessions_each_request_tells_its_positions(below: Rows) -> None:
    assert [(row.offset, row.below_position) for row in below[without_sessions]] == [(0, True), (1, True), (2, False)]


def test_a_position_that_was_not_seen_is_unknown(below: Rows) -> None:
    found = [row.below_position for row in below[position_not_seen]]
    assert found == [None, None, None, True, False, False, None, None, None]
