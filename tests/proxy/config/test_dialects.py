"""Tests of the settings that a cluster of Kafka 0.7 may have."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proxy.config import ClusterSettings, MappingKind, ProxySettings
from proxy.config.dialects import NEEDLESS
from proxy.config.tls import ListenerTls
from proxy.mapping.alone import AloneMap
from proxy.schema.addresses import Address
from proxy.schema.errors import BadSetting
from proxy.schema.keys import keys_of
from proxy.wire.dialects import Dialect
from tests.proxy.config.clusters import BROKER, cluster, wrong
from tests.tables import each_row

OLD = Dialect.KAFKA_07
SAID: Mapping[str, Any] = {
    "advertise": "proxy.example.org",
    "node_ports": 19100,
    "node_count": 5,
    "nodes": {1: BROKER},
    "mapping": MappingKind.TEMPLATE,
    "own_node": 0,
    "bootstrap_name": "kafka",
    "advertise_ports": 31100,
    "advertised": {1: BROKER},
    "state": Path("nodes.json"),
    "hide_unknown": True,
    "timeouts.forget_node": 60.0,
}
# the fields that the keys set
FIELDS = {field.key.name: field.name for field in keys_of(ClusterSettings).values()}


def test_a_cluster_of_0_7_has_one_listener_and_tells_of_nothing():
    assert cluster(dialect=OLD).node_map == AloneMap()
    assert cluster(dialect=OLD, tls=ListenerTls(Path("proxy.pem")), accept_proxy=True).dialect is OLD
    assert cluster().dialect is Dialect.KAFKA


def test_a_dialect_without_addresses_needs_nothing_advertised():
    assert cluster(dialect=OLD, listen=Address("0.0.0.0", 9092)).node_map == AloneMap()


@each_row("key", NEEDLESS)
def test_a_key_that_0_7_does_not_use_is_reported(key: str):
    with pytest.raises(BadSetting) as error:
        cluster(dialect=OLD, **{FIELDS[key]: SAID[key]})
    assert wrong(error) == (
        f'clusters.main.{key} means nothing with dialect = "kafka-0.7", whose brokers\' addresses stand in ZooKeeper; '
        "right would be leaving one out",
    )


def test_all_settings_that_0_7_lacks_are_reported_at_once():
    with pytest.raises(BadSetting) as error:
        cluster(dialect=OLD, **{FIELDS[key]: value for key, value in SAID.items()})
    assert len(wrong(error)) == len(NEEDLESS)


def test_a_listener_of_0_7_stands_for_one_broker():
    with pytest.raises(BadSetting) as error:
        cluster(BROKER, Address("broker-2", 9092), dialect=OLD)
    assert wrong(error) == (
        f'--upstream {BROKER},broker-2:9092 names several brokers, and with dialect = "kafka-0.7" a listener stands '
        f"for one; right would be --upstream {BROKER} and another cluster for each other broker",
    )


def test_brokers_of_0_7_may_have_listeners_next_to_each_other():
    first = cluster(dialect=OLD, listen=Address("127.0.0.1", 9092))
    second = replace(first, name="second", listen=Address("127.0.0.1", 9093))
    assert len(ProxySettings((first, second)).clusters) == 2
    with pytest.raises(BadSetting):
        ProxySettings((first, replace(second, listen=first.listen)))
