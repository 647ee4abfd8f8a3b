"""Scripted workers, which the parent takes for processes."""

from __future__ import annotations

import socket
from typing import Any

import trio
from trio.testing import wait_all_tasks_blocked

from proxy.metrics import sums
from proxy.metrics.collector import ClusterState, HeldState
from proxy.metrics.durations import Durations
from proxy.metrics.traffic import Traffic
from proxy.net.workers.calls import Answer, Calls
from proxy.net.workers.channel import Channel, ChannelMessage
from proxy.net.workers.process import WorkerProcess
from proxy.net.workers.supervisor import Supervisor
from proxy.net.workers.worker_handle import WorkerHandle

KILLED = -9


def known(node_id: int) -> bool:
    """True for all nodes, for `Totals.traffic`: none has been forgotten."""
    return True


class Worker(WorkerProcess):
    """A worker and its process. It obeys unless the test says otherwise."""

    def __init__(self, number: int, slot: int, sock: socket.socket) -> None:
        self.number, self.slot = number, slot
        self.told: list[dict[str, Any]] = []
        self.sockets: list[socket.socket] = []
        self.traffic = Traffic()
        self.recorder: dict[str, float] = {}
        # cluster -> the nodes that answers named and clients are connected to, as the worker reports them
        self.nodes: dict[str, dict[str, Any]] = {}
        self.nodes_in_doubt: dict[str, dict[str, Any]] = {}
        self.does_what_it_is_told = True
        # reasons for refusing new settings
        self.refuses: list[str] = []
        self.ends_when_told = True
        self.code = 0
        self.killed = False
        self._ended = trio.Event()
        self._life = trio.CancelScope()
        self._channel = Channel(sock.dup())
        self._calls = Calls(self._channel, self._now, self._handle)

    async def run(self) -> None:
        with self._life:
            await self._calls.run()

    def join(self) -> None:
        self._calls.tell({"do": "join"})

    def say_counts(self) -> None:
        self._calls.tell({"do": "counted", **self._counted()})

    def tell(self, said: dict[str, Any]) -> None:
        self._calls.tell(said)

    def ask(self, said: dict[str, Any]) -> Answer:
        return self._calls.ask(said)

    async def talk_nonsense(self, text: bytes) -> None:
        await self._channel._socket.send(len(text).to_bytes(4, "big") + text)

    def end(self, code: int = 0) -> None:
        self.code = code
        self._life.cancel()
        self._ended.set()
        for sock in self.sockets:
            sock.close()

    async def send_job(self) -> None:
        """Ignores the job."""

    async def wait(self) -> int:
        await self._ended.wait()
        return self.code

    def kill(self) -> None:
        self.killed = True
        self.end(KILLED)

    def was_told(self, what: str) -> list[dict[str, Any]]:
        return [said for said in self.told if said["do"] == what]

    def _now(self, message: ChannelMessage) -> bool:
        self.told.append(message.payload)
        self.sockets += message.sockets
        if message.payload["do"] == "doubt" and self.does_what_it_is_told:
            self._calls.tell({"do": "counted", **self._counted(), "nodes": self.nodes_in_doubt or self.nodes})
        if message.payload["do"] == "stop" and self.ends_when_told:
            self.end(self.code)
        return self.does_what_it_is_told and message.payload["do"] not in ("count", "prepare")

    async def _handle(self, message: ChannelMessage) -> dict[str, Any]:
        if not self.does_what_it_is_told:
            await trio.sleep_forever()
        if message.payload["do"] == "prepare":
            return {"wrong": self.refuses}
        self.say_counts()
        return {}

    def _counted(self) -> dict[str, Any]:
        return {
            "clusters": {"main": sums.as_json(self.traffic)},
            "recorder": self.recorder,
            "nodes": self.nodes,
            "states": {"main": ClusterState(0, {})},
            "held": HeldState(),
            "loop_delay": sums.durations_as_json(Durations()),
        }


# longer than any other test waits for silent workers
SILENCE = 150.0


class Team:
    """A supervisor of such workers."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.workers: list[Worker] = []
        self.greeted: list[int] = []
        self.vacated: list[int] = []
        self.cannot_start: OSError | None = None
        self.may_start = trio.Event()
        self.may_start.set()
        self.supervisor = Supervisor(2, self._start, self._handle, self._catch_up, self.vacated.append, SILENCE)
        self._nursery = nursery
        self._started = trio.Event()
        nursery.start_soon(self.supervisor.run)

    async def _start(self, number: int, slot: int, sock: socket.socket) -> Worker:
        if self.cannot_start is not None:
            raise self.cannot_start
        await self.may_start.wait()
        worker = Worker(number, slot, sock)
        self.workers.append(worker)
        self._started.set()
        self._nursery.start_soon(worker.run)
        return worker

    async def _handle(self, message: ChannelMessage) -> dict[str, Any]:
        return {"said": message.payload["number"]}

    def _catch_up(self, worker: WorkerHandle) -> None:
        self.greeted.append(worker.number)
        worker.tell({"do": "greet"})

    async def working(self) -> list[Worker]:
        """Returns once all started workers have joined."""
        await wait_all_tasks_blocked()
        for worker in self.workers:
            worker.join()
        await self.supervisor.all_started()
        await wait_all_tasks_blocked()
        return self.workers

    async def replaced(self) -> Worker:
        """Returns the next worker, once it has joined."""
        self._started = trio.Event()
        await self._started.wait()
        self.workers[-1].join()
        await wait_all_tasks_blocked()
        return self.workers[-1]
