"""The parent of workers: a proxy whose connections are in other processes. The command line makes it.

The parent binds every listener, and sends its socket to all workers. The socket listens before the workers accept, so
no client is refused. A worker that asks for new nodes gets an answer once all workers accept on the nodes' listeners.
The parent waits only briefly for a worker that hangs.
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
from proxy.metrics.collector import all_families, process_registry, worker_families
from proxy.net.blocking import open_process
from proxy.net.brokers.nodes import Nodes
from proxy.net.brokers.upstreams import Upstreams
from proxy.net.change import Change, do_nothing, drop
from proxy.net.children import Companion
from proxy.net.cluster import Cluster, ClusterParts, ProxyContext, Serve, saved_state
from proxy.net.reloading import READ_SECONDS, ReadSettings, ReloadedSettings
from proxy.net.server import Proxy, Ready, ignore_ready
from proxy.net.sockets.tls import ClusterCredentials
from proxy.net.stopping import EXIT_CLEAN, EXIT_CUT_OFF, cancel_when
from proxy.net.workers.balance import ConnectionCounts
from proxy.net.workers.calls import Payload
from proxy.net.workers.channel import ChannelMessage
from proxy.net.workers.job import Job, dump_settings
from proxy.net.workers.process import WorkerProcess
from proxy.net.workers.supervisor import Supervisor
from proxy.net.workers.worker_handle import WorkerHandle
from proxy.schema.addresses import Address
from proxy.schema.errors import BadSetting

# the longest wait for workers to prepare new settings: each reads certificates itself, for READ_SECONDS at most
CONSENT_SECONDS = READ_SECONDS + 2
# systemd's variables, which workers do not get: else they would notify systemd in the parent's place
SYSTEMD_VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC")


class PublishedNodes(Nodes):
    """The parent's node table, which workers mirror.

    Args:
        publish: called when the table has changed.
        workers: have clients connected to nodes, and answers that name nodes.
        descriptors_per_listener: see `Nodes`.
    """

    def __init__(
        self,
        settings: ClusterSettings,
        serve: Serve,
        reserved: tuple[range, ...],
        publish: Callable[[], None],
        workers: Supervisor,
        descriptors_per_listener: int,
    ) -> None:
        super().__init__(settings, serve, saved_state(settings), None, reserved)
        self._publish = publish
        self._workers = workers
        self.descriptors_per_listener = descriptors_per_listener

    async def ensure(self, nodes: Iterable[Node], cluster_id: str | None = None) -> None:
        before = self.published()
        await super().ensure(nodes, cluster_id)
        if self.published() != before:
            self._publish()

    def _apply_map(self, node_map: NodeMap, opened: dict[int, socket.socket]) -> None:
        before = self.published()
        super()._apply_map(node_map, opened)
        if self.published() != before:
            self._publish()

    def published(self) -> Payload:
        """What workers mirror: the table, the cluster's id, the brokers of all nodes."""
        return {"table": self.table(), "cluster_id": self.cluster_id, "brokers": [*map(str, self.brokers)]}

    @property
    def connected(self) -> set[int]:
        name = self._settings.name
        return {node_id for worker in self._workers.totals.living for node_id in worker.connected.get(name, ())}

    async def _others_agree(self, node_ids: Sequence[int]) -> bool:
        self._workers.tell({"do": "doubt", "cluster": self._settings.name, "nodes": node_ids})
        # a worker that hangs may use the nodes
        return await self._workers.settled()

    def _give_back_all(self, node_ids: Sequence[int]) -> None:
        super()._give_back_all(node_ids)
        if node_ids:
            self._workers.tell({"do": "close", "cluster": self._settings.name, "nodes": node_ids})
            self._publish()

    def table(self) -> dict[str, list[str]]:
        """Node id -> broker ("": not known), listener, advertised address ("": none), for nodes with a listener."""
        return {
            str(row.node_id): [
                str(self.upstream(row.node_id) or ""),
                row.listener,
                str(self._advertised_or_none(row.node_id) or ""),
            ]
            for row in self.listeners()
        }


