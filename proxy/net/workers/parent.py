"""The parent of workers: a proxy whose connections are elsewhere.

It binds every listener and hands it to all workers; a socket listens from the bind on, so no client is turned away. The
answer to a worker that wants a node listened for waits until every worker accepts there.
"""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import astuple
from functools import partial
from typing import Any

import trio
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric as Family

from proxy.config import ClusterSettings, ProxySettings
from proxy.mapping.nodes import Node, NodeMap
from proxy.metrics.admin import Probe
from proxy.metrics.collector import ClusterNumbers, Gathered, WiretapCollector, process_registry, worker_families
from proxy.net.blocking import open_process
from proxy.net.brokers.nodes import Nodes
from proxy.net.change import Change, drop, nothing_else
from proxy.net.cluster import Cluster, Common
from proxy.net.reloading import READ_SECONDS, InEffect, Reload
from proxy.net.server import Proxy, Ready, nobody, run_it
from proxy.net.sockets.tls import Secured
from proxy.net.stopping import EXIT_CLEAN, EXIT_CUT_OFF
from proxy.net.workers.balance import Places
from proxy.net.workers.calls import Said
from proxy.net.workers.channel import Message
from proxy.net.workers.force import Force
from proxy.net.workers.job import Job, written
from proxy.net.workers.link import Link, WorkerProcess
from proxy.net.workers.process import Process
from proxy.schema.addresses import Address
from proxy.schema.errors import BadSetting

# workers read certificates themselves, and say so when they can't
CONSENT_SECONDS = READ_SECONDS + 2
# what systemd tells the parent is not for workers: they would speak in its place
SYSTEMDS = ("NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC")


def run_workers(
    settings: ProxySettings,
    command: Sequence[str],
    recording: Any = None,
    ready: Ready = nobody,
    reload: Reload | None = None,
    released: Callable[[], None] = nothing_else,
) -> int:
    """Runs a proxy of several processes until SIGTERM or SIGINT.

    Args:
        command: a worker's; it gets the numbers of two files, its end of the channel and the `Places`, and a `Job`
            on standard input.
        recording: how each is to record, handed on as it is.
        ready: called once, when everything listens and the workers work.
        reload: called at each SIGHUP.
        released: see `proxy.net.run`.

    Returns:
        0; 1 when the deadline of the drain cut something off.

    Raises:
        BadSetting: an address can't be listened on.
    """
    return run_it(Parent(settings, command, recording, ready, reload, released))


class Shared(Nodes):
    """The node table that workers mirror: they are told when it has changed. `tell`: does so."""

    tell: Callable[[], None]

    async def ensure(self, nodes: Iterable[Node], cluster_id: str | None = None) -> None:
        before = self.table()
        await super().ensure(nodes, cluster_id)
        if self.table() != before:
            self.tell()

    def _grow(self, places: NodeMap, opened: dict[int, socket.socket]) -> None:
        before = self.table()
        super()._grow(places, opened)
        if self.table() != before:
            self.tell()

    def table(self) -> dict[str, list[str]]:
        """Node id -> broker ("" while not known), listener, what clients are told ("" if there is nothing)."""
        return {
            str(row.node_id): [str(self.upstream(row.node_id) or ""), row.listener, str(self._told(row.node_id) or "")]
            for row in self.listeners()
        }


