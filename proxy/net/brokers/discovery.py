"""Discovery: the proxy queries a broker for the cluster's nodes, also to find loops. `upstreams` decides when.

The query is ApiVersions v0, then Metadata for no topics, on a connection that is neither recorded nor counted. Rules:

- A broker that refuses ApiVersions v0 and says which versions it has is asked in the first of these (KIP-511).
- A broker that gives no other usable answer to ApiVersions is asked Metadata v0, on a second connection: brokers before
  0.10 close the connection at ApiVersions.
- A KRaft controller serves no Metadata; DescribeCluster asks it for the quorum's controllers (KIP-919).
- Only `_nodes_in` decides whether a response names the nodes: it has no error, and at least one node. A cluster that
  starts or stops names none.
- A node that demands a login answers ApiVersions, and closes the connection at the question (`DemandsLogin`); the proxy
  then learns the nodes from responses to clients. A node that closes the connection before may do so because it starts
  or stops (`ClosedByBroker`).

A broker's address may lead back to the proxy, through other proxies or a load balancer. The proxy's listener then
receives the query, recognises its bytes, and answers with a response that no broker sends (`loop_answer`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple
from zlib import crc32

import trio

from proxy.mapping.nodes import Node
from proxy.net.sockets.streams import PeerLost, Stream
from proxy.rewrite import addresses
from proxy.wire import apis, catalog
from proxy.wire.error_codes import UNSUPPORTED_VERSION, kafka_error
from proxy.wire.errors import WireError
from proxy.wire.framing import LENGTH, REQUEST_HEAD, RESPONSE_HEAD, framed
from proxy.wire.headers import response_head
from proxy.wire.keys import API_VERSIONS, DESCRIBE_CLUSTER, METADATA, VOTE

CLIENT_ID = "kafka-wiretap"
# brokers demand the client's name and version in ApiVersions from version 3 on (KIP-511)
SOFTWARE = {"client_software_name": CLIENT_ID, "client_software_version": "1"}
# the place of the correlation id in a request with its length
REQUEST_CORRELATION_ID = slice(REQUEST_HEAD.size - 4, REQUEST_HEAD.size)
# bytes; Metadata without topics takes some dozens of bytes a node, and only v0 lists all topics
LONGEST_ANSWER = 1024 * 1024
ANSWER_SECONDS = 5
# the version of DescribeCluster from which on controllers answer it
FIRST_WITH_CONTROLLERS = 1
# INVALID_REQUEST: no broker answers ApiVersions v0 with it
LOOP_ERROR = 42
# correlation ids are below this, and not negative: those of a broker's clients begin at 0, too
CORRELATION_IDS = 1 << 31

Dial = Callable[[], Awaitable[Stream]]
# api key -> the versions that a broker offers
OfferedVersions = Mapping[int, range]


class NotAnswered(PeerLost):
    """The broker accepted the connection, but did not name the cluster's nodes; the message says why."""


class ClosedByBroker(NotAnswered):
    """The broker ended the connection instead of answering a request."""


class DemandsLogin(ClosedByBroker):
    """The broker ended the connection at Metadata, though it had answered ApiVersions."""


