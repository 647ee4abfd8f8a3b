"""Tests of each node's listener and advertised address, and of refused settings."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.mapping.nodes import Misplaced
from proxy.mapping.ports import PortMap
from proxy.schema.addresses import Address
from tests.tables import each_row

LISTEN = Address("127.0.0.1", 9092)


def test_without_settings_node_n_stands_n_behind_the_port_after_the_bootstrap() -> None:
    ports = PortMap(LISTEN)
    assert ports.wanted_listener(1) == ((9094, 0), "127.0.0.1")
    assert ports.advertised(1, 9094) == Address("127.0.0.1", 9094)


@pytest.mark.parametrize("node_id", [-1, 1000, 2**31 - 1])
def test_a_node_outside_the_range_gets_any_free_port(node_id: int) -> None:
    assert PortMap(LISTEN).wanted_listener(node_id).ports == (0,)


def test_the_last_node_of_the_range_still_has_a_usual_port() -> None:
    assert PortMap(LISTEN, base=20000, count=3).wanted_listener(2).ports == (20002, 0)
    assert PortMap(LISTEN, base=20000, count=3).wanted_listener(3).ports == (0,)


def test_the_default_range_ends_where_ports_end() -> None:
    ports = PortMap(Address("127.0.0.1", 65533))
    assert ports.wanted_listener(1).ports == (65535, 0)
    assert ports.wanted_listener(2).ports == (0,)


def test_with_a_bootstrap_port_still_to_be_picked_no_node_has_a_usual_port() -> None:
    assert PortMap(Address("127.0.0.1", 0)).wanted_listener(1).ports == (0,)


def test_a_named_node_stands_where_it_was_named_whatever_is_remembered() -> None:
    ports = PortMap(LISTEN, named={7: Address("127.0.0.2", 7000)}, remembered={7: 7001})
    assert ports.wanted_listener(7) == ((7000, 0), "127.0.0.2")
    assert ports.advertised(7, 7000) == Address("127.0.0.2", 7000)
    assert ports.warnings == ("node 7 does not keep port 7001 of the state file: --node 7=127.0.0.2:7000 wins",)


def test_a_node_named_with_any_port_keeps_the_one_remembered() -> None:
    ports = PortMap(LISTEN, named={7: Address("127.0.0.2", 0)}, remembered={7: 7001})
    assert ports.wanted_listener(7) == ((7001, 0), "127.0.0.2")
    assert ports.warnings == ()


def test_a_remembered_port_comes_before_the_usual_one() -> None:
    ports = PortMap(LISTEN, remembered={1: 45000})
    assert ports.wanted_listener(1).ports == (45000, 9094, 0)
    assert ports.warnings == ()


def test_a_port_that_another_node_was_given_is_not_tried() -> None:
    ports = PortMap(LISTEN, named={7: Address("127.0.0.1", 9094)}, remembered={8: 9095})
    assert ports.wanted_listener(1).ports == (0,)
    assert ports.wanted_listener(2).ports == (0,)
    assert ports.wanted_listener(3).ports == (9096, 0)


def test_a_flag_that_takes_a_remembered_port_wins_with_a_warning() -> None:
    ports = PortMap(LISTEN, named={7: Address("127.0.0.1", 45000)}, remembered={1: 45000, 2: 9092})
    assert ports.wanted_listener(1).ports == (9094, 0)
    assert ports.remembered == {}
    assert ports.warnings == (
        "node 1 does not keep port 45000 of the state file: --node 7=127.0.0.1:45000 wins",
        "node 2 does not keep port 9092 of the state file: --listen 127.0.0.1:9092 wins",
    )


def test_a_port_that_the_kernel_picked_is_distinguished_from_a_reserved_one() -> None:
    ports = PortMap(LISTEN, named={7: Address("127.0.0.1", 7000)}, remembered={8: 8000})
    assert [port for port in (7000, 8000, 9094, 12000) if ports.is_set_aside(port, 1)] == [7000, 8000]
    assert [port for port in (7000, 8000, 9094, 12000) if ports.is_set_aside(port, 2)] == [7000, 8000, 9094]


def test_clients_get_the_advertised_host() -> None:
    ports = PortMap(Address("0.0.0.0", 9092), advertise="proxy.example", named={7: Address("127.0.0.2", 7000)})
    assert ports.wanted_listener(1) == ((9094, 0), "0.0.0.0")
    assert ports.advertised(1, 9094) == Address("proxy.example", 9094)
    assert ports.advertised(7, 7000) == Address("proxy.example", 7000)


@each_row(
    ("settings", "complaint"),
    [
        (
            {"bootstrap": Address("0.0.0.0", 9092)},
            "--listen 0.0.0.0:9092 listens on every .* --advertise proxy.example",
        ),
        ({"bootstrap": Address("::", 9092)}, "--listen .* right would be adding --advertise"),
        (
            {"named": {1: Address("0.0.0.0", 7000)}},
            "--node 1=0.0.0.0:7000 listens on every .* --advertise proxy.example",
        ),
        ({"advertise": "0.0.0.0"}, "--advertise 0.0.0.0 .* right would be --advertise proxy.example"),
        ({"advertise": "proxy:9092"}, "--advertise proxy:9092 .* without a port"),
        ({"advertise": ""}, "--advertise .* right would be"),
        ({"advertise": "x" * 256}, "--advertise .* right would be"),
        ({"count": -1}, "--node-count -1 .* right would be --node-count 1000"),
        ({"base": 0}, "--node-ports 0 .* right would be --node-ports 19000"),
        ({"base": 64537}, "--node-ports 64537 with --node-count 1000 .* right would be --node-ports 19000"),
        ({"base": 9000}, "--node-ports 9000 .* right would be --node-ports 9093 --node-count 1000"),
        (
            {"base": 64000, "bootstrap": Address("127.0.0.1", 64999)},
            "--node-ports 64000 .* right would be --node-ports 63999 --node-count 1000",
        ),
        ({"named": {-1: Address("127.0.0.1", 7000)}}, "--node -1=.* right would be --node 0=127.0.0.1:7000"),
        ({"named": {1: LISTEN}}, "--node 1=127.0.0.1:9092 is the bootstrap listener"),
        (
            {"named": {1: Address("127.0.0.1", 7000), 2: Address("127.0.0.1", 7000)}},
            "--node 1=127.0.0.1:7000 and --node 2=127.0.0.1:7000 are the same listener",
        ),
        (
            {"named": {1: Address("0.0.0.0", 7000), 2: Address("127.0.0.1", 7000)}, "advertise": "proxy"},
            "--node 1=0.0.0.0:7000 and --node 2=127.0.0.1:7000 are the same listener",
        ),
        (
            {"base": 20000, "named": {1: Address("127.0.0.1", 20002)}},
            "--node 1=127.0.0.1:20002 takes the port that --node-ports 20000 .* keeps for node 2",
        ),
        ({"advertise": "broker-{node_id}.example"}, "--advertise broker-{node_id}.example is no host"),
        ({"advertised_base": 0}, "advertise_ports = 0 .* right would be advertise_ports = 31100"),
        (
            {"advertised_base": 65000},
            "advertise_ports = 65000 for 1000 nodes, .* right would be advertise_ports = 31100",
        ),
        (
            {"advertised_base": 31100, "bootstrap": Address("127.0.0.1", 0)},
            "advertise_ports = 31100 .* adding --node-ports",
        ),
        ({"addresses": {-1: LISTEN}}, 'advertised.-1 .* right would be advertised.0 = "127.0.0.1:9092"'),
        (
            {"addresses": {1: Address("proxy", 0)}},
            'advertised.1 = "proxy:0" is nothing to dial; right would be advertised.1 =',
        ),
        ({"addresses": {1: Address("0.0.0.0", 1)}}, 'advertised.1 = "0.0.0.0:1" is nothing to dial; right'),
        ({"addresses": {1: Address("127.0.0.1", 9095)}}, 'advertised.1 = "127.0.0.1:9095" is told of node 2; right'),
        ({"addresses": {1: Address("a", 1), 2: Address("a", 1)}}, "advertised names an address twice; right would be"),
        ({"remembered": {1: 0}}, "the state file gives node 1 port 0"),
        ({"remembered": {1: 65536}}, "the state file gives node 1 port 65536"),
        ({"remembered": {-1: 9000}}, "the state file gives node -1"),
        ({"remembered": {1: 45000, 2: 45000}}, "the state file gives port 45000 to node 1 and to node 2"),
    ],
)
def test_a_wrong_setting_is_refused_by_its_name_with_a_right_example(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        PortMap(**({"bootstrap": LISTEN} | settings))


def test_settings_that_only_look_wrong_are_accepted() -> None:
    assert PortMap(LISTEN, base=64536).usual_ports.stop == 65536
    assert PortMap(LISTEN, base=9093).usual_ports.start == 9093
    assert PortMap(LISTEN, base=20000, named={2: Address("127.0.0.1", 20002)}).wanted_listener(2).ports == (20002, 0)
    assert PortMap(LISTEN, advertise="::1").advertised(1, 9094) == Address("::1", 9094)
    PortMap(LISTEN, named={1: Address("127.0.0.2", 9092), 2: Address("127.0.0.3", 9092)})
    PortMap(Address("127.0.0.1", 0), named={1: Address("127.0.0.1", 0), 2: Address("127.0.0.1", 0)})


@given(
    remembered=st.dictionaries(st.integers(0, 30), st.integers(9090, 9130), max_size=10),
    named=st.dictionaries(st.integers(0, 30), st.integers(9093, 9130), max_size=5),
    order=st.permutations(range(12)),
)
def test_two_nodes_are_never_offered_the_same_port(
    remembered: dict[int, int], named: dict[int, int], order: list[int]
) -> None:
    distinct = {port: node_id for node_id, port in remembered.items()}
    given_ports = {port: node_id for node_id, port in named.items()}
    ports = PortMap(
        LISTEN,
        named={node_id: Address("127.0.0.1", port) for port, node_id in given_ports.items()},
        remembered={node_id: port for port, node_id in distinct.items()},
    )
    offered = [port for node_id in order for port in ports.wanted_listener(node_id).ports if port]
    assert len(offered) == len(set(offered))
    assert LISTEN.port not in offered


def test_all_faults_of_a_port_map_are_reported_at_once() -> None:
    with pytest.raises(Misplaced) as error:
        PortMap(Address("0.0.0.0", 9092), None, {-1: Address("*", 9092)}, 65_000, remembered={1: 0})
    assert [str(fault).split(" ")[0] for fault in error.value.faults] == [
        "--listen",
        "--node",
        "--node-ports",
        "--node",
        "--node",
        "the",
    ]
    assert str(error.value).splitlines() == [*map(str, error.value.faults)]


# what clients are told, where it is not what is listened on


def test_forwarded_ports_are_advertised_as_clients_dial_them() -> None:
    ports = PortMap(LISTEN, advertise="proxy.example", base=19100, count=10, advertised_base=31100)
    assert ports.advertised(1, 19101) == Address("proxy.example", 31101)
    assert ports.advertised(1, 45000) == Address("proxy.example", 45000)
    assert ports.wanted_listener(1) == ((19101, 0), "127.0.0.1")


def test_ports_behind_the_bootstrap_one_may_be_forwarded_too() -> None:
    assert PortMap(LISTEN, advertised_base=31100).advertised(2, 9095) == Address("127.0.0.1", 31102)


def test_a_table_sets_the_advertised_addresses_of_single_nodes() -> None:
    addresses = {1: Address("kafka-1.example", 443), 7: Address("kafka-7.example", 443)}
    ports = PortMap(LISTEN, addresses=addresses, advertised_base=31100)
    assert ports.advertised(1, 9094) == Address("kafka-1.example", 443)
    assert ports.advertised(7, 45000) == Address("kafka-7.example", 443)
    assert ports.advertised(2, 9095) == Address("127.0.0.1", 31102)


def test_a_node_may_be_advertised_at_the_usual_port_of_a_node_named_elsewhere() -> None:
    there = Address("127.0.0.1", 9095)
    ports = PortMap(LISTEN, named={2: Address("127.0.0.1", 7000)}, addresses={1: there})
    assert (ports.advertised(1, 9094), ports.advertised(2, 7000)) == (there, Address("127.0.0.1", 7000))


def test_a_port_that_clients_dial_for_a_node_is_not_picked_for_another() -> None:
    ports = PortMap(LISTEN, advertised_base=31100)
    assert [port for port in (31099, 31100, 31101, 32099, 32100) if ports.is_set_aside(port, 5000)] == [
        31100, 31101, 32099,
    ]  # fmt: skip


def test_a_node_that_is_not_listened_for_has_no_address_unless_a_table_says_it() -> None:
    ports = PortMap(LISTEN, addresses={1: Address("kafka-1.example", 443)})
    assert ports.advertised(1, None) == Address("kafka-1.example", 443)
    with pytest.raises(ValueError, match="node 2 is not listened for"):
        ports.advertised(2, None)


def test_the_bootstrap_listener_is_no_nodes_and_called_what_is_advertised() -> None:
    assert PortMap(LISTEN).own_node is None
    assert not PortMap(LISTEN).is_served_by_bootstrap(1)
    assert PortMap(LISTEN).requested_node(1, "whatever.example") == 1
    assert PortMap(LISTEN).advertised_bootstrap(LISTEN) == LISTEN
    assert PortMap(LISTEN, advertise="proxy.example").advertised_bootstrap(LISTEN) == Address("proxy.example", 9092)


def test_only_a_port_that_the_kernel_picked_is_kept() -> None:
    ports = PortMap(LISTEN, named={7: Address("127.0.0.1", 7000)}, remembered={8: 45000})
    assert [ports.is_kept(*case) for case in ((9094, 1), (7000, 7), (45000, 8), (45001, 1))] == [
        False, False, True, True,
    ]  # fmt: skip


@given(
    base=st.integers(9100, 9130),
    advertised_base=st.none() | st.integers(9090, 9150),
    given_ports=st.dictionaries(st.integers(0, 30), st.integers(9090, 9150), max_size=5),
)
def test_two_nodes_of_the_range_never_have_the_same_advertised_address(
    base: int, advertised_base: int | None, given_ports: dict[int, int]
) -> None:
    addresses = {node_id: Address("127.0.0.1", port) for node_id, port in given_ports.items()}
    try:
        ports = PortMap(LISTEN, base=base, count=20, addresses=addresses, advertised_base=advertised_base)
    except ValueError:
        return
    advertised = [ports.advertised(node_id, ports.usual_ports[node_id]) for node_id in range(20)]
    assert len({*advertised, *addresses.values()}) == len(advertised) + len(addresses.keys() - {*range(20)})
