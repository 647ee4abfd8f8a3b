"""Reads what clients and brokers say in ApiVersions, and which Fetch requests come from brokers.

Clients name their software from ApiVersions 3 on (KIP-511). A broker that replicates a partition fetches as consumers
do, but gives its own node id.
"""

from __future__ import annotations

from collections.abc import Iterator

from proxy.wire import keys
from proxy.wire.budget import Budget
from recorder.facts.frame import REQUEST, RESPONSE, Frame, opened
from recorder.facts.rows import Decoder, FrameSelector, Group
from recorder.facts.schema import Column

_NAMED = (
    Column("software", "string", "the client's library, as it calls itself; null before ApiVersions 3"),
    Column("software_version", "string", "its version"),
)
_OFFERED = (
    Column("offered_key", "smallint", "the key of an api"),
    Column("offered_from", "smallint", "its oldest version on this broker"),
    Column("offered_to", "smallint", "its newest"),
)
_REPLICA = (Column("replica_id", "int", "the node id of the broker that copies; null: a consumer asks", True),)
# The versions that Kafka 4 refuses. Only for these does the table of clients tell brokers from consumers.
_REFUSED_FETCHES = (0, 1, 2, 3)


def read_software(frame: Frame, budget: Budget) -> Iterator[Group]:
    """What the client calls itself. Errors: Unreadable."""
    values = opened(frame, budget)
    yield Group((), [(values.get("client_software_name"), values.get("client_software_version"))])


def read_offers(frame: Frame, budget: Budget) -> Iterator[Group]:
    """The versions that the broker offers. Errors: Unreadable."""
    offers = opened(frame, budget)["api_keys"]
    yield Group((), [(one["api_key"], one["min_version"], one["max_version"]) for one in offers])


def read_replica(frame: Frame, budget: Budget) -> Iterator[Group]:
    """The node id of a broker that replicates. Errors: Unreadable."""
    yield Group((), [(opened(frame, budget)["replica_id"],)])


SOFTWARE = Decoder(
    "software", "an ApiVersions request", (FrameSelector(REQUEST, (keys.API_VERSIONS,)),), (), _NAMED, read_software
)
OFFERS = Decoder(
    "offers", "an api that a broker offers", (FrameSelector(RESPONSE, (keys.API_VERSIONS,)),), (), _OFFERED, read_offers
)
REPLICAS = Decoder(
    "replicas",
    "a Fetch in a version that Kafka 4 refuses",
    (FrameSelector(REQUEST, (keys.FETCH,), versions=_REFUSED_FETCHES),),
    (),
    _REPLICA,
    read_replica,
)
