"""Tests of the rules on clients' connections, requests and versions; correct clients have no findings."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from recorder.analysis.findings.judge import judge
from recorder.analysis.findings.rules import RULES
from recorder.analysis.summary.sections.findings import Finding
from recorder.analysis.tables.rebalances import REBALANCES
from tests.recorder.analysis.by_hand import NOON, Row, each_second, frame, life

pytestmark = pytest.mark.real
NAMES = (
    "churn", "metadata_storm", "short_lived_producers", "cut_off", "unoffered_version", "classic_group",
    "no_fetch_session", "above_limits", "no_frames",
)  # fmt: skip


def lives() -> list[Row]:
    """Connections 1000 and up are short, and two a second; 2000 and up are short and seldom; others last."""
    short = (one for at in range(120) for one in life(1000 + at, at / 2, 0.3))
    seldom = (one for at in range(12) for one in life(2000 + at, at * 5, 0.3, client="10.0.0.2:1"))
    lasting = (one for at in range(120) for one in life(3000 + at, at / 2, 70, client="10.0.0.3:1"))
    searching = (one for at in range(120) for one in life(6000 + at, at / 2, 0.3, client="10.0.0.5:1"))
    in_vain = (one for at in range(120) for one in life(7000 + at, at / 2, 0.3, "upstream_down", client="10.0.0.6:1"))
    # ends without a byte: as the proxy names them, and as older ones did
    probes = (
        one for at in range(240) for one in life(10_000 + at, at / 4, 0.01, "probe", client="10.0.0.9:1", upstream=None)
    )
    older = (
        one
        for at in range(240)
        for one in life(11_000 + at, at / 4, 0.01, "client_closed", size=0, client="10.0.0.8:1")
    )
    return [*short, *seldom, *lasting, *searching, *in_vain, *probes, *older, *ended_by_the_proxy()]


TOO_LONG = {"event": "request is longer than the limit", "setting": "limits.request", "api": "Produce", "length": 2000}
HTTP = {"event": "client speaks HTTP, and this port is for Kafka"}


def ended_by_the_proxy() -> list[Row]:
    """Connections that the proxy ended at a frame, and one of an older version, which said nothing but the cause."""
    causes: list[tuple[str, str, Row | None]] = [
        ("10.0.0.4:1", "bad_length", TOO_LONG | {"length": 2001}),
        ("10.0.0.4:1", "bad_length", TOO_LONG),
        ("10.0.0.5:1", "bad_length", HTTP),
        ("10.0.0.6:1", "bad_length", None),
        ("10.0.0.7:1", "client_closed", None),
    ]
    return [
        one
        for number, (client, cause, decision) in enumerate(causes)
        for one in life(20_000 + number, 20 + number, 1, cause, size=9, decision=decision, client=client)
    ]


def scenario() -> list[Row]:
    """A minute of clients, each of which does one thing."""
    metadata: Row = {"api_key": 3, "api": "Metadata"}
    no_coordinator: Row = {"api_key": 10, "api": "FindCoordinator", "error_codes": [15]}
    produce: Row = {"api_key": 0, "api": "Produce"}
    init: Row = {"api_key": 22, "api": "InitProducerId"}
    return [
        *each_second(2, client_id=lambda at: f"worker-{at}", connection=lambda at: 1000 + at),
        *each_second(2, client_id="stays", client="10.0.0.3:1", connection=lambda at: 3000 + at),
        *each_second(3, client_id="curious", connection=2, **metadata),
        *each_second(3, client_id="waiting", connection=3, error_codes=[5], **metadata),
        *each_second(3, client_id="many", connection=lambda at: 10 + at % 5, **metadata),
        *each_second(2, client_id=lambda at: f"producer-{at}", connection=lambda at: 4000 + at, **init),
        *each_second(2, client_id=lambda at: f"producer-{at}", connection=lambda at: 4000 + at, exchange=1, **produce),
        *each_second(20, client_id="steady producer", connection=5, **produce),
        *each_second(0.2, client_id="steady producer", connection=5, exchange=2000, **init),
        *each_second(9, client_id="asks again", connection=9, error_codes=[14], **init),
        *each_second(1, client_id="asks again", connection=9, exchange=3000, **produce),
        *each_second(2, client_id="plain producer", connection=lambda at: 5000 + at, exchange=0, **produce),
        *each_second(1, client_id="old", connection=6, api_key=1, api="Fetch", api_version=3),
        *each_second(1, client_id=None, connection=8, api_key=0, api="Produce", api_version=2),
        *each_second(1, client_id="guesses", connection=7, api_key=1, api="Fetch", api_version=15),
        *each_second(0.5, client_id="guesses", connection=6, node=2, api_key=1, api="Fetch", api_version=15),
        *each_second(1, client_id="forward", connection=7, api_key=60, api="DescribeCluster", api_version=0),
        *each_second(2, client_id="seeks", client="10.0.0.5:1", connection=lambda at: 6000 + at, **no_coordinator),
    ]


@pytest.fixture(scope="module")
def found(tables: Any, spark: SparkSession) -> dict[str, list[Finding]]:
    rules = [rule for rule in RULES if rule.name in NAMES]
    asked = joins(spark)
    others = {"clients": clients(spark), "offers": offers(spark), "joins": asked, "fetches": fetches(spark)}
    others["rebalances"] = generations(asked, spark)
    judged = judge(tables(scenario(), lives(), **others), rules)
    assert not judged.unjudged.rows
    return {name: [one for one in judged.every if one.rule == name] for name in NAMES}


def clients(spark: SparkSession) -> DataFrame:
    row = "software string, software_version string, client_id string, host string, api string, api_version smallint, requests bigint, fate string"  # noqa: E501
    rows = [
        ("oldlib", "0.1", "old", "10.0.0.1", "Fetch", 3, 60, "cut"),
        ("oldest", "0.0", None, "10.0.0.1", "Produce", 2, 60, "cut"),
        ("newlib", "9.1", "app", "10.0.0.1", "Heartbeat", 4, 60, None),
        ("heldlib", "1.1", "guesses", "10.0.0.1", "Fetch", 3, 60, "held_back"),
        ("heldlib", "1.1", "guesses", "10.0.0.1", "Fetch", 15, 90, None),
    ]
    return spark.createDataFrame(rows, row)


def offers(spark: SparkSession) -> DataFrame:
    row = "session string, connection bigint, offered_key smallint, offered_from smallint, offered_to smallint"
    rows = [("s", 6, 1, 0, 12), ("s", 7, 1, 4, 12), ("s", 6, 68, 0, 1)]
    return spark.createDataFrame(rows, row)


def fetches(spark: SparkSession) -> DataFrame:
    """Four a second of each client, on connections of so many of them, with these epochs."""
    row = (
        "session string, connection bigint, exchange bigint, at timestamp, peer string, fetch_epoch int, "
        "partitions int, window bigint, is_edge boolean"
    )
    told: list[tuple[str, int, Callable[[int], int]]] = [
        ("refused", 240, lambda at: 0),
        ("evicted", 240, lambda at: at % 20),
        ("has one", 240, lambda at: at),
        ("wants none", 240, lambda at: -1),
        ("comes and goes", 1, lambda at: 0),
    ]
    rows = [
        ("s", 100 * client + at // length, at, NOON + timedelta(seconds=at / 4), name, epoch(at), 7, at // 20, False)
        for client, (name, length, epoch) in enumerate(told)
        for at in range(240)
    ]
    return spark.createDataFrame(rows, row)


def joins(spark: SparkSession) -> DataFrame:
    row = (
        "session string, connection bigint, exchange bigint, at timestamp, group_id string, protocol_type string, "
        "protocols array<string>, window bigint, is_edge boolean"
    )
    told = [
        (6, "movable", "consumer", ["range", "cooperative-sticky"], range(12, 42, 5)),
        (6, "formed once", "consumer", ["range"], [12, 12, 12, 12, 12, 12]),
        # many members of one generation, or without any
        (6, "one generation", "consumer", ["range"], [*range(12, 42)] * 2),
        (6, "refused", "consumer", ["range"], range(12, 42)),
        (7, "old broker", "consumer", ["range"], range(12, 42, 5)),
        (6, "connect", "connect", ["sessioned"], range(12, 42, 5)),
        (6, "streams", "consumer", ["stream"], range(12, 42, 5)),
        (6, "own assignor", "consumer", ["range", "by-rack"], range(12, 42, 5)),
    ]
    rows = [
        ("s", connection, number, NOON + timedelta(seconds=at), *named, at // 5, False)
        for number, (connection, *named, at) in enumerate(
            (connection, *named, at) for connection, *named, moments in told for at in moments
        )
    ]
    return spark.createDataFrame(rows, row)


def generations(joins: DataFrame, spark: SparkSession) -> DataFrame:
    """The generations that these joins begin: each one does, except in the groups that say otherwise."""
    rows = joins.filter("group_id != 'refused'").orderBy("at", "exchange").collect()
    first = next(row.exchange for row in rows if row.group_id == "one generation")
    begins = [row for row in rows if row.group_id != "one generation" or row.exchange == first]
    own = [{name: row[name] for name in ("session", "connection", "exchange", "group_id")} for row in begins]
    return frame(spark, REBALANCES.ddl, own)


def subjects(findings: list[Finding]) -> set[str]:
    return {one.subject for one in findings}


def test_a_family_of_clients_with_two_short_connections_a_second_is_found(found: Any) -> None:
    assert subjects(found["churn"]) == {"worker-* at 10.0.0.1"}
    (one,) = found["churn"]
    assert one.measure == pytest.approx(2)
    assert "half of them within 0.3 s" in one.sentence
    assert all(piece.connection >= 1000 and piece.exchange is None for piece in one.evidence)


def test_connections_without_a_byte_are_no_clients_that_keep_connecting(found: Any) -> None:
    assert not [one for one in found["churn"] if "10.0.0.9" in one.subject or "10.0.0.8" in one.subject]


def test_connections_that_ended_at_a_limit_of_the_proxy_are_found_with_its_key(found: Any) -> None:
    (one,) = found["above_limits"]
    assert one.sentence == (
        "Connections of no client id at 10.0.0.4 that the proxy ended, because a request is longer than the limit "
        "(limits.request; the first: Produce, 2001 bytes): 2"
    )
    assert {piece.connection for piece in one.evidence} <= {20_000, 20_001}


def test_connections_that_ended_at_what_is_no_frame_are_found_and_those_that_clients_ended_are_not(found: Any) -> None:
    assert subjects(found["no_frames"]) == {
        "no client id at 10.0.0.5: client speaks HTTP, and this port is for Kafka",
        "no client id at 10.0.0.6: bad length",
    }


def test_metadata_three_times_a_second_on_one_connection_is_found(found: Any) -> None:
    assert subjects(found["metadata_storm"]) == {"curious at 10.0.0.1"}


def test_producers_that_are_made_for_each_message_are_found_with_and_without_ids(found: Any) -> None:
    assert subjects(found["short_lived_producers"]) == {"producer-* at 10.0.0.1", "plain producer at 10.0.0.1"}


def test_a_client_that_newer_brokers_refuse_is_found_and_one_that_its_broker_holds_back_is_not(found: Any) -> None:
    one, other = sorted(found["cut_off"], key=lambda one: one.subject, reverse=True)
    assert other.sentence == "oldest 0.0 (no client id at 10.0.0.1) sends Produce v2; Kafka 4.0.2 starts at v3"
    assert one.sentence == "oldlib 0.1 (old at 10.0.0.1) sends Fetch v3; Kafka 4.0.2 starts at v4"
    assert {piece.connection for piece in one.evidence} == {6}


def test_a_version_that_the_broker_did_not_offer_on_that_connection_is_found(found: Any) -> None:
    sentences = {one.subject: one.sentence for one in found["unoffered_version"]}
    assert sentences == {
        "guesses at 10.0.0.1: Fetch v15": "guesses at 10.0.0.1 (heldlib 1.1) sends Fetch v15, which the broker had not "
        "offered on that connection; offered: v0 to v12, v4 to v12; nodes: 1, 2 (requests: 90)",
        "forward at 10.0.0.1: DescribeCluster v0": "forward at 10.0.0.1 (unknown software) sends DescribeCluster v0, "
        "which the broker had not offered on that connection; offered: no version; nodes: 1 (requests: 60)",
    }


def test_a_client_that_opens_a_fetch_session_with_each_fetch_is_found_and_others_are_not(found: Any) -> None:
    (one,) = found["no_fetch_session"]
    assert one.subject == "refused"
    assert "ask for a fetch session once more (at worst: " in one.sentence
    assert "and name up to 7 partitions each" in one.sentence


def test_classic_groups_that_keep_joining_are_found_if_they_can_use_the_newer_protocol(found: Any) -> None:
    assert subjects(found["classic_group"]) == {"movable"}
