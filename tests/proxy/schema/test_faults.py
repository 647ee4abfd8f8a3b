import pytest

from proxy.config import ClusterSettings
from proxy.schema.addresses import Address
from proxy.schema.errors import BadSetting
from proxy.schema.faults import Fault, Setting, line_of
from tests.tables import each_row

MAIN = Address("127.0.0.1", 19092)
EVERYWHERE = Address("0.0.0.0", 19092)
NEXT = Address("127.0.0.1", 19093)
BAD = [
    ((MAIN,), MAIN, {}),
    ((NEXT,), EVERYWHERE, {}),
    ((NEXT,), MAIN, {"advertise": "a:1"}),
    ((NEXT,), MAIN, {"nodes": {1: EVERYWHERE}}),
    ((NEXT,), MAIN, {"nodes": {1: MAIN}}),
    ((NEXT,), MAIN, {"nodes": {-1: NEXT}}),
    ((NEXT,), MAIN, {"nodes": {1: NEXT, 2: NEXT}}),
    ((NEXT,), MAIN, {"nodes": {1: NEXT}, "node_ports": 19093}),
    ((NEXT,), MAIN, {"node_ports": 65_000}),
    ((NEXT,), MAIN, {"node_ports": 19_000}),
    ((NEXT,), MAIN, {"node_count": -1}),
]


@each_row(("upstream", "listen", "others"), BAD)
def test_constructors_faults_are_worded_as_flags_and_as_keys_of_a_file(upstream, listen, others):
    with pytest.raises(BadSetting) as error:
        ClusterSettings(upstream, listen, **others)
    for fault, line in zip(error.value.faults, error.value.lines, strict=True):
        in_file = line_of(fault, "east", in_file=True)
        assert "--" not in in_file
        assert in_file.startswith("clusters.east.")
        assert line_of(fault, "east") == line
        assert line.startswith("--")


@each_row(
    ("fault", "by_flag", "in_file"),
    [
        (
            Fault((Setting("listen", "0.0.0.0:1"), " is open"), ("adding ", Setting("advertise", "a.example"))),
            "--listen 0.0.0.0:1 is open; right would be adding --advertise a.example",
            'clusters.e.listen = "0.0.0.0:1" is open; right would be adding advertise = "a.example"',
        ),
        (
            Fault((Setting("metrics", "a:1", of_cluster=False), " is bad"), "a free port"),
            "--metrics a:1 is bad; right would be a free port",
            'metrics = "a:1" is bad; right would be a free port',
        ),
        (
            Fault((Setting("capture.folder", "my capture", of_cluster=False), ": why")),
            "--record my capture: why",
            'capture.folder = "my capture": why',
        ),
        (Fault((Setting("nodes.1", "a:1"), " is bad")), "--node 1=a:1 is bad", 'clusters.e.nodes.1 = "a:1" is bad'),
        (Fault((Setting("node_ports", 5), " is bad")), "--node-ports 5 is bad", "clusters.e.node_ports = 5 is bad"),
        (
            Fault((Setting("upstream", ("a:1", "b:1")), " is bad"), Setting("upstream", ["a:1"])),
            "--upstream a:1,b:1 is bad; right would be --upstream a:1",
            'clusters.e.upstream = ["a:1", "b:1"] is bad; right would be upstream = ["a:1"]',
        ),
        (
            Fault((Setting("own_node"), " is missing"), ("adding ", Setting("own_node", 3))),
            "clusters.e.own_node is missing; right would be adding own_node = 3",
            "clusters.e.own_node is missing; right would be adding own_node = 3",
        ),
        (
            Fault(Setting("tls.clients"), Setting("tls.client_ca", "ca.pem", is_short=False)),
            'clusters.e.tls.clients; right would be clusters.e.tls.client_ca = "ca.pem"',
            'clusters.e.tls.clients; right would be clusters.e.tls.client_ca = "ca.pem"',
        ),
        ("--config a.toml is bad", "--config a.toml is bad", "--config a.toml is bad"),
    ],
    ids=["listen", "metrics", "record", "node", "number", "list", "no flag", "whole example", "line"],
)
def test_keys_are_named_as_the_user_has_named_them(fault, by_flag, in_file):
    assert line_of(fault, "e") == by_flag
    assert line_of(fault, "e", in_file=True) == in_file


def test_no_cluster_is_named_where_it_is_unknown():
    fault = Fault((Setting("own_node"), " is missing"), ("adding ", Setting("own_node", 3)))
    assert str(fault) == "own_node is missing; right would be adding own_node = 3"


def test_a_fault_speaks_of_the_keys_in_both_of_its_halves():
    fault = Fault((Setting("nodes.3", "a:1"), " and others"), ("adding ", Setting("metrics", "a:2", of_cluster=False)))
    assert fault.mentions(("clusters", "east", "nodes", "3"), "east")
    assert fault.mentions(("metrics",), "east")
    assert not fault.mentions(("clusters", "west", "nodes", "3"), "east")
    assert not fault.mentions(("clusters", "east", "nodes"), "east")
