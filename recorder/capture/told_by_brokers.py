"""What brokers tell clients of their cluster: its nodes with their racks, and the features that it has finalized.

Used by `assembly`. The first answer of each API and version in each range is read, which costs nothing for the others:
Metadata and DescribeCluster name nodes, ApiVersions names features (`metadata.version` tells the release of Kafka).
"""

from __future__ import annotations

from typing import Any

from proxy.conversation.exchange import Exchange
from proxy.wire import catalog
from proxy.wire.errors import WireError
from proxy.wire.headers import response_head
from proxy.wire.keys import API_VERSIONS, DESCRIBE_CLUSTER, METADATA
from recorder.capture import frames as c
from recorder.capture.spool import short_name

# nodes and features that are told of a cluster: each file of events repeats them
MAX_TOLD = 1000
# clusters of a session's settings
MAX_CLUSTERS = 1000

# the fields that are read, by API: those of a node are its id, host, port and rack
_NODE_FIELDS = {
    METADATA: ("brokers.node_id", "brokers.host", "brokers.port", "brokers.rack"),
    DESCRIBE_CLUSTER: ("brokers.broker_id", "brokers.host", "brokers.port", "brokers.rack"),
}
_FEATURE_FIELDS = ("finalized_features.name", "finalized_features.max_version_level")
_FIELDS = {**_NODE_FIELDS, API_VERSIONS: _FEATURE_FIELDS}


class ToldByBrokers:
    """What was told last, by cluster."""

    def __init__(self) -> None:
        self._of: dict[str | None, dict[str, Any]] = {}

    def add(self, cluster: str | None, exchange: Exchange, frame: bytes) -> None:
        """Takes a broker's answer (`frame`: without its length), which may be cut, masked, or of any API."""
        key, version = exchange.api_key, exchange.api_version
        if key not in _FIELDS or version is None or (cluster not in self._of and len(self._of) >= MAX_CLUSTERS):
            return
        codec = catalog.codec("response", key, version)
        if codec is None or exchange.opaque is not None:
            return
        try:
            found = codec.project(_FIELDS[key])(frame, response_head(frame, key, version).body)
        except WireError:
            return
        columns = [[value for value, _, _ in found[field][:MAX_TOLD]] for field in _FIELDS[key]]
        if told := _features(*columns) if key == API_VERSIONS else _nodes(*columns):
            self._of.setdefault(cluster, {}).update(told)

    def of(self, cluster: str | None) -> dict[str, Any]:
        """What is known of a cluster, as keys for the detail of its event."""
        return self._of.get(cluster, {})


def _features(names: list[str], levels: list[int]) -> dict[str, Any]:
    return {c.FEATURES: dict(zip(map(short_name, names), levels, strict=True))} if names else {}


def _nodes(ids: list[int], hosts: list[str], ports: list[int], racks: list[str | None]) -> dict[str, Any]:
    # Metadata 0 has no racks
    rows = zip(ids, map(short_name, hosts), ports, map(short_name, racks or [None] * len(ids)), strict=True)
    nodes = [dict(zip(("node_id", "host", "port", "rack"), row, strict=True)) for row in rows]
    return {c.NODES: nodes} if nodes else {}
