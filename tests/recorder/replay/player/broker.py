"""A minimal broker on a real loopback socket, for faults on the way to a broker."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from math import inf
from typing import Any

import trio

from proxy.wire import apis, encode_response, request_head
from proxy.wire.framing import framed
from proxy.wire.keys import API_VERSIONS, LIST_OFFSETS, METADATA, SASL_AUTHENTICATE, SASL_HANDSHAKE
from recorder.replay.player.dial import Target

Values = dict[str, Any]
OFFERED = [
    {"api_key": key, "min_version": apis.versions(key).start, "max_version": apis.versions(key).stop - 1}
    for key in apis.api_keys()
]


@dataclass
class LoopbackBroker:
    """Answers a replay of ListOffsets. `wrong`: an action in place of the n-th ListOffsets response, if any.

    The action gets the stream and the correct response; it returns True if the connection goes on.

    Attributes:
        lifetime_ms: how long a login counts; the connection ends at a request behind that.
        logins: how many were made on each connection.
    """

    wrong: Callable[[int, trio.abc.Stream, bytes], Any] | None = None
    port: int = 0
    asked: list[int] = field(default_factory=list)
    lifetime_ms: int = 0
    logins: list[int] = field(default_factory=list)

    async def serve(self, stream: trio.abc.Stream) -> None:
        buffer, expires_at, number = bytearray(), inf, len(self.logins)
        self.logins.append(0)
        while data := await stream.receive_some(65536):
            buffer += data
            while len(buffer) >= 4 and len(buffer) >= 4 + (size := int.from_bytes(buffer[:4], "big")):
                frame = bytes(buffer[4 : 4 + size])
                del buffer[: 4 + size]
                key = request_head(frame).api_key
                if key == SASL_AUTHENTICATE:
                    self.logins[number] += 1
                    expires_at = trio.current_time() + self.lifetime_ms / 1000
                elif key != SASL_HANDSHAKE and trio.current_time() >= expires_at:
                    return
                if not await self._answer(stream, frame):
                    return

    async def _answer(self, stream: trio.abc.Stream, frame: bytes) -> bool:
        head = request_head(frame)
        values = self.values_of(head.api_key)
        answer = framed(encode_response(head.api_key, head.api_version, head.correlation_id, values))
        if head.api_key == LIST_OFFSETS:
            self.asked.append(head.api_version)
            if self.wrong is not None:
                found = await self.wrong(len(self.asked), stream, answer)
                if found is not None:
                    return bool(found)
        await stream.send_all(answer)
        return True

    def values_of(self, key: int) -> Values:
        if key == API_VERSIONS:
            return {"error_code": 0, "api_keys": OFFERED}
        if key == METADATA:
            broker = {"node_id": 1, "host": "127.0.0.1", "port": self.port, "rack": None}
            partition = {"error_code": 0, "partition_index": 0, "leader_id": 1, "replica_nodes": [1], "isr_nodes": [1]}
            topic = {"error_code": 0, "name": "a", "topic_id": b"a" * 16, "partitions": [partition]}
            return {"brokers": [broker], "cluster_id": "target", "controller_id": 1, "topics": [topic]}
        if key == LIST_OFFSETS:
            partition = {"partition_index": 0, "error_code": 0, "timestamp": -1, "offset": 7}
            return {"topics": [{"name": "a", "partitions": [partition]}]}
        if key == SASL_AUTHENTICATE:
            return {"session_lifetime_ms": self.lifetime_ms}
        return {}


@asynccontextmanager
async def serving(broker: LoopbackBroker, context: ssl.SSLContext | None = None) -> AsyncIterator[Target]:
    """Runs the broker as a target during the block."""

    async def serve(stream: trio.SocketStream) -> None:
        secured: trio.abc.Stream = stream
        if context is not None:
            secured = trio.SSLStream(stream, context, server_side=True, https_compatible=True)
        try:
            await broker.serve(secured)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return
        finally:
            await trio.aclose_forcefully(stream)

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(
            trio.serve_tcp,
            serve,
            0,
        )
        broker.port = listeners[0].socket.getsockname()[1]
        yield Target((("127.0.0.1", broker.port),))
        nursery.cancel_scope.cancel()
