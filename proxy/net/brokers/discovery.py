"""Discovery: the proxy queries a broker for the cluster's nodes, also to find loops. `upstreams` decides when.

The query is ApiVersions v0, then Metadata for no topics, on a connection that is neither recorded nor counted. A KRaft
controller serves no Metadata; DescribeCluster asks it for the quorum's controllers (KIP-919). A broker older than 0.10
closes the connection at ApiVersions; the proxy then sends Metadata v0 alone on a second connection. A node that demands
a login closes the connection at the question; the proxy then learns the nodes from responses to clients.

A broker's address may lead back to the proxy, through other proxies or a load balancer. The proxy's listener then
receives the query, recognises its bytes, and answers with a response that no broker sends (`loop_answer`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple
from zlib import crc32

import trio

from proxy.mapping.nodes import Node
from proxy.net.sockets.streams import PeerLost, Stream
from proxy.rewrite import addresses
from proxy.wire import apis, catalog
from proxy.wire.error_codes import kafka_error
from proxy.wire.errors import WireError
from proxy.wire.framing import LENGTH, framed
from proxy.wire.keys import API_VERSIONS, DESCRIBE_CLUSTER, METADATA, VOTE

CLIENT_ID = "kafka-wiretap"
# bytes; Metadata without topics takes some dozens of bytes a node, and only v0 lists all topics
LONGEST_ANSWER = 1024 * 1024
ANSWER_SECONDS = 5
# the version of DescribeCluster from which on controllers answer it
FIRST_WITH_CONTROLLERS = 1
# INVALID_REQUEST: no broker answers ApiVersions v0 with it
LOOP_ERROR = 42
# correlation ids are below this, and not negative: Kafka's own clients send none below 0 either
CORRELATION_IDS = 1 << 31

Dial = Callable[[], Awaitable[Stream]]


class NotAnswered(PeerLost):
    """The broker accepted the connection, but did not name the cluster's nodes; the message says why."""


class ClosedByBroker(NotAnswered):
    """The broker closed the connection instead of answering a request."""


class NamesNoNodes(PeerLost):
    """The upstream is a KRaft controller older than Kafka 3.7: no request makes it name addresses."""


class LeadsBackIndirectly(PeerLost):
    """The query came back to the proxy: the address leads to it through other proxies or a load balancer."""


class DiscoveredNodes(NamedTuple):
    """A cluster's nodes, as one of them names them. `cluster_id`: None from brokers older than 0.10.1."""

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
        NamesNoNodes: it never will.
        LeadsBackIndirectly: the proxy's own listener answered the query.
    """
    stream = await dial()
    try:
        with trio.fail_after(ANSWER_SECONDS):
            return await _query(stream, dial, loop_probe)
    except (LeadsBackIndirectly, NamesNoNodes):
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
            return await _fetch_nodes(stream, _metadata(0), loop_probe.correlation_id)
        if versions == loop_probe.loop_answer[LENGTH.size :]:
            raise LeadsBackIndirectly(f"{stream.peer} leads back to this proxy by way of others")
        return await _fetch_nodes(stream, _question(versions, stream.peer), loop_probe.correlation_id)
    finally:
        stream.close()


class _Question(NamedTuple):
    """The request whose response names the nodes."""

    api_key: int
    version: int
    fields: dict[str, Any]


async def _fetch_nodes(stream: Stream, question: _Question, correlation_id: int) -> DiscoveredNodes:
    key, version, fields = question
    response = await _exchange(stream, framed(catalog.encode_request(key, version, correlation_id, CLIENT_ID, fields)))
    nodes = addresses.nodes_in(key, version, response)
    if key == DESCRIBE_CLUSTER and (code := _values(key, version, response)["error_code"]):
        raise NotAnswered(f"{stream.peer} answers DescribeCluster with {kafka_error(code).name}")
    return DiscoveredNodes(nodes, addresses.cluster_id_in(key, version, response))


def _question(api_versions: bytes, peer: str) -> _Question:
    """Returns the question for a node that answers ApiVersions v0 so. Raises NamesNoNodes."""
    apis_offered = _values(API_VERSIONS, 0, api_versions)["api_keys"]
    offered = {api["api_key"]: int(api["max_version"]) for api in apis_offered}
    if METADATA in offered or VOTE not in offered:
        return _metadata(min(apis.versions(METADATA)[-1], offered.get(METADATA, 0)))
    version = min(apis.versions(DESCRIBE_CLUSTER)[-1], offered.get(DESCRIBE_CLUSTER, 0))
    if version < FIRST_WITH_CONTROLLERS:
        raise NamesNoNodes(
            f"{peer} is a controller older than Kafka 3.7, which names no nodes; right would be a broker"
        )
    return _Question(DESCRIBE_CLUSTER, version, {"endpoint_type": addresses.CONTROLLERS})


def _metadata(version: int) -> _Question:
    # an empty list means all topics in version 0, and no topic in later ones
    return _Question(METADATA, version, {"topics": [], "allow_auto_topic_creation": False})


def _values(api_key: int, version: int, response: bytes) -> dict[str, Any]:
    decoded = catalog.decode_response(response, api_key, version)
    assert not isinstance(decoded, catalog.UnknownMessage)
    return decoded[1]


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
