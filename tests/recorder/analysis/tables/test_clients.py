"""Tests of the table of clients, and of their versions' fate with Kafka 4."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from recorder.analysis.tables.clients import CLIENTS, CONNECTIONS, clients, connections_with_software
from tests.recorder.facts.frames import request, response
from tests.sweeps import mostly_long

pytestmark = pytest.mark.real
Build = Callable[..., Any]
OPENED = {"kind": "opened"}


@pytest.fixture
def made(request_row: Build) -> Build:
    """A frame of `decode.frames` as a capture's row."""
    return lambda row, **other: request_row(0) | {"client": "10.0.0.7:5123"} | row | other


def fetch(version: int, replica: int = -1) -> dict[str, Any]:
    return request(1, version, {"replica_id": replica})


def offers(newest: int) -> dict[str, Any]:
    return response(18, 2, {"api_keys": [{"api_key": 1, "min_version": 0, "max_version": newest}]})


def fates(captured: Build, *rows: Any, events: Any = (OPENED,)) -> dict[tuple[str, int], str | None]:
    return {(row.api, row.api_version): row.fate for row in clients(captured(*rows, events=events)).collect()}


def test_a_client_is_what_it_calls_itself_on_its_connection(captured: Build, made: Build) -> None:
    named = request(18, 3, {"client_software_name": "lib", "client_software_version": "1.2"})
    rows = [made(named), made(fetch(12), sequence=2), made(fetch(12), sequence=4), made(fetch(12), connection=2)]
    found = clients(captured(*rows))
    assert found.columns == CLIENTS.names
    assert sorted(
        (row.software, row.host, row.requests) for row in found.collect() if row.api == "Fetch" and row.software
    ) == [("lib", "10.0.0.7", 2)]
    assert [row.requests for row in found.collect() if row.software is None] == [1]


def test_a_connection_has_its_clients_software(captured: Build, made: Build) -> None:
    named = request(18, 3, {"client_software_name": "lib", "client_software_version": "1.2"})
    events = [OPENED, OPENED | {"connection": 2}]
    found = connections_with_software(captured(made(named), made(fetch(12), connection=2), events=events))
    assert found.columns == CONNECTIONS.names
    told = {row.connection: (row.software, row.software_version) for row in found.collect()}
    assert told == {1: ("lib", "1.2"), 2: (None, None)}


def test_a_version_that_a_release_still_knows_has_no_fate(captured: Build, made: Build) -> None:
    assert fates(captured, made(fetch(4)), made(fetch(12))) == {("Fetch", 4): None, ("Fetch", 12): None}


def test_an_old_version_though_the_broker_offered_newer_ones_is_cut(captured: Build, made: Build) -> None:
    assert fates(captured, made(offers(11)), made(fetch(3))) == {("Fetch", 3): "cut"}


def test_an_old_version_to_an_old_broker_is_held_back(captured: Build, made: Build) -> None:
    assert fates(captured, made(offers(3)), made(fetch(3))) == {("Fetch", 3): "held_back"}


def test_a_client_that_never_requested_versions_is_cut(captured: Build, made: Build) -> None:
    assert fates(captured, made(fetch(3))) == {("Fetch", 3): "cut"}


def test_a_version_has_the_fate_unsure_if_the_connections_start_is_missing(captured: Build, made: Build) -> None:
    assert fates(captured, made(fetch(3)), events=()) == {("Fetch", 3): "unsure"}


def test_a_join_of_version_0_and_apis_between_brokers_are_left_alone(captured: Build, made: Build) -> None:
    rows = [made(request(11, 0, {})), made(request(4, 0, {}))]
    assert set(fates(captured, *rows).values()) == {None}


def test_requests_of_a_replicating_broker_have_no_fate(captured: Build, made: Build) -> None:
    brokers = [made(fetch(2, replica=3)), made(request(2, 0, {}), sequence=2)]
    clients_own = [made(fetch(1), connection=2), made(request(2, 0, {}), connection=2, sequence=2)]
    told = clients(captured(*brokers, *clients_own, events=[OPENED, OPENED | {"connection": 2}]))
    found = {(row.api, row.api_version, row.requests, row.fate) for row in told.collect()}
    assert found == {
        ("Fetch", 2, 1, None),
        ("Fetch", 1, 1, "cut"),
        ("ListOffsets", 0, 1, None),
        ("ListOffsets", 0, 1, "cut"),
    }


@pytest.mark.parametrize(
    "key", mostly_long([23, 27, 56], usual=1), ids=["OffsetForLeaderEpoch", "WriteTxnMarkers", "AlterPartition"]
)
def test_old_versions_that_brokers_alone_send_have_no_fate(captured: Build, made: Build, key: int) -> None:
    assert set(fates(captured, made(request(key, 0, {}))).values()) == {None}
