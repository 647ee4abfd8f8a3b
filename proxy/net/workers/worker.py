"""A worker: a proxy whose listeners come from the parent. `proxy/worker.py` calls `run_worker` in the worker's process.

A worker drains when the parent orders it to, when it gets a signal itself, and when the parent is gone. Without a
parent a worker would learn of no new nodes, and would keep the ports from the next proxy.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from logging import ERROR, INFO, WARNING
from typing import Any

import trio

from proxy.config import ClusterSettings
from proxy.limited_server import Server
from proxy.log import log, log_to_stderr
from proxy.metrics import sums
from proxy.net.blocking import in_thread
from proxy.net.change import Change, commit, do_nothing, drop
from proxy.net.cluster import Cluster, ClusterParts, ProxyContext
from proxy.net.reloading import ReloadedSettings
from proxy.net.server import Proxy, run
from proxy.net.stopping import Urgency
from proxy.net.workers.balance import ConnectionCounts, OwnCount
from proxy.net.workers.calls import Calls, Payload
from proxy.net.workers.channel import Channel, ChannelBroken, ChannelMessage
from proxy.net.workers.job import Job, load_settings
from proxy.net.workers.mirror import MirroredNodes, MirroredUpstreams
from proxy.net.workers.supervisor import BEAT_SECONDS
from proxy.observer import Observer
from proxy.schema.addresses import Address
from proxy.schema.errors import BadSetting
from proxy.threads import NoThread

# the longest that a worker waits to send its last counts
FINAL_COUNTS_SECONDS = 1.0
# the longest wait for the recorder's counters. Some are in files: a disk that hangs must neither silence the whole
# worker nor keep it from ending
COUNTERS_SECONDS = 0.5


def run_worker(
    job: Job,
    files: tuple[int, int],
    observer: Observer | None = None,
    child: Sequence[str] | None = None,
) -> int:
    """Runs a worker until it is told to stop; see `proxy.net.run`.

    Args:
        files: the descriptors of the worker's end of the channel, and of the memory of `ConnectionCounts`.
    """
    count = ConnectionCounts(files[1], job.settings.workers).of(job.slot)
    return run(Worker(job, socket.socket(fileno=files[0]), count, observer, child))


class WorkerCluster:
    """A cluster's connections in one worker. The listeners and the node table are the parent's.

    Args:
        parent: the calls to the parent.
        count: this worker's number of connections.
    """

    def __init__(self, settings: ClusterSettings, context: ProxyContext, parent: Calls, count: OwnCount) -> None:
        self._count = count
        self._sockets: dict[trio.SocketListener, socket.socket] = {}
        self._closers: dict[int, Callable[[], None]] = {}
        self.mirror = MirroredNodes(settings, parent, context.observer)
        upstreams = partial(MirroredUpstreams, settings, parent)
        parts = ClusterParts(
            lambda _: self.mirror, upstreams, accept=self._accept, on_opened=count.opened, on_closed=count.closed
        )
        self.cluster = Cluster(settings, context, parts)

    def accept_from_parent(self, sock: socket.socket, node_id: int | None, advertised: Address) -> None:
        """Accepts on one of the parent's listening sockets from now on. `advertised`: what its clients are told."""
        self.mirror.own_listeners.add(sock, advertised, node_id=node_id)
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(sock))
        self._sockets[listener] = sock
        close = self.cluster.accept_on(listener, node_id)
        if node_id is not None:
            self._closers[node_id] = partial(self._close, listener, close)

    def forget(self, node_ids: Sequence[int]) -> None:
        """Closes the listeners of nodes whose listeners the parent has closed."""
        self.mirror.forget(node_ids)
        for node_id in node_ids:
            self._closers.pop(node_id, do_nothing)()

    def _close(self, listener: trio.SocketListener, close: Callable[[], None]) -> None:
        del self._sockets[listener]
        close()

    async def _accept(self, listener: trio.SocketListener) -> tuple[trio.socket.SocketType, Any]:
        while True:
            await trio.lowlevel.wait_readable(listener.socket)
            await self._count.wait_turn()
            if listener not in self._sockets:
                raise trio.ClosedResourceError
            # another worker may have been faster
            with suppress(BlockingIOError):
                sock, peer = self._sockets[listener].accept()
                return trio.socket.from_stdlib_socket(sock), peer


