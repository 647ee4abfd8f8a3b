"""Tests of moving leaders while clients work: brokers then name the new leader after the records (KIP-951).

The brokers' hosts have 11 characters. `127.1` is 6 shorter and `127.0.0.1` is 2, so the proxy pads in two ways.
`127.177.117.117` is longer: no leader can be named at equal length, so the client asks for metadata.
"""

from pathlib import Path
from typing import Any

import pytest

from proxy.wire import apis
from proxy.wire.keys import FETCH, SHARE_FETCH
from tests.brokers.kafka import KafkaCluster
from tests.clients.checks import decoded
from tests.clients.harness import proxied
from tests.clients.streams import Conversation, Response
from tests.clients.workloads import leaders
from tests.sweeps import mostly_long

pytestmark = pytest.mark.real

BULK_BYTES = 50_000_000


@pytest.mark.long
@pytest.mark.parametrize(
    ("advertise", "named"),
    [*mostly_long([("127.177.117.117", False), ("127.0.0.1", True), ("127.1", True)], usual=1)],
)
def test_a_fetch_of_50_mb_names_the_new_leader(
    kafka_three: KafkaCluster, tmp_path: Path, advertise: str, named: bool
) -> None:
    with proxied(kafka_three, tmp_path, advertise=advertise) as proxy:
        leaders.fetches_bulk_while_a_leader_moves(
            kafka_three, proxy.bootstrap, lambda: bool(_nodes_in_bulk(proxy.conversations()[1]))
        )
        near, far = map(_nodes_in_bulk, proxy.conversations())
        assert (kafka_three.nodes[2].tapped.host, kafka_three.nodes[2].tapped.port) in far
        assert near == ({(advertise, proxy.port + 2)} if named else set())


@pytest.mark.long
@pytest.mark.parametrize(("advertise", "named"), [("127.1", True), ("127.0.0.1", True), ("127.177.117.117", False)])
def test_a_share_fetch_of_50_mb_names_the_new_leader(
    kafka_three: KafkaCluster, tmp_path: Path, advertise: str, named: bool
) -> None:
    with proxied(kafka_three, tmp_path, advertise=advertise) as proxy:
        leaders.share_fetches_bulk_while_a_leader_moves(
            kafka_three,
            proxy.bootstrap,
            tmp_path,
            all_answered=lambda: _are_answered(SHARE_FETCH, proxy.conversations()[0]),
            named=lambda: bool(_nodes_in_bulk(proxy.conversations()[1], SHARE_FETCH)),
        )
        near, far = (_nodes_in_bulk(side, SHARE_FETCH) for side in proxy.conversations())
        assert (kafka_three.nodes[2].tapped.host, kafka_three.nodes[2].tapped.port) in far
        assert near == ({(advertise, proxy.port + 2)} if named else set())


def test_java_clients_follow_a_moving_leader(kafka_three: KafkaCluster, tmp_path: Path) -> None:
    with proxied(kafka_three, tmp_path) as proxy:

        def all_named() -> bool:
            return {"Fetch", "Produce", "ShareFetch"} <= _apis_that_named_nodes(proxy.conversations()[1])

        leaders.follow_a_moving_leader(kafka_three, proxy.bootstrap, tmp_path, all_named)
        assert all_named()


@pytest.mark.long
def test_a_share_consumer_learns_of_a_leader_from_what_it_acknowledged(
    kafka_three: KafkaCluster, tmp_path: Path
) -> None:
    with proxied(kafka_three, tmp_path) as proxy:

        def was_told() -> bool:
            return "ShareAcknowledge" in _apis_that_named_nodes(proxy.conversations()[1])

        leaders.acknowledges_to_a_leader_that_is_none(kafka_three, proxy.bootstrap, tmp_path, was_told)
        near, _ = proxy.conversations()
        assert "ShareAcknowledge" in _apis_that_named_nodes(near)


def _are_answered(api: int, conversations: list[Conversation]) -> bool:
    """True if each connection with such requests got all responses."""
    asked = [talk for talk in conversations if any(request.head[0] == api for request in talk.requests)]
    return all(len(talk.requests) == len(talk.responses) for talk in asked)


def _nodes_in_bulk(conversations: list[Conversation], api: int = FETCH) -> set[tuple[str, int]]:
    """Returns the addresses in responses of 50 MB."""
    answers = [one for talk in conversations for one in talk.responses if one.api_key == api]
    bulk = [one for one in answers if len(one.frame) > BULK_BYTES]
    return {(node["host"], node["port"]) for one in bulk for node in _endpoints(one)}


def _apis_that_named_nodes(conversations: list[Conversation]) -> set[str | None]:
    answers = [one for talk in conversations for one in talk.responses if one.api_key in (0, 1, 78, 79)]
    return {apis.api_name(one.api_key) for one in answers if _endpoints(one)}


def _endpoints(response: Response) -> list[dict[str, Any]]:
    return decoded(response).get("node_endpoints") or []
