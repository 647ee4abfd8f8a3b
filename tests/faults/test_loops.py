"""Tests of a proxy that is led back to itself, by brokers' addresses or its own settings: it must stop dialling.

This must hold for any spelling of the address and any way to it: bootstrap, a node's port, the proxy's own queries, one
process or several.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from proxy.wire import catalog
from proxy.wire.framing import framed
from proxy.wire.keys import METADATA
from tests.brokers.ports import Reserved
from tests.brokers.waiting import wait_for
from tests.faults.live import HOST, NODES, Client, LiveProxy, Where, answer, broker
from tests.sweeps import mostly_long

pytestmark = pytest.mark.real

Two = tuple[LiveProxy, LiveProxy]

WORKERS = pytest.mark.parametrize("workers", mostly_long([2, 1], usual=1))
# Names of this machine that differ from the string 127.0.0.1.
SPELLINGS = ("0.0.0.0", "0", "::ffff:127.0.0.1", "127.1", "localhost")
# Clients of a test. For each, the proxy may open a few connections before it detects the loop.
CLIENTS = 5
# Descriptors of a process for each client: the client's, the broker's, and both ends of one to itself.
FILES_OF_A_CLIENT = 4
# Connections of a process to one address before it checks whether the address leads back.
IN_A_CIRCLE = 128


class Moving:
    """A broker's answers. `nodes`: the advertised (host, port) by node; the broker's own for other nodes."""

    def __init__(self) -> None:
        self.nodes: dict[int, Where] = {}

    def answering(self, frame: bytes, sock: socket.socket) -> bytes:
        key = int.from_bytes(frame[:2], "big")
        if key != METADATA:
            return answer(frame, sock.getsockname())
        version, correlation_id = int.from_bytes(frame[2:4], "big"), int.from_bytes(frame[4:8], "big")
        told: dict[int, Where] = {node: sock.getsockname() for node in NODES} | self.nodes
        brokers = [{"node_id": node, "host": host, "port": port} for node, (host, port) in told.items()]
        return framed(catalog.encode_response(key, version, correlation_id, {"brokers": brokers}))


def has_left_the_circle(proxy: LiveProxy) -> bool:
    return proxy.metric("connections") < IN_A_CIRCLE


def has_fewer_files(proxy: LiveProxy, than: int) -> bool:
    return files_of(proxy) < than


def files_of(proxy: LiveProxy) -> int:
    """Returns the number of open files of the proxy and its workers."""
    process = psutil.Process(proxy.process.pid)
    workers = [one for one in process.children() if "proxy.worker" in one.cmdline()]
    return sum(one.num_fds() for one in [process, *workers])


@contextmanager
def running(upstream: str, folder: Path, workers: int, *more: str, port: int = 0) -> Iterator[LiveProxy]:
    flags = ("--upstream", upstream, "--listen", f"{HOST}:{port}", "--workers", str(workers), *more)
    folder.mkdir(exist_ok=True)
    with LiveProxy((HOST, 1), folder / "capture", folder / "proxy.log", *flags) as proxy:
        yield proxy


@contextmanager
def two_proxies(folder: Path, workers: int, upstreams: Callable[[int, int], tuple[str, str]]) -> Iterator[Two]:
    """Runs two proxies. `upstreams`: from both listen addresses, the upstream of each."""
    one, two = Reserved(HOST), Reserved(HOST)
    first, second = upstreams(one.port, two.port)
    with (
        running(first, folder / "first", workers, port=one.port) as a,
        running(second, folder / "second", workers, port=two.port) as b,
    ):
        yield a, b
    one.release()
    two.release()


def hears_the_end(where: Where) -> bool:
    """True if a client's connection ends unanswered: its broker is down."""
    client: Any = Client(where)
    try:
        return not client.is_served()
    finally:
        client.close()


