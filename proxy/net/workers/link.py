"""One worker as the parent sees it: its process, the channel to it, what it has been told and what it has counted."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from typing import Protocol

from proxy.metrics import sums
from proxy.net.workers.calls import Answer, Calls, Said


class WorkerProcess(Protocol):
    """A worker's process."""

    async def brief(self) -> None:
        """Tells it what it is to do; returns once it has read that, or has ended."""

    async def wait(self) -> int:
        """The exit code, once it has ended."""

    def kill(self) -> None:
        """Ends it at once."""


class Link:
    """One worker, from its start to its end.

    process: None until it has been started.
    begun: it has said something. joined: it has said that it works.
    clusters, recorder: what it has counted, as far as it has told.
    silent: seconds for which it has said nothing of itself, as far as this process itself went on meanwhile.
    """

    def __init__(self, number: int, calls: Calls) -> None:
        self.number = number
        self.calls = calls
        self.process: WorkerProcess | None = None
        self.begun = self.joined = False
        self.clusters: Mapping[str, sums.Told] = {}
        self.recorder: Mapping[str, float] = {}
        self.silent = 0.0
        self._owed: list[Answer] = []

    def tell(self, said: Said, sockets: Sequence[socket.socket] = ()) -> None:
        """Tells it something that it is to do; `settled` waits for that."""
        self._owed = [answer for answer in self._owed if not answer.is_here]
        self._owed.append(self.calls.ask(said, sockets))

    async def settled(self) -> None:
        """Returns when it has done what it was told, or is gone."""
        for answer in list(self._owed):
            await answer.settled()

    def counted(self, said: Said) -> None:
        """Keeps what it says that it has counted. A counter never goes back."""
        self.clusters = said["clusters"]
        before = {name: value for name, value in self.recorder.items() if name not in sums.STATES}
        self.recorder = {name: max(value, before.get(name, value)) for name, value in said["recorder"].items()}

    def kill(self) -> None:
        """Ends it at once, if it has been started."""
        if self.process is not None:
            self.process.kill()
