"""Tests of the rules on replicas out of sync, uneven nodes, expired records and quotas; a healthy cluster has none."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from recorder.analysis.findings.judge import judge
from recorder.analysis.findings.rules import RULES
from recorder.analysis.summary.sections.findings import Finding, Findings
from recorder.analysis.tables.metadata_changes import METADATA_CHANGES
from recorder.facts.topic_partitions import TOPIC_PARTITIONS
from tests.recorder.analysis.by_hand import NOON, Row, each_second, frame, table_of

pytestmark = pytest.mark.real
NAMES = ("under_replicated", "uneven_nodes", "expired", "throttled")
FRAME = {"session": "s", "cluster": "main", "connection": 1, "exchange": 3, "sequence": 6}


def state(topic: str, partition: int, at: float, isr: list[int], leader: int | None = 1, epoch: int = 0) -> Row:
    own = {"topic": topic, "partition": partition, "at": NOON + timedelta(seconds=at), "leader": leader, "isr": isr}
    return FRAME | own | {"replicas": [1, 2, 3], "leader_epoch": epoch}


def waits(at: int) -> int:
    """A wait a second, most of 300 ms; the longest is not in the window that has the most of them."""
    if at == 600:
        return 900
    return 300 if at % 20 == 0 or 100 < at < 110 else 0


def told(api: str, side: str, topic: str, at: float, **facts: Any) -> Row:
    own = {"api": api, "side": side, "topic": topic, "at": NOON + timedelta(seconds=at), "client": "10.0.0.1:5"}
    return FRAME | own | {"partition": 0, "client_id": "app", "error_code": 0} | facts


def committed(topic: str, at: float, offset: int, group: str = "g") -> Row:
    return told("OffsetCommit", "request", topic, at, committed_offset=offset, group_id=group)


def begins(topic: str, at: float, offset: int) -> Row:
    return told("Fetch", "response", topic, at, log_start_offset=offset)


STATES = [
    *(state("t", number, 0, [1, 2, 3]) for number in range(4)),
    # node 3 is away for 20 s, and node 2 for a moment; one partition has no leader for a long time
    *(state("t", number, 20, [1, 2]) for number in range(4)),
    *(state("t", number, 40, [1, 2, 3]) for number in range(4)),
    state("t", 0, 50, [1, 3]),
    state("t", 0, 51, [1, 2, 3]),
    state("u", 0, 10, [1, 2, 3], leader=None),
    *(FRAME | {"told_node": number, "at": NOON} for number in (1, 2, 3)),
]
PARTITIONS = [
    begins("kept", 1, 5),
    committed("kept", 2, 10),
    begins("kept", 3, 10),
    # records from 10 to 40 were deleted; the next commit is above that
    committed("deleted", 2, 10),
    begins("deleted", 10, 40),
    committed("deleted", 20, 60),
    begins("deleted", 30, 60),
    # the commit below the deleted records was refused
    committed("refused", 2, 10) | {"exchange": 7},
    told("OffsetCommit", "response", "refused", 2, error_code=22, exchange=7),
    begins("refused", 10, 40),
    told("OffsetFetch", "response", "came late", 2, committed_offset=3),
    begins("came late", 4, 8),
    # the deletion was known before the commit: the group chose to start there
    begins("chosen", 1, 50),
    committed("chosen", 2, 20),
    told("Fetch", "request", "gone", 5, error_code=None, fetch_offset=2),
    told("Fetch", "response", "gone", 5, error_code=1),
    begins("gone", 6, 8),
    # an offset beyond the end
    told("Fetch", "request", "never there", 5, error_code=None, fetch_offset=500, exchange=4),
    told("Fetch", "response", "never there", 5, error_code=1, exchange=4),
    begins("never there", 6, 8),
    told("Fetch", "response", "moved", 5, error_code=6),
]


@pytest.fixture(scope="module")
def found(tables: Any, spark: SparkSession) -> dict[str, list[Finding]]:
    produce: Row = {"api_key": 0, "api": "Produce"}
    rows = [
        *each_second(20, node=1, request_size=40_000, **produce),
        *each_second(20, node=2, request_size=2_000, **produce),
        *each_second(20, node=1, client_id="throttled", throttle_ms=lambda at: waits(at)),
        *each_second(20, node=1, client_id="seldom", throttle_ms=lambda at: 300 if at % 400 == 0 else 0),
    ]
    changes, partitions = table_of(spark, METADATA_CHANGES, STATES), table_of(spark, TOPIC_PARTITIONS.table, PARTITIONS)
    judged = judge(tables(rows, changes=changes, partitions=partitions), [rule for rule in RULES if rule.name in NAMES])
    assert not judged.unjudged.rows
    return {name: [one for one in judged.every if one.rule == name] for name in NAMES}


def test_replicas_that_stay_out_of_sync_are_found_by_their_node_and_so_are_partitions_without_a_leader(
    found: Any,
) -> None:
    measures = {one.subject: one.measure for one in found["under_replicated"]}
    assert measures == {"node 3": 4, "a leader": 1}
    node = next(one for one in found["under_replicated"] if one.subject == "node 3")
    assert node.sentence.startswith("Partitions that lack node 3: 4, for example t 0 (at worst: ")
    assert {piece.exchange for piece in node.evidence} == {3}


def test_a_node_that_carries_most_of_the_bytes_is_found(found: Any) -> None:
    (one,) = found["uneven_nodes"]
    assert one.subject == "node 1"
    assert one.measure == pytest.approx(3 * 40 / 42, rel=0.01)


def produced(node: int, cluster: str, request_size: int, session: str = "s") -> list[Row]:
    own: Row = {"node": node, "cluster": cluster, "session": session, "request_size": request_size, "api_key": 0}
    return each_second(5, api="Produce", **own)


def uneven(tables: Any, spark: SparkSession, rows: list[Row], nodes: dict[str, list[int]], ids: list[Row]) -> Findings:
    """Judges `uneven_nodes`. `nodes`: those that Metadata told, by the cluster's own id."""
    told_nodes = [
        FRAME | {"cluster": own_id, "told_node": number, "at": NOON}
        for own_id, numbers in nodes.items()
        for number in numbers
    ]
    changes = table_of(spark, METADATA_CHANGES, told_nodes)
    ids_of_clusters = frame(spark, "session string, cluster string, cluster_id string", ids)
    made = tables(rows, changes=changes, cluster_ids=ids_of_clusters)
    return judge(made, [rule for rule in RULES if rule.name == "uneven_nodes"])


