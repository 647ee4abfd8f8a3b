from pathlib import Path
from typing import Any

import pytest

from proxy.config import ClusterSettings, ProxySettings
from proxy.config.mapping import MappingKind
from proxy.schema.addresses import Address
from proxy.schema.errors import BadSetting
from tests.proxy.config.clusters import cluster, wrong
from tests.tables import each_row


@pytest.mark.parametrize("seconds", [-1, -0.001, float("nan"), float("inf")])
def test_a_bad_drain_time_is_reported(seconds):
    with pytest.raises(BadSetting) as error:
        ProxySettings((cluster(),), drain_seconds=seconds)
    assert wrong(error)[0].startswith("drain ")


@each_row("seconds", [0, 0.5, 1e-7, 10, 1e9])
def test_any_other_time_to_drain_will_do(seconds):
    assert ProxySettings((cluster(),), drain_seconds=seconds).drain_seconds == seconds


@each_row("name", ["East", "", "a.b", "a b", "-a", "ä", "x" * 41])
def test_a_cluster_name_that_can_not_be_a_label_is_refused(name):
    with pytest.raises(BadSetting) as error:
        ProxySettings((cluster(name=name),))
    assert "small letters" in wrong(error)[0]


def test_there_must_be_a_cluster_and_no_two_of_a_name():
    with pytest.raises(BadSetting, match="names no cluster"):
        ProxySettings(())
    others = (cluster(), cluster(listen=Address("127.0.0.1", 29092)))
    with pytest.raises(BadSetting, match="names a cluster twice"):
        ProxySettings(others)


def test_clusters_do_not_share_a_state_file():
    west = cluster(name="west", listen=Address("127.0.0.1", 29092), state=Path("nodes.json"))
    with pytest.raises(BadSetting) as error:
        ProxySettings((cluster(state=Path("nodes.json")), west))
    assert wrong(error)[0].startswith("clusters.west.state nodes.json")


@pytest.mark.parametrize(
    ("field", "least"),
    [("hung_seconds", 3), ("stalled_seconds", 1)],
)
def test_a_time_in_which_nothing_can_happen_is_refused(field, least):
    for seconds in (1e-9, 0, least - 0.001):
        with pytest.raises(BadSetting) as error:
            ProxySettings((cluster(),), **dict[str, Any]({field: seconds}))
        assert wrong(error)[0].startswith(field.removesuffix("_seconds") + " ")
    assert ProxySettings((cluster(),), **{field: least})


def test_two_nodes_do_not_share_a_broker():
    def node(number: int, *upstream: Address) -> ClusterSettings:
        listen = Address("127.0.0.1", 19092 + number)
        template = {"mapping": MappingKind.TEMPLATE, "advertise": "b-{node_id}.x:9092", "own_node": number}
        return cluster(*upstream, listen=listen, name=f"node-{number}", **template)

    with pytest.raises(BadSetting) as error:
        ProxySettings((node(1, Address("broker-1", 9092)), node(2, Address("Broker-1", 9092))))
    (line,) = wrong(error)
    assert line.startswith("clusters.node-1 stands for node 1, and clusters.node-2 for node 2, but both have")
    assert ProxySettings((node(1, Address("broker-1", 9092)), node(2, Address("broker-1", 9093))))
