"""A minimal broker of one partition: it stores produced batches unchanged, and serves the given ones.

It serves formats that today's brokers refuse: a client chooses the format by the versions that the broker names. It
uses the project's own wire codec; records are plain bytes here.
"""

import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from proxy import wire
from proxy.wire.keys import API_VERSIONS, FETCH, FIND_COORDINATOR, LIST_OFFSETS, METADATA, PRODUCE

NO_COORDINATOR = 15
TOPIC = "records"
# magic -> the newest versions of Produce and Fetch that carry it
NEWEST = {0: (1, 1), 1: (2, 3), 2: (7, 11)}


class OneBroker:
    """`produced`: the records of each Produce request so far. `served`: the response to any Fetch from offset 0."""

    def __init__(self, magic: int, served: bytes = b"") -> None:
        self.served, self.produced = served, list[bytes]()
        self._produce, self._fetch = NEWEST[magic]
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def close(self) -> None:
        # wakes the accepting thread, which a close alone does not
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def serve(self) -> None:
        """Serves until the listener is closed, with a thread for each connection."""
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._converse, args=(client,), daemon=True).start()

    def _converse(self, client: socket.socket) -> None:
        with client, client.makefile("rb") as requests:
            try:
                while size := requests.read(4):
                    answer = self._answer(requests.read(int.from_bytes(size, "big")))
                    client.sendall(len(answer).to_bytes(4, "big") + answer)
            except ConnectionError:
                return

    def _answer(self, frame: bytes) -> bytes:
        head = wire.request_head(frame)
        if head.api_key == API_VERSIONS:
            # every client understands this version of the response
            return wire.encode_response(API_VERSIONS, 0, head.correlation_id, self._versions(head.api_version))
        decoded = wire.decode_request(frame)
        assert isinstance(decoded, tuple)
        _, values = decoded
        answers = {
            METADATA: self._metadata,
            PRODUCE: self._keep,
            FETCH: self._give,
            LIST_OFFSETS: self._offsets,
            FIND_COORDINATOR: lambda _: {"error_code": NO_COORDINATOR},
        }
        return wire.encode_response(head.api_key, head.api_version, head.correlation_id, answers[head.api_key](values))

    def _versions(self, asked: int) -> dict[str, Any]:
        newest = {PRODUCE: self._produce, FETCH: self._fetch, LIST_OFFSETS: 1, METADATA: 1, API_VERSIONS: 0}
        # librdkafka compresses with lz4 only if the broker has groups
        newest[FIND_COORDINATOR] = 0
        keys = [{"api_key": key, "min_version": 0, "max_version": top} for key, top in newest.items()]
        return {"error_code": 35 if asked else 0, "api_keys": keys}

    def _metadata(self, _: Mapping[str, Any]) -> dict[str, Any]:
        partition = {"error_code": 0, "partition_index": 0, "leader_id": 1, "replica_nodes": [1], "isr_nodes": [1]}
        return {
            "brokers": [{"node_id": 1, "host": "127.0.0.1", "port": self.port}],
            "controller_id": 1,
            "topics": [{"error_code": 0, "name": TOPIC, "partitions": [partition]}],
        }

    def _keep(self, values: Mapping[str, Any]) -> dict[str, Any]:
        (topic,) = values["topic_data"]
        self.produced += [bytes(one["records"]) for one in topic["partition_data"]]
        partition = {"index": 0, "error_code": 0, "base_offset": 0}
        return {"responses": [{"name": TOPIC, "partition_responses": [partition]}]}

    def _offsets(self, _: Mapping[str, Any]) -> dict[str, Any]:
        partition = {"partition_index": 0, "error_code": 0, "offset": 0, "timestamp": -1, "old_style_offsets": [0]}
        return {"topics": [{"name": TOPIC, "partitions": [partition]}]}

    def _give(self, values: Mapping[str, Any]) -> dict[str, Any]:
        partitions = [
            {
                "partition_index": 0,
                "error_code": 0,
                "high_watermark": 1 << 40,
                "last_stable_offset": 1 << 40,
                "aborted_transactions": None,
                "records": self.served if one["fetch_offset"] == 0 else b"",
            }
            for topic in values["topics"]
            for one in topic["partitions"]
        ]
        return {"responses": [{"topic": TOPIC, "partitions": partitions}]}


@contextmanager
def one_broker(magic: int, served: bytes = b"") -> Iterator[OneBroker]:
    broker = OneBroker(magic, served)
    thread = threading.Thread(target=broker.serve, daemon=True)
    thread.start()
    try:
        yield broker
    finally:
        broker.close()
        thread.join()
