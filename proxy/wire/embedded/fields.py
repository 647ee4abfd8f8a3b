"""The bytes fields that hold messages, and the decoding of these messages.

Knows names and paths. The blobs of a classic group's members depend on the group's protocol type, which some messages
lack (JoinGroup responses before v7, SyncGroup before v5). Without it, a blob is read as the first type that fits it
exactly, from version to last byte. Blobs of other types (a schema registry's JSON, an application's own) stay bytes.
Source: KIP-62, KIP-415, KIP-429, KIP-590.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import Enum
from typing import Any, NamedTuple

from proxy.wire import apis, catalog
from proxy.wire.apis import MessageKind
from proxy.wire.budget import Budget
from proxy.wire.embedded.blobs import Embedded, decode_blob
from proxy.wire.embedded.schemas import codec, versions
from proxy.wire.errors import WireError
from proxy.wire.keys import ENVELOPE

Values = dict[str, Any]
Read = Callable[[bytes, "Around"], Values | None]


class Content(Enum):
    """The kind of messages that a field holds."""

    MEMBER = "a member's metadata for the group"
    ASSIGNMENT = "a member's assignment by the leader"
    CONNECT_ASSIGNMENT = "a Connect worker's present assignment"
    SUBSCRIBED_DATA = "an assignor's user data in a member's metadata"
    ASSIGNED_DATA = "an assignor's user data in an assignment"
    PRINCIPAL = "the principal of a forwarded request"
    REQUEST = "a whole request"
    RESPONSE = "a whole response"


class Holder(NamedTuple):
    """A bytes field that holds messages. `protocol`: the field beside or above it that names the assignor."""

    message: str
    path: str
    content: Content
    protocol: str = ""


HOLDERS = (
    Holder("JoinGroupRequest", "protocols.metadata", Content.MEMBER, "name"),
    Holder("JoinGroupResponse", "members.metadata", Content.MEMBER, "protocol_name"),
    Holder("SyncGroupRequest", "assignments.assignment", Content.ASSIGNMENT, "protocol_name"),
    Holder("SyncGroupResponse", "assignment", Content.ASSIGNMENT, "protocol_name"),
    Holder("DescribeGroupsResponse", "groups.members.member_metadata", Content.MEMBER, "protocol_data"),
    Holder("DescribeGroupsResponse", "groups.members.member_assignment", Content.ASSIGNMENT, "protocol_data"),
    Holder("EnvelopeRequest", "request_data", Content.REQUEST),
    Holder("EnvelopeRequest", "request_principal", Content.PRINCIPAL),
    Holder("EnvelopeResponse", "response_data", Content.RESPONSE),
    Holder("GroupMetadataValue", "members.subscription", Content.MEMBER, "protocol"),
    Holder("GroupMetadataValue", "members.assignment", Content.ASSIGNMENT, "protocol"),
    Holder(
        "ConsumerGroupMemberMetadataValue",
        "classic_member_metadata.supported_protocols.metadata",
        Content.MEMBER,
        "name",
    ),
    Holder("ConsumerProtocolSubscription", "user_data", Content.SUBSCRIBED_DATA),
    Holder("ConsumerProtocolAssignment", "user_data", Content.ASSIGNED_DATA),
    Holder("ConnectWorkerState", "allocation", Content.CONNECT_ASSIGNMENT),
)

# protocol type -> the messages of its members and of its leaders, in the order of trying
PROTOCOL_TYPES = {
    "consumer": {Content.MEMBER: "ConsumerProtocolSubscription", Content.ASSIGNMENT: "ConsumerProtocolAssignment"},
    "connect": {Content.MEMBER: "ConnectWorkerState", Content.ASSIGNMENT: "ConnectAssignment"},
}
PLAIN_BLOBS = {Content.CONNECT_ASSIGNMENT: "ConnectAssignment", Content.PRINCIPAL: "DefaultPrincipalData"}
# user data of the sticky assignors, which has no version: the layout that fits exactly is taken
STICKY_DATA = {
    "sticky": (("StickyUserData", 1), ("StickyUserData", 0)),
    "cooperative-sticky": (("CooperativeStickyUserData", 0),),
}
# user data of Kafka Streams' assignor: the first four bytes are its version
STREAMS = "stream"
STREAMS_DATA = {Content.SUBSCRIBED_DATA: "SubscriptionInfoData", Content.ASSIGNED_DATA: "AssignmentInfo"}


class Around(NamedTuple):
    """Facts about a blob from the message around it.

    `protocol`: the assignor's name. `asked`: api key and version of the request that a forwarded response answers.
    `budget`: pays for the values; None means a new one for each blob.
    """

    protocol_type: str | None = None
    protocol: str | None = None
    asked: tuple[int, int] | None = None
    budget: Budget | None = None


def decode_field(
    message: str, path: str, data: bytes, *, protocol_type: str | None = None, protocol: str | None = None
) -> Embedded | None:
    """The message in a field's bytes: `decode_field("SyncGroupResponse", "assignment", data, protocol_type="connect")`.

    `protocol` is the assignor's name ("range", "stream", ...), which user data depends on. Returns None if the field or
    these bytes hold no such message. Use `expand` for whole requests and responses.
    """
    for holder in HOLDERS:
        if (holder.message, holder.path) == (message, path):
            return _embedded(holder.content, data, Around(protocol_type, protocol))
    return None


def expand(
    kind: MessageKind,
    key: int,
    values: Mapping[str, Any],
    *,
    protocol_type: str | None = None,
    asked: tuple[int, int] | None = None,
    budget: Budget | None = None,
) -> Values:
    """Decoded values of a request or a response, with the blobs in them decoded too.

    In place of a blob's bytes stands {"message": name, "version": number, "values": dict}, and "rest" with the bytes
    behind it if there are any; user data within is decoded the same way. A forwarded request or response also has
    "correlation_id", a request "client_id". Bytes that can't be read, or would take more than `budget`, stay bytes;
    `values` stays as it is.

    `protocol_type` is the group's ("consumer", "connect", ...) if the message doesn't have it. `asked`: api key and
    version of the request that an EnvelopeResponse answers; without it the response within stays bytes.
    """
    found = apis.message(kind, key)
    around = Around(protocol_type, None, asked, budget)
    return _expand(found.name, values, around) if found else dict(values)


def expand_data(name: str, values: Mapping[str, Any], *, budget: Budget | None = None) -> Values:
    """As `expand`, for the values of an embedded message, such as GroupMetadataValue."""
    return _expand(name, values, Around(budget=budget))


def _expand(message: str, values: Mapping[str, Any], around: Around) -> Values:
    out = dict(values)
    for holder in HOLDERS:
        if holder.message == message:
            out = _replace(out, holder.path.split("."), holder, around)
    return out


def _replace(values: Values, path: list[str], holder: Holder, around: Around) -> Values:
    """A copy of `values` with the blob at `path` decoded."""
    around = _closer(values, holder, around)
    name, *deeper = path
    inside = values.get(name)
    if isinstance(inside, list):
        inside = [_replace(one, deeper, holder, around) for one in inside]
    elif isinstance(inside, dict):
        inside = _replace(inside, deeper, holder, around)
    elif isinstance(inside, bytes):
        inside = _shown(holder.content, inside, around) or inside
    return values | {name: inside} if name in values else values


def _closer(values: Values, holder: Holder, around: Around) -> Around:
    """The facts of the structs above, replaced by those of this struct."""
    return around._replace(
        protocol_type=values.get("protocol_type") or around.protocol_type,
        protocol=values.get(holder.protocol) or around.protocol,
    )


def _shown(content: Content, data: bytes, around: Around) -> Values | None:
    if content in WHOLE:
        return WHOLE[content](data, around)
    found = _embedded(content, data, around)
    if found is None:
        return None
    shown = {"message": found.name, "version": found.version, "values": _expand(found.name, found.values, around)}
    return shown | ({"rest": found.rest} if found.rest else {})


def _embedded(content: Content, data: bytes, around: Around) -> Embedded | None:
    if content in STREAMS_DATA:
        return _user_data(content, data, around)
    if content in PLAIN_BLOBS:
        return _blob(PLAIN_BLOBS[content], data, around)
    if around.protocol_type:
        named = PROTOCOL_TYPES.get(around.protocol_type, {}).get(content)
        return _blob(named, data, around) if named else None
    return _first_that_fits(content, data, around)


def _blob(name: str, data: bytes, around: Around) -> Embedded | None:
    try:
        found = decode_blob(name, data, budget=around.budget)
    except WireError:
        return None
    return found if isinstance(found, Embedded) else None


def _first_that_fits(content: Content, data: bytes, around: Around) -> Embedded | None:
    for messages in PROTOCOL_TYPES.values():
        found = _blob(messages[content], data, around) if content in messages else None
        if found and not found.rest and found.version in versions(found.name):
            return found
    return None


def _user_data(content: Content, data: bytes, around: Around) -> Embedded | None:
    for name, version in _user_layouts(content, data, around.protocol or ""):
        found = codec(name, version)
        with suppress(WireError):
            values, end = found.decode(data, budget=around.budget) if found else ({}, None)
            if end == len(data):
                return Embedded(name, version, values)
    return None


def _user_layouts(content: Content, data: bytes, assignor: str) -> tuple[tuple[str, int], ...]:
    if assignor == STREAMS:
        return ((STREAMS_DATA[content], int.from_bytes(data[:4], "big")),)
    return STICKY_DATA.get(assignor, ()) if content is Content.SUBSCRIBED_DATA else ()


def _request(data: bytes, around: Around) -> Values | None:
    try:
        found = catalog.decode_request(data, budget=around.budget)
    except WireError:
        return None
    # no envelope within an envelope: brokers refuse it, and nesting would have no end here
    if isinstance(found, catalog.UnknownMessage) or found[0].api_key == ENVELOPE:
        return None
    head, values = found
    shown = {"version": head.api_version, "correlation_id": head.correlation_id, "client_id": head.client_id}
    return _message("request", head.api_key, shown, values, around)


def _response(data: bytes, around: Around) -> Values | None:
    if around.asked is None:
        return None
    key, version = around.asked
    try:
        found = catalog.decode_response(data, key, version, budget=around.budget)
    except WireError:
        return None
    if isinstance(found, catalog.UnknownMessage):
        return None
    head, values = found
    return _message("response", key, {"version": version, "correlation_id": head.correlation_id}, values, around)


def _message(kind: MessageKind, key: int, shown: Values, values: Values, around: Around) -> Values:
    found = apis.message(kind, key)
    assert found  # it has been decoded
    return {"message": found.name, **shown, "values": expand(kind, key, values, budget=around.budget)}


WHOLE: dict[Content, Read] = {Content.REQUEST: _request, Content.RESPONSE: _response}