class NotKafka(NotAnswered):
    """The server that listens there does not speak Kafka's protocol."""


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

    frame: the request, with its length; `request` makes the query's other requests.
    loop_answer: the response, with its length, that the proxy's own listener gives to it.
    """

    def __init__(self, seed: int = 0, cluster: str = "") -> None:
        self.correlation_id = (seed ^ crc32(cluster.encode())) % CORRELATION_IDS
        self.frame = self.request(API_VERSIONS, 0, {})
        answer = {"error_code": LOOP_ERROR, "api_keys": []}
        self.loop_answer = framed(catalog.encode_response(API_VERSIONS, 0, self.correlation_id, answer))

    def request(self, key: int, version: int, fields: dict[str, Any]) -> bytes:
        """Returns a request of the query, with its length."""
        return framed(catalog.encode_request(key, version, self.correlation_id, CLIENT_ID, fields))


async def ask_for_nodes(dial: Dial, loop_probe: LoopProbe) -> DiscoveredNodes:
    """Dials a broker and queries it for the cluster's nodes.

    Raises:
        PeerLost: no connection to the broker could be made.
        NotAnswered: the broker did not answer, or its answer names no nodes or can't be understood.
        NamesNoNodes: it never will.
        LeadsBackIndirectly: the proxy's own listener answered the query.
    """
    stream = await dial()
    try:
        with trio.fail_after(ANSWER_SECONDS):
            return await _query(stream, dial, loop_probe)
    except (NotAnswered, LeadsBackIndirectly, NamesNoNodes):
        raise
    except PeerLost as error:
        raise ClosedByBroker(error) from error
    except WireError as error:
        raise NotAnswered(error) from error
    except trio.TooSlowError as error:
        raise NotAnswered(f"{stream.peer} did not answer in {ANSWER_SECONDS} s") from error


class _Question(NamedTuple):
    """The request whose response names the nodes."""

    api_key: int
    version: int
    fields: dict[str, Any]


async def _query(stream: Stream, dial_again: Dial, loop_probe: LoopProbe) -> DiscoveredNodes:
    try:
        question = await _question(stream, loop_probe)
        if question is not None:
            try:
                return await _fetch_nodes(stream, question, loop_probe)
            except ClosedByBroker as error:
                raise DemandsLogin(error) from error
        stream.close()
        stream = await dial_again()
        return await _fetch_nodes(stream, _metadata(0), loop_probe)
    finally:
        stream.close()


async def _fetch_nodes(stream: Stream, question: _Question, loop_probe: LoopProbe) -> DiscoveredNodes:
    return _nodes_in(question, await exchange(stream, loop_probe.request(*question)), stream.peer)


async def ask_for_versions(stream: Stream, loop_probe: LoopProbe) -> OfferedVersions:
    """Asks a broker for the versions that it offers.

    Raises:
        LeadsBackIndirectly: the proxy's own listener answered.
        PeerLost, WireError: the broker did not answer, or its answer can't be understood.
    """
    response = await exchange(stream, loop_probe.frame)
    if response == loop_probe.loop_answer[LENGTH.size :]:
        raise LeadsBackIndirectly(f"{stream.peer} leads back to this proxy by way of others")
    offered = _api_versions(response, 0)
    if offered["error_code"] == UNSUPPORTED_VERSION and (version := _first_offered(offered)) is not None:
        response = await exchange(stream, loop_probe.request(API_VERSIONS, version, SOFTWARE))
        offered = _api_versions(response, version)
    if code := offered["error_code"]:
        raise NotAnswered(f"{stream.peer} answers ApiVersions with the error {kafka_error(code).name}")
    return {row["api_key"]: range(row["min_version"], row["max_version"] + 1) for row in offered["api_keys"]}


async def _question(stream: Stream, loop_probe: LoopProbe) -> _Question | None:
    """Returns the question for a node, by its answer to ApiVersions; None: the answer does not say.

    Raises LeadsBackIndirectly; NamesNoNodes; NotKafka.
    """
    try:
        offered = await ask_for_versions(stream, loop_probe)
    except (NotKafka, LeadsBackIndirectly):
        raise
    except (PeerLost, WireError):
        return None
    return _question_for(offered, stream.peer)


def _question_for(offered: OfferedVersions, peer: str) -> _Question:
    """Returns the question for a node with these versions. Raises NamesNoNodes."""
    newest = {key: versions[-1] for key, versions in offered.items() if versions}
    if METADATA in newest or VOTE not in newest:
        return _metadata(min(apis.versions(METADATA)[-1], newest.get(METADATA, 0)))
    version = min(apis.versions(DESCRIBE_CLUSTER)[-1], newest.get(DESCRIBE_CLUSTER, 0))
    if version < FIRST_WITH_CONTROLLERS:
        raise NamesNoNodes(
            f"{peer} is a controller older than Kafka 3.7, which names no nodes; right would be a broker"
        )
    return _Question(DESCRIBE_CLUSTER, version, {"endpoint_type": addresses.CONTROLLERS})


def _metadata(version: int) -> _Question:
    # an empty list means all topics in version 0, and no topic in later ones
    return _Question(METADATA, version, {"topics": [], "allow_auto_topic_creation": False})


def _api_versions(response: bytes, version: int) -> dict[str, Any]:
    """Returns the body of an ApiVersions response. Raises WireError."""
    decoded = catalog.decode_response(response, API_VERSIONS, version)
    assert not isinstance(decoded, catalog.UnknownMessage)
    return decoded[1]


def _first_offered(refusal: dict[str, Any]) -> int | None:
    """Returns the first version of ApiVersions that a refusal of version 0 offers and the catalog has; None: none."""
    rows = (row for row in refusal["api_keys"] if row["api_key"] == API_VERSIONS)
    offered = (range(row["min_version"], row["max_version"] + 1) for row in rows)
    return next((one for versions in offered for one in apis.versions(API_VERSIONS)[1:] if one in versions), None)


def _nodes_in(question: _Question, response: bytes, peer: str) -> DiscoveredNodes:
    """Returns the nodes that a response names. Raises WireError; NotAnswered: it does not name the nodes."""
    key, version, _ = question
    body = response_head(response, key, version).body
    # Metadata before version 13 has no such field
    errors = catalog.must("response", key, version).project(("error_code",))(response, body)["error_code"]
    if errors and errors[0][0]:
        raise NotAnswered(f"{peer} answers {apis.api_name(key)} with the error {kafka_error(errors[0][0]).name}")
    nodes = addresses.nodes_in(key, version, response)
    if not nodes:
        raise NotAnswered(f"{peer} named no node; does the cluster start?")
    return DiscoveredNodes(nodes, addresses.cluster_id_in(key, version, response))


async def exchange(stream: Stream, frame: bytes) -> bytes:
    """Sends a request (`frame`, with its length). Returns the response without its length.

    Raises:
        ClosedByBroker: the connection ended first.
        NotKafka: what came is no response to this request.
    """
    response = await frame_after(stream, frame)
    if response[: RESPONSE_HEAD.size - LENGTH.size] != frame[REQUEST_CORRELATION_ID]:
        raise NotKafka(f"{stream.peer} answered another request than the proxy's")
    return response


async def frame_after(stream: Stream, frame: bytes) -> bytes:
    """As `exchange`, for a frame that may have no head: a login's token."""
    received = b""
    try:
        await stream.send([frame])
        while len(received) < LENGTH.size or len(received) < LENGTH.size + _size(received):
            chunk = await stream.receive()
            if not chunk:
                raise PeerLost(f"{stream.peer} closed the connection instead of answering; does it ask for a login?")
            received += chunk
    except NotKafka:
        raise
    except PeerLost as error:
        raise ClosedByBroker(error) from error
    return received[LENGTH.size :]


def _size(received: bytes) -> int:
    (size,) = LENGTH.unpack_from(received)
    if not 0 <= size <= LONGEST_ANSWER:
        raise NotKafka(f"an answer of {size} bytes is none of Kafka's; is this a TLS port?")
    return int(size)
