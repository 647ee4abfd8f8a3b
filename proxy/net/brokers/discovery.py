"""Discovery of the cluster's nodes: the proxy's own query, at the start and when a client wants an unknown node.

The query is ApiVersions v0, then Metadata for no topics, on a connection of its own that is neither recorded nor
counted. A broker before 0.10 closes the connection at ApiVersions: it is asked again, for Metadata alone. A broker that
asks for a login never answers; then the proxy learns its nodes from the first client's responses.

The query comes back to the proxy where an address leads to it by way of others: other proxies, a balancer. The proxy's
listener knows the query by its correlation id, and its answer tells the asking side.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple
from zlib import crc32

import trio

from proxy.mapping.nodes import Node
from proxy.net.sockets.streams import PeerLost, Stream
from proxy.rewrite import addresses
from proxy.wire import catalog
from proxy.wire.errors import WireError
from proxy.wire.framing import LENGTH, framed
from proxy.wire.keys import API_VERSIONS, METADATA

CLIENT_ID = "kafka-wiretap"
# the answer to a query about no topics: a few bytes a node
LONGEST_ANSWER = 1024 * 1024
ANSWER_SECONDS = 5
# INVALID_REQUEST: no broker answers so to a version that all of them know
CAME_BACK = 42
# correlation ids are int32; those below 0 are some brokers' own
NUMBERS = 1 << 31

Dial = Callable[[], Awaitable[Stream]]


class NotAnswered(PeerLost):
    """The broker could be connected to and did not tell its nodes; the message says why."""


class Closed(NotAnswered):
    """The broker closed the connection at a request."""


class LedBack(PeerLost):
    """The query came back to the proxy: the address leads to it, by way of others."""


class Told(NamedTuple):
    """What a broker says of its cluster. `cluster_id`: None if it doesn't say (before 0.10.1)."""

    nodes: tuple[Node, ...]
    cluster_id: str | None


class DiscoveryQuery:
    """How the queries of one cluster's proxy begin, from all of its processes.

    Args:
        seed: the proxy's, drawn at its start.

    `number`: the correlation id. `frame`: the first frame, with its length. `came_back`: the answer to it.
    """

    def __init__(self, seed: int = 0, cluster: str = "") -> None:
        self.number = (seed ^ crc32(cluster.encode())) % NUMBERS
        self.frame = framed(catalog.encode_request(API_VERSIONS, 0, self.number, CLIENT_ID, {}))
        answer = {"error_code": CAME_BACK, "api_keys": []}
        self.came_back = framed(catalog.encode_response(API_VERSIONS, 0, self.number, answer))


async def ask_for_nodes(dial: Dial, query: DiscoveryQuery) -> Told:
    """The cluster's nodes, as the broker tells them that is dialled.

    Raises:
        PeerLost: it could not be connected to.
        NotAnswered: it did not answer, or not in a way that can be understood.
        LedBack: it is the proxy itself.
    """
    stream = await dial()
    try:
        with trio.fail_after(ANSWER_SECONDS):
            return await _ask(stream, dial, query)
    except LedBack:
        raise
    except (PeerLost, WireError) as error:
        raise NotAnswered(error) from error
    except trio.TooSlowError as error:
        raise NotAnswered(f"{stream.peer} did not answer in {ANSWER_SECONDS} s") from error


async def _ask(stream: Stream, dial_again: Dial, query: DiscoveryQuery) -> Told:
    try:
        try:
            versions = await _exchange(stream, query.frame)
        except Closed:
            stream.close()
            stream = await dial_again()
            return await _told(stream, 0, query.number)
        if versions == query.came_back[LENGTH.size :]:
            raise LedBack(f"{stream.peer} leads back to this proxy by way of others")
        return await _told(stream, _metadata_version(_decoded(versions, API_VERSIONS, 0)[1]), query.number)
    finally:
        stream.close()


async def _told(stream: Stream, version: int, number: int) -> Told:
    asked = catalog.encode_request(METADATA, version, number, CLIENT_ID, _metadata_fields(version))
    frame = await _exchange(stream, framed(asked))
    return Told(addresses.nodes_in(METADATA, version, frame), addresses.cluster_in(METADATA, version, frame))


def _metadata_fields(version: int) -> dict[str, Any]:
    """Version 0 can only ask for all topics; later ones ask for none."""
    codec = catalog.codec("request", METADATA, version)
    assert codec is not None
    fields = {field.name for field in codec.message.fields}
    asked: dict[str, Any] = {"topics": [], "allow_auto_topic_creation": False}
    return {name: value for name, value in asked.items() if name in fields}


def _metadata_version(versions: dict[str, Any]) -> int:
    ours = catalog.versions(METADATA)[-1]
    for api in versions["api_keys"]:
        if api["api_key"] == METADATA:
            return min(ours, int(api["max_version"]))
    return 0


def _decoded(frame: bytes, key: int, version: int) -> tuple[Any, dict[str, Any]]:
    decoded = catalog.decode_response(frame, key, version)
    if isinstance(decoded, catalog.UnknownMessage):
        raise WireError(f"version {version} of api {key} is not known")
    return decoded


async def _exchange(stream: Stream, frame: bytes) -> bytes:
    """The answer to a frame, both but the answer with its length in front."""
    await stream.send([frame])
    received = b""
    while len(received) < 4 or len(received) < 4 + _size(received):
        chunk = await stream.receive()
        if not chunk:
            raise Closed(f"{stream.peer} closed the connection instead of answering; does it ask for a login?")
        received += chunk
    return received[4:]


def _size(received: bytes) -> int:
    (size,) = LENGTH.unpack_from(received)
    if not 0 <= size <= LONGEST_ANSWER:
        raise NotAnswered(f"an answer of {size} bytes is none of Kafka's; is this a TLS port?")
    return int(size)