class ParentCluster(Cluster):
    """A cluster's listeners and its nodes, without its connections."""

    def __init__(self, settings: ClusterSettings, common: Common, reserved: tuple[range, ...], workers: Force) -> None:
        self._workers = workers
        self._listeners: list[tuple[socket.socket, int | None]] = []
        super().__init__(settings, common, reserved)

    def _make_nodes(self, reserved: tuple[range, ...]) -> Nodes:
        self._shared_nodes = Shared(self._settings, self.accept_on, self._read_state(), None, reserved)
        self._shared_nodes.tell = self._tell_table
        return self._shared_nodes

    def accept_on(self, listener: trio.SocketListener, node_id: int | None) -> None:
        sock = socket.socket(fileno=listener.socket.detach())
        if self._common.stopping.is_set():
            sock.close()
            return
        self._listeners.append((sock, node_id))
        self._workers.tell(self._listening(sock, node_id), [sock])

    def greet(self, link: Link) -> None:
        """Tells a worker that has joined where to accept, and who is where."""
        link.tell(self._table())
        for sock, node_id in self._listeners:
            link.tell(self._listening(sock, node_id), [sock])

    def close_listeners(self) -> None:
        """Workers have their own."""
        for sock, _ in self._listeners:
            sock.close()

    async def ensure(self, nodes: Sequence[Node], cluster_id: str | None) -> Said:
        """Has nodes listened for, by every worker. Raises OSError: no port can be had."""
        await self.nodes.ensure(nodes, cluster_id)
        await self._workers.settled()
        advertised = [astuple(self.nodes.advertised(node.node_id)) for node in nodes]
        return {"advertised": advertised, "current": self._shared_nodes.are_current(nodes)}

    def _listening(self, sock: socket.socket, node_id: int | None) -> Said:
        return {"do": "accept", "cluster": self.name, "node": node_id, "called": astuple(self._called(sock, node_id))}

    def _called(self, sock: socket.socket, node_id: int | None) -> Address:
        if node_id is not None:
            return self.nodes.advertised(node_id)
        return self._settings.node_map.called(Address(self._settings.listen.host, sock.getsockname()[1]))

    def _tell_table(self) -> None:
        self._workers.tell(self._table())

    def _table(self) -> Said:
        return {"do": "nodes", "cluster": self.name, "table": self._shared_nodes.table()}