class ParentCluster:
    """A cluster's listeners and its nodes. The workers get every listener, and have all connections.

    Args:
        descriptors_per_listener: see `Nodes`.
    """

    def __init__(
        self,
        settings: ClusterSettings,
        context: ProxyContext,
        reserved: tuple[range, ...],
        workers: Supervisor,
        descriptors_per_listener: int,
    ) -> None:
        self.name = settings.name
        self._settings = settings
        self._stopping = context.stopping
        self._workers = workers
        self._listeners: list[tuple[socket.socket, int | None]] = []
        self.nodes = PublishedNodes(
            settings, self._hand_out, reserved, self._publish, workers, descriptors_per_listener
        )
        parts = ClusterParts(lambda _: self.nodes, partial(Upstreams, settings), serve=self._hand_out)
        self.cluster = Cluster(settings, context, parts)

    def _hand_out(self, listener: trio.SocketListener, node_id: int | None) -> Callable[[], None]:
        """A `Serve`: has all workers accept on a listener."""
        sock = socket.socket(fileno=listener.socket.detach())
        if self._stopping.is_set():
            sock.close()
            return do_nothing
        self._listeners.append((sock, node_id))
        self._workers.tell(self._listening(sock, node_id), [sock])
        return partial(self._close, sock, node_id)

    def _close(self, sock: socket.socket, node_id: int | None) -> None:
        """Closes a listener that was given back."""
        self._listeners.remove((sock, node_id))
        # ends the listening in all processes at once: the port is free though a worker has yet to close its copy
        sock.shutdown(socket.SHUT_RDWR)
        sock.close()

    def catch_up(self, worker: WorkerHandle) -> None:
        """Sends the node table and the listeners to a worker that joins."""
        worker.tell(self._table())
        for sock, node_id in self._listeners:
            worker.tell(self._listening(sock, node_id), [sock])

    def close_listeners(self) -> None:
        """Closes the parent's copies of the listening sockets; the workers have their own."""
        for sock, _ in self._listeners:
            sock.close()

    async def ensure(self, nodes: Sequence[Node], cluster_id: str | None) -> Payload:
        """Opens the nodes' listeners. Returns once all workers accept on them, or hang. Raises OSError."""
        # the worker has noted the nodes, and may report them too late
        self.nodes.note((node.node_id for node in nodes), is_list=False)
        await self.nodes.ensure(nodes, cluster_id)
        await self._workers.settled()
        advertised = [astuple(self.nodes.advertised(node.node_id)) for node in nodes]
        return {"advertised": advertised, "current": self.nodes.are_current(nodes)}

    def _listening(self, sock: socket.socket, node_id: int | None) -> Payload:
        advertised = astuple(self._advertised(sock, node_id))
        return {"do": "accept", "cluster": self.name, "node": node_id, "advertised": advertised}

    def _advertised(self, sock: socket.socket, node_id: int | None) -> Address:
        if node_id is not None:
            return self.nodes.advertised(node_id)
        listening = Address(self._settings.listen.host, sock.getsockname()[1])
        return self._settings.node_map.advertised_bootstrap(listening)

    def _publish(self) -> None:
        self._workers.tell(self._table())

    def _table(self) -> Payload:
        return {"do": "nodes", "cluster": self.name, **self.nodes.published()}


