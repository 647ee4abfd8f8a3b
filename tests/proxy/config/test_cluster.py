from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from proxy.config import ClusterSettings, MappingKind, Others
from proxy.config.tls import ListenerTls
from proxy.schema.addresses import NETWORKS, Address
from proxy.schema.errors import BadSetting
from proxy.wire.framing import FrameLimits
from tests.proxy.config.clusters import BROKER, LISTEN, cluster, wrong
from tests.tables import each_row

TEMPLATE, SNI = MappingKind.TEMPLATE, MappingKind.SNI
TLS = ListenerTls(Path("proxy.pem"))


def test_a_cluster_knows_the_places_of_its_nodes():
    nodes = {7: Address("127.0.0.1", 9094)}
    ports = cluster(node_ports=19100, node_count=3, nodes=nodes, remembered={9: 40123}, advertise_ports=31100).node_map
    wanted = [ports.wanted_listener(number) for number in (1, 7, 9)]
    assert [listener and listener.ports[0] for listener in wanted] == [19101, 9094, 40123]
    assert ports.advertised(1, 19101) == Address("127.0.0.1", 31101)


def test_a_cluster_advertises_its_tables_addresses_of_single_nodes():
    told = Address("kafka-1.example.org", 443)
    assert cluster(advertised={1: told}).node_map.advertised(1, 9094) == told


def test_a_cluster_of_names_listens_for_the_nodes_that_are_its_own():
    nodes = {4: Address("127.0.0.1", 9094)}
    names = cluster(mapping=TEMPLATE, advertise="broker-{node_id}:9092", own_node=3, nodes=nodes).node_map
    assert names.own_node == 3
    assert [names.wanted_listener(number) for number in (1, 3, 4)] == [None, None, ((9094,), "127.0.0.1")]
    assert names.advertised(1, None) == Address("broker-1", 9092)


def test_a_cluster_of_one_port_finds_nodes_by_the_names_that_it_tells():
    names = cluster(mapping=SNI, advertise="broker-{node_id}:9092", bootstrap_name="kafka", tls=TLS).node_map
    assert names.requested_node(None, "broker-7") == 7
    assert names.requested_node(None, "kafka") is None


@each_row(
    ("values", "line"),
    [
        ({"own_node": 3}, 'clusters.main.own_node means nothing with mapping = "ports"; '),
        ({"own_node": 0}, "clusters.main.own_node means"),
        (
            {"mapping": TEMPLATE, "node_ports": 19100},
            'clusters.main.node_ports means nothing with mapping = "template"; ',
        ),
        ({"mapping": TEMPLATE, "advertise_ports": 1}, "clusters.main.advertise_ports means"),
        ({"mapping": TEMPLATE, "advertised": {1: BROKER}}, "clusters.main.advertised means"),
        ({"mapping": TEMPLATE, "bootstrap_name": "a"}, "clusters.main.bootstrap_name means"),
        ({"bootstrap_name": "a"}, "clusters.main.bootstrap_name means"),
        ({"mapping": SNI, "nodes": {1: BROKER}, "tls": TLS}, "clusters.main.nodes means nothing with mapping"),
        ({"mapping": SNI, "own_node": 0, "tls": TLS}, "clusters.main.own_node means"),
        ({"mapping": SNI, "node_ports": 19100, "tls": TLS}, "clusters.main.node_ports means"),
        ({"mapping": SNI}, 'clusters.main.mapping = "sni" needs TLS towards clients; right would be adding clusters.'),
        (
            {"mapping": SNI, "advertise": "b-{node_id}", "bootstrap_name": "b-1", "tls": TLS},
            'clusters.main.bootstrap_name = "b-1" is the name of node 1; ',
        ),
        ({"mapping": TEMPLATE}, "clusters.main.advertise is missing"),
        ({"advertised": {1: Address("a", 0)}}, 'clusters.main.advertised.1 = "a:0" is nothing to dial; '),
    ],
)
def test_a_key_that_the_mapping_does_not_use_is_reported(values: Mapping[str, Any], line: str):
    with pytest.raises(BadSetting) as error:
        cluster(**values)
    assert wrong(error)[0].startswith(line)


