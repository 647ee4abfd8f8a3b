"""Finds the bytes of a response that name a broker, and replaces them.

Knows field paths and versions, never sockets or settings. A rewrite is a splice: it replaces host and port in each
element, and the sizes around them (of the tagged field, of the frame); every other byte is the broker's own. ADDRESSES
admits versions; `api_versions.py` hides all others from clients.

FindCoordinator's entries without a node stay as they are. NOT_DIALLED lists the fields whose addresses no client dials.
Source: KIP-951, KIP-919, Kafka's *Response.json; `BrokerAddressFilter` of Kroxylicious is the peer to compare with.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache, lru_cache
from struct import pack
from typing import Any, NamedTuple

from proxy.mapping.nodes import Node
from proxy.schema.addresses import Address
from proxy.wire import apis, catalog
from proxy.wire.alike import AlikeResponses
from proxy.wire.errors import Malformed
from proxy.wire.headers import response_head
from proxy.wire.keys import DESCRIBE_CLUSTER, FETCH, FIND_COORDINATOR, METADATA, PRODUCE, SHARE_ACKNOWLEDGE, SHARE_FETCH
from proxy.wire.primitives import Buffer, TagSpan, uvarint

# FindCoordinator's node id in an entry that names no node.
NO_NODE = -1

# api key -> the first version of its response that holds the cluster's id
FIRST_WITH_CLUSTER_ID = {METADATA: 2, DESCRIBE_CLUSTER: 0}

# The endpoint type of a DescribeCluster response that lists controllers (1: brokers; KIP-919).
CONTROLLERS = 2

# node id -> advertised address
Advertised = Callable[[int], Address]
# (buffer, offset of the body) -> path -> (value, start, end) of each element
Projection = Callable[[Buffer, int], dict[str, list[tuple[Any, int, int]]]]


class Named(Enum):
    """The nodes that a list names."""

    BROKERS = auto()
    # an entry whose node id is NO_NODE and that has no host names no node
    BROKERS_OR_NONE = auto()
    # what the response's endpoint type says
    BY_TYPE = auto()
    # brokers among brokers, controllers among controllers: a KRaft controller is asked for the metadata log by Fetch
    PEERS = auto()


BROKERS, BROKERS_OR_NONE, BY_TYPE, PEERS = Named


@dataclass(frozen=True, slots=True)
class AddressField:
    """A list of addresses in some versions of a response.

    nodes: the path of the list; "": the body itself is the only entry.
    node_id: the field of an entry with its node id; host and port are always named so.
    named: the nodes that the list names.
    is_walked: large responses stream, and only their tail is held (`equal_length.py`). All others are held whole.
    tag: the number of the tagged field of the body that is the list; None: it is a plain field.
    names_all: the list names all nodes of the cluster. A node that such lists lack is gone; an empty list says nothing.
    """

    api_key: int
    versions: range
    nodes: str
    node_id: str
    named: Named
    is_walked: bool = False
    tag: int | None = None
    names_all: bool = False

    @property
    def paths(self) -> tuple[str, str, str]:
        """The paths of node id, host and port."""
        within = f"{self.nodes}." if self.nodes else ""
        return within + self.node_id, within + "host", within + "port"


def _since(first: int) -> range:
    # open-ended: versions newer than the catalog carry addresses too, so they are refused instead of passed on
    return range(first, 1 << 15)


ADDRESSES = (
    # api                           versions      list              node id      named
    AddressField(METADATA,          _since(0),    "brokers",        "node_id",   BROKERS, names_all=True),
    AddressField(FIND_COORDINATOR,  range(4),     "",               "node_id",   BROKERS_OR_NONE),
    AddressField(FIND_COORDINATOR,  _since(4),    "coordinators",   "node_id",   BROKERS_OR_NONE),
    AddressField(DESCRIBE_CLUSTER,  range(1),     "brokers",        "broker_id", BROKERS, names_all=True),
    AddressField(DESCRIBE_CLUSTER,  _since(1),    "brokers",        "broker_id", BY_TYPE, names_all=True),
    AddressField(PRODUCE,           _since(10),   "node_endpoints", "node_id",   BROKERS, tag=0),
    AddressField(FETCH,             _since(16),   "node_endpoints", "node_id",   PEERS, tag=0, is_walked=True),
    AddressField(SHARE_FETCH,       _since(0),    "node_endpoints", "node_id",   BROKERS, is_walked=True),
    AddressField(SHARE_ACKNOWLEDGE, _since(0),    "node_endpoints", "node_id",   BROKERS, is_walked=True),
)  # fmt: skip

# the APIs whose responses list all nodes of the cluster
LISTING = frozenset(row.api_key for row in ADDRESSES if row.names_all)


class NotDialled(NamedTuple):
    """A field, with all fields below it, that may hold an address and is left as it is. `message` "": any message."""

    message: str
    path: str
    reason: str


_QUORUM = "only controllers send it, to each other; api_versions.py keeps clients from asking"
_REGISTERED = "an address that a node or a tool registers with the cluster, which must see the real one"
_APPLICATION = "where a Streams application listens, as it says itself: no broker"
_CLIENT = "where a client connects from, as the broker sees it: this proxy"
_RULE = "the hosts that an ACL speaks of: brokers compare them with where a client connects from"

NOT_DIALLED = (
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
    """A node that clients dial. Its host, and its port right behind, are the bytes from `start` to `end`."""

    node: Node
    start: int
    end: int


class AddressSpans(NamedTuple):
    """All address spans of a body, in wire order.

    tags, tags_at, end: the tagged fields of the body's tag buffer, and the offsets of that buffer and of its end; empty
        and 0 unless the list is "node_endpoints".
    """

    nodes: list[AddressSpan]
    tags: list[TagSpan]
    tags_at: int
    end: int


def carries(api_key: int, api_version: int) -> bool:
    """True if this response must be rewritten; also for versions that are too new to be rewritten."""
    return _field(api_key, api_version) is not None


def newest(api_key: int) -> int | None:
    """The newest version that can be rewritten; None: no version of the API carries an address."""
    if all(row.api_key != api_key for row in ADDRESSES):
        return None
    return apis.versions(api_key)[-1]


def is_walked(api_key: int, api_version: int) -> bool:
    """True if a large response may stream, and only its tail is rewritten, at equal length."""
    row = _field(api_key, api_version)
    return row is not None and row.is_walked


def nodes_in(api_key: int, api_version: int, frame: Buffer) -> tuple[Node, ...]:
    """Returns the nodes in a response (without its length) that clients dial: each once, in wire order.

    Raises WireError: the frame can't be read.
    """
    spans = address_spans(api_key, api_version, frame, response_head(frame, api_key, api_version).body)
    return tuple(dict.fromkeys(span.node for span in spans.nodes))


@lru_cache(catalog.CACHE_SIZE)
def naming_none(api_key: int, api_version: int | None) -> AlikeResponses | None:
    """What remembers the responses that name no node; None: they are not rewritten, or nearly all name one.

    In those of which most name none, the list is a tagged field, which alike responses either have or lack.
    """
    if api_version is None or not apis.known(api_key, api_version):
        return None
    row = _field(api_key, api_version)
    return None if row is None or row.tag is None else AlikeResponses(known_codec(api_key, api_version))


def cluster_id_in(api_key: int, api_version: int, frame: Buffer) -> str | None:
    """Returns the cluster id in a response (without its length); None if it has none.

    Raises WireError: the frame can't be read.
    """
    first = FIRST_WITH_CLUSTER_ID.get(api_key)
    if first is None or api_version < first:
        return None
    values = _cluster_projection(api_key, api_version)(frame, response_head(frame, api_key, api_version).body)
    cluster_id: str | None = values["cluster_id"][0][0]
    return cluster_id or None


def splice(api_key: int, api_version: int, frame: Buffer, advertised: Advertised) -> bytes:
    """Returns a response with the advertised addresses, and its new length in front. `frame` is without its length.

    `advertised` is called with each node id in `nodes_in`. Raises WireError: the frame can't be read; and whatever
    `advertised` raises.
    """
    spans = address_spans(api_key, api_version, frame, response_head(frame, api_key, api_version).body)
    compact = apis.is_flexible(api_key, api_version)
    number = list_tag(api_key)
    pieces: list[Buffer]
    if not spans.nodes or number is None:
        pieces = [replace_addresses(frame, 0, len(frame), spans.nodes, compact, advertised)]
    else:
        tag = single_tag(spans.tags, number)
        payload = replace_addresses(frame, tag.payload_start, tag.end, spans.nodes, compact, advertised)
        pieces = [frame[: tag.size_start], uvarint(len(payload)), payload, frame[tag.end :]]
    return b"".join([pack(">i", sum(map(len, pieces))), *pieces])


def address_spans(api_key: int, api_version: int, buf: Buffer, at: int) -> AddressSpans:
    """Returns the spans of the nodes that clients dial, in the body that starts at `at`.

    Raises WireError: the body can't be read, or no rewrite exists for this version.
    """
    row, paths, project = _projection(api_key, api_version)
    values = project(buf, at)
    is_controller = (
        None if row.named is PEERS else row.named is BY_TYPE and values["endpoint_type"][0][0] == CONTROLLERS
    )
    nodes = [
        AddressSpan(Node(node_id, host, port, is_controller), start, end)
        for (node_id, _, _), (host, start, _), (port, _, end) in zip(*map(values.__getitem__, paths), strict=True)
        if not (row.named is BROKERS_OR_NONE and node_id == NO_NODE and not host)
    ]
    return AddressSpans(nodes, *(values["tags"][0] if "tags" in values else ([], 0, 0)))


def replace_addresses(
    buf: Buffer, start: int, end: int, nodes: Iterable[AddressSpan], compact: bool, advertised: Advertised
) -> bytes:
    """Returns buf[start:end] with the advertised host and port of each node in place of its own."""
    pieces: list[Buffer] = []
    for span in nodes:
        pieces += [buf[start : span.start], _encoded(advertised(span.node.node_id), compact)]
        start = span.end
    return b"".join([*pieces, buf[start:end]])


def _encoded(address: Address, compact: bool) -> bytes:
    host = address.host.encode()
    return (uvarint(len(host) + 1) if compact else pack(">h", len(host))) + host + pack(">i", address.port)


def list_tag(api_key: int) -> int | None:
    """The number of the tagged field that holds the addresses; None if they are in a plain field."""
    return next((row.tag for row in ADDRESSES if row.api_key == api_key), None)


def single_tag(spans: Iterable[TagSpan], number: int) -> TagSpan:
    """Returns the only tagged field of that number. Raises Malformed: there are two, and one would not be rewritten."""
    fields = [span for span in spans if span.tag == number]
    if len(fields) != 1:
        raise Malformed(f"tagged field {number} stands {len(fields)} times in one buffer")
    return fields[0]


def _field(api_key: int, api_version: int) -> AddressField | None:
    for row in ADDRESSES:
        if row.api_key == api_key and api_version in row.versions:
            return row
    return None


@cache
def _projection(api_key: int, api_version: int) -> tuple[AddressField, tuple[str, str, str], Projection]:
    row, codec = _field(api_key, api_version), known_codec(api_key, api_version)
    assert row is not None, "its response has a codec, so it carries addresses"
    more_paths = ["endpoint_type"] if row.named is BY_TYPE else []
    if row.nodes == "node_endpoints":
        more_paths.append("tags")
    return row, row.paths, codec.project((*row.paths, *more_paths))


@cache
def _cluster_projection(api_key: int, api_version: int) -> Projection:
    return known_codec(api_key, api_version).project(("cluster_id",))


def known_codec(api_key: int, api_version: int) -> catalog.Codec:
    """Returns the codec of a response that carries addresses. Raises Malformed: it carries none, or has no codec."""
    codec = catalog.codec("response", api_key, api_version)
    if codec is None or not carries(api_key, api_version):
        raise Malformed("no rewrite of addresses exists", api=apis.api_name(api_key), version=api_version)
    return codec
