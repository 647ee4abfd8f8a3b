"""Finds the bytes of a response that name a broker, and replaces them.

Knows field paths and versions, never sockets or settings. A rewrite is a splice: host and port are replaced inside each
element, then the sizes around them (of the tagged field, of the frame); every other byte is the broker's own. New
versions are admitted here, or hidden from clients by `api_versions.py`.

Left as they are, because no client of this listener dials them: FindCoordinator's entries without a node (node id -1
and no host), and the controllers in a DescribeCluster answer of endpoint type 2 (KIP-919): one node id may be a broker
and a controller, on different ports. NOT_DIALLED lists the other fields whose addresses no client dials.
Source: KIP-951, KIP-919, Kafka's *Response.json; `BrokerAddressFilter` of Kroxylicious is the peer to compare with.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache
from struct import pack
from typing import Any, NamedTuple

from proxy.mapping.nodes import Node
from proxy.schema.addresses import Address
from proxy.wire import apis, catalog
from proxy.wire.errors import Malformed
from proxy.wire.headers import response_head
from proxy.wire.keys import DESCRIBE_CLUSTER, FETCH, FIND_COORDINATOR, METADATA, PRODUCE, SHARE_ACKNOWLEDGE, SHARE_FETCH
from proxy.wire.primitives import Buffer, TagSpan, uvarint

# FindCoordinator's node id in an entry that names no node.
NO_NODE = -1

# The first version of a Metadata response with the cluster's id.
NAMED_CLUSTER = 2

# DescribeCluster's endpoint type of a list of controllers (1: brokers).
CONTROLLERS = 2

Advertised = Callable[[int], Address]
Projection = Callable[[Buffer, int], dict[str, list[tuple[Any, int, int]]]]


class NotRewritten(Enum):
    """The entries of a list of addresses that no client dials."""

    NODELESS = auto()  # an entry whose node id is NO_NODE and that has no host
    OF_CONTROLLERS = auto()  # a body whose endpoint type is CONTROLLERS


NODELESS, OF_CONTROLLERS = NotRewritten


@dataclass(frozen=True, slots=True)
class AddressField:
    """Versions of a response that carry addresses; `nodes` is the path of the list ("": the body itself).

    `is_walked`: large responses stream, and only the bytes behind the record data must have arrived to be rewritten
    (`equal_length.py`). All other responses are small, and held whole.
    """

    api_key: int
    versions: range
    nodes: str
    node_id: str
    but: NotRewritten | None = None
    is_walked: bool = False
    tag: int | None = None  # the list is this tagged field of the body

    @property
    def paths(self) -> tuple[str, str, str]:
        """The paths of node id, host and port."""
        within = f"{self.nodes}." if self.nodes else ""
        return within + self.node_id, within + "host", within + "port"


def _since(first: int) -> range:
    # Open-ended on purpose: versions newer than the catalog carry addresses too, so they are refused, not passed on.
    return range(first, 1 << 15)


ADDRESSES = (
    # api                           versions      list              node id      but
    AddressField(METADATA,          _since(0),    "brokers",        "node_id"),
    AddressField(FIND_COORDINATOR,  range(4),     "",               "node_id",   NODELESS),
    AddressField(FIND_COORDINATOR,  _since(4),    "coordinators",   "node_id",   NODELESS),
    AddressField(DESCRIBE_CLUSTER,  range(1),     "brokers",        "broker_id"),
    AddressField(DESCRIBE_CLUSTER,  _since(1),    "brokers",        "broker_id", OF_CONTROLLERS),
    AddressField(PRODUCE,           _since(10),   "node_endpoints", "node_id",   tag=0),
    AddressField(FETCH,             _since(16),   "node_endpoints", "node_id",   tag=0, is_walked=True),
    AddressField(SHARE_FETCH,       _since(0),    "node_endpoints", "node_id",   is_walked=True),
    AddressField(SHARE_ACKNOWLEDGE, _since(0),    "node_endpoints", "node_id",   is_walked=True),
)  # fmt: skip


class NotDialled(NamedTuple):
    """A field that may show an address, with all fields below it ("": any text), and the reason to leave it alone."""

    message: str
    path: str
    reason: str


_QUORUM = "only controllers send it, to each other; api_versions.py keeps clients from asking"
_REGISTERED = "an address that a node or a tool registers with the cluster, which must see the real one"
_APPLICATION = "where a Streams application listens, as it says itself: no broker"
_CLIENT = "where a client connects from, as the broker sees it: this proxy"
_RULE = "the hosts that an ACL speaks of: brokers compare them with where a client connects from"

NOT_DIALLED = (
    NotDialled(
        "DescribeClusterResponse", "brokers", "of endpoint type 2: controllers, which this proxy doesn't stand for"
    ),
    NotDialled("DescribeConfigsResponse", "results.configs", "the text of settings such as advertised.listeners"),
    NotDialled("DescribeQuorumResponse", "nodes.listeners", "the quorum's listeners, shown to administrators"),
    NotDialled("FetchResponse", "responses.partitions.records", "record payloads are the users' own"),
    NotDialled("ShareFetchResponse", "responses.partitions.records", "record payloads are the users' own"),
    NotDialled("", "error_message", "texts for people; some name a broker"),
    NotDialled("VoteResponse", "node_endpoints", _QUORUM),
    NotDialled("BeginQuorumEpochRequest", "leader_endpoints", _QUORUM),
    NotDialled("BeginQuorumEpochResponse", "node_endpoints", _QUORUM),
    NotDialled("EndQuorumEpochRequest", "leader_endpoints", _QUORUM),
    NotDialled("EndQuorumEpochResponse", "node_endpoints", _QUORUM),
    NotDialled("FetchSnapshotResponse", "node_endpoints", _QUORUM),
    NotDialled("UpdateRaftVoterRequest", "listeners", _QUORUM),
    NotDialled("UpdateRaftVoterResponse", "current_leader", _QUORUM),
    NotDialled("AddRaftVoterRequest", "listeners", _REGISTERED),
    NotDialled("BrokerRegistrationRequest", "listeners", _REGISTERED),
    NotDialled("ControllerRegistrationRequest", "listeners", _REGISTERED),
    NotDialled("LeaderAndIsrRequest", "live_leaders", "from a ZooKeeper-era controller to brokers"),
    NotDialled("UpdateMetadataRequest", "live_brokers", "from a ZooKeeper-era controller to brokers"),
    NotDialled("StreamsGroupHeartbeatRequest", "user_endpoint", _APPLICATION),
    NotDialled("StreamsGroupHeartbeatResponse", "partitions_by_user_endpoint", _APPLICATION),
    NotDialled("StreamsGroupDescribeResponse", "groups.members.user_endpoint", _APPLICATION),
    NotDialled("JoinGroupRequest", "protocols.metadata", _APPLICATION),
    NotDialled("DescribeGroupsResponse", "groups.members.client_host", _CLIENT),
    NotDialled("ConsumerGroupDescribeResponse", "groups.members.client_host", _CLIENT),
    NotDialled("ShareGroupDescribeResponse", "groups.members.client_host", _CLIENT),
    NotDialled("StreamsGroupDescribeResponse", "groups.members.client_host", _CLIENT),
    NotDialled("EnvelopeRequest", "client_host_address", _CLIENT),
    NotDialled("DescribeAclsRequest", "host_filter", _RULE),
    NotDialled("DescribeAclsResponse", "resources.acls.host", _RULE),
    NotDialled("CreateAclsRequest", "creations.host", _RULE),
    NotDialled("DeleteAclsRequest", "filters.host_filter", _RULE),
    NotDialled("DeleteAclsResponse", "filter_results.matching_acls.host", _RULE),
)


class AddressSpan(NamedTuple):
    """A node that clients dial; `start` to `end` are the bytes of its host and, right behind, its port."""

    node: Node
    start: int
    end: int


class AddressSpans(NamedTuple):
    """All address spans of a body, in wire order; also its tag buffer, if they are in it or right in front of it."""

    nodes: list[AddressSpan]
    tags: list[TagSpan]
    tags_at: int
    end: int


def carries(api_key: int, api_version: int) -> bool:
    """True if this response must be rewritten; also for versions newer than the rewrite."""
    return _field(api_key, api_version) is not None


def newest(api_key: int) -> int | None:
    """The newest version that can be rewritten; None: no version of the api carries an address."""
    if all(row.api_key != api_key for row in ADDRESSES):
        return None
    return apis.versions(api_key)[-1]


def is_walked(api_key: int, api_version: int) -> bool:
    """True if a large response may stream, with only its tail rewritten, at equal length."""
    row = _field(api_key, api_version)
    return row is not None and row.is_walked


def nodes_in(api_key: int, api_version: int, frame: Buffer) -> tuple[Node, ...]:
    """The nodes in a response (the bytes behind its length) that clients dial: each once, in wire order.

    Errors: WireError when the frame can't be read.
    """
    found = places(api_key, api_version, frame, response_head(frame, api_key, api_version).body)
    return tuple(dict.fromkeys(place.node for place in found.nodes))


def cluster_id_in(api_key: int, api_version: int, frame: Buffer) -> str | None:
    """The cluster id in a response (the bytes behind its length); None if it has none.

    Errors: WireError when the frame can't be read.
    """
    if api_key != METADATA or api_version < NAMED_CLUSTER:
        return None
    found = _cluster_reader(api_version)(frame, response_head(frame, api_key, api_version).body)
    cluster_id: str | None = found["cluster_id"][0][0]
    return cluster_id or None


def splice(api_key: int, api_version: int, frame: Buffer, advertised: Advertised) -> bytes:
    """A response (the bytes behind its length) with the advertised addresses in it, and its new length in front.

    `advertised` is called with every node id, also new ones, which the caller has to resolve.
    Errors: WireError when the frame can't be read; whatever `advertised` raises.
    """
    found = places(api_key, api_version, frame, response_head(frame, api_key, api_version).body)
    compact = apis.is_flexible(api_key, api_version)
    number = list_tag(api_key)
    pieces: list[Buffer]
    if not found.nodes or number is None:
        pieces = [replaced(frame, 0, len(frame), found.nodes, compact, advertised)]
    else:
        tag = single_tag(found.tags, number)
        payload = replaced(frame, tag.payload_start, tag.end, found.nodes, compact, advertised)
        pieces = [frame[: tag.size_start], uvarint(len(payload)), payload, frame[tag.end :]]
    return b"".join([pack(">i", sum(map(len, pieces))), *pieces])


def places(api_key: int, api_version: int, buf: Buffer, at: int) -> AddressSpans:
    """The nodes to dial in the body that starts at `at`.

    Errors: WireError when the body can't be read, or when no rewrite exists for this version.
    """
    row, paths, project = _reader(api_key, api_version)
    found = project(buf, at)
    if row.but is OF_CONTROLLERS and found["endpoint_type"][0][0] == CONTROLLERS:
        return AddressSpans([], [], 0, 0)
    nodes = [
        AddressSpan(Node(node_id, host, port), start, end)
        for (node_id, _, _), (host, start, _), (port, _, end) in zip(*map(found.__getitem__, paths), strict=True)
        if not (row.but is NODELESS and node_id == NO_NODE and not host)
    ]
    return AddressSpans(nodes, *(found["tags"][0] if "tags" in found else ([], 0, 0)))


def replaced(
    buf: Buffer, start: int, end: int, nodes: Iterable[AddressSpan], compact: bool, advertised: Advertised
) -> bytes:
    """buf[start:end], in which each node's host and port have become the advertised ones."""
    pieces: list[Buffer] = []
    for place in nodes:
        pieces += [buf[start : place.start], _encoded(advertised(place.node.node_id), compact)]
        start = place.end
    return b"".join([*pieces, buf[start:end]])


