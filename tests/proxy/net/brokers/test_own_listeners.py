from __future__ import annotations

import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from proxy import ips
from proxy.net.brokers.node_ports import bind
from proxy.net.brokers.own_listeners import OwnListeners
from proxy.schema.addresses import Address
from tests.proxy.net.peers import HOST


def seen(there: str, here: str = "198.51.100.1", port: int = 9092) -> Any:
    """A socket that looks as if it were connected there."""
    return SimpleNamespace(getsockname=lambda: (here, 40_000), getpeername=lambda: (there, port))


@pytest.fixture
def everywhere() -> OwnListeners:
    """The listeners of a proxy on every IPv4 interface, port 9092."""
    listeners = OwnListeners()
    listeners.add(SimpleNamespace(getsockname=lambda: ("0.0.0.0", 9092)))  # type: ignore[arg-type]
    return listeners


OVER_IPV6 = [(HOST, "::ffff:127.0.0.1"), ("::1", "::1"), ("::1", "::"), ("::", "::1"), ("::", HOST)]


@pytest.mark.parametrize(
    ("bound", "dialled"),
    [
        (HOST, HOST),
        (HOST, "localhost"),
        (HOST, "127.1"),
        (HOST, "0"),
        (HOST, "0.0.0.0"),
        ("0.0.0.0", "127.0.0.2"),
        ("*", "0.0.0.0"),
        *(pytest.param(*pair, marks=pytest.mark.ipv6) for pair in OVER_IPV6),
    ],
)
def test_a_connection_that_arrives_here_is_known_however_it_was_dialled(bound, dialled):
    listeners = OwnListeners()
    with bind(Address(bound, 0)) as sock:
        listeners.add(sock)
        with socket.create_connection((dialled, sock.getsockname()[1]), 10) as dialling:
            assert listeners.are_reached_by(dialling)
            assert not OwnListeners().are_reached_by(dialling)


@pytest.mark.parametrize("host", ["proxy.example", "proxy.example.", "Proxy.Example"])
def test_a_name_is_ours_in_any_letters_with_and_without_the_dot_of_an_absolute_one(host):
    listeners = OwnListeners()
    listeners.add_names(Address("proxy.example.", 9092))
    assert Address(host, 9092) in listeners
    assert Address(host, 9093) not in listeners


def test_a_listener_on_the_same_port_of_another_address_is_not_ours():
    listeners = OwnListeners()
    with bind(Address(HOST, 0)) as sock, bind(Address("127.0.0.2", sock.getsockname()[1])) as other:
        listeners.add(sock)
        with socket.create_connection(other.getsockname(), 10) as dialling:
            assert not listeners.are_reached_by(dialling)


def test_a_listener_on_the_same_port_over_ipv6_is_not_ours(everywhere):
    assert not everywhere.are_reached_by(seen("::1", "::1"))
    assert everywhere.are_reached_by(seen("::ffff:127.0.0.1", "::ffff:127.0.0.1"))


def test_a_socket_that_tcp_has_connected_to_itself_has_reached_no_broker():
    with socket.socket() as sock:
        sock.bind((HOST, 0))
        sock.connect(sock.getsockname())
        assert OwnListeners().are_reached_by(sock)


def test_a_listener_on_every_interface_is_reached_at_each_address_of_this_machine(everywhere, monkeypatch):
    assert everywhere.are_reached_by(seen("198.51.100.1"))
    assert not everywhere.are_reached_by(seen("198.51.100.2"))
    assert not everywhere.are_reached_by(seen("198.51.100.1", port=9093))
    # a second address, from which connections don't come by default
    monkeypatch.setattr(ips, "_can_be_bound", lambda address: str(address) == "198.51.100.2")
    assert everywhere.are_reached_by(seen("198.51.100.2"))


def test_a_bindable_address_of_another_machine_is_not_ours(everywhere, monkeypatch, tmp_path):
    (tmp_path / "ip_nonlocal_bind").write_text("1\n")
    monkeypatch.setattr(ips, "BINDS_ANYTHING", (Path("/none"), tmp_path / "ip_nonlocal_bind"))
    monkeypatch.setattr(ips, "_can_be_bound", lambda address: True)
    assert not everywhere.are_reached_by(seen("198.51.100.2"))
    (tmp_path / "ip_nonlocal_bind").write_text("0\n")
    assert everywhere.are_reached_by(seen("198.51.100.2"))


def test_names_are_the_proxys_letter_by_letter():
    listeners = OwnListeners()
    with bind(Address(HOST, 0)) as sock:
        listeners.add(sock, Address("proxy.invalid", 9092))
    listeners.add_names(Address("kafka-1.invalid", 443))
    assert Address("proxy.invalid", 9092) in listeners
    assert Address("kafka-1.invalid", 443) in listeners
    assert Address("kafka-2.invalid", 443) not in listeners


def test_a_nodes_socket_and_names_are_the_proxys_no_more_once_they_are_removed():
    listeners = OwnListeners()
    with (
        bind(Address(HOST, 0)) as sock,
        bind(Address(HOST, 0)) as other,
        socket.create_connection(sock.getsockname(), timeout=60) as dialling,
    ):
        listeners.add(sock, Address("kafka-1.invalid", 9092), node_id=1)
        listeners.add(other, Address("kafka.invalid", 9092))
        # bootstrap's name stays bootstrap's, though a node has it too
        listeners.add_names(Address("kafka.invalid", 9092), Address("kafka-1.invalid", 9093), node_id=1)
        listeners.add_names(Address("kafka-2.invalid", 9092), node_id=2)
        assert listeners.are_reached_by(dialling)
        listeners.remove([1, 3])
        assert not listeners.are_reached_by(dialling)
    assert Address("kafka-1.invalid", 9092) not in listeners
    assert Address("kafka-1.invalid", 9093) not in listeners
    assert Address("kafka-2.invalid", 9092) in listeners
    assert Address("kafka.invalid", 9092) in listeners
