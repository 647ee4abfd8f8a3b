"""Tests of groups of the newer protocols through the proxy, with changing members. See also `harness.proxied`."""

from pathlib import Path

import pytest

from proxy.wire import api_name
from tests.brokers.kafka import KafkaCluster
from tests.clients.harness import Proxied, proxied
from tests.clients.workloads import groups

pytestmark = pytest.mark.real


@pytest.mark.long
def test_a_consumer_group_of_several_clients_misses_nothing(kafka_three: KafkaCluster, tmp_path: Path) -> None:
    with proxied(kafka_three, tmp_path) as proxy:
        groups.changes_its_members(proxy.bootstrap, tmp_path)
    assert {"ConsumerGroupHeartbeat", "OffsetCommit", "OffsetFetch", "Fetch"} <= apis(proxy)


def test_a_share_group_misses_nothing(kafka_three: KafkaCluster, tmp_path: Path) -> None:
    with proxied(kafka_three, tmp_path) as proxy:
        groups.shares_with_members_that_change(kafka_three, proxy.bootstrap, tmp_path)
    assert {"ShareGroupHeartbeat", "ShareFetch", "ShareAcknowledge"} <= apis(proxy)


def apis(proxy: Proxied) -> set[str | None]:
    """Returns the APIs of the requests to brokers."""
    return {api_name(one.head[0]) for talk in proxy.conversations()[1] for one in talk.requests}
