"""Tests of names made from node ids, and of several proxies that share a cluster's nodes."""

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from proxy.mapping.names import LARGEST_ID, HostPattern, SniMap, TemplateMap
from proxy.schema.addresses import Address
from tests.tables import each_row

LISTEN = Address("0.0.0.0", 9092)
ADVERTISE = "broker-{node_id}.example:9093"
PATTERN = HostPattern("broker-{node_id}.example")

ids = st.integers(0, LARGEST_ID)
around = st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,8}[a-z0-9])?|", fullmatch=True)


# --- the pattern -----------------------------------------------------------------------------------------------------


def test_a_node_has_the_host_with_its_id() -> None:
    assert PATTERN.host(3) == "broker-3.example"
    assert HostPattern("{node_id}.kafka.example").host(LARGEST_ID) == "2147483647.kafka.example"
    assert HostPattern("127.0.{node_id}.1").host(255) == "127.0.255.1"


@given(around, around, ids)
def test_the_pattern_finds_the_node_of_each_of_its_hosts(before: str, after: str, node_id: int) -> None:
    try:
        pattern = HostPattern(before + "{node_id}" + after)
        host = pattern.host(node_id)
    except ValueError:
        assume(False)
    assert pattern.node_of(host) == pattern.node_of(host.upper()) == node_id


@given(ids, st.text("broke-0123456789.xampl", max_size=24))
def test_a_host_is_a_nodes_only_if_the_node_has_that_very_host(node_id: int, text: str) -> None:
    for host in (text, f"broker-{text}.example", f"broker-{node_id}{text}"):
        found = PATTERN.node_of(host)
        assert found is None or PATTERN.host(found) == host


@each_row(
    "host",
    [
        "",
        "broker-.example",
        "broker-x.example",
        "broker-01.example",
        "broker-+1.example",
        "broker--1.example",
        "broker-1.example..",
        "broker-1.exampl",
        "xbroker-1.example",
        "broker-1.2.example",
        "broker-2147483648.example",
        "broker-\u0661.example",
        "broker-example",
    ],
)
def test_a_host_that_does_not_match_the_pattern_has_no_node(host: str) -> None:
    assert PATTERN.node_of(host) is None


def test_before_and_behind_do_not_share_characters() -> None:
    assert HostPattern("a.a{node_id}a.a").node_of("a.a.a") is None
    assert HostPattern("1{node_id}1.a").node_of("1.a") is None
    assert HostPattern("1{node_id}1.a").node_of("101.a") == 0


@pytest.mark.parametrize(
    ("text", "node_id"), [("broker-{node_id}", -1), ("b-{node_id}", 2**31), ("127.0.0.{node_id}", 256)]
)
def test_an_id_without_a_host_is_an_error(text: str, node_id: int) -> None:
    with pytest.raises(ValueError, match=f"node {node_id} has no place in"):
        HostPattern(text).host(node_id)


@each_row(
    "text",
    [
        "broker.example",
        "{node_id}-{node_id}.example",
        "broker-{nodeid}.example",
        "",
        "broker_{node_id}..example",
        ".{node_id}",
        "-{node_id}.example",
        "broker-{node_id}-.example",
        "bro ker-{node_id}",
        "brökér-{node_id}",
        "*.{node_id}.example",
        "[fd00::{node_id}]",
        "x" * 54 + "{node_id}.example",
        "x." * 122 + "{node_id}",
        "{node_id}",
        "broker.{node_id}",
        "127.0.{node_id}",
        "127.0.0.1{node_id}",
        "127.0.0.{node_id}5",
    ],
)
def test_a_pattern_that_is_no_host_for_some_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"once|no host name|no IPv4"):
        HostPattern(text)


def test_a_pattern_may_be_as_long_as_names_may_be() -> None:
    assert len(HostPattern("x" * 53 + "{node_id}.example").host(LARGEST_ID).partition(".")[0]) == 63
    assert len(HostPattern("x." * 121 + "{node_id}x").host(LARGEST_ID)) == 253


