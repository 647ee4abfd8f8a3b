"""Tests of the rules on open transactions and replaced producers; transactions that end in time have no findings."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from recorder.analysis.findings.judge import judge
from recorder.analysis.findings.rules import RULES
from recorder.analysis.findings.tables import with_peers_of_bodies
from recorder.analysis.tables.transactions import TRANSACTIONS
from tests.recorder.analysis.by_hand import NOON, Row, each_second, table_of

pytestmark = pytest.mark.real
NAMES = ("open_transactions", "fenced")


def transaction(name: str, begun: float, last: float, ended: float | None, **facts: Any) -> Row:
    """A transaction by its seconds after noon."""
    times = {"begun_at": begun, "last_at": last} | ({} if ended is None else {"ended_at": ended})
    told = {key: NOON + timedelta(seconds=second) for key, second in times.items()}
    row = {
        "session": "s",
        "cluster": "main",
        "connection": 1,
        "exchange": 4,
        "client": "10.0.0.1:5",
        "client_id": "app",
    }
    return row | {"transactional_id": name, "outcome": None if ended is None else "committed"} | told | facts


@pytest.fixture(scope="module")
def found(tables: Any, spark: SparkSession) -> dict[str, dict[str, Any]]:
    """Returns the findings in a capture of 200 s."""
    rows = [
        transaction("forgotten", 10, 20, None, timeout_ms=900_000),
        transaction("forgotten", 2, 3, 4),
        transaction("slow", 10, 20, 110),
        transaction("busy", 10, 190, None),
        transaction("brief", 10, 11, 12),
        transaction("timed out", 10, 20, None, timeout_ms=30_000),
        transaction("left by a producer that died", 10, 20, 100, outcome="aborted", told_by="InitProducerId"),
        transaction("given up", 10, 20, None, timeout_ms=100_000, outcome="aborted", told_by="marker"),
        transaction("aborted by the broker", 10, 20, None, outcome="aborted", told_by="marker"),
    ]
    exchanges = [
        *each_second(1, (0, 200)),
        *each_second(1, (30, 32), client_id="zombie", api="EndTxn", error_codes=[90]),
        *each_second(1, (30, 32), client_id="confused", api="EndTxn", error_codes=[48]),
    ]
    made = tables(exchanges)
    made.transactions = with_peers_of_bodies(table_of(spark, TRANSACTIONS, rows))
    judged = judge(made, [rule for rule in RULES if rule.name in NAMES])
    assert not judged.unjudged.rows
    return {name: {one.subject: one for one in judged.found if one.rule == name} for name in NAMES}


def test_idle_transactions_are_found_until_their_end_or_timeout(found: Any) -> None:
    open_ones = found["open_transactions"]
    assert {subject: one.measure for subject, one in open_ones.items()} == {
        "forgotten of app at 10.0.0.1": 179_000,
        "slow of app at 10.0.0.1": 90_000,
        "given up of app at 10.0.0.1": 100_000,
        "left by a producer that died of app at 10.0.0.1": 80_000,
    }
    assert [piece.exchange for piece in open_ones["slow of app at 10.0.0.1"].evidence] == [4]


def test_a_producer_that_was_replaced_is_found(found: Any) -> None:
    assert [one.subject for one in found["fenced"].values()] == ["zombie at 10.0.0.1: EndTxn"]