@WORKERS
def test_brokers_that_advertise_the_proxys_own_ports_are_served_by_the_upstream(tmp_path: Path, workers: int) -> None:
    told = Moving()
    with broker(told.answering) as (host, port), running(f"{host}:{port}", tmp_path, workers) as proxy:
        ports = {node: where[1] for node, where in proxy.nodes().items()}
        before = files_of(proxy)
        for host in SPELLINGS:
            # Each node's advertised address is the other node's listener.
            told.nodes = {1: (host, ports[2]), 2: (host, ports[1])}
            proxy.nodes()
            clients = [Client((HOST, port)) for port in ports.values() for _ in range(CLIENTS)]
            for client in clients:
                client.exchange()
            # Connections of earlier clients may still be closing.
            few = before + len(clients) * FILES_OF_A_CLIENT
            wait_for(partial(has_fewer_files, proxy, few), "no more connections than clients need")
            for client in clients:
                client.close()
        wait_for(lambda: proxy.metric("connections") == 0, "the end of all connections")
        # The clients' connections, and a few for each spelling, port and process until the loop is detected.
        asked = len(SPELLINGS) * (1 + len(ports) * CLIENTS)
        assert proxy.metric("connections_opened_total") <= asked + len(SPELLINGS) * len(ports) * (CLIENTS + 2) * workers
        assert proxy.stop() == 0


@pytest.mark.parametrize(("workers", "host"), [(1, "0.0.0.0"), (1, "::ffff:127.0.0.1"), (2, "0")])
def test_an_upstream_that_is_the_proxy_itself_is_down(tmp_path: Path, workers: int, host: str) -> None:
    here = Reserved(HOST)
    upstream = f"[{host}]:{here.port}" if ":" in host else f"{host}:{here.port}"
    with running(upstream, tmp_path, workers, port=here.port) as proxy:
        before = files_of(proxy)
        for _ in range(CLIENTS):
            assert hears_the_end(proxy.listening)
        few = before + CLIENTS * FILES_OF_A_CLIENT
        wait_for(lambda: files_of(proxy) < few, "the end of what was opened")
        wait_for(lambda: "leads back to this proxy" in proxy.log, "the log to say so")
        wait_for(proxy.not_ready, "it not to be ready")
        assert proxy.stop() == 0
    here.release()


@WORKERS
def test_two_proxies_with_nothing_behind_them_but_each_other_find_out(tmp_path: Path, workers: int) -> None:
    with two_proxies(tmp_path, workers, lambda one, two: (f"{HOST}:{two}", f"{HOST}:{one}")) as proxies:
        for proxy in proxies:
            for _ in range(CLIENTS):
                assert hears_the_end(proxy.listening)
        wait_for(lambda: any("leads back to this proxy by way of" in proxy.log for proxy in proxies), "one to say so")
        for proxy in proxies:
            wait_for(partial(has_left_the_circle, proxy), "the circle to end")
            wait_for(partial(has_fewer_files, proxy, 4 * workers * IN_A_CIRCLE), "its files to be closed")
            assert proxy.metric("connections_opened_total") < 10 * workers * IN_A_CIRCLE
        assert [proxy.stop() for proxy in proxies] == [0, 0]


@WORKERS
def test_a_broker_behind_two_proxies_that_advertises_the_first_one_is_no_circle_without_end(
    tmp_path: Path, workers: int
) -> None:
    told = Moving()
    with (
        broker(told.answering) as (host, port),
        two_proxies(tmp_path, workers, lambda one, two: (f"{HOST}:{two}", f"{host}:{port}")) as (first, second),
    ):
        # For this node, the second proxy leads to the first, and the first to the second.
        told.nodes = {1: (HOST, first.nodes()[1][1])}
        nodes = first.nodes()
        for _ in range(CLIENTS):
            assert hears_the_end(nodes[1])
        wait_for(lambda: any("leads back to this proxy by way of" in proxy.log for proxy in (first, second)), "the log")
        # Clients of the other node and of the bootstrap listener are served meanwhile.
        for where in (nodes[2], first.listening, second.listening):
            client = Client(where)
            client.exchange()
            client.close()
        for proxy in (first, second):
            wait_for(partial(has_left_the_circle, proxy), "the circle to end")
            assert proxy.metric("connections_opened_total") < 20 * workers * IN_A_CIRCLE
            assert proxy.stop() == 0
