"""Asks the target the questions of `prepare`: one connection for each node, one request at a time."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import trio

from proxy.schema.errors import BadSetting
from proxy.wire import decode_response, encode_request
from proxy.wire.errors import WireError
from proxy.wire.keys import FIND_COORDINATOR
from recorder.replay.cluster import Cluster, about_coordinator, newest
from recorder.replay.engine.own import MAX_CUTS
from recorder.replay.plan import CLIENT_ID, MadeRequest, ToCoordinator, ToLeader, Values
from recorder.replay.player.dial import Connection, NotReached, Target, dial
from recorder.replay.player.sockets import CONNECT_SECONDS
from recorder.replay.prepare import Script
from recorder.replay.requests.retries import FIRST_PAUSE, is_passing

# a node that is not known yet: the first of the given addresses that answers
_BOOTSTRAP = None
# the node id of the first connection in `cluster.offered`, and of a coordinator that is not known
_UNKNOWN = -1


class Asker:
    """Connections to the target's nodes, and the cluster as their answers describe it.

    `wait`: how long (ns) errors that pass are asked again.
    """

    def __init__(self, target: Target, cluster: Cluster, wait: int) -> None:
        self._target, self._cluster, self._wait = target, cluster, wait
        self._connections: dict[int | None, Connection] = {}

    async def run(self, script: Script) -> None:
        """Runs a script to its end. Errors: NotReached if no address of the target answers."""
        await self._connect(_BOOTSTRAP)
        answer: Values | None = None
        while True:
            try:
                made = script.send(answer)
            except StopIteration:
                return
            if made is None:
                await trio.sleep(FIRST_PAUSE / 10**9)
            answer = None if made is None else await self._answer(made)

    async def look_at_all(self) -> None:
        """Dials each node, and so learns which versions it offers. One that is down now is looked at when it is up."""
        for node in self._cluster.nodes:
            with suppress(NotReached):
                await self._connect(node)

    async def _answer(self, made: MadeRequest) -> Values | None:
        """An answer without an error that passes, or the last one when time is up; None if there is none."""
        until, cuts = time.monotonic_ns() + self._wait, 0
        while True:
            node = await self._node(made)
            if not self._can_ask(made, node):
                return None
            answer = await self._write(made.api_key, made.values, node, made.newest)
            if answer is not None and not is_passing(made.api_key, answer):
                return answer
            # an unknown coordinator is no broken connection
            cuts += answer is None and node != _UNKNOWN
            if time.monotonic_ns() >= until or cuts == MAX_CUTS:
                return answer
            if isinstance(made.to, ToCoordinator):
                self._cluster.coordinators.pop((made.to.kind, made.to.key), None)
            await trio.sleep(FIRST_PAUSE / 10**9)

    def _can_ask(self, made: MadeRequest, node: int | None) -> bool:
        """False for an API that the target lacks: asking again would not help."""
        offered = self._cluster.offered.get(_UNKNOWN if node is None else node)
        return offered is None or newest(made.api_key, offered, made.newest) is not None

    async def _node(self, made: MadeRequest) -> int | None:
        to = made.to
        if isinstance(to, ToLeader):
            return self._cluster.leaders.get((to.topic, to.partition))
        if not isinstance(to, ToCoordinator):
            return to.node
        if (to.kind, to.key) not in self._cluster.coordinators:
            values = about_coordinator(to.kind, to.key)
            answer = await self._write(FIND_COORDINATOR, values, self._cluster.any_node(), None)
            if answer is not None:
                self._cluster.learn_coordinator(to.kind, to.key, answer)
        return self._cluster.coordinators.get((to.kind, to.key), _UNKNOWN)

    async def _write(self, api_key: int, values: Values, node: int | None, limit: int | None) -> Values | None:
        try:
            connection = await self._connect(node)
            offered = self._cluster.offered.get(_UNKNOWN if node is None else node, {})
            version = newest(api_key, offered, limit)
            if connection is None or version is None:
                return None
            frame = encode_request(api_key, version, correlation_id=1, client_id=CLIENT_ID, values=values)
            with trio.fail_after(max(self._wait / 10**9, CONNECT_SECONDS)):
                answer = await connection.ask(frame)
            decoded = decode_response(answer, api_key, version)
            if not isinstance(decoded, tuple):
                return None
            self._target.guard.check_answer(*connection.address, api_key, decoded[1])
            return decoded[1]
        except (NotReached, WireError, BadSetting, trio.BrokenResourceError, trio.TooSlowError):
            broken = self._connections.pop(node, None)
            if broken is not None:
                await broken.aclose()
            return None

    async def _connect(self, node: int | None) -> Connection | None:
        if node in self._connections:
            return self._connections[node]
        if node is not None:
            address = self._cluster.nodes.get(node)
            return None if address is None else await self._dial(node, *address)
        refusals: list[str] = []
        for host, port in self._target.bootstrap:
            try:
                return await self._dial(None, host, port)
            except NotReached as error:
                refusals.append(str(error))
        raise NotReached("; ".join(refusals))

    async def _dial(self, node: int | None, host: str, port: int) -> Connection:
        connection, said = await dial(self._target, host, port, None, node)
        self._connections[node] = connection
        self._cluster.offered[_UNKNOWN if node is None else node] = said.offered
        self._cluster.features.update(said.features)
        return connection

    async def close(self) -> None:
        """Closes all connections."""
        for connection in self._connections.values():
            await connection.aclose()
        self._cluster.offered.pop(_UNKNOWN, None)


@asynccontextmanager
async def asking(target: Target, cluster: Cluster, wait: int) -> AsyncIterator[Asker]:
    """An Asker. Its connections are closed in the end."""
    asker = Asker(target, cluster, wait)
    try:
        yield asker
    finally:
        with trio.CancelScope(shield=True):
            await asker.close()