def test_a_nodes_even_share_is_that_of_its_own_cluster(tables: Any, spark: SparkSession) -> None:
    ids = [{"session": "s", "cluster": name, "cluster_id": f"id of {name}"} for name in ("east", "west")]
    rows = [
        *produced(1, "east", 80_000),
        *produced(2, "east", 20_000),
        *(row for node in (4, 5, 6) for row in produced(node, "west", 40_000)),
    ]
    judged = uneven(tables, spark, rows, {"id of east": [1, 2, 3], "id of west": [4, 5, 6]}, ids)
    (one,) = judged.found
    assert one.subject == "node 1"
    assert one.measure == pytest.approx(0.8 * 3)


@pytest.mark.long
def test_two_clusters_of_two_nodes_are_left_out(tables: Any, spark: SparkSession) -> None:
    rows = [*produced(1, "east", 90_000), *produced(2, "east", 10_000), *produced(3, "west", 90_000)]
    judged = uneven(tables, spark, rows, {"east": [1, 2], "west": [3, 4]}, [])
    assert judged.quiet == ("uneven_nodes",)


@pytest.mark.long
def test_sessions_of_two_clusters_of_the_same_name_have_their_own_even_shares(tables: Any, spark: SparkSession) -> None:
    ids = [{"session": name, "cluster": "main", "cluster_id": f"id of {name}"} for name in ("s1", "s2")]
    rows = [*produced(1, "main", 80_000, "s1"), *produced(2, "main", 20_000, "s1")]
    rows += [row for node in (4, 5, 6) for row in produced(node, "main", 40_000, "s2")]
    judged = uneven(tables, spark, rows, {"id of s1": [1, 2, 3], "id of s2": [4, 5, 6]}, ids)
    (one,) = judged.found
    assert one.subject == "node 1"
    assert one.measure == pytest.approx(0.8 * 3)


def test_frames_of_gigabytes_add_up(tables: Any, spark: SparkSession) -> None:
    largest = (1 << 31) - 1
    made = tables(each_second(1, api_key=1, api="Fetch", request_size=largest, response_size=largest))
    made.changes = table_of(spark, METADATA_CHANGES, [state("t", 0, 1, [1, 2, 3])])
    (rule,) = (rule for rule in RULES if rule.name == "uneven_nodes")
    assert judge(made, [rule]).quiet == ("uneven_nodes",)


def test_records_that_were_deleted_between_two_commits_are_found_and_those_that_were_read_are_not(found: Any) -> None:
    assert sorted(one.sentence for one in found["expired"]) == [
        "Records of came late were gone before app at 10.0.0.1 read them: its log begins at 8 above the commit at 3 "
        "(cases: 1)",
        "Records of deleted were gone before group g read them: its log begins at 40 above the commit at 10 (cases: 1)",
        "Records of gone were gone before app at 10.0.0.1 read them: it asked for an offset that is not there "
        "(cases: 1)",
    ]


def test_a_client_that_a_quota_holds_back_is_found_and_one_that_it_hardly_does_is_not(found: Any) -> None:
    (one,) = found["throttled"]
    assert one.subject == "throttled at 10.0.0.1"
    assert one.measure == pytest.approx(0.14)
    assert one.sentence.endswith(" (at worst: 2026-11-21 12:00:05 to 12:00:10 UTC); its longest wait: 900 ms")
