"""Brokers in threads, for whole replays: which cluster they say they are of, and what was written to them."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from proxy.wire import apis, decode_request, encode_response, request_head
from proxy.wire.apis import name_or_key
from proxy.wire.framing import framed
from proxy.wire.keys import API_VERSIONS, FIND_COORDINATOR, LIST_OFFSETS, METADATA, OFFSET_COMMIT, PRODUCE
from recorder.replay.requests.apis import READ_ONLY

Values = dict[str, Any]
# the highest versions that a node offers
OFFERS = {PRODUCE: 9, LIST_OFFSETS: 7, METADATA: 9, FIND_COORDINATOR: 3, API_VERSIONS: 3, OFFSET_COMMIT: 7}
NOT_LEADER, NOT_COORDINATOR, TOPIC = 6, 16, "orders"


@dataclass
class Node:
    """A broker that listens on `host`, on a port from the kernel unless one is given.

    Attributes:
        cluster_id: as its Metadata has it; None: null.
        nodes: node id -> host and port, as its Metadata has them; itself, if there are none.
        leader: of the topic's partition.
        coordinator: as FindCoordinator has it: node id, host and port. Then this node refuses commits; None: itself.
        on_produce: called before a Produce is answered; returns the error.
        hang_up: closes a connection behind each Produce.
        newest: highest versions that are not those of OFFERS.
        asked: requests by API.
        told_ids: the ids that the Metadata answers of each connection have, one after the other; then `cluster_id`.
        has_groups: it has the topic of groups.
        made: the topics that it has made because it was asked about them.
    """

    cluster_id: str | None = "target"
    host: str = "127.0.0.1"
    port: int = 0
    nodes: dict[int, tuple[str, int]] = field(default_factory=dict)
    leader: int = 1
    coordinator: tuple[int, str, int] | None = None
    on_produce: Callable[[], int] = lambda: 0
    hang_up: bool = False
    newest: dict[int, int] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)
    told_ids: tuple[str | None, ...] = ()
    has_groups: bool = False
    made: set[str] = field(default_factory=set)

    @property
    def written(self) -> set[str]:
        """The APIs of all requests that may change something."""
        return {name for name in self.asked if apis.api_key(name) not in {*READ_ONLY, API_VERSIONS, METADATA}}

    @contextmanager
    def running(self) -> Iterator[Node]:
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        with socket.socket(family) as listening:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((self.host, self.port))
            listening.listen()
            self.port = listening.getsockname()[1]
            thread = threading.Thread(target=self._accept, args=(listening,))
            thread.start()
            try:
                yield self
            finally:
                listening.shutdown(socket.SHUT_RDWR)
                thread.join()

    def _accept(self, listening: socket.socket) -> None:
        served = []
        with suppress(OSError):
            while True:
                sock, _ = listening.accept()
                served.append(sock)
                threading.Thread(target=self._serve, args=(sock,), daemon=True).start()
        for sock in served:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _serve(self, sock: socket.socket) -> None:
        ids = iter(self.told_ids)
        with sock, suppress(OSError), sock.makefile("rb") as stream:
            while size := stream.read(4):
                frame = stream.read(int.from_bytes(size, "big"))
                head = request_head(frame)
                self.asked[str(name_or_key(head.api_key))] += 1
                values = self.values_of(head.api_key)
                if head.api_key == METADATA:
                    values["cluster_id"] = next(ids, self.cluster_id)
                    self._make_topics(head.api_version, frame)
                if head.api_key == FIND_COORDINATOR and not self.has_groups:
                    self.made.add("__consumer_offsets")
                sock.sendall(framed(encode_response(head.api_key, head.api_version, head.correlation_id, values)))
                if self.hang_up and head.api_key == PRODUCE:
                    return

    def _make_topics(self, version: int, frame: bytes) -> None:
        """As Kafka does when Metadata names topics: it makes them, unless told not to, which version 4 can do."""
        decoded = decode_request(frame)
        assert isinstance(decoded, tuple)
        if version < 4 or decoded[1]["allow_auto_topic_creation"]:
            self.made |= {topic["name"] for topic in decoded[1]["topics"] or ()} - {TOPIC}

    def values_of(self, key: int) -> Values:
        if key == API_VERSIONS:
            offered = {key: (apis.versions(key).start, self.newest.get(key, most)) for key, most in OFFERS.items()}
            ranges = [
                {"api_key": key, "min_version": first, "max_version": last} for key, (first, last) in offered.items()
            ]
            return {"error_code": 0, "api_keys": ranges}
        if key == METADATA:
            return self._metadata()
        if key == FIND_COORDINATOR:
            node, host, port = self.coordinator or (1, self.host, self.port)
            return {"error_code": 0, "error_message": None, "node_id": node, "host": host, "port": port}
        if key == LIST_OFFSETS:
            partition = {"partition_index": 0, "error_code": 0, "timestamp": -1, "offset": 0}
            return {"topics": [{"name": TOPIC, "partitions": [partition]}]}
        if key == PRODUCE:
            partition = {"index": 0, "error_code": self.on_produce(), "base_offset": 0, "log_start_offset": 0}
            return {"responses": [{"name": TOPIC, "partition_responses": [partition]}]}
        code = NOT_COORDINATOR if self.coordinator else 0
        done = {"name": TOPIC, "partitions": [{"partition_index": 0, "error_code": code}]}
        return {"topics": [done]}

    def _metadata(self) -> Values:
        nodes = self.nodes or {1: (self.host, self.port)}
        brokers = [{"node_id": node, "host": host, "port": port} for node, (host, port) in nodes.items()]
        replicas = {"replica_nodes": [self.leader], "isr_nodes": [self.leader], "offline_replicas": []}
        partition = {"error_code": 0, "partition_index": 0, "leader_id": self.leader, **replicas}
        names = [TOPIC] + ["__consumer_offsets"] * self.has_groups
        topics = [{"error_code": 0, "name": name, "partitions": [partition]} for name in names]
        return {"brokers": brokers, "cluster_id": self.cluster_id, "controller_id": 1, "topics": topics}
