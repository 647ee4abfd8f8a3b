"""Tests of thousands of connections that are opened and closed as fast as possible, with and without a first byte.

An earlier client must be served meanwhile, and the limit of connections kept. Afterwards connections, open files and
the brokers' connections are as before, and memory has not grown with the number of connections.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.brokers.waiting import PATIENCE, wait_for
from tests.faults.live import Client, LiveProxy, Where, broker, stopped_behind

pytestmark = pytest.mark.real

CONNECTIONS, THREADS = 5_000, 4
LIMIT = 50
# a kernel whose queue is full may drop a connection that its client took for open and has closed
LEAST_SEEN = CONNECTIONS * 9 // 10
# what some hundreds of simultaneous connections take; ended ones may leave nothing behind
MEMORY = 48 * 1024 * 1024


def flood(where: Where) -> None:
    """Opens and closes the connections; every second one sends a byte, two of four end with a reset.

    Connections are accepted in their order: when the last one has been closed by the proxy, it has seen all that came.
    """

    def some() -> None:
        for number in range(CONNECTIONS // THREADS):
            with socket.create_connection(where, PATIENCE) as sock:
                if number % 2:
                    sock.send(b"\0")
                if number % 4 > 1:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    threads = [threading.Thread(target=some) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with suppress(ConnectionError), socket.create_connection(where, PATIENCE) as last:
        last.shutdown(socket.SHUT_WR)
        last.recv(1)


@contextmanager
def running(folder: Path, *more: str) -> Iterator[LiveProxy]:
    with (
        broker() as upstream,
        stopped_behind(LiveProxy(upstream, folder / "capture", folder / "proxy.log", *more)) as proxy,
    ):
        yield proxy


def settled_files(proxy: LiveProxy) -> int:
    """Returns the most files that it has open once the compactor works. One may belong to the last query."""
    compacted = "recorder_compacted_frames_total"
    wait_for(lambda: proxy.metric(compacted) > 0, "the compactor to work")
    return proxy.files


class Served(threading.Thread):
    """A client that keeps sending requests until it is told to stop."""

    def __init__(self, client: Client) -> None:
        super().__init__(daemon=True)
        self._client = client
        self._stopped = threading.Event()
        self.failed = False
        self.start()

    def run(self) -> None:
        while not self._stopped.is_set():
            if not self._client.is_served():
                self.failed = True
                return

    def stop(self) -> None:
        self._stopped.set()
        self.join(PATIENCE)
        assert not self.failed
        assert not self.is_alive()


def test_a_flood_leaves_nothing_behind_and_delays_no_answers(tmp_path: Path) -> None:
    with running(tmp_path) as proxy:
        neighbour = Client(proxy.listening)
        neighbour.exchange()
        files = settled_files(proxy)
        before = proxy.resident
        served = Served(neighbour)
        flood(proxy.listening)
        wait_for(lambda: proxy.metric("connections") == 1, "the connections' ends")
        served.stop()
        opened, closed = "connections_opened_total", "connections_closed_total"
        assert proxy.metric(opened) == proxy.metric(closed) + 1
        assert LEAST_SEEN < proxy.metric(closed) <= CONNECTIONS + 1
        wait_for(lambda: proxy.files <= files, "files to be closed")
        assert proxy.most_resident - before < MEMORY
        assert proxy.metric(closed, 'cause="proxy_fault"') == 0
        neighbour.close()
    assert "Traceback" not in (tmp_path / "proxy.log").read_text()


def test_a_limit_of_connections_holds_in_a_flood_and_admitted_clients_stay(tmp_path: Path) -> None:
    settings = tmp_path / "wiretap.toml"
    settings.write_text(f"[clusters.main.limits]\nconnections = {LIMIT}\n")
    with running(tmp_path, "--config", str(settings)) as proxy:
        inside = [Client(proxy.listening) for _ in range(LIMIT)]
        for client in inside:
            client.exchange()
        files = settled_files(proxy)
        served = Served(inside[0])
        flood(proxy.listening)
        wait_for(lambda: proxy.metric("connections") == LIMIT, "the connections' ends")
        served.stop()
        closed = "connections_closed_total"
        assert LEAST_SEEN < proxy.metric(closed) <= CONNECTIONS + 1
        assert proxy.metric(closed, 'cause="too_many_connections"') == proxy.metric(closed)
        wait_for(lambda: proxy.files <= files, "files to be closed")
        # it is logged once, not five thousand times
        assert (tmp_path / "proxy.log").read_text().count("too many connections") == 1
        for client in inside:
            client.exchange()
            client.close()
