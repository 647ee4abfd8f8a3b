"""Tests of steps of groups: requests with responses, heartbeats by member, offsets and when they begin to count."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from proxy.wire import keys, uuid_text
from recorder.analysis.tables.group_events import GROUP_EVENTS, group_events
from tests.recorder.analysis.by_hand import NOON, Row
from tests.recorder.facts.frames import request, response

pytestmark = pytest.mark.real
ID = bytes(range(16))
CUT = {"frame": None, "stored": 0}
DONE = {"topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}
REFUSED = {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "error_code": 22}]}]}
CONSUMER = keys.CONSUMER_GROUP_HEARTBEAT


class Connection:
    """A connection's exchanges, one a second, with responses 5 ms after the requests."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.rows: list[Row] = []

    def exchange(self, key: int, version: int, asked: Any, answer: Any = None, **other: Row) -> None:
        at = len({row["exchange"] for row in self.rows}) + 1
        self.rows.append(self._row(request(key, version, asked), at, 0) | other.get("request", {}))
        if answer is not None:
            self.rows.append(self._row(response(key, version, answer), at, 5) | other.get("response", {}))

    def _row(self, row: Row, at: int, late_ms: int) -> Row:
        moment = NOON + timedelta(seconds=at, milliseconds=late_ms)
        own = {"cluster": "main", "connection": self.number, "exchange": at, "at": moment}
        own["made_by"] = "broker" if late_ms else "client"
        return row | own | {"sequence": 2 * at + bool(late_ms)}


def member(group: str, **more: Any) -> dict[str, Any]:
    return {"group_id": group, "member_id": "m", **more}


def commit(offset: int, **more: Any) -> dict[str, Any]:
    return {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": offset}]}], **more}


def memberships() -> Connection:
    found = Connection(1)
    found.exchange(keys.METADATA, 12, {}, {"topics": [{"name": "t", "topic_id": ID}]})
    found.exchange(keys.JOIN_GROUP, 5, member("refused", protocol_type="consumer"), {"error_code": 25})
    for _ in range(5):
        found.exchange(keys.HEARTBEAT, 4, member("alive", generation_id=3), {})
    found.exchange(keys.HEARTBEAT, 4, member("alive", generation_id=3), {"error_code": 27})
    found.exchange(keys.HEARTBEAT, 4, member("alive", generation_id=4))
    for topic in (ID, ID[::-1]):
        mine = {"topic_partitions": [{"topic_id": topic, "partitions": [1]}]}
        found.exchange(CONSUMER, 1, member("newer"), {"assignment": mine, "member_epoch": 2})
    without_id = {"group_id": "new", "member_id": ""}
    found.exchange(keys.JOIN_GROUP, 5, without_id, {"member_id": "given", "generation_id": 1})
    return found


def offsets() -> Connection:
    found = Connection(2)
    for offset, answer in ((5, DONE), (6, REFUSED), (7, None)):
        found.exchange(keys.OFFSET_COMMIT, 7, member("commits") | commit(offset), answer)
    told = {"groups": [{"group_id": "asks", "topics": commit(8)["topics"]}]}
    found.exchange(keys.OFFSET_FETCH, 8, {"groups": [{"group_id": "asks"}]}, told)
    return found


def transactions() -> Connection:
    found = Connection(3)
    for offset, ends in ((5, [("y", True), ("x", True)]), (6, [("x", False)]), (7, [])):
        asked = {"transactional_id": "x", "group_id": "transactions"} | commit(offset)
        found.exchange(keys.TXN_OFFSET_COMMIT, 3, asked, DONE)
        for name, commits in ends:
            # the coordinator is busy with the end before, and is asked once more
            for code in (51, 0):
                found.exchange(keys.END_TXN, 3, {"transactional_id": name, "committed": commits}, {"error_code": code})
    return found


def unreadable() -> Connection:
    found = Connection(4)
    found.exchange(keys.JOIN_GROUP, 5, member("unread"), None, request=CUT)
    found.exchange(keys.JOIN_GROUP, 5, member("unread"), {}, response=CUT)
    return found


@pytest.fixture(scope="module")
def found(captured_once: Any) -> list[Any]:
    rows = [row for one in (memberships(), offsets(), transactions(), unreadable()) for row in one.rows]
    made = group_events(captured_once(*rows))
    assert made.columns == GROUP_EVENTS.names
    return sorted(made.collect(), key=lambda row: (row.connection, row.exchange, row.times))


def of(found: list[Any], group: str) -> Iterator[Any]:
    return (row for row in found if row.group_id == group)


def counts_after(row: Any) -> float | None:
    """Returns from when an offset counts, in seconds after noon."""
    return None if row.counts_from is None else round(row.counts_from.timestamp() - NOON.timestamp(), 3)


def test_a_request_and_its_answer_are_a_row_and_a_refused_one_says_why(found: Any) -> None:
    (row,) = of(found, "refused")
    assert (row.step, row.member_id, row.error_code, row.generation) == ("join", "m", 25, None)
    assert (row.answered_at - row.at).microseconds == 5000


def test_a_member_without_an_id_is_a_newcomer_under_the_id_that_it_is_given(found: Any) -> None:
    told = [(row.member_id, row.is_newcomer) for group in ("new", "refused", "newer") for row in of(found, group)]
    assert told == [("given", True), ("m", False), ("m", True), ("m", True)]


def test_ordinary_heartbeats_share_one_row_and_one_with_an_error_has_its_own(found: Any) -> None:
    told = [(row.generation, row.times, row.error_code, row.last_at.second) for row in of(found, "alive")]
    assert told == [(3, 5, None, 7), (3, 1, 27, 8), (4, 1, None, 9)]


def test_partitions_of_newer_members_have_their_topics_known_names(found: Any) -> None:
    told = [(row.step, row.generation, row.assignment) for row in of(found, "newer")]
    assert told == [("join", 2, ["t-1"]), ("join", 2, [f"{uuid_text(ID[::-1])}-1"])]


def test_an_offset_counts_once_it_is_accepted(found: Any) -> None:
    told = [(row.committed_offset, row.error_code, counts_after(row)) for row in of(found, "commits")]
    assert told == [(5, 0, 1.005), (6, 22, None), (7, None, None)]


def test_an_offset_of_a_transaction_counts_from_its_end_unless_that_aborts(found: Any) -> None:
    told = [(row.committed_offset, counts_after(row)) for row in of(found, "transactions")]
    assert told == [(5, 5.005), (6, None), (7, None)]


def test_offsets_in_offset_fetch_answers_count(found: Any) -> None:
    told = [(row.step, row.topic, row.committed_offset, counts_after(row)) for row in of(found, "asks")]
    assert told == [("fetch_offsets", "t", 8, 4.005)]


def test_frames_that_can_not_be_read_are_rows_that_say_so(found: Any) -> None:
    rows = [(row.group_id, row.unread) for row in found if row.connection == 4]
    assert sorted(rows, key=str) == [("unread", None), (None, "omitted"), (None, "omitted")]
