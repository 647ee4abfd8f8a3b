"""Tests of the check of a cluster's master before Spark starts."""

from __future__ import annotations

import socket

import pytest

from recorder.analysis.master import NoMaster, addresses, check, is_loopback
from tests.tables import each_row


@each_row(
    ("master", "found"),
    [
        ("spark://host:7077", [("host", 7077)]),
        ("spark://a:1,b:2", [("a", 1), ("b", 2)]),
        ("spark://[::1]:7077", [("::1", 7077)]),
        ("local[*]", []),
        ("yarn", []),
        ("k8s://https://h:6443", []),
    ],
    ids=["one", "two", "ipv6", "local", "yarn", "kubernetes"],
)
def test_a_standalone_clusters_masters_have_addresses(master: str, found: list[tuple[str, int]]) -> None:
    assert addresses(master) == found


@each_row("master", ["spark://", "spark://host", "spark://host:", "spark://host:port", "spark://a:1,b"])
def test_an_address_has_a_host_and_a_port(master: str) -> None:
    with pytest.raises(NoMaster):
        addresses(master)


def test_a_master_that_listens_is_reached_though_another_one_is_gone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as there, socket.create_server(("127.0.0.1", 0)) as other:
        port, gone = there.getsockname()[1], other.getsockname()[1]
        other.close()
        check(f"spark://127.0.0.1:{gone},127.0.0.1:{port}")
        with pytest.raises(NoMaster, match=f"127.0.0.1:{gone}: Connection refused"):
            check(f"spark://127.0.0.1:{gone}")


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 300, "\udcff", "-"])
def test_a_name_that_leads_nowhere_is_no_master(host: str) -> None:
    with pytest.raises(NoMaster):
        check(f"spark://{host}:7077")


def test_a_port_that_none_can_have_is_no_master() -> None:
    with pytest.raises(NoMaster):
        check("spark://127.0.0.1:99999")


@each_row(
    ("master", "yes"),
    [
        ("spark://127.0.0.1:1", True),
        ("spark://localhost:1,[::1]:2", True),
        ("spark://127.0.0.1:1,host:2", False),
        ("spark://10.0.0.1:1", False),
        ("spark://", False),
        ("local[*]", False),
    ],
    ids=["address", "name", "two", "elsewhere", "none", "local"],
)
def test_a_master_on_loopback_is_recognised(master: str, yes: bool) -> None:
    assert is_loopback(master) is yes
