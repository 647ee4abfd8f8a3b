"""A reserved port is nobody else's, and can be listened on all the same."""

import socket

import pytest

from tests.brokers.ports import Reserved, reserved_range


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


def test_a_range_is_free_on_every_host_and_given_back() -> None:
    hosts = ("127.0.0.1", "127.0.0.2")
    with reserved_range(hosts, 3) as first:
        for host in hosts:
            for port in range(first, first + 3):
                with socket.socket() as other, pytest.raises(OSError, match="in use"):
                    other.bind((host, port))
    with socket.socket() as other:
        other.bind((hosts[1], first + 2))