def _encoded(address: Address, compact: bool) -> bytes:
    host = address.host.encode()
    return (uvarint(len(host) + 1) if compact else pack(">h", len(host))) + host + pack(">i", address.port)


def list_tag(api_key: int) -> int | None:
    """The number of the tagged field that holds the addresses; None if they are in a plain field."""
    return next((row.tag for row in ADDRESSES if row.api_key == api_key), None)


def single_tag(spans: Iterable[TagSpan], number: int) -> TagSpan:
    """The only tagged field of that number. Two are an error: the one that is not rewritten might leak an address."""
    found = [span for span in spans if span.tag == number]
    if len(found) != 1:
        raise Malformed(f"tagged field {number} stands {len(found)} times in one buffer")
    return found[0]


def _field(api_key: int, api_version: int) -> AddressField | None:
    for row in ADDRESSES:
        if row.api_key == api_key and api_version in row.versions:
            return row
    return None


@cache
def _reader(api_key: int, api_version: int) -> tuple[AddressField, tuple[str, str, str], Projection]:
    row, codec = _field(api_key, api_version), known_codec(api_key, api_version)
    assert row is not None, "its response has a codec, so it carries addresses"
    also = ["endpoint_type"] if row.but is OF_CONTROLLERS else []
    if row.nodes == "node_endpoints":
        also.append("tags")
    return row, row.paths, codec.project((*row.paths, *also))


@cache
def _cluster_reader(api_version: int) -> Projection:
    return known_codec(METADATA, api_version).project(("cluster_id",))


def known_codec(api_key: int, api_version: int) -> catalog.Codec:
    """The codec of a response that carries addresses. Raises Malformed where there is no such response, or no codec."""
    codec = catalog.codec("response", api_key, api_version)
    if codec is None or not carries(api_key, api_version):
        raise Malformed("no rewrite of addresses exists", api=apis.api_name(api_key), version=api_version)
    return codec
