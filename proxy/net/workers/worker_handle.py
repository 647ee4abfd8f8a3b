"""One worker as the parent sees it: its process, its channel, its unanswered messages, and its counts."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence

from proxy.metrics import sums
from proxy.metrics.collector import ClusterState, HeldState
from proxy.metrics.durations import Durations
from proxy.net.workers.calls import Answer, Calls, Payload
from proxy.net.workers.process import WorkerProcess


class WorkerHandle:
    """One worker, from its start to its end.

    process: None until the process has been started.
    has_spoken: the worker has sent a message.
    joined: the worker has reported that it is ready for listeners.
    clusters: the traffic that the worker has counted so far, by cluster.
    recorder: its recorder's counters so far.
    states: what it had of each cluster when it sent its counts.
    held: what it held of large responses then.
    loop_delay: how late its event loop was so far (`sums.durations_as_json`).
    connected: by cluster, the nodes that the worker's clients were connected to when it sent its counts.
    silent: seconds since the worker's start, first message, join or last counts, whichever came last; while the parent
        does not run, and during a stop, they are not counted.
    """

    def __init__(self, number: int, calls: Calls) -> None:
        self.number = number
        self.calls = calls
        self.process: WorkerProcess | None = None
        self.has_spoken = self.joined = False
        self.clusters: Mapping[str, sums.Numbers] = {}
        self.recorder: Mapping[str, float] = {}
        self.states: Mapping[str, ClusterState] = {}
        self.held = HeldState()
        self.loop_delay = sums.durations_as_json(Durations())
        self.connected: Mapping[str, frozenset[int]] = {}
        self.silent = 0.0
        self._unanswered: list[Answer] = []

    def tell(self, payload: Payload, sockets: Sequence[socket.socket] = ()) -> None:
        """Sends an order to the worker; `settled` waits until the worker has fulfilled it."""
        self._unanswered = [answer for answer in self._unanswered if not answer.is_done]
        self._unanswered.append(self.calls.ask(payload, sockets))

    async def settled(self) -> None:
        """Returns when the worker has fulfilled all orders so far, or is gone."""
        for answer in list(self._unanswered):
            await answer.settled()

    def counted(self, payload: Payload) -> None:
        """Takes over the counts that the worker has sent. A counter of the recorder never decreases."""
        self.clusters = payload["clusters"]
        self.connected = {name: frozenset(report["connected"]) for name, report in payload["nodes"].items()}
        self.states = {name: ClusterState(*state) for name, state in payload["states"].items()}
        self.held, self.loop_delay = HeldState(*payload["held"]), payload["loop_delay"]
        before = {name: value for name, value in self.recorder.items() if name not in sums.STATES}
        self.recorder = {name: max(value, before.get(name, value)) for name, value in payload["recorder"].items()}

    def kill(self) -> None:
        """Kills the process, if it has been started."""
        if self.process is not None:
            self.process.kill()