def test_the_longest_frames_are_those_of_the_wire_unless_said_otherwise():
    assert cluster().limits == FrameLimits()
    assert cluster(request_limit=7, response_limit=9).limits == FrameLimits(7, 9)


@each_row(
    ("values", "line"),
    [
        ({"upstream": ()}, "upstream () names no broker"),
        ({"upstream": (Address("broker-1", 0),)}, "upstream "),
        ({"upstream": (BROKER, LISTEN)}, "--upstream 127.0.0.1:19092 is the proxy's own listener"),
        ({"listen": Address("0.0.0.0", 9092)}, "--listen 0.0.0.0:9092"),
        ({"advertise": "a:1"}, "--advertise a:1"),
        ({"advertise": ""}, "advertise '' is empty"),
        ({"node_ports": 65_000}, "--node-ports 65000"),
        ({"node_count": -1}, "--node-count -1"),
        ({"request_limit": 0}, "limits.request 0 lets nothing through"),
        ({"response_limit": -1}, "limits.response -1 is no size"),
        ({"hold_limit": 0}, "limits.hold 0 lets nothing through"),
        ({"dial_seconds": 0}, "timeouts.dial 0 lets nothing through"),
        ({"dial_seconds": 1e-9}, "timeouts.dial 1e-09 is shorter than 0.01s"),
        ({"tls_seconds": 1e-9}, "timeouts.tls 1e-09 is shorter than 0.01s"),
        ({"idle_seconds": 1e-9}, "timeouts.idle 1e-09 is shorter than 0.01s"),
        ({"age_seconds": 1e-9}, "timeouts.age 1e-09 is shorter than 0.01s"),
        ({"half_close_seconds": 1e-9}, "timeouts.half_close 1e-09 is shorter than 0.01s"),
        ({"header_seconds": 1e-9}, "proxy_protocol.timeout 1e-09 is shorter than 0.01s"),
        ({"keepalive_seconds": 0.9}, "timeouts.keepalive 0.9 is shorter than 1s"),
        ({"half_close_seconds": float("nan")}, "timeouts.half_close nan is no duration"),
    ],
)
def test_an_impossible_setting_of_a_cluster_is_reported(values: Mapping[str, Any], line: str):
    with pytest.raises(BadSetting) as error:
        ClusterSettings(**{"upstream": (BROKER,), "listen": LISTEN, "name": "east", **values})
    assert wrong(error)[0].startswith(line)
    assert error.value.cluster == "east"


def test_all_errors_of_a_cluster_are_reported_at_once():
    with pytest.raises(BadSetting) as error:
        cluster(LISTEN, hold_limit=0, advertise="a:1")
    assert len(wrong(error)) == 3


NETWORK = NETWORKS.read(["10.0.0.0/8", "192.0.2.7", "2001:db8::/32"])


@each_row(
    ("host", "trusted"),
    [
        ("10.1.2.3", True),
        ("11.1.2.3", False),
        ("192.0.2.7", True),
        ("192.0.2.8", False),
        ("::ffff:10.1.2.3", True),
        ("::ffff:11.1.2.3", False),
        ("2001:db8::1", True),
        ("2001:db9::1", False),
        ("fe80::1%eth0", False),
    ],
)
def test_balancers_are_trusted_by_their_networks(host, trusted):
    assert cluster(accept_proxy=True, trusted=NETWORK).trusts(host) is trusted
    assert cluster(accept_proxy=True).trusts(host)


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"trusted": NETWORK}, "clusters.main.proxy_protocol.trusted means nothing without a header; "),
        (
            {"accept_proxy": True, "others": Others.PLAIN},
            "clusters.main.proxy_protocol.others means nothing where everybody is trusted; ",
        ),
    ],
)
def test_settings_of_proxy_headers_are_refused_where_headers_are_off(values, line):
    with pytest.raises(BadSetting) as error:
        cluster(**values)
    assert wrong(error)[0].startswith(line)
