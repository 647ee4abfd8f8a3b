"""A worker: a proxy whose listeners come from elsewhere.

It drains when the parent says so, when it gets a signal of its own, and when the parent is gone: nobody would tell it
of new nodes, and its ports are the next proxy's.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from logging import ERROR, INFO, WARNING
from typing import Any

import trio

from proxy.config import ClusterSettings
from proxy.log import log, log_to_stderr
from proxy.metrics import sums
from proxy.metrics.admin import Server
from proxy.net.blocking import in_thread
from proxy.net.brokers.nodes import Nodes
from proxy.net.brokers.upstreams import Upstreams
from proxy.net.change import Change, commit, drop
from proxy.net.cluster import Arrival, Cluster, Common
from proxy.net.observer import Observer
from proxy.net.reloading import InEffect
from proxy.net.server import Proxy, run_it
from proxy.net.sockets.tls import Followed
from proxy.net.stopping import Urgency
from proxy.net.workers.balance import Place, Places
from proxy.net.workers.calls import Calls, Said
from proxy.net.workers.channel import Channel, Message
from proxy.net.workers.force import BEAT_SECONDS
from proxy.net.workers.job import Job, read_changed
from proxy.net.workers.mirror import Distant, Mirror
from proxy.schema.addresses import Address
from proxy.schema.errors import BadSetting
from proxy.threads import NoThread

# how long the parent may take to hear the last numbers
LAST_WORDS_SECONDS = 1.0
# the recorder's numbers are waited for no longer: some are in files, and a disk that hangs must neither make the whole
# process look as if it hung nor keep it from ending
RECORDER_SECONDS = 0.5


def run_worker(
    job: Job,
    files: tuple[int, int],
    observer: Observer | None = None,
    child: Sequence[str] | None = None,
) -> int:
    """Runs a worker until it is told to stop; see `proxy.net.run`. `files`: its end of the channel, `Places`."""
    place = Places(files[1], job.settings.workers).take(job.place)
    return run_it(Worker(job, socket.socket(fileno=files[0]), place, observer, child))


class WorkerCluster(Cluster):
    """A cluster's connections, without its listeners and nodes."""

    def __init__(self, settings: ClusterSettings, common: Common, parent: Calls, place: Place) -> None:
        self._parent = parent
        self._place = place
        self._sockets: dict[trio.SocketListener, socket.socket] = {}
        super().__init__(settings, common)

    def _make_nodes(self, reserved: tuple[range, ...]) -> Nodes:
        self.mirror = Mirror(self._settings, self._parent, self._common.observer)
        return self.mirror

    def _make_upstreams(self, credentials: Followed | None) -> Upstreams:
        return Distant(self._settings, self.mirror, self._parent, credentials, self._question)

    def accept_from_parent(self, sock: socket.socket, node_id: int | None, called: Address) -> None:
        """Accepts on a socket that listens since the parent has bound it."""
        self.mirror.own.add(sock, called)
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(sock))
        self._sockets[listener] = sock
        self.accept_on(listener, node_id)

    async def _accept(self, listener: trio.SocketListener) -> tuple[trio.socket.SocketType, Any]:
        while True:
            await trio.lowlevel.wait_readable(listener.socket)
            await self._place.turn()
            # another worker may have been faster
            with suppress(BlockingIOError):
                sock, peer = self._sockets[listener].accept()
                return trio.socket.from_stdlib_socket(sock), peer

    def _begin(self, arrival: Arrival) -> None:
        self._place.opened()
        super()._begin(arrival)

    async def _connection(self, arrival: Arrival) -> None:
        try:
            await super()._connection(arrival)
        finally:
            self._place.closed()


