"""Tests of limits of connections over two workers: each keeps its share, for any number of clients at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.brokers.waiting import wait_for
from tests.faults.live import Client, LiveProxy
from tests.faults.two_workers import clients_of, closed, running

pytestmark = pytest.mark.real

CROWD = 200


@pytest.mark.parametrize(
    ("setting", "parts"),
    [
        ("connections = 11", [5, 6]),
        ("clusters.main.limits.connections = 11", [5, 6]),
        # One worker may get all the few connections of an address.
        ("clusters.main.limits.connections_per_address = 4", [4, 4]),
    ],
)
def test_each_worker_admits_its_share_of_a_crowd(tmp_path: Path, setting: str, parts: list[int]) -> None:
    file, limit = tmp_path / "wiretap.toml", sum(parts)
    file.write_text(setting + "\n")
    with running(tmp_path, "--config", str(file)) as proxy:
        crowd = Crowd(proxy)
        crowd.come(CROWD)
        assert all(count <= part for count, part in zip(crowd.by_worker(), parts, strict=True))
        # A client that a full worker refused connects again, until both workers are full.
        wait_for(lambda: crowd.come(1) == limit, "both workers to be full")
        assert crowd.by_worker() == parts
        assert crowd.come(CROWD) == limit
        crowd.assert_counted()
        for _ in range(2):
            crowd.leave(3)
            wait_for(lambda: crowd.come(1) == limit, "those that left to be replaced")
            assert crowd.by_worker() == parts
        assert crowd.come(CROWD) == limit
        crowd.assert_counted()
        closed(*crowd.inside)
        assert proxy.stop() == 0


class Crowd:
    """Concurrent clients. `inside`: those that were admitted; they stay connected and are served."""

    def __init__(self, proxy: LiveProxy) -> None:
        self.inside: list[Client] = []
        self._proxy = proxy
        self._came = self._left = 0

    def come(self, count: int) -> int:
        """Connects `count` clients. Returns how many are inside."""
        clients = [Client(self._proxy.listening) for _ in range(count)]
        self._came += count
        for client in clients:
            if client.is_served():
                self.inside.append(client)
            else:
                client.close()
        assert all(client.is_served() for client in self.inside)
        return len(self.inside)

    def leave(self, count: int) -> None:
        closed(*self.inside[:count])
        del self.inside[:count]
        self._left += count

    def by_worker(self) -> list[int]:
        """Returns each worker's number of connections in ascending order."""
        names = {client.name for client in self.inside}
        return sorted(len(names & clients_of(worker)) for worker in self._proxy.workers())

    def assert_counted(self) -> None:
        """Checks that the metrics count each client once: as inside, gone or refused."""
        refused = self._came - self._left - len(self.inside)
        closed_for = ("connections_closed_total", 'cause="too_many_connections"')
        wait_for(lambda: self._proxy.metric(*closed_for) == refused, "all to be counted")
        wait_for(lambda: self._proxy.metric("connections") == len(self.inside), "all that left to be gone")
        assert self._proxy.metric("connections_opened_total") == self._came