# --- a proxy for each broker, or for some ----------------------------------------------------------------------------


def test_every_node_is_advertised_by_its_name_and_one_port() -> None:
    places = TemplateMap(LISTEN, ADVERTISE, own_node=3)
    assert [places.advertised(node_id, None) for node_id in (1, 3)] == [
        Address("broker-1.example", 9093),
        Address("broker-3.example", 9093),
    ]
    assert places.advertised(3, 9092) == Address("broker-3.example", 9093)


def test_without_a_port_to_tell_it_is_that_of_the_listener() -> None:
    assert TemplateMap(LISTEN, "broker-{node_id}", own_node=3).advertised(1, None) == Address("broker-1", 9092)


def test_only_named_nodes_are_listened_for() -> None:
    places = TemplateMap(LISTEN, ADVERTISE, own_node=3, named={4: Address("0.0.0.0", 9094)})
    assert places.wanted_listener(4) == ((9094,), "0.0.0.0")
    assert places.wanted_listener(3) is places.wanted_listener(1) is None


def test_a_template_map_reserves_keeps_and_warns_of_no_port() -> None:
    places = TemplateMap(LISTEN, ADVERTISE, named={4: Address("0.0.0.0", 0)})
    assert not places.usual_ports
    assert not places.warnings
    assert not places.is_set_aside(9094, 4)
    assert not places.is_kept(45000, 4)


def test_the_bootstrap_listener_is_called_by_the_own_nodes_name() -> None:
    assert TemplateMap(LISTEN, ADVERTISE, own_node=3).advertised_bootstrap(LISTEN) == Address("broker-3.example", 9093)
    assert TemplateMap(LISTEN, ADVERTISE, named={4: Address("0.0.0.0", 1)}).advertised_bootstrap(LISTEN) == LISTEN


