"""Tests of sums by API, topic, group and so on, and of lag."""

from __future__ import annotations

from typing import Any

from recorder.page.counts import MOST_LINES, Counts
from recorder.reading.exchanges import Pair
from tests.recorder.page.traffic import commit, fetch, heartbeat, produce, recent


def counts(*pairs: Pair) -> Counts:
    return recent(*pairs).counts


def lines(made: Counts, name: str, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(line[column] for column in columns) for line in made.lines(name, 100)[0]]


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
    found = [(lag.group, lag.topic, lag.partition, lag.lag) for lag in made.lags()]
    assert found == [("billing", "orders", 0, 60), ("audit", "payments", 0, 3)]


def test_without_an_end_the_lag_is_unknown_and_comes_last() -> None:
    made = counts(commit(1, "billing", "orders", 40), commit(2, "billing", "paid", 5), fetch(3, "paid", 5))
    assert [(lag.topic, lag.lag) for lag in made.lags()] == [("paid", 0), ("orders", None)]


def test_a_table_forgets_the_line_that_was_seen_longest_ago_and_counts_that() -> None:
    made = Counts()
    head = {"at": 1, "api": "Heartbeat", "api_key": 12, "version": 4, "sent": 1, "received": 1}
    for number in range(MOST_LINES + 5):
        # the first client comes again and again
        for name in ("first", f"client {number}"):
            made.add(heartbeat(number), head | {"client_id": name}, ())
    found, total = made.lines("clients", MOST_LINES)
    assert total == MOST_LINES + 6
    assert len(found) == MOST_LINES
    assert {"client 0", "first"} & {line["client_id"] for line in found} == {"first"}
