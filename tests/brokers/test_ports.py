"""Tests of reserved ports: no other socket gets them, and a server can listen on them."""

import socket

import pytest

from tests.brokers.ports import Reserved, different_ports, reserved_range, same_port


def test_a_reserved_port_can_be_listened_on_again_and_again() -> None:
    port = Reserved("127.0.0.1")
    for _ in range(2):
        with socket.create_server((port.host, port.port)), socket.create_connection((port.host, port.port)):
            pass
    port.release()


def test_a_reserved_port_is_refused_to_others() -> None:
    port = Reserved("127.0.0.1")
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind((port.host, port.port))
    port.release()


def test_same_port_reserves_one_port_on_every_host() -> None:
    held = same_port(["127.0.0.1", "127.0.0.2", "127.0.0.3"])
    assert [one.host for one in held] == ["127.0.0.1", "127.0.0.2", "127.0.0.3"]
    assert len({one.port for one in held}) == 1
    for one in held:
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind((one.host, one.port))
        one.release()


def test_a_port_taken_on_one_of_the_hosts_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = ["127.0.0.1", "127.0.0.2"]
    busy, free = same_port(hosts), same_port(hosts)
    with socket.create_server((busy[1].host, busy[1].port)):
        picks = iter([busy[0].port, free[0].port])
        reserve = Reserved.__init__
        monkeypatch.setattr(Reserved, "__init__", lambda self, host, port=0: reserve(self, host, port or next(picks)))
        held = same_port(hosts)
    assert [one.port for one in held] == [free[0].port] * 2
    for one in (*busy, *free, *held):
        one.release()


def test_ports_of_different_hosts_have_different_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    first, other = same_port(["127.0.0.1", "127.0.0.2"]), Reserved("127.0.0.2")
    picks = iter([first[0].port, first[1].port, other.port])
    reserve = Reserved.__init__
    monkeypatch.setattr(Reserved, "__init__", lambda self, host: reserve(self, host, next(picks)))
    held = different_ports(["127.0.0.1", "127.0.0.2"])
    assert [one.port for one in held] == [first[0].port, other.port]
    for one in (*first, other, *held):
        one.release()


def test_a_range_is_free_on_every_host_and_given_back() -> None:
    hosts = ("127.0.0.1", "127.0.0.2")
    with reserved_range(hosts, 3) as first:
        for host in hosts:
            for port in range(first, first + 3):
                with socket.socket() as other, pytest.raises(OSError, match="in use"):
                    other.bind((host, port))
    with socket.socket() as other:
        other.bind((hosts[1], first + 2))
