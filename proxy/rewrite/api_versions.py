"""Reduces ApiVersions responses: clients are offered the broker's versions, less those that this proxy can't pass on.

A version can be passed on if its responses are known to carry no address, or if they can be rewritten. All other
versions of Kafka's own APIs are removed, and so is an API without a version left, or one that the catalog lacks.
Vendors' APIs pass unchanged, unless a setting hides them.

The response is spliced: whole elements are removed, and maximums overwritten. Throttle time, features and unknown tags
keep the broker's bytes. Minimums stay: responses that carry addresses are rewritten from their first version on, and
versions below those that the catalog decodes are passed on too (Produce 0, which brokers announce for old clients:
KAFKA-18659).
Source: KIP-35, KIP-511 (error 35 with version 0's body).
"""

from functools import cache
from struct import Struct
from typing import NamedTuple

from proxy.rewrite.addresses import Projection
from proxy.wire import apis, catalog
from proxy.wire.error_codes import UNSUPPORTED_VERSION
from proxy.wire.errors import Malformed, Truncated, WireError
from proxy.wire.headers import response_head, write_response_head
from proxy.wire.keys import (
    API_VERSIONS,
    BEGIN_QUORUM_EPOCH,
    END_QUORUM_EPOCH,
    FETCH_SNAPSHOT,
    UPDATE_RAFT_VOTER,
    VOTE,
)
from proxy.wire.primitives import Buffer, read_tags, uvarint

# Apache Kafka's own keys are below 100; vendors' keys are far above (Confluent's begin at 10000).
FIRST_VENDOR_KEY = 10_000

# Quorum APIs -> the first version whose responses name other controllers, and can't be rewritten. Controllers offer
# them to all clients, but only controllers use them, among each other.
CONTROLLERS_ONLY = {
    VOTE: 1,
    BEGIN_QUORUM_EPOCH: 1,
    END_QUORUM_EPOCH: 1,
    FETCH_SNAPSHOT: 1,
    UPDATE_RAFT_VOTER: 0,
}

OFFER_PATHS = ("api_keys.api_key", "api_keys.min_version", "api_keys.max_version")

_ERROR = Struct(">h")
_COUNT = Struct(">i")
_OFFER = Struct(">hhh")


class _Offer(NamedTuple):
    """An API in an ApiVersions response: its key and versions. Its element is the bytes from `start` to `end`."""

    key: int
    versions: range
    start: int
    end: int


def reduce(api_version: int, frame: Buffer, *, hide_unknown: bool = False) -> bytes:
    """Returns an ApiVersions response reduced, with its new length in front. `frame` is without its length.

    Args:
        api_version: the request's. A response with error 35 has the body of version 0 in any case.
        hide_unknown: leave out vendors' APIs, which can be passed on but not decoded.

    Raises WireError: the response can't be read.
    """
    body = response_head(frame, API_VERSIONS, api_version).body
    refused = _error(frame, body) == UNSUPPORTED_VERSION
    version = 0 if refused else api_version
    offers = _offers_of_refusal(frame, body) if refused else _offers(version, frame, body)
    if not offers:
        return _COUNT.pack(len(frame)) + bytes(frame)
    kept = [offer for offer in offers if not (hide_unknown and offer.key >= FIRST_VENDOR_KEY)]
    elements = [_element(frame, offer) for offer in kept if passable(offer.key, offer.versions)]
    count = uvarint(len(elements) + 1) if apis.is_flexible(API_VERSIONS, version) else _COUNT.pack(len(elements))
    pieces = [frame[: body + _ERROR.size], count, *elements, frame[offers[-1].end :]]
    return _COUNT.pack(sum(map(len, pieces))) + b"".join(pieces)


def passable(api_key: int, offered: range) -> range:
    """Returns those of the offered versions that this proxy can pass on; an empty range if there are none."""
    if api_key >= FIRST_VENDOR_KEY:
        return offered
    stop = CONTROLLERS_ONLY.get(api_key, apis.versions(api_key).stop)
    return range(offered.start, min(offered.stop, stop))


def unsupported(correlation_id: int) -> bytes:
    """Returns the proxy's own response to an ApiVersions request of an unknown version, with its length in front.

    It has error 35 in the body of version 0, and names the versions of ApiVersions that are known (KIP-511).
    """
    versions = apis.versions(API_VERSIONS)
    body = _ERROR.pack(UNSUPPORTED_VERSION) + _COUNT.pack(1) + _OFFER.pack(API_VERSIONS, versions[0], versions[-1])
    frame = write_response_head(API_VERSIONS, 0, correlation_id) + body
    return _COUNT.pack(len(frame)) + frame


def newest_known() -> int:
    """The newest version of an ApiVersions request that is passed on."""
    return apis.versions(API_VERSIONS)[-1]


def _error(frame: Buffer, body: int) -> int:
    if len(frame) < body + _ERROR.size:
        raise Truncated("no error code", api="ApiVersions", offset=len(frame))
    return int(_ERROR.unpack_from(frame, body)[0])


def _offers_of_refusal(frame: Buffer, body: int) -> list[_Offer]:
    """Returns the versions of ApiVersions itself in a response with error 35.

    [] if it has another form, as from librdkafka's mock cluster: clients read only its error, so it passes unchanged.
    """
    try:
        return _offers(0, frame, body)
    except WireError:
        return []


def _offers(version: int, frame: Buffer, body: int) -> list[_Offer]:
    """Returns the APIs in a response, in their order."""
    values = _projection(version)(frame, body)
    keys, lowest, highest = map(values.__getitem__, OFFER_PATHS)
    ends = [end for _, _, end in highest]
    if apis.is_flexible(API_VERSIONS, version):
        ends = [read_tags(frame, end)[1] for end in ends]
    return [
        _Offer(key, range(low, high + 1), start, end)
        for (key, start, _), (low, _, _), (high, _, _), end in zip(keys, lowest, highest, ends, strict=True)
    ]


@cache
def _projection(version: int) -> Projection:
    codec = catalog.codec("response", API_VERSIONS, version)
    if codec is None:
        raise Malformed("an answer to a request that is newer than the proxy", api="ApiVersions", version=version)
    return codec.project(OFFER_PATHS)


def _element(frame: Buffer, offer: _Offer) -> bytes:
    """Returns the broker's element, its tagged fields included, with the versions that can be passed on."""
    versions = passable(offer.key, offer.versions)
    return _OFFER.pack(offer.key, versions[0], versions[-1]) + bytes(frame[offer.start + _OFFER.size : offer.end])
