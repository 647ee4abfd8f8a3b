import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.config import ProxySettings, default_state_file
from proxy.config.mapping import MappingKind
from proxy.config.places import MAX_CLASHES, Demand, HostPorts, wrong_demands
from proxy.config.tls import ListenerTls
from proxy.mapping.nodes import WILDCARDS
from proxy.schema.addresses import Address
from proxy.schema.errors import BadSetting
from tests.proxy.config.clusters import LISTEN, cluster, wrong
from tests.tables import each_row

EAST = cluster(name="east", node_count=10, nodes={50: Address("127.0.0.1", 9094)})


@each_row(
    ("west", "ports"),
    [
        ({"listen": LISTEN}, "port 19092 of 127.0.0.1"),
        ({"listen": Address("127.0.0.1", 19100)}, "port 19100 of 127.0.0.1"),
        ({"listen": Address("127.0.0.1", 19090)}, "port 19092 of 127.0.0.1"),
        ({"listen": Address("127.0.0.1", 29092), "node_ports": 19000, "node_count": 100}, "port"),
        ({"listen": Address("127.0.0.1", 29092), "node_ports": 9000, "node_count": 95}, "port 9094 of 127.0.0.1"),
        ({"listen": Address("127.0.0.1", 29092), "nodes": {1: Address("127.0.0.1", 19093)}}, "port 19093"),
        ({"listen": Address("0.0.0.0", 9094), "advertise": "a"}, "port 9094 of"),
        ({"listen": Address("127.0.0.1", 19103), "node_ports": 19095, "node_count": 8}, "ports 19095 to 19102 of"),
    ],
)
def test_clusters_that_want_the_same_ports_are_reported(west, ports):
    with pytest.raises(BadSetting) as error:
        ProxySettings((EAST, cluster(name="west", node_count=west.pop("node_count", 10), **west)))
    (line,) = wrong(error)
    assert line.startswith("clusters.west and clusters.east both want " + ports)


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_two_clusters_do_not_share_one_tls_port(host: str):
    tls = ListenerTls(Path("proxy.pem"))
    east, west = (
        cluster(
            name=name,
            listen=Address(where, 9443),
            mapping=MappingKind.SNI,
            advertise=f"broker-{{node_id}}.{name}.test",
            bootstrap_name=f"{name}.test",
            tls=tls,
        )
        for name, where in (("east", "127.0.0.1"), ("west", host))
    )
    with pytest.raises(BadSetting) as error:
        ProxySettings((east, west))
    (line,) = wrong(error)
    assert line.startswith(f"clusters.west and clusters.east both want port 9443 of {host}; one TLS port is one ")
    assert line.endswith(f'clusters.west.listen = "{host}:9444"')
    # as it says
    assert len(ProxySettings((east, replace(west, listen=Address(host, 9444)))).clusters) == 2


@pytest.mark.parametrize(
    "west",
    [
        {"listen": Address("127.0.0.1", 19103)},
        {"listen": Address("127.0.0.2", 19092)},
        {"listen": Address("127.0.0.1", 0)},
        {"listen": Address("127.0.0.1", 19103), "nodes": {1: Address("127.0.0.1", 0)}},
    ],
)
def test_clusters_with_ports_of_their_own_will_do(west):
    assert len(ProxySettings((EAST, cluster(name="west", node_count=10, **west))).clusters) == 2


def test_two_listeners_on_any_port_do_not_clash():
    anywhere = Address("127.0.0.1", 0)
    assert ProxySettings((cluster(listen=anywhere), cluster(listen=anywhere, name="west")))


def test_the_state_file_lies_beside_the_capture():
    assert default_state_file(LISTEN, Path("capture"), environment={}) == Path("capture/_nodes.json")
    assert default_state_file(LISTEN, Path("capture"), "east", {}) == Path("capture/_nodes-east.json")


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"HOME": "/home/me"}, "/home/me/.local/state/kafka-wiretap"),
        ({"HOME": "/home/me", "XDG_STATE_HOME": "/state"}, "/state/kafka-wiretap"),
        ({}, "/.local/state/kafka-wiretap"),
    ],
)
def test_the_state_file_of_a_proxy_without_a_capture_is_in_the_users_state_folder(environment, folder):
    path = default_state_file(LISTEN, None, environment=environment)
    assert path == Path(folder) / "nodes-127.0.0.1-19092.json"


def test_each_listener_has_a_state_of_its_own():
    listeners = [LISTEN, Address("127.0.0.1", 19093), Address("::1", 19092), Address("*", 19092)]
    paths = {default_state_file(listen, None, environment={}) for listen in listeners}
    assert len(paths) == len(listeners)


def test_a_listener_on_any_port_has_no_state():
    assert default_state_file(Address("127.0.0.1", 0), None, environment={}) is None


HOSTS = st.sampled_from(["a", "b", "0.0.0.0", "*"])
PLACES = st.builds(
    lambda host, first, count: HostPorts(host, range(first, first + count)),
    HOSTS,
    st.integers(1, 12),
    st.integers(1, 4),
)
DEMANDS = st.lists(st.lists(PLACES, min_size=1, max_size=3), max_size=6).map(
    lambda wanted: [Demand(f"c{at}", tuple(places), None, False) for at, places in enumerate(wanted)]
)


def meets(one: Demand, other: Demand) -> bool:
    """The obvious way to compare."""
    return any(
        {*here.ports} & {*there.ports} and (here.host == there.host or {here.host, there.host} & WILDCARDS)
        for here in one.places
        for there in other.places
    )


@given(DEMANDS)
def test_each_cluster_that_wants_an_earlier_ones_ports_has_a_message_that_names_one(demands):
    said = [re.match(r"clusters.(c\d) and clusters.(c\d) both want", str(fault)) for fault in wrong_demands(demands)]
    told = {found[1]: found[2] for found in said if found}
    assert len(said) >= len(told)
    of_names = {one.name: one for one in demands}
    for at, one in enumerate(demands):
        assert (one.name in told) == any(meets(one, earlier) for earlier in demands[:at])
        assert one.name not in told or meets(one, of_names[told[one.name]])


def test_each_of_many_clashing_clusters_gets_few_messages():
    demands = [Demand(f"c{at}", (HostPorts("*", range(at + 1, at + 1000)),), None, False) for at in range(50)]
    assert len([*wrong_demands(demands)]) <= 50 * MAX_CLASHES
