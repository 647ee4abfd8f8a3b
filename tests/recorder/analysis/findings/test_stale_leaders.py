"""Tests of the rule on clients that keep asking an old leader, or whose leader keeps refusing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from proxy.wire import keys
from recorder.analysis.findings.group_rules import GROUP_RULES
from recorder.analysis.findings.judge import judge
from recorder.analysis.findings.tables import Tables
from recorder.analysis.summary.sections.findings import Finding
from tests.recorder.analysis.by_hand import NOON, Row
from tests.recorder.facts.frames import response

pytestmark = pytest.mark.real


def told(client: str, second: float, row: Row, **other: Any) -> Row:
    own = {"cluster": "main", "at": NOON + timedelta(seconds=second), "exchange": round(second), "made_by": "broker"}
    own |= {"client_id": client, "client": "10.0.0.1:1", "sequence": round(second), "latency_ns": 10}
    return row | own | other


def metadata(client: str, second: float, leader: int) -> Row:
    partition = {"partition_index": 0, "leader_id": leader, "isr_nodes": [1, 2], "replica_nodes": [1, 2]}
    values = {"cluster_id": "c", "topics": [{"name": "t", "partitions": [partition]}]}
    return told(client, second, response(keys.METADATA, 9, values))


def refused(client: str, second: float, node: int, error: int = 6) -> Row:
    partition = {"index": 0, "error_code": error}
    values = {"responses": [{"name": "t", "partition_responses": [partition]}]}
    return told(client, second, response(keys.PRODUCE, 9, values), node=node)


FRAMES = [
    metadata("stale", 0, 2), refused("stale", 40, 1), refused("stale", 41, 1),
    # was told a moment ago
    metadata("learns", 0, 1), metadata("learns", 38, 2), refused("learns", 40, 1),
    # goes where it was told: the leader moved meanwhile
    metadata("unlucky", 0, 1), refused("unlucky", 40, 1),
    # another leader long ago, then this one
    metadata("back", 0, 2), metadata("back", 35, 1), refused("back", 40, 1),
    metadata("fine", 0, 2), refused("fine", 40, 1, error=0),
    refused("untold", 40, 1),
    # the leader that it is told keeps refusing
    metadata("misled", 0, 1), refused("misled", 1, 1), metadata("misled", 2, 1), refused("misled", 40, 1),
    # as above, but the leader has moved away and back meanwhile; or refuses for a short time; or nobody asked again
    metadata("moves", 0, 1), refused("moves", 1, 1), metadata("moves", 2, 2), metadata("moves", 20, 1),
    refused("moves", 40, 1),
    metadata("settles", 0, 1), refused("settles", 15, 1), metadata("settles", 16, 1), refused("settles", 40, 1),
    metadata("deaf", 0, 1), refused("deaf", 1, 1), refused("deaf", 40, 1),
]  # fmt: skip


@pytest.fixture(scope="module")
def found(captured_once: Any) -> list[Finding]:
    tables = Tables(captured_once(*FRAMES))
    return [*judge(tables, [rule for rule in GROUP_RULES if rule.name == "stale_leader"]).found]


def test_only_a_client_that_knew_another_leader_long_before_is_found(found: Any) -> None:
    (one,) = [one for one in found if one.subject != "misled at 10.0.0.1: t 0"]
    assert one.subject == "stale at 10.0.0.1: t 0"
    assert one.sentence == (
        "Node 1 refuses Produce of stale at 10.0.0.1 for t 0, long after the client was told that node 2 leads it "
        "(cases: 2)"
    )
    assert [piece.exchange for piece in one.evidence] == [40]


def test_a_leader_that_keeps_refusing_is_found_and_one_that_moves_away_and_back_is_not(found: Any) -> None:
    (one,) = [one for one in found if one.subject != "stale at 10.0.0.1: t 0"]
    assert one.subject == "misled at 10.0.0.1: t 0"
    assert one.sentence == (
        "Node 1 refuses Produce of misled at 10.0.0.1 for t 0, long after the client was told that node 1 leads it "
        "(cases: 1)"
    )
    assert [piece.exchange for piece in one.evidence] == [40]
