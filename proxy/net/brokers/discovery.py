"""Discovery: the proxy queries a broker for the cluster's nodes, also to find loops. `upstreams` decides when.

The query is ApiVersions v0, then Metadata for no topics, on a connection that is neither recorded nor counted. A
broker older than 0.10 closes the connection at ApiVersions; the proxy then sends Metadata v0 alone on a second
connection. A broker that demands a login closes the connection at Metadata; the proxy then learns the nodes from
responses to clients.

A broker's address may lead back to the proxy, through other proxies or a load balancer. The proxy's listener then
receives the query, recognises its bytes, and answers with a response that no broker sends (`loop_answer`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple
from zlib import crc32

import trio

from proxy.mapping.nodes import Node
from proxy.net.sockets.streams import PeerLost, Stream
from proxy.rewrite import addresses
from proxy.wire import apis, catalog
from proxy.wire.errors import WireError
from proxy.wire.framing import LENGTH, framed
from proxy.wire.keys import API_VERSIONS, METADATA

CLIENT_ID = "kafka-wiretap"
# bytes; Metadata without topics takes some dozens of bytes a node, and only v0 lists all topics
LONGEST_ANSWER = 1024 * 1024
ANSWER_SECONDS = 5
# INVALID_REQUEST: no broker answers ApiVersions v0 with it
LOOP_ERROR = 42
# correlation ids are below this, and not negative: those of a broker's clients begin at 0, too
CORRELATION_IDS = 1 << 31

Dial = Callable[[], Awaitable[Stream]]


class NotAnswered(PeerLost):
    """The broker accepted the connection, but did not name the cluster's nodes; the message says why."""


class ClosedByBroker(NotAnswered):
    """The broker closed the connection instead of answering a request."""


class LeadsBackIndirectly(PeerLost):
    """The query came back to the proxy: the address leads to it through other proxies or a load balancer."""


class DiscoveredNodes(NamedTuple):
    """A cluster's nodes, as a broker names them. `cluster_id`: None from brokers older than 0.10.1."""

    nodes: tuple[Node, ...]
    cluster_id: str | None


class LoopProbe:
    """The ApiVersions request that begins each query for one cluster. All workers send and recognise the same bytes.

    Args:
        seed: a random number, drawn when the proxy starts, so that no other proxy sends the same query.
        cluster: the cluster's name.

    frame: the request, with its length.
    loop_answer: the response, with its length, that the proxy's own listener gives to it.
    """

    def __init__(self, seed: int = 0, cluster: str = "") -> None:
        self.correlation_id = (seed ^ crc32(cluster.encode())) % CORRELATION_IDS
        self.frame = framed(catalog.encode_request(API_VERSIONS, 0, self.correlation_id, CLIENT_ID, {}))
        answer = {"error_code": LOOP_ERROR, "api_keys": []}
        self.loop_answer = framed(catalog.encode_response(API_VERSIONS, 0, self.correlation_id, answer))


async def ask_for_nodes(dial: Dial, loop_probe: LoopProbe) -> DiscoveredNodes:
    """Dials a broker and queries it for the cluster's nodes.

    Raises:
        PeerLost: no connection to the broker could be made.
        NotAnswered: the broker did not answer, or its answer can't be understood.
        LeadsBackIndirectly: the proxy's own listener answered the query.
    """
    stream = await dial()
    try:
        with trio.fail_after(ANSWER_SECONDS):
            return await _query(stream, dial, loop_probe)
    except LeadsBackIndirectly:
        raise
    except (PeerLost, WireError) as error:
        raise NotAnswered(error) from error
    except trio.TooSlowError as error:
        raise NotAnswered(f"{stream.peer} did not answer in {ANSWER_SECONDS} s") from error


async def _query(stream: Stream, dial_again: Dial, loop_probe: LoopProbe) -> DiscoveredNodes:
    try:
        try:
            versions = await _exchange(stream, loop_probe.frame)
        except ClosedByBroker:
            stream.close()
            stream = await dial_again()
            return await _fetch_nodes(stream, 0, loop_probe.correlation_id)
        if versions == loop_probe.loop_answer[LENGTH.size :]:
            raise LeadsBackIndirectly(f"{stream.peer} leads back to this proxy by way of others")
        return await _fetch_nodes(stream, _metadata_version(versions), loop_probe.correlation_id)
    finally:
        stream.close()


async def _fetch_nodes(stream: Stream, version: int, correlation_id: int) -> DiscoveredNodes:
    # an empty list means all topics in version 0, and no topic in later ones
    fields = {"topics": [], "allow_auto_topic_creation": False}
    request = catalog.encode_request(METADATA, version, correlation_id, CLIENT_ID, fields)
    response = await _exchange(stream, framed(request))
    nodes = addresses.nodes_in(METADATA, version, response)
    return DiscoveredNodes(nodes, addresses.cluster_id_in(METADATA, version, response))


def _metadata_version(response: bytes) -> int:
    """Returns the newest version of Metadata that this ApiVersions response v0 offers and the catalog has."""
    decoded = catalog.decode_response(response, API_VERSIONS, 0)
    assert not isinstance(decoded, catalog.UnknownMessage)
    offered = {api["api_key"]: int(api["max_version"]) for api in decoded[1]["api_keys"]}
    return min(apis.versions(METADATA)[-1], offered.get(METADATA, 0))


async def _exchange(stream: Stream, frame: bytes) -> bytes:
    """Sends a request (`frame`, with its length). Returns the response without its length."""
    await stream.send([frame])
    received = b""
    while len(received) < LENGTH.size or len(received) < LENGTH.size + _size(received):
        chunk = await stream.receive()
        if not chunk:
            raise ClosedByBroker(f"{stream.peer} closed the connection instead of answering; does it ask for a login?")
        received += chunk
    return received[LENGTH.size :]


def _size(received: bytes) -> int:
    (size,) = LENGTH.unpack_from(received)
    if not 0 <= size <= LONGEST_ANSWER:
        raise NotAnswered(f"an answer of {size} bytes is none of Kafka's; is this a TLS port?")
    return int(size)
