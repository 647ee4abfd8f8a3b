"""A broker that only asks its clients for telemetry, and keeps what they push."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedIOBase
from queue import Queue
from typing import Any

from proxy import wire
from proxy.wire.error_codes import UNSUPPORTED_VERSION
from proxy.wire.keys import API_VERSIONS, FETCH, GET_TELEMETRY_SUBSCRIPTIONS, METADATA, PRODUCE, PUSH_TELEMETRY

# the oldest and the newest versions that it offers; clients require Produce and Fetch
OFFERED = {
    PRODUCE: (3, 9),
    FETCH: (4, 12),
    METADATA: (0, 12),
    API_VERSIONS: (0, 3),
    GET_TELEMETRY_SUBSCRIPTIONS: (0, 0),
    PUSH_TELEMETRY: (0, 0),
}
INTERVAL_MS = 100


class PushReceiver:
    """Listens on `port` of loopback; `pushes` has the values of each PushTelemetry request."""

    def __init__(self, compression_type: int) -> None:
        self.compression_type = compression_type
        self.pushes: Queue[dict[str, Any]] = Queue()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError), connection, connection.makefile("rwb") as stream:
            while frame := _frame(stream):
                answer = self._answer(frame)
                stream.write(struct.pack(">i", len(answer)) + answer)
                stream.flush()

    def _answer(self, frame: bytes) -> bytes:
        head = wire.request_head(frame)
        key, version = head.api_key, head.api_version
        oldest, newest = OFFERED[key]
        if version > newest:
            values: dict[str, Any] = {"error_code": UNSUPPORTED_VERSION}
            return wire.encode_response(key, oldest, head.correlation_id, values)
        return wire.encode_response(key, version, head.correlation_id, self._values(key, frame))

    def _values(self, key: int, frame: bytes) -> dict[str, Any]:
        if key == API_VERSIONS:
            offered = OFFERED.items()
            return {"api_keys": [{"api_key": k, "min_version": a, "max_version": b} for k, (a, b) in offered]}
        if key == METADATA:
            broker = {"node_id": 1, "host": "127.0.0.1", "port": self.port}
            return {"brokers": [broker], "cluster_id": "c", "controller_id": 1, "topics": []}
        if key == GET_TELEMETRY_SUBSCRIPTIONS:
            return {
                "client_instance_id": b"an-id-of-a-uuid.",
                "subscription_id": 5,
                "accepted_compression_types": [self.compression_type],
                "push_interval_ms": INTERVAL_MS,
                "telemetry_max_bytes": 1 << 20,
                "delta_temporality": True,
                "requested_metrics": [""],
            }
        decoded = wire.decode_request(frame)
        assert isinstance(decoded, tuple)
        self.pushes.put(decoded[1])
        return {}


def _frame(stream: BufferedIOBase) -> bytes:
    """Returns the next frame; empty at the end."""
    size = stream.read(4)
    return stream.read(int.from_bytes(size)) if len(size) == 4 else b""


@contextmanager
def push_receiver(compression_type: int) -> Iterator[PushReceiver]:
    receiver = PushReceiver(compression_type)
    try:
        yield receiver
    finally:
        receiver.close()
