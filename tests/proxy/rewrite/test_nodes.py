"""Addresses as people write them, and which can be dialled."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.rewrite.nodes import Address, Node, clash, clashes, is_dialled


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("broker-1:9092", Address("broker-1", 9092)),
        ("127.0.0.1:0", Address("127.0.0.1", 0)),
        ("[::1]:65535", Address("::1", 65535)),
    ],
)
def test_an_address_is_read_and_written_the_same_way(text: str, address: Address) -> None:
    assert Address.parse(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "broker",
        "broker:",
        ":9092",
        "::1:9092",
        "[broker]:9092",
        "broker:65536",
        "broker:-1",
        "a b:1",
        "a,b:1",
        "b:²",
    ],
)
def test_a_wrong_address_is_refused_with_a_right_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"right would be broker-1:9092 or \[::1\]:9092"):
        Address.parse(text)


@given(st.integers(0, 65535), st.from_regex(r"[a-z][a-z0-9.-]{0,200}", fullmatch=True))
def test_every_name_and_port_survives_being_written_and_read(port: int, host: str) -> None:
    assert Address.parse(str(Address(host, port))) == Address(host, port)


def test_a_node_knows_its_address() -> None:
    assert Node(1, "broker-1", 9092).address == Address("broker-1", 9092)


@pytest.mark.parametrize("host", ["broker-1", "10.0.0.1", "::1", "xn--a.example", "a_b"])
def test_a_name_or_an_address_can_be_dialled(host: str) -> None:
    assert is_dialled(host)


@pytest.mark.parametrize("host", ["", "*", "0.0.0.0", "::", "a b", "a:1", "[::1]", "a/b", "b-{node_id}", "x" * 256])
def test_nothing_else_can_be_dialled(host: str) -> None:
    assert not is_dialled(host)


@pytest.mark.parametrize(
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