class Parent(Proxy):
    """Everything that there is one of; see `run_workers` for the arguments."""

    def __init__(
        self,
        settings: ProxySettings,
        command: Sequence[str],
        recording: Any = None,
        ready: Ready = nobody,
        reload: Reload | None = None,
        released: Callable[[], None] = nothing_else,
    ) -> None:
        super().__init__(settings, ready=ready, reload=reload, released=released)
        self._command = command
        self._recording = recording
        self._places = Places.made(settings.workers)
        self._workers = Force(
            settings.workers, self._start, self._heed_worker, self._greet, self._places.vacate, settings.hung_seconds
        )
        self._parents: list[ParentCluster] = []
        # workers up to this number may have begun with other settings than those of now
        self._outdated = 0
        # of settings: what is told later has a higher one; 0 are those of the start
        self._numbers = itertools.count(1)
        self._generation = 0

    def _make_cluster(self, settings: ClusterSettings, common: Common, reserved: tuple[range, ...]) -> Cluster:
        made = ParentCluster(settings, common, reserved, self._workers)
        # a listener that is about to be handed to a worker is open once more
        made.nodes.copies = 1 + self._settings.workers
        self._parents.append(made)
        return made

    def _cluster(self, said: Said) -> ParentCluster:
        (found,) = [cluster for cluster in self._parents if cluster.name == said["cluster"]]
        return found

    async def _start(self, number: int, place: int, sock: socket.socket) -> WorkerProcess:
        files = [sock.fileno(), self._places.descriptor]
        process = await open_process(
            [*self._command, *map(str, files)],
            stdin=subprocess.PIPE,
            pass_fds=files,
            env={name: value for name, value in os.environ.items() if name not in SYSTEMDS},
            # a Ctrl-C at the terminal reaches the parent, which tells the workers
            start_new_session=True,
        )
        return Process(process, Job(number, place, self._settings, self._recording, self._seed).dumped())

    def _greet(self, link: Link) -> None:
        if link.number <= self._outdated:
            link.tell(self._said(self._taken, self._generation))
        for cluster in self._parents:
            cluster.greet(link)

    async def _prepared(self, new: InEffect, found: Sequence[Secured | None]) -> list[Change]:
        """As for a single process, and with the consent of all workers."""
        changes = await super()._prepared(new, found)
        number = next(self._numbers)
        change = Change(
            make=partial(self._tell, (new.settings, new.recording), number),
            undo=partial(self._tell, self._taken, next(self._numbers)),
            drop=partial(self._workers.tell, {"do": "forget", "number": number}),
        )
        try:
            asked = self._said((new.settings, new.recording), number, do="prepare")
            wrong = await self._workers.refusals(asked, CONSENT_SECONDS)
            if wrong:
                raise BadSetting(*wrong)
        except BaseException:
            drop([*changes, change])
            raise
        return [*changes, change]

    def _tell(self, taken: tuple[ProxySettings, Any], number: int) -> None:
        """Has the workers take settings over. Those that have not joined yet may have begun with others."""
        self._generation, self._outdated = number, self._workers.newest
        self._workers.tell(self._said(taken, number))

    @staticmethod
    def _said(taken: tuple[ProxySettings, Any], number: int, do: str = "settings") -> Said:
        return {"do": do, "settings": written(*taken), "number": number}

    async def _heed_worker(self, message: Message) -> Said | None:
        said = message.said
        cluster = self._cluster(said)
        match said["do"]:
            case "ensure":
                return await cluster.ensure([Node(*node) for node in said["nodes"]], said["cluster_id"])
            case "ask":
                return {"answered": await cluster.upstreams.ask_about_unknown()}
            case "doubt":
                cluster.upstreams.doubt()
        return None

    async def _start_children(self, connections: trio.Nursery) -> None:
        connections.start_soon(self._workers.run)
        async with trio.open_nursery() as waiting:
            waiting.start_soon(self._give_up_when_stopped, waiting.cancel_scope)
            await self._workers.complete()
            waiting.cancel_scope.cancel()

    async def _give_up_when_stopped(self, scope: trio.CancelScope) -> None:
        await self._stop.begun.wait()
        scope.cancel()

    async def _drain(self) -> int:
        for cluster in self._parents:
            cluster.close_listeners()
        clean = await self._workers.stop(self._settings.drain_seconds, self._stop)
        return EXIT_CLEAN if clean else EXIT_CUT_OFF

    # the admin page; its requests are answered in threads

    def _registry(self) -> CollectorRegistry:
        self._token = trio.lowlevel.current_trio_token()
        return process_registry(Gathered(self._gather))

    def _gather(self) -> Iterator[Family]:
        self._count_from_thread()
        totals = self._workers.totals
        numbers = [ClusterNumbers(one.name, totals.traffic(one.name), one.nodes.listeners) for one in self._parents]
        recorded = totals.recorded()
        yield from WiretapCollector(numbers, (lambda: recorded) if recorded else None).collect()
        yield from worker_families(len(self._workers.joined), self._workers.ends)

    def _make_heartbeat(self) -> Probe:
        probe = super()._make_heartbeat()

        def is_alive() -> tuple[bool, str]:
            alive, text = probe()
            hanging = [
                f"worker {link.number} has said nothing for {link.silent:.0f} s" for link in self._workers.hanging
            ]
            return alive and not hanging, "; ".join([*([] if alive else [text]), *hanging]) or text

        return is_alive

    def _is_ready(self) -> tuple[bool, str]:
        self._count_from_thread()
        ready, text = super()._is_ready()
        reasons = [] if ready else [text]
        if not self._workers.joined:
            reasons.append("no worker works")
        if self._workers.totals.recorded().get("failed"):
            reasons.append("the capture can't be written")
        return not reasons, "; ".join(reasons) or text

    def _count_from_thread(self) -> None:
        # a page that is asked for while the proxy ends shows what is known
        with suppress(trio.RunFinishedError, trio.Cancelled):
            trio.from_thread.run(self._workers.count, trio_token=self._token)
