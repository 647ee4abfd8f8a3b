"""Tests of sums by API, topic, group and so on, and of lag."""

from __future__ import annotations

from typing import Any

from proxy.wire.keys import OFFSET_COMMIT
from recorder.capture import frames as c
from recorder.page.counts import MOST_LINES, MOST_PARTITIONS, Counts
from recorder.reading.elements import Told
from recorder.reading.exchanges import Pair
from tests.recorder.page.traffic import commit, end, exchange, fetch, heartbeat, produce, recent


def counts(*pairs: Pair) -> Counts:
    return recent(*pairs).counts


def lags(made: Counts) -> list[tuple[Any, ...]]:
    return [(*(one.place.group, *one.place.partition[1:]), one.lag) for one in made.lags(0, 100).shown]


def lines(made: Counts, name: str, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(line[column] for column in columns) for line in made.lines(name, 100).shown]


def test_exchanges_are_counted_by_api_client_node_and_connection() -> None:
    made = counts(
        produce(1, client_id="shop", node=1), produce(2, client_id="shop", node=1), heartbeat(3, node=2, connection=7)
    )
    assert lines(made, "apis", "api", "version", "exchanges") == [("Produce", 9, 2), ("Heartbeat", 4, 1)]
    assert lines(made, "clients", "client_id", "exchanges") == [("shop", 2), ("app", 1)]
    assert lines(made, "nodes", "node", "exchanges") == [(1, 2), (2, 1)]
    assert lines(made, "connections", "connection", "exchanges") == [(1, 2), (7, 1)]


def test_topics_have_records_bytes_and_their_own_errors() -> None:
    made = counts(produce(1, "orders"), produce(2, "orders", code=3), produce(3, "payments"))
    found = lines(made, "topics", "topic", "exchanges", "records", "errors")
    assert found == [("orders", 2, 2, 1), ("payments", 1, 1, 0)]
    assert all(size > 0 for (size,) in lines(made, "topics", "bytes"))


def test_errors_are_counted_by_name_api_client_and_topic() -> None:
    made = counts(produce(1, "orders", code=3), produce(2, "orders", code=3), heartbeat(3, code=27))
    found = lines(made, "errors", "error", "api", "client_id", "topic", "errors")
    assert found == [
        ("UNKNOWN_TOPIC_OR_PARTITION", "Produce", "app", "orders", 2),
        ("REBALANCE_IN_PROGRESS", "Heartbeat", "app", None, 1),
    ]


def test_lag_is_from_the_commit_to_the_end_that_a_fetch_or_a_produce_has_told() -> None:
    made = counts(
        commit(1, "billing", "orders", 40), fetch(2, "orders", 100), commit(3, "audit", "payments", 5),
        produce(4, "payments", base=7),
    )  # fmt: skip
    assert lags(made) == [("billing", "orders", 0, 60), ("audit", "payments", 0, 3)]


def test_without_an_end_the_lag_is_unknown_and_comes_last() -> None:
    made = counts(commit(1, "billing", "orders", 40), commit(2, "billing", "paid", 5), fetch(3, "paid", 5))
    assert lags(made) == [("billing", "paid", 0, 0), ("billing", "orders", 0, None)]


def test_offsets_in_a_transaction_count_once_it_is_committed() -> None:
    made = counts(
        fetch(1, "orders", 100),
        commit(2, "billing", "orders", 40, transaction="t"),
        end(3, "t", committed=True),
        commit(4, "billing", "orders", 60, transaction="t"),
        end(5, "t", committed=False),
    )
    assert lags(made) == [("billing", "orders", 0, 60)]


def test_a_group_that_commits_no_more_is_stopped_and_one_that_gets_nowhere_is_stalled() -> None:
    made = counts(
        fetch(1, "orders", 100),
        commit(2, "stopped", "orders", 40),
        *(commit(n, "stalled", "orders", 50) for n in range(50, 60)),
        commit(59, "well", "orders", 100),
    )
    at = commit(60, "well", "orders", 100).head[c.AT_NS]
    assert {one.place.group: one.state for one in made.lags(at, 100).shown} == {
        "stopped": "stopped",
        "stalled": "stalled",
        "well": "ok",
    }


def test_a_table_forgets_the_line_that_was_seen_longest_ago_and_counts_that() -> None:
    made = Counts(Told())
    head = {"at": 1, "api": "Heartbeat", "api_key": 12, "version": 4, "sent": 1, "received": 1}
    for number in range(MOST_LINES + 5):
        # the first client comes again and again
        for name in ("first", f"client {number}"):
            made.add(heartbeat(number), head | {"client_id": name}, ())
    found = made.lines("clients", 100)
    assert (len(found.shown), found.total, found.forgotten) == (100, MOST_LINES, 6)
    every = made.lines("clients", MOST_LINES).shown
    assert {"client 0", "first"} & {line["client_id"] for line in every} == {"first"}


def test_a_new_group_takes_the_place_of_the_one_that_was_named_longest_ago_which_is_counted() -> None:
    made = Counts(Told())
    head = {"at": 10**9, "api": "OffsetCommit", "api_key": 8, "version": 8, "sent": 1, "received": 1}
    pairs = {name: commit(1, name, "orders", 40) for name in ("first", "again", "new")}
    partitions = [{"partition_index": number, "committed_offset": 4} for number in range(MOST_PARTITIONS - 2)]
    asked = {"group_id": "many", "topics": [{"name": "orders", "partitions": partitions}]}
    told = {
        "topics": [
            {"name": "orders", "partitions": [{"partition_index": one["partition_index"]} for one in partitions]}
        ]
    }
    pairs["many"] = exchange(2, OFFSET_COMMIT, asked, told)
    for name in ("first", "again", "many", "again", "new"):
        made.add(pairs[name], head, ())
    found = made.lags(0, MOST_PARTITIONS)
    assert (found.total, found.forgotten) == (MOST_PARTITIONS, 1)
    assert {one.place.group for one in found.shown} == {"again", "many", "new"}