@each_row(
    ("settings", "complaint"),
    [
        (
            {"advertise": None},
            "advertise is missing: clients are to dial names; right would be adding --advertise",
        ),
        (
            {"advertise": "broker:9092"},
            "--advertise broker:9092 must hold {node_id} once; right would be --adv",
        ),
        ({"advertise": "broker-{node_id}:0"}, "--advertise broker-{node_id}:0 has no port between 1 and 65535; right"),
        ({"advertise": "broker-{node_id}:"}, "--advertise broker-{node_id}: has no port between"),
        ({"advertise": "broker-{node_id}:65536"}, "--advertise .* has no port between"),
        ({"advertise": "broker-{node_id}:x"}, "--advertise .* has no port between"),
        ({"advertise": "-{node_id}:1"}, "--advertise -{node_id}:1 is no host name for every node id; right would be"),
        ({"advertise": "b-{node_id}", "bootstrap": Address("h", 0)}, "--advertise .* has no port, nor has --listen"),
        ({"own_node": None}, "own_node is missing, .* right would be adding own_node = 3"),
        ({"own_node": -1}, "--advertise .* node -1 has no place"),
        ({"advertise": "127.0.0.{node_id}:1", "own_node": 256}, "--advertise .* node 256 has no place"),
        ({"named": {2**31: Address("h", 1)}}, "--advertise .* node 2147483648 has no place"),
        ({"named": {3: Address("h", 1)}}, "--node 3=h:1 and own_node = 3 are two .* right would be own_node = 3"),
        ({"named": {4: LISTEN}}, "--node 4=0.0.0.0:9092 is the bootstrap listener, .* right would be own_node = 4"),
        ({"named": {4: Address("h", 1), 5: Address("h", 1)}}, "--node 4=h:1 and --node 5=h:1 are the same listener"),
    ],
)
def test_a_wrong_setting_is_refused_by_its_name_with_a_right_example(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        TemplateMap(**{"bootstrap": LISTEN, "advertise": ADVERTISE, "own_node": 3, **settings})


# --- one port for all nodes ------------------------------------------------------------------------------------------

KAFKA = "kafka.example"


def test_each_node_has_its_name_and_all_of_them_one_port() -> None:
    places = SniMap(LISTEN, ADVERTISE, KAFKA)
    assert [places.advertised(node_id, None) for node_id in (0, 7)] == [
        Address("broker-0.example", 9093),
        Address("broker-7.example", 9093),
    ]
    assert places.advertised_bootstrap(LISTEN) == Address(KAFKA, 9093)
    assert places.is_served_by_bootstrap(7)
    assert (places.wanted_listener(7), places.own_node) == (None, None)
    assert not places.named
    assert not places.usual_ports
    assert not places.warnings
    assert not places.is_set_aside(9093, 7)
    assert not places.is_kept(9093, 7)


@given(ids)
def test_the_advertised_name_leads_to_its_node(node_id: int) -> None:
    places = SniMap(LISTEN, ADVERTISE, KAFKA)
    assert places.requested_node(None, places.advertised(node_id, None).host) == node_id


def test_the_bootstrap_name_selects_no_node() -> None:
    assert SniMap(LISTEN, ADVERTISE, KAFKA).requested_node(None, "kafka.example") is None
    assert SniMap(LISTEN, ADVERTISE, "KAFKA.example").requested_node(None, "kafka.EXAMPLE") is None


@pytest.mark.parametrize("dot", ["", "."], ids=["a name as in TLS", "an absolute name"])
def test_an_absolute_name_is_advertised_with_its_dot_and_asked_for_without(dot: str) -> None:
    places = SniMap(LISTEN, "broker-{node_id}.example.:9093", "kafka.example.")
    assert places.advertised(7, None) == Address("broker-7.example.", 9093)
    assert places.requested_node(None, f"broker-7.example{dot}") == 7
    assert places.requested_node(None, f"kafka.example{dot}") is None


@pytest.mark.parametrize("host", ["broker-{node_id}..", "127.0.0.{node_id}.", "."])
def test_a_dot_at_the_end_makes_no_name_of_what_is_none(host: str) -> None:
    with pytest.raises(ValueError, match=r"is no|must hold"):
        HostPattern(host)


@each_row("name", ["broker-.example", "broker-01.example", "x.kafka.example", "example", "", "127.0.0.1"])
def test_an_unknown_name_is_refused_and_not_repeated_in_the_reason(name: str) -> None:
    with pytest.raises(ValueError, match=r"a name that is no node's, nor the bootstrap listener's$"):
        SniMap(LISTEN, ADVERTISE, KAFKA).requested_node(None, name)


def test_a_client_without_sni_is_refused() -> None:
    with pytest.raises(ValueError, match="asks for no name"):
        SniMap(LISTEN, ADVERTISE, KAFKA).requested_node(None, None)


@each_row(
    ("settings", "complaint"),
    [
        ({"advertise": None}, "advertise is missing: clients are to dial names; right would be adding --advertise"),
        ({"advertise": "broker:9092"}, "--advertise broker:9092 must hold {node_id} once; right would be --adv"),
        ({"advertise": "127.0.0.{node_id}:1"}, "--advertise .* is no name, .* right would be --advertise broker-"),
        ({"bootstrap_name": None}, '--listen .* has no name that .* right would be bootstrap_name = "kafka'),
        ({"bootstrap_name": "kafka:9092"}, 'bootstrap_name = "kafka:9092" is no host name; right would be'),
        ({"bootstrap_name": "127.0.0.1"}, 'bootstrap_name = "127.0.0.1" is no host name; right would be'),
        ({"bootstrap_name": "Broker-3.example"}, "bootstrap_name = .* is the name of node 3; right would be"),
    ],
)
def test_a_wrong_name_is_refused_with_a_right_example(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        SniMap(**{"bootstrap": LISTEN, "advertise": ADVERTISE, "bootstrap_name": KAFKA, **settings})