class Parent(Proxy):
    """The parent's process, which `proxy.net.run` runs.

    Args:
        command: starts a worker. Two file descriptors are added as arguments: the worker's end of the channel, and the
            memory of `ConnectionCounts`. A `Job` is written to standard input.
        recording: the recorder's settings for each worker; None: nothing is recorded.
        ready: called once, when all listeners are open and each of the first workers has joined or ended.
        reload, released, companions: see `Proxy`.
    """

    def __init__(
        self,
        settings: ProxySettings,
        command: Sequence[str],
        recording: Any = None,
        ready: Ready = ignore_ready,
        reload: ReadSettings | None = None,
        released: Callable[[], None] = do_nothing,
        companions: Sequence[Companion] = (),
    ) -> None:
        super().__init__(settings, ready=ready, reload=reload, released=released, companions=companions)
        self._command = command
        self._recording = recording
        self._counts = ConnectionCounts.create(settings.workers)
        self._workers = Supervisor(
            settings.workers,
            self._start,
            self._handle,
            self._catch_up,
            self._counts.vacate,
            settings.hung_seconds,
            self._note_nodes,
        )
        self._parent_clusters: dict[str, ParentCluster] = {}
        # workers up to this number may have started with settings that are no longer in effect
        self._outdated_up_to = 0
        # each reload takes two numbers: one for the new settings, one for the old settings in case of an undo
        self._settings_numbers = itertools.count(1)
        self._number_in_effect = 0

    def _make_cluster(self, settings: ClusterSettings, context: ProxyContext, reserved: tuple[range, ...]) -> Cluster:
        # a listener takes a descriptor of its own, and until each worker has it, one more for each worker's copy
        parent_cluster = ParentCluster(
            settings, context, reserved, self._workers, descriptors_per_listener=1 + self.settings.workers
        )
        self._parent_clusters[settings.name] = parent_cluster
        return parent_cluster.cluster

    async def _start(self, number: int, slot: int, sock: socket.socket) -> WorkerProcess:
        files = [sock.fileno(), self._counts.descriptor]
        process = await open_process(
            [*self._command, *map(str, files)],
            stdin=subprocess.PIPE,
            pass_fds=files,
            env={name: value for name, value in os.environ.items() if name not in SYSTEMD_VARIABLES},
            # a Ctrl-C at the terminal must reach the parent only, which stops the workers
            start_new_session=True,
        )
        return WorkerProcess(process, Job(number, slot, self.settings, self._recording, self._discovery_seed).dumped())

    def _catch_up(self, worker: WorkerHandle) -> None:
        """Brings a worker that joins up to date: sends it the newest settings, the node tables, and the listeners."""
        if worker.number <= self._outdated_up_to:
            worker.tell(self._settings_payload(self._in_effect, self._number_in_effect))
        for cluster in self._parent_clusters.values():
            cluster.catch_up(worker)

    async def _changes_to(
        self, new: ReloadedSettings, certificates: Sequence[ClusterCredentials | None]
    ) -> list[Change]:
        """As in `Proxy`, but raises BadSetting too if a worker can't prepare the settings."""
        changes = await super()._changes_to(new, certificates)
        number = next(self._settings_numbers)
        change = Change(
            apply=partial(self._tell_workers, (new.settings, new.recording), number),
            undo=partial(self._tell_workers, self._in_effect, next(self._settings_numbers)),
            drop=partial(self._workers.tell, {"do": "forget", "number": number}),
        )
        try:
            request = self._settings_payload((new.settings, new.recording), number, do="prepare")
            wrong = await self._workers.refusals(request, CONSENT_SECONDS)
            if wrong:
                raise BadSetting(*wrong)
        except BaseException:
            drop([*changes, change])
            raise
        return [*changes, change]

    def _tell_workers(self, settings: tuple[ProxySettings, Any], number: int) -> None:
        """Has the workers take over settings.

        A worker that has started but not joined yet may have older settings; `_catch_up` sends it the newest.
        """
        self._number_in_effect, self._outdated_up_to = number, self._workers.newest
        self._workers.tell(self._settings_payload(settings, number))

    @staticmethod
    def _settings_payload(settings: tuple[ProxySettings, Any], number: int, do: str = "settings") -> Payload:
        return {"do": do, "settings": dump_settings(*settings), "number": number}

    def _note_nodes(self, payload: Payload) -> None:
        """Notes which nodes a worker's answers have named."""
        for name, report in payload["nodes"].items():
            self._parent_clusters[name].nodes.note(report["named"], is_list=report["has_list"])

    async def _handle(self, message: ChannelMessage) -> Payload | None:
        """Answers a worker's request; see `Handler`."""
        payload = message.payload
        parent_cluster = self._parent_clusters[payload["cluster"]]
        match payload["do"]:
            case "ensure":
                return await parent_cluster.ensure([Node(*node) for node in payload["nodes"]], payload["cluster_id"])
            case "discover":
                return {"answered": await parent_cluster.cluster.upstreams.discover_for_client()}
            case "request_discovery":
                parent_cluster.cluster.upstreams.request_discovery()
        return None

    async def _start_children(self, connections: trio.Nursery) -> None:
        connections.start_soon(self._workers.run)
        async with trio.open_nursery() as waiting:
            waiting.start_soon(cancel_when, self._stop.begun, waiting.cancel_scope)
            await self._workers.all_started()
            waiting.cancel_scope.cancel()

    async def _drain(self) -> int:
        for cluster in self._parent_clusters.values():
            cluster.close_listeners()
        clean = await self._workers.stop(self.settings.drain_seconds, self._stop)
        return EXIT_CLEAN if clean else EXIT_CUT_OFF

    # the admin page, which is made in threads

    def _registry(self) -> CollectorRegistry:
        self._token = trio.lowlevel.current_trio_token()
        return process_registry(self._gather)

    def _gather(self) -> Iterator[Family]:
        self._fetch_counts()
        totals = self._workers.totals
        numbers = [
            one.numbers(totals.traffic(one.name, one.nodes.is_served), partial(totals.state, one.name))
            for one in self.clusters
        ]
        process = self._process_numbers(totals.held, totals.loop_delay())
        recorded = totals.recorded()
        counters = (lambda: {**recorded, **self._companion_counters()}) if recorded else None
        yield from all_families(numbers, counters, process)
        yield from worker_families(len(self._workers.joined), self._workers.ends, totals.connections())

    def _liveness_probe(self) -> Probe:
        probe = super()._liveness_probe()

        def is_alive() -> tuple[bool, str]:
            alive, text = probe()
            hanging = [
                f"worker {worker.number} has said nothing for {worker.silent:.0f} s" for worker in self._workers.hanging
            ]
            return alive and not hanging, "; ".join([*([] if alive else [text]), *hanging]) or text

        return is_alive

    def _is_ready(self) -> tuple[bool, str]:
        self._fetch_counts()
        return super()._is_ready()

    def _reasons_against(self) -> list[str]:
        reasons = super()._reasons_against()
        if not self._workers.joined:
            reasons.append("no worker works")
        if self._workers.totals.recorded().get("failed"):
            reasons.append("the capture can't be written")
        return reasons

    def _fetch_counts(self) -> None:
        """Fetches the workers' counts. Called in the admin page's threads; blocks."""
        # while the proxy ends, the page shows the last counts
        with suppress(trio.RunFinishedError, trio.Cancelled):
            trio.from_thread.run(self._workers.count, trio_token=self._token)
