"""Tests of nodes, of hosts that can be dialled, and of listeners that exclude each other."""

from hypothesis import given
from hypothesis import strategies as st

from proxy.mapping.nodes import Node, clash, clashes, is_dialable
from proxy.schema.addresses import Address
from tests.tables import each_row


def test_a_node_knows_its_address() -> None:
    assert Node(1, "broker-1", 9092).address == Address("broker-1", 9092)


@each_row("host", ["broker-1", "10.0.0.1", "::1", "xn--a.example", "a_b"])
def test_a_name_or_an_address_can_be_dialled(host: str) -> None:
    assert is_dialable(host)


@each_row("host", ["", "*", "0.0.0.0", "::", "a b", "a:1", "[::1]", "a/b", "b-{node_id}", "x" * 256])
def test_a_bad_host_can_not_be_dialled(host: str) -> None:
    assert not is_dialable(host)


@each_row(
    ("one", "other", "meet"),
    [
        ("127.0.0.1:1", "127.0.0.1:1", True),
        ("127.0.0.1:1", "127.0.0.1:2", False),
        ("127.0.0.1:1", "127.0.0.2:1", False),
        ("127.0.0.1:1", "0.0.0.0:1", True),
        ("127.0.0.1:0", "127.0.0.1:0", False),
    ],
)
def test_two_listeners_of_one_port_clash_where_their_hosts_meet(one: str, other: str, meet: bool) -> None:
    assert clash(Address.parse(one), Address.parse(other)) is meet
    assert clash(Address.parse(other), Address.parse(one)) is meet


LISTENERS = st.lists(st.builds(Address, st.sampled_from(["a", "b", "*", "0.0.0.0"]), st.integers(0, 2)), max_size=8)


@given(LISTENERS)
def test_each_listener_that_meets_an_earlier_one_is_found_once_with_one_that_it_meets(listeners):
    of_flags = {f"--node {number}": address for number, address in enumerate(listeners)}
    found = [(later, earlier) for earlier, later in clashes(of_flags)]
    flags = [*of_flags]
    assert [later for later, _ in found] == [
        flags[at] for at, one in enumerate(listeners) if any(clash(one, other) for other in listeners[:at])
    ]
    for later, earlier in found:
        assert flags.index(earlier) < flags.index(later)
        assert clash(of_flags[earlier], of_flags[later])
