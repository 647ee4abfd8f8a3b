"""A scripted broker: it names its cluster's nodes, and answers everything else with a pong unless told otherwise."""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable, Iterable

import trio
from trio.testing import wait_all_tasks_blocked

from proxy.mapping.nodes import Node
from proxy.schema.addresses import Address
from proxy.wire import catalog
from proxy.wire.framing import framed
from proxy.wire.keys import API_VERSIONS, DESCRIBE_CLUSTER, HEARTBEAT, METADATA, VOTE
from tests.proxy.conversation.script import request, response
from tests.proxy.net.peers import HOST, PATIENCE, Peer

Answer = Callable[[int, int, int], Awaitable[bytes | None]]

# a request, and the broker's response to it
PING, PONG = request(HEARTBEAT, 3, 1), response(1, b"pong")
ASK_METADATA = framed(catalog.encode_request(METADATA, 12, 77, "tests", {}))


class Broker:
    """A broker that listens once `start` was called.

    Args:
        nodes: the cluster's nodes in its responses; None: itself, as node 1.
        newest_metadata: the newest version that it offers.
    """

    def __init__(self, nodes: Iterable[Node] | None = None, newest_metadata: int = 12) -> None:
        self.nodes = nodes
        self.newest_metadata = newest_metadata
        self.cluster_id: str | None = None
        # (api key, version) of each request, and the frames themselves
        self.asked: list[tuple[int, int]] = []
        self.frames: list[bytes] = []
        # connections in all, and the open ones
        self.connections = self.open = 0
        # answers all but ApiVersions and Metadata; None closes the connection
        self.answer: Answer = self.pong
        self.speaks = True
        # names its nodes to nobody, like brokers that require a login
        self.is_reticent = False
        # knows no ApiVersions and closes the connection, like brokers before 0.10
        self.is_old = False
        # is a KRaft controller, whose newest version of DescribeCluster this is
        self.describes_quorum: int | None = None
        # the error of its responses to DescribeCluster
        self.error_code = 0
        self.address = Address(HOST, 0)
        self._scope = trio.CancelScope()

    async def start(self, nursery: trio.Nursery, host: str = HOST, port: int = 0) -> Address:
        (listener,) = await trio.open_tcp_listeners(port, host=host)
        self.address = Address(host, listener.socket.getsockname()[1])
        self._scope = trio.CancelScope()
        nursery.start_soon(self._serve, listener)
        return self.address

    def stop(self) -> None:
        self._scope.cancel()

    async def pong(self, key: int, version: int, correlation_id: int) -> bytes | None:
        return response(correlation_id, b"pong")

    async def _serve(self, listener: trio.SocketListener) -> None:
        with self._scope:
            await trio.serve_listeners(self._connection, [listener])

    async def _connection(self, stream: trio.abc.Stream) -> None:
        self.connections += 1
        self.open += 1
        try:
            async with stream:
                await self._converse(stream)
        except trio.BrokenResourceError:
            return
        finally:
            self.open -= 1

    async def _converse(self, stream: trio.abc.Stream) -> None:
        while (frame := await _frame(stream)) is not None:
            key, version, correlation_id = struct.unpack_from(">hhi", frame)
            self.asked.append((key, version))
            self.frames.append(frame)
            told = await self._told(key, version, correlation_id)
            if told is None:
                return
            await stream.send_all(told)

    async def _told(self, key: int, version: int, correlation_id: int) -> bytes | None:
        if not self.speaks or (self.is_reticent and key == METADATA):
            return None
        if self.is_old and key == API_VERSIONS:
            return None
        if key == API_VERSIONS:
            offered = {METADATA: self.newest_metadata}
            if self.describes_quorum is not None:
                offered = {VOTE: 2, DESCRIBE_CLUSTER: self.describes_quorum}
            keys = [{"api_key": key, "min_version": 0, "max_version": newest} for key, newest in offered.items()]
            return framed(catalog.encode_response(key, version, correlation_id, {"api_keys": keys}))
        nodes = [Node(1, self.address.host, self.address.port)] if self.nodes is None else self.nodes
        if key == METADATA and self.describes_quorum is None:
            brokers = [{"node_id": node.node_id, "host": node.host, "port": node.port} for node in nodes]
            body = {"brokers": brokers} | ({"cluster_id": self.cluster_id} if version >= 2 else {})
            return framed(catalog.encode_response(key, version, correlation_id, body))
        if key == DESCRIBE_CLUSTER:
            return described(nodes, version, correlation_id, self.cluster_id or "", self.error_code)
        return await self.answer(key, version, correlation_id)


def described(
    nodes: Iterable[Node], version: int, correlation_id: int, cluster_id: str = "", error_code: int = 0
) -> bytes:
    """Returns a response to DescribeCluster that names controllers, as a frame."""
    listed = [{"broker_id": node.node_id, "host": node.host, "port": node.port} for node in nodes]
    body = {"endpoint_type": 2, "brokers": listed, "cluster_id": cluster_id, "error_code": error_code}
    return framed(catalog.encode_response(DESCRIBE_CLUSTER, version, correlation_id, body))


async def _frame(stream: trio.abc.Stream) -> bytes | None:
    head = await _exactly(stream, 4)
    return None if head is None else await _exactly(stream, int.from_bytes(head, "big"))


async def _exactly(stream: trio.abc.Stream, size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        chunk = await stream.receive_some(size - len(data))
        if not chunk:
            return None
        data += chunk
    return data


async def ping(client: Peer) -> None:
    """Sends a request and receives its response."""
    await client.say(PING)
    await client.hears(PONG)


async def asked(broker: Broker, key: int) -> None:
    """Returns once the broker has received this request."""
    with trio.fail_after(PATIENCE):
        while key not in [key for key, _ in broker.asked]:
            await wait_all_tasks_blocked(0.005)
