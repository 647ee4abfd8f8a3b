"""Brokers that pass a partition's leadership on, in scripted Fetch responses, to see what a consumer reads of them.

If the consumer could read the new leader's address, it dials the new leader at once. Otherwise it asks the old leader
again, and for metadata. The brokers run in threads on loopback, with the few APIs that librdkafka needs.
"""

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

from proxy.schema.addresses import Address
from proxy.wire import catalog
from proxy.wire.error_codes import UNSUPPORTED_VERSION
from proxy.wire.keys import API_VERSIONS, FETCH, LIST_OFFSETS, METADATA, PRODUCE

# librdkafka fetches batches of format 2 only where producing them is offered, too.
OFFERED = {PRODUCE: (0, 9), FETCH: (4, 16), LIST_OFFSETS: (0, 5), METADATA: (0, 12), API_VERSIONS: (0, 3)}

# So many that librdkafka has closed its last connection to a broker when the partition comes back to it.
NODES = range(1, 9)
TOPIC, TOPIC_ID = "t", b"topic-id".ljust(16)
NOT_LEADER_OR_FOLLOWER = 6

# Step, the new leader's id and address, and the other fields of the response -> its body, behind the header.
Respond = Callable[[int, int, Address, dict[str, Any]], bytes]


class MovingLeader:
    """Within `with` it listens; node 1 leads first. It answers a Fetch to the leader with a move to the next node.

    `unread`: the moves, from 0 on, after which the client requested metadata. After `steps` moves, `done` is set, and
    the next Fetch waits for ever.
    """

    def __init__(self, steps: int, respond: Respond) -> None:
        self._steps, self._respond = steps, respond
        self._lock = threading.Lock()
        self._listeners = {node_id: socket.create_server(("127.0.0.1", 0)) for node_id in NODES}
        self._connections: list[socket.socket] = []
        self._leader, self._epoch, self._moves = 1, 0, 0
        self.addresses = {node_id: Address(*it.getsockname()) for node_id, it in self._listeners.items()}
        self.unread: set[int] = set()
        self.done = threading.Event()

    def __enter__(self) -> Self:
        for node_id, listener in self._listeners.items():
            threading.Thread(target=self._accept, args=(node_id, listener), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for it in (*self._listeners.values(), *self._connections):
            with suppress(OSError):  # the peer may have closed it
                it.shutdown(socket.SHUT_RDWR)
            it.close()

    def _accept(self, node_id: int, listener: socket.socket) -> None:
        with suppress(OSError):  # closed: the end
            while True:
                connection = listener.accept()[0]
                self._connections.append(connection)
                threading.Thread(target=self._serve, args=(node_id, connection), daemon=True).start()

    def _serve(self, node_id: int, connection: socket.socket) -> None:
        with suppress(OSError), connection.makefile("rb") as incoming:
            while size := incoming.read(4):
                with self._lock:
                    answer = self._answer(node_id, incoming.read(*struct.unpack(">i", size)))
                if answer is not None:
                    connection.sendall(struct.pack(">i", len(answer)) + answer)

    def _answer(self, node_id: int, frame: bytes) -> bytes | None:
        decoded = catalog.decode_request(frame)
        assert isinstance(decoded, tuple)
        key, version, correlation_id = decoded[0][:3]
        if key == API_VERSIONS:
            keys = [{"api_key": k, "min_version": low, "max_version": high} for k, (low, high) in OFFERED.items()]
            refused = version > OFFERED[API_VERSIONS][1]
            body = {"api_keys": keys, "error_code": UNSUPPORTED_VERSION if refused else 0}
            return catalog.encode_response(API_VERSIONS, 0 if refused else version, correlation_id, body)
        if key == METADATA:
            if self._moves:
                self.unread.add(self._moves - 1)
            return catalog.encode_response(METADATA, version, correlation_id, self._metadata())
        assert key == FETCH
        return self._moved(node_id, correlation_id)

    def _metadata(self) -> dict[str, Any]:
        nodes = [{"node_id": n, "host": it.host, "port": it.port} for n, it in self.addresses.items()]
        partition = {
            "leader_id": self._leader,
            "leader_epoch": self._epoch,
            "replica_nodes": [*NODES],
            "isr_nodes": [*NODES],
        }
        return {"brokers": nodes, "topics": [{"name": TOPIC, "topic_id": TOPIC_ID, "partitions": [partition]}]}

    def _moved(self, node_id: int, correlation_id: int) -> bytes | None:
        if self._moves == self._steps:
            self.done.set()
            return None
        self._epoch += 1
        if node_id == self._leader:
            self._leader, self._moves = self._leader % len(NODES) + 1, self._moves + 1
        partition = {
            "error_code": NOT_LEADER_OR_FOLLOWER,
            "high_watermark": -1,
            "current_leader": {"leader_id": self._leader, "leader_epoch": self._epoch},
        }
        fields = {"responses": [{"topic_id": TOPIC_ID, "partitions": [partition]}]}
        body = self._respond(self._moves - 1, self._leader, self.addresses[self._leader], fields)
        return struct.pack(">iB", correlation_id, 0) + body
