"""Tests of a report's findings on misbehaving clients and real Kafka; corrected clients have no findings."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest

from recorder.analysis.summary.sections.findings import Finding
from recorder.analysis.summary.whole import Summary
from tests.brokers.kafka import KafkaCluster
from tests.brokers.waiting import wait_for
from tests.clients.harness import Proxied, compact, proxied
from tests.clients.reports import report_of
from tests.clients.workloads import (
    misuse,
    misuse_of_addresses,
    misuse_of_groups,
    misuse_of_logins,
    misuse_of_logs,
    misuse_of_patience,
    misuse_of_slots,
)
from tests.clients.workloads.misuse import Client, Work
from tests.clients.workloads.misuse_of_logs import THRESHOLDS

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.timeout(900)]
# 30 s until an unknown topic counts, and ten windows of 5 s
SECONDS = 80
ALL_TOPICS = {
    name: partitions
    for kind in (misuse, misuse_of_groups, misuse_of_logins, misuse_of_logs, misuse_of_patience, misuse_of_slots)
    for name, partitions in kind.TOPICS.items()
}
# the clients, and their thresholds
KINDS = pytest.mark.parametrize("kind", [misuse, misuse_of_groups, misuse_of_logs], ids=["clients", "groups", "logs"])


def reported(
    cluster: KafkaCluster,
    folder: Path,
    clients: list[Client],
    thresholds: Mapping[str, float],
    meanwhile: Callable[[], None] | None = None,
    *,
    login: bool = False,
    are_cut_off: bool = False,
) -> Summary:
    """Returns the report of these clients' traffic.

    `meanwhile`: an action on the brokers. `login`: the clients log in. `are_cut_off`: a broker ends connections with
    requests in flight.
    """
    at = ["--bootstrap-server", cluster.bootstrap, "--alter", "--entity-type", "clients"]
    quota = f"producer_byte_rate={misuse_of_logs.QUOTA}"
    cluster.console("kafka-configs", *at, "--entity-name", misuse_of_logs.SLOWED, "--add-config", quota)
    misuse.create_topics(cluster.bootstrap, ALL_TOPICS)
    disturbed = login or are_cut_off or meanwhile is not None
    with proxied(cluster, folder, disturbed=disturbed, login=login) as proxy, ThreadPoolExecutor(1) as pool:
        working = pool.submit(misuse.run, proxy.bootstrap, clients, SECONDS)
        if meanwhile:
            meanwhile()
        working.result()
    compact(proxy.capture)
    return report_of(proxy.capture, thresholds)


@KINDS
def test_each_client_that_does_it_wrong_is_found(kafka_one: KafkaCluster, tmp_path: Path, kind: ModuleType) -> None:
    are_cut_off = any("cut_off" in rules for rules, _, _ in kind.CLIENTS)
    clients = [wrong for _, wrong, _ in kind.CLIENTS]
    found = reported(kafka_one, tmp_path, clients, kind.THRESHOLDS, are_cut_off=are_cut_off).findings
    assert not found.unjudged.rows
    fired = {one.rule for one in found.every}
    assert {rule for rules, _, _ in kind.CLIENTS for rule in rules} <= fired
    assert all(one.evidence for one in found.found)


@KINDS
def test_corrected_clients_have_no_findings(kafka_one: KafkaCluster, tmp_path: Path, kind: ModuleType) -> None:
    found = reported(kafka_one, tmp_path, [mended for _, _, mended in kind.CLIENTS], kind.THRESHOLDS).findings
    assert not found.unjudged.rows
    assert [one.sentence for one in found.found] == []


def test_a_broker_that_is_away_and_one_that_carries_all_are_found(kafka_three: KafkaCluster, tmp_path: Path) -> None:
    away: list[int] = []

    def one_is_away() -> None:
        """For half of the time, a broker that does not lead the only partition is away."""
        wait_for(lambda: kafka_three.leader("lopsided", 0) > 0, "a leader")
        time.sleep(SECONDS / 8)
        away.append(next(node for node in kafka_three.nodes if node != kafka_three.leader("lopsided", 0)))
        kafka_three.stop_node(away[0])
        time.sleep(SECONDS / 2)
        kafka_three.start_node(away[0])

    clients: list[Callable[[Work], None]] = [misuse_of_logs.sends_to_one_node]
    found = reported(kafka_three, tmp_path, clients, THRESHOLDS, one_is_away)
    subjects = {one.rule: one.subject for one in found.findings.every}
    assert subjects["under_replicated"] == f"node {away[0]}"
    assert subjects["uneven_nodes"].startswith("node ")
    assert subjects["uneven_nodes"] != f"node {away[0]}"
    told = {(change.what, change.subject) for change in found.metadata.changes}
    assert ("in sync", "lopsided 0") in told


def test_a_cluster_that_is_whole_and_even_is_not_found(kafka_three: KafkaCluster, tmp_path: Path) -> None:
    # a broker that was away leads nothing until it is elected
    at = ["--bootstrap-server", kafka_three.bootstrap, "--all-topic-partitions"]
    kafka_three.console("kafka-leader-election", *at, "--election-type", "preferred")
    found = reported(kafka_three, tmp_path, [misuse_of_logs.sends_to_all_nodes], THRESHOLDS)
    assert [one.sentence for one in found.findings.found] == []
    assert found.metadata.changes.total == 0


@pytest.fixture(scope="module")
def kafka_guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """One node with an authorizer, which requires logins to be renewed."""
    folder = tmp_path_factory.mktemp("kafka") / "guarded"
    with KafkaCluster(1, folder=folder, settings=misuse_of_logins.SETTINGS) as cluster:
        yield cluster


@pytest.mark.parametrize("way", ["wrong", "mended"])
def test_clients_without_read_permission_or_with_an_old_password_are_found_until_mended(
    kafka_guarded: KafkaCluster, tmp_path: Path, way: str
) -> None:
    misuse_of_logins.prepare(kafka_guarded.bootstrap)
    clients = [wrong if way == "wrong" else mended for _, wrong, mended in misuse_of_logins.CLIENTS]
    found = reported(kafka_guarded, tmp_path, clients, misuse_of_logins.THRESHOLDS, login=True).findings
    fired = {one.rule for one in found.every}
    if way == "wrong":
        assert {rule for rules, _, _ in misuse_of_logins.CLIENTS for rule in rules} <= fired
    else:
        assert fired == set()


@pytest.mark.parametrize(
    ("clients", "rules"),
    [
        (misuse_of_patience.WITHOUT_PATIENCE, {"slow", "unanswered", "duplicates"}),
        (misuse_of_patience.WITH_PATIENCE, {"slow"}),
    ],
    ids=["without patience", "with patience"],
)
def test_a_broker_that_stands_still_is_slow_and_producers_without_patience_write_twice(
    kafka_one: KafkaCluster, tmp_path: Path, clients: list[Client], rules: set[str]
) -> None:
    def stands_still() -> None:
        misuse_of_patience.stands_still(kafka_one.nodes[1], SECONDS / 3)

    found = reported(kafka_one, tmp_path, clients, {}, stands_still).findings
    # a client that gives up connects again: on some machines, often enough for `churn`
    assert {one.rule for one in found.every} - {"churn"} == rules


@pytest.mark.parametrize(("queue", "rules"), [("100KiB", {"gaps"}), ("64MiB", set())], ids=["small", "default"])
def test_a_recorder_whose_queue_is_too_small_is_found(
    kafka_one: KafkaCluster, tmp_path: Path, queue: str, rules: set[str]
) -> None:
    misuse.create_topics(kafka_one.bootstrap, misuse.TOPICS)
    with Proxied(kafka_one, tmp_path, options=["--record-queue", queue]) as proxy:
        misuse.run(proxy.bootstrap, [misuse.sends_in_bursts], 10)
    compact(proxy.capture)
    assert {one.rule for one in report_of(proxy.capture, {}).findings.every} == rules


@pytest.fixture(scope="module")
def kafka_behind_one_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with KafkaCluster(3, folder=tmp_path_factory.mktemp("kafka") / "one-address", one_address=True) as cluster:
        yield cluster


def test_brokers_that_advertise_one_address_are_found_by_what_they_refuse(
    kafka_behind_one_address: KafkaCluster, tmp_path: Path
) -> None:
    found = routed(kafka_behind_one_address, tmp_path)
    # one of three nodes answers everything
    stale = {one.subject for one in found if one.rule == "stale_leader"}
    assert len({one for one in stale if one.startswith(misuse_of_addresses.SENDER)}) == 2
    moves = {one.subject for one in found if one.rule == "coordinator_moves"}
    for groups in (misuse_of_addresses.CONFLUENT_GROUPS, misuse_of_addresses.PYTHON_GROUPS):
        assert len({f"{group} at 127.0.0.1: JoinGroup" for group in groups} & moves) == 2


def test_brokers_that_advertise_an_address_each_are_not_found(kafka_three: KafkaCluster, tmp_path: Path) -> None:
    assert [one.sentence for one in routed(kafka_three, tmp_path)] == []


def routed(cluster: KafkaCluster, folder: Path) -> list[Finding]:
    """Returns the findings on clients that need each broker. A tap can't tell brokers with one address apart."""
    misuse.create_topics(cluster.bootstrap, misuse_of_addresses.TOPICS)
    with Proxied(cluster, folder) as proxy:
        misuse.run(proxy.bootstrap, misuse_of_addresses.CLIENTS, SECONDS)
    compact(proxy.capture)
    return [*report_of(proxy.capture, {}).findings.every]


@pytest.fixture(scope="module")
def kafka_with_few_slots(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    folder = tmp_path_factory.mktemp("kafka") / "few-slots"
    with KafkaCluster(1, folder=folder, settings=misuse_of_slots.SETTINGS) as cluster:
        yield cluster


def test_a_broker_without_room_for_fetch_sessions_is_found(kafka_with_few_slots: KafkaCluster, tmp_path: Path) -> None:
    found = reported(kafka_with_few_slots, tmp_path, misuse_of_slots.clients(kafka_with_few_slots), {}).findings.found
    assert {one.rule for one in found} == {"no_fetch_session"}
    assert len(list(found)) == misuse_of_slots.READERS - misuse_of_slots.SLOTS


def test_a_broker_with_room_for_fetch_sessions_is_not_found(kafka_one: KafkaCluster, tmp_path: Path) -> None:
    found = reported(kafka_one, tmp_path, misuse_of_slots.clients(kafka_one), {}).findings.found
    assert [one.sentence for one in found] == []
