"""Workers that are the test's, for a parent that thinks they are processes."""

from __future__ import annotations

import socket
from typing import Any

import trio

from proxy.metrics import sums
from proxy.metrics.traffic import Traffic
from proxy.net.workers.calls import Answer, Calls
from proxy.net.workers.channel import Channel, Message

KILLED = -9


class Worker:
    """A worker, and its process. It does what it is told unless it is told not to by the test."""

    def __init__(self, number: int, place: int, sock: socket.socket) -> None:
        self.number, self.place = number, place
        self.told: list[dict[str, Any]] = []
        self.sockets: list[socket.socket] = []
        self.traffic = Traffic()
        self.recorder: dict[str, float] = {}
        self.does_what_it_is_told = True
        self.ends_when_told = True
        self.code = 0
        self.killed = False
        self._ended = trio.Event()
        self._life = trio.CancelScope()
        self._channel = Channel(sock.dup())
        self._calls = Calls(self._channel, self._now, self._heed)

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

    async def talk_nonsense(self) -> None:
        await self._channel._socket.send(b"\0\0\0\x03{x}")

    def end(self, code: int = 0) -> None:
        self.code = code
        self._life.cancel()
        self._ended.set()
        for sock in self.sockets:
            sock.close()

    async def wait(self) -> int:
        await self._ended.wait()
        return self.code

    def kill(self) -> None:
        self.killed = True
        self.end(KILLED)

    def was_told(self, what: str) -> list[dict[str, Any]]:
        return [said for said in self.told if said["do"] == what]

    def _now(self, message: Message) -> bool:
        self.told.append(message.said)
        self.sockets += message.sockets
        if message.said["do"] in ("stop", "hurry") and self.ends_when_told:
            self.end(self.code)
        return self.does_what_it_is_told and message.said["do"] != "count"

    async def _heed(self, message: Message) -> dict[str, Any]:
        if not self.does_what_it_is_told:
            await trio.sleep_forever()
        return self._counted()

    def _counted(self) -> dict[str, Any]:
        return {"clusters": {"main": sums.told(self.traffic)}, "recorder": self.recorder}