class Worker(Proxy):
    """One of the processes that do the work; see `run_worker` for the arguments."""

    def __init__(
        self,
        job: Job,
        sock: socket.socket,
        place: Place,
        observer: Observer | None = None,
        child: Sequence[str] | None = None,
    ) -> None:
        super().__init__(job.share, observer, child)
        self._place = place
        self._number = job.number
        self._first_number = job.first_connection
        self._seed = job.seed
        self._parent = Calls(Channel(sock), self._heed_now, self._heed_parent)
        self._workers: list[WorkerCluster] = []
        # settings that it has prepared, by their number; the number of those that are in effect, 0 at the start
        self._agreed: dict[int, list[Change]] = {}
        self._generation = 0
        # what the recorder told last; one thread at a time asks it
        self._recorder: dict[str, float] = {}
        self._asking = trio.CapacityLimiter(1)

    async def run(self) -> int:
        """See `run_worker`."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._listen_to_parent)
            nursery.start_soon(self._keep_telling)
            code = await super().run()
            self._parent.tell({"do": "counted", **await self._counted()})
            with trio.move_on_after(LAST_WORDS_SECONDS):
                await self._parent.all_sent()
            nursery.cancel_scope.cancel()
        return code

    async def _keep_telling(self) -> None:
        """Says what was counted: the parent keeps that should this process be killed, and knows that it goes on."""
        while True:
            self._parent.tell({"do": "counted", **await self._counted()})
            await trio.sleep(BEAT_SECONDS)
            # a parent that does not listen is not told more and more
            await self._parent.all_sent()

    async def _listen_to_parent(self) -> None:
        await self._parent.run()
        log(WARNING, "stopping: the proxy that this is a worker of is gone")
        self._ask_to_stop(Urgency.DRAIN)

    def _make_cluster(self, settings: ClusterSettings, common: Common, reserved: tuple[range, ...]) -> Cluster:
        made = WorkerCluster(settings, common, self._parent, self._place)
        self._workers.append(made)
        return made

    async def _accept_until_stopped(self, admin: Server | None, connections: trio.Nursery) -> None:
        await self._start_children(connections)
        for cluster in self.clusters:
            cluster.watch_idle()
        self._place.begin()
        self._parent.tell({"do": "join"})
        await self._stop.begun.wait()

    def _heed_now(self, message: Message) -> bool:
        said = message.said
        match said["do"]:
            case "stop":
                self._ask_to_stop(Urgency(said["urgency"]))
            case "accept":
                self._cluster(said).accept_from_parent(message.sockets[0], said["node"], Address(*said["called"]))
            case "settings" if said["number"] in self._agreed:
                self._commit(said["number"], self._agreed.pop(said["number"]))
            case "forget":
                drop(self._agreed.pop(said["number"], []))
            case "nodes":
                self._cluster(said).mirror.told(said["table"])
            case _:
                return False
        return True

    async def _heed_parent(self, message: Message) -> Said | None:
        said = message.said
        match said["do"]:
            case "count":
                # not in the answer: what is told is heard in its order, and the answer when there is time
                self._parent.tell({"do": "counted", **await self._counted()})
            case "prepare":
                return await self._agree(said)
            case "settings":
                await self._follow(said)
        return None

    async def _agree(self, said: Said) -> Said:
        """Prepares settings that the parent has read; says why not, if they can't be had."""
        try:
            changes = await self._prepare_job(read_changed(said["settings"]))
        except BadSetting as error:
            return {"wrong": error.lines}
        # one before these may have taken so long that it was forgotten first
        self._agreed = {said["number"]: changes}
        return {"wrong": []}

    async def _follow(self, said: Said) -> None:
        """Takes over settings that are the others', which this worker has not been asked about."""
        try:
            changes = await self._prepare_job(read_changed(said["settings"]))
        except BadSetting as error:
            self._give_way(error)
        else:
            self._commit(said["number"], changes)

    async def _prepare_job(self, job: Job) -> list[Change]:
        settings, before = job.share, self._settings.log
        take = partial(log_to_stderr, settings.log.level, settings.log.format, worker=self._number)
        put_back = partial(log_to_stderr, before.level, before.format, worker=self._number)
        found = await self._aside.call(partial(self._read_files, settings))
        return await self._prepared(InEffect(settings, job.recording, Change(take, put_back)), found)

    def _commit(self, number: int, changes: list[Change]) -> None:
        if number < self._generation:
            # they took long to prepare, and others are in effect by now
            drop(changes)
        elif commit(changes):
            self._generation = number
            log(INFO, "settings were read again")
        else:
            self._give_way("a fault")

    def _give_way(self, reason: object) -> None:
        """All workers have the same settings. One that can't take them over ends, and another takes its place."""
        log(ERROR, "stopping: settings can't be taken over", reason=reason)
        self._ask_to_stop(Urgency.DRAIN)

    def _cluster(self, said: Said) -> WorkerCluster:
        (found,) = [cluster for cluster in self._workers if cluster.name == said["cluster"]]
        return found

    async def _counted(self) -> Said:
        if self._observer is not None:
            ask, limiter = self._observer.counters, self._asking
            with trio.move_on_after(RECORDER_SECONDS), suppress(NoThread):
                self._recorder = dict(await in_thread(ask, limiter))
        return {"clusters": {one.name: sums.told(one.traffic) for one in self.clusters}, "recorder": self._recorder}
