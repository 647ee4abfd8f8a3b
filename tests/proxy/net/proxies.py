"""Runs a whole proxy within a test; stops it by the signal that a user would send."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import trio
from trio.testing import wait_all_tasks_blocked

from proxy.config import MAIN, ClusterSettings
from proxy.conversation import Cause
from proxy.net.children import Companion
from proxy.net.cluster import Cluster
from proxy.net.reloading import ReadSettings
from proxy.net.server import Proxy
from proxy.schema.addresses import Address
from tests.proxy.net.peers import PATIENCE, Peer
from tests.proxy.net.relays import Watcher, whole


@dataclass
class Running:
    proxy: Proxy
    watcher: Watcher
    listeners: Mapping[str, Address]
    metrics: Address | None
    code: int | None = None
    finished: trio.Event = field(default_factory=trio.Event)

    @property
    def cluster(self) -> Cluster:
        """The only cluster, or the first."""
        return self.proxy.clusters[0]

    def of(self, name: str) -> Cluster:
        (found,) = [cluster for cluster in self.proxy.clusters if cluster.name == name]
        return found

    async def client(self, node_id: int | None = None, cluster: str = MAIN) -> Peer:
        """A client of the bootstrap listener, or of a node's."""
        at = self.listeners[cluster] if node_id is None else self.of(cluster).nodes.advertised(node_id)
        return Peer(await trio.open_tcp_stream(at.host, at.port))

    async def nodes(self, *numbers: int, cluster: str = MAIN) -> None:
        """Returns once the proxy listens for these nodes."""
        with trio.fail_after(PATIENCE):
            while not {*numbers} <= {row.node_id for row in self.of(cluster).nodes.listeners()}:
                await wait_all_tasks_blocked(0.005)

    @property
    def listening(self) -> Address:
        """The bootstrap listener of the only cluster, or of the first."""
        return self.listeners[self.cluster.name]

    def stop(self) -> None:
        signal.raise_signal(signal.SIGTERM)

    async def read_again(self) -> None:
        """Sends SIGHUP; returns once settings have been read, and applied or refused."""
        over = trio.Event()
        with patch.object(self.proxy._systemd, "ready", over.set):
            signal.raise_signal(signal.SIGHUP)
            with trio.fail_after(PATIENCE):
                await over.wait()

    async def ends_with(self, code: int) -> None:
        with trio.fail_after(PATIENCE):
            await self.finished.wait()
        assert self.code == code

    def closes(self) -> dict[str, int]:
        """Returns the numbers of closed connections by cause."""
        return {cause.value: count for cause, count in self.cluster.traffic.closes.items() if count}


@asynccontextmanager
async def proxying(
    *chosen: ClusterSettings,
    watcher: Any = None,
    child: Sequence[str] | None = None,
    reload: ReadSettings | None = None,
    companions: Sequence[Companion] = (),
    **others: Any,
) -> AsyncIterator[Running]:
    """Runs a proxy during the `with` block. `watcher`: its observer. `others`: settings outside of clusters."""
    watcher, ready = watcher or Watcher(), trio.Event()
    running: Running

    def say_ready(listening: Mapping[str, Address], metrics: Address | None) -> None:
        running.listeners, running.metrics = listening, metrics
        ready.set()

    proxy = Proxy(whole(*chosen, **others), watcher, child, say_ready, reload, companions=companions)
    async with trio.open_nursery() as nursery:
        running = Running(proxy, watcher, {}, None)

        async def run() -> None:
            running.code = await proxy.run()
            running.finished.set()

        nursery.start_soon(run)
        await ready.wait()
        yield running
        nursery.cancel_scope.cancel()


async def closed(proxy: Running, count: int = 1) -> dict[str, int]:
    """Returns the causes, once so many connections have ended."""
    with trio.fail_after(PATIENCE):
        while sum(proxy.closes().values()) < count:
            await wait_all_tasks_blocked(0.005)
    return proxy.closes()


async def ended(proxy: Running, *causes: Cause) -> None:
    """Returns once a connection has ended for each of these causes."""
    expected = {cause.value: causes.count(cause) for cause in causes}
    with trio.fail_after(PATIENCE):
        while sum(proxy.closes().values()) < len(causes):
            await wait_all_tasks_blocked(0.005)
    assert proxy.closes() == expected


def stopped(*where: Any) -> None:
    """Stops the proxy as soon as it has logged its listeners."""
    signal.raise_signal(signal.SIGTERM)