class Worker(Proxy):
    """A worker's process; see `run_worker` for the arguments."""

    def __init__(
        self,
        job: Job,
        sock: socket.socket,
        count: OwnCount,
        observer: Observer | None = None,
        child: Sequence[str] | None = None,
    ) -> None:
        super().__init__(job.worker_settings, observer, child)
        self._count = count
        self._number = job.number
        self._first_connection = job.first_connection
        self._discovery_seed = job.seed
        self._parent = Calls(Channel(sock), self._handle_now, self._handle_request)
        self._worker_clusters: dict[str, WorkerCluster] = {}
        # the number of a reading of the settings (a SIGHUP) -> the changes that this worker has prepared for it
        self._prepared_changes: dict[int, list[Change]] = {}
        self._number_in_effect = 0
        # the recorder's counters as last read; one thread at a time reads them
        self._recorder_counters: dict[str, float] = {}
        self._counters_thread = trio.CapacityLimiter(1)

    async def run(self) -> int:
        """See `run_worker`."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._listen_to_parent)
            nursery.start_soon(self._send_counts_regularly)
            code = await super().run()
            self._parent.tell({"do": "counted", **await self._counts()})
            with trio.move_on_after(FINAL_COUNTS_SECONDS):
                await self._parent.all_sent()
            nursery.cancel_scope.cancel()
        return code

    async def _send_counts_regularly(self) -> None:
        """Sends the counts so far, regularly. The parent keeps a killed worker's. A silent worker counts as hung."""
        while True:
            self._parent.tell({"do": "counted", **await self._counts()})
            await trio.sleep(BEAT_SECONDS)
            # counts must not pile up for a parent that reads nothing
            await self._parent.all_sent()

    async def _listen_to_parent(self) -> None:
        try:
            await self._parent.run()
        except* ChannelBroken as broken:
            # the lost message may be a listener (no descriptor was free): this worker must make way for another
            log(ERROR, "stopping: a message of the parent process is lost", reason=broken.exceptions[0])
        else:
            log(WARNING, "stopping: the parent process is gone")
        self._ask_to_stop(Urgency.DRAIN)

    def _make_cluster(self, settings: ClusterSettings, context: ProxyContext, reserved: tuple[range, ...]) -> Cluster:
        worker_cluster = self._worker_clusters[settings.name] = WorkerCluster(
            settings, context, self._parent, self._count
        )
        return worker_cluster.cluster

    async def _accept_until_stopped(self, admin: Server | None, connections: trio.Nursery) -> None:
        await self._start_children(connections)
        for cluster in self.clusters:
            cluster.watch()
        self._parent.tell({"do": "join"})
        await self._stop.begun.wait()
        self._count.end()

    def _handle_now(self, message: ChannelMessage) -> bool:
        payload = message.payload
        match payload["do"]:
            case "stop":
                self._ask_to_stop(Urgency(payload["urgency"]))
            case "accept":
                cluster = self._worker_clusters[payload["cluster"]]
                cluster.accept_from_parent(message.sockets[0], payload["node"], Address(*payload["advertised"]))
                if not self._stop.begun.is_set():
                    self._count.begin()
            case "settings" if payload["number"] in self._prepared_changes:
                self._commit(payload["number"], self._prepared_changes.pop(payload["number"]))
            case "doubt":
                self._worker_clusters[payload["cluster"]].mirror.doubt(payload["nodes"])
                # before the answer: the parent handles messages in the order of their arrival
                self._parent.tell({"do": "counted", **self._numbers()})
            case "close":
                self._worker_clusters[payload["cluster"]].forget(payload["nodes"])
            case "forget":
                drop(self._prepared_changes.pop(payload["number"], []))
            case "nodes":
                self._worker_clusters[payload["cluster"]].mirror.replace_table(
                    payload["table"], payload["cluster_id"], payload["brokers"]
                )
            case _:
                return False
        return True

    async def _handle_request(self, message: ChannelMessage) -> Payload | None:
        payload = message.payload
        match payload["do"]:
            case "count":
                # in a message of its own, before the answer: the parent handles messages in the order of their arrival
                self._parent.tell({"do": "counted", **await self._counts()})
            case "prepare":
                return await self._handle_prepare(payload)
            case "settings":
                await self._handle_settings(payload)
        return None

    async def _handle_prepare(self, payload: Payload) -> Payload:
        """Prepares settings that the parent has read. The answer holds the reasons if that fails."""
        try:
            changes = await self._prepare_job(load_settings(payload["settings"]))
        except BadSetting as error:
            return {"wrong": error.lines}
        # changes prepared before these will not be asked for: the parent has given them up
        self._prepared_changes = {payload["number"]: changes}
        return {"wrong": []}

    async def _handle_settings(self, payload: Payload) -> None:
        """Takes over settings that this worker has not prepared. Stops the worker if it can't."""
        try:
            changes = await self._prepare_job(load_settings(payload["settings"]))
        except BadSetting as error:
            self._stop_for_replacement(error)
        else:
            self._commit(payload["number"], changes)

    async def _prepare_job(self, job: Job) -> list[Change]:
        settings, before = job.worker_settings, self.settings.log
        apply = partial(log_to_stderr, settings.log.level, settings.log.format, worker=self._number)
        undo = partial(log_to_stderr, before.level, before.format, worker=self._number)
        certificates = await self._reading_thread.call(partial(self._read_certificates, settings))
        return await self._changes_to(ReloadedSettings(settings, job.recording, Change(apply, undo)), certificates)

    def _commit(self, number: int, changes: list[Change]) -> None:
        if number < self._number_in_effect:
            # newer settings have come into effect while these were prepared
            drop(changes)
        elif commit(changes):
            self._number_in_effect = number
            log(INFO, "settings were read again")
        else:
            self._stop_for_replacement("a fault")

    def _stop_for_replacement(self, reason: object) -> None:
        """Stops this worker, which can't take over the settings of the others. A new worker takes its place."""
        log(ERROR, "stopping: settings can't be taken over", reason=reason)
        self._ask_to_stop(Urgency.DRAIN)

    async def _counts(self) -> Payload:
        """Returns the counts of this process for the parent."""
        if self._observer is not None:
            read_counters, limiter = self._observer.counters, self._counters_thread
            with trio.move_on_after(COUNTERS_SECONDS), suppress(NoThread):
                self._recorder_counters = dict(await in_thread(read_counters, limiter))
        return self._numbers()

    def _numbers(self) -> Payload:
        """Returns the counts, with the recorder's as last read. To be sent at once: the nodes are reported once."""
        return {
            "clusters": {one.name: sums.as_json(one.traffic) for one in self.clusters},
            "recorder": self._recorder_counters,
            "states": {one.name: one.state() for one in self.clusters},
            "held": self._held_state(),
            "loop_delay": sums.durations_as_json(self._loop_delay),
            "nodes": {name: one.mirror.report() for name, one in self._worker_clusters.items()},
        }
