"""What brokers tell clients of their cluster: its nodes with their racks, and the features that it has finalized.

Used by `assembly`. The first answer of each API and version in each range is read, which costs nothing for the others:
Metadata and DescribeCluster name nodes, ApiVersions names features (`metadata.version` tells the release of Kafka).
"""

from __future__ import annotations

from typing import Any

from proxy.conversation.exchange import Exchange
from proxy.wire import catalog
from proxy.wire.budget import Budget
from proxy.wire.errors import WireError
from proxy.wire.keys import API_VERSIONS, DESCRIBE_CLUSTER, METADATA
from recorder.capture import frames as c
from recorder.capture.spool import short_name

# nodes and features that are told of a cluster: each file of events repeats them
MAX_TOLD = 1000
# bytes of an answer that is read: Metadata of all topics may be larger
MAX_SIZE = 4 << 20
# clusters of a session's settings
MAX_CLUSTERS = 1000

_APIS = frozenset({METADATA, DESCRIBE_CLUSTER, API_VERSIONS})


class ToldByBrokers:
    """What was told last, by cluster."""

    def __init__(self) -> None:
        self._of: dict[str | None, dict[str, Any]] = {}

    def add(self, cluster: str | None, exchange: Exchange, frame: bytes) -> None:
        """Takes a broker's answer (`frame`: without its length), which may be cut, masked, or of any API."""
        key, version = exchange.api_key, exchange.api_version
        is_known = key in _APIS and version is not None and exchange.opaque is None and len(frame) <= MAX_SIZE
        if not is_known or (cluster not in self._of and len(self._of) >= MAX_CLUSTERS):
            return
        try:
            decoded = catalog.decode_response(frame, key, version or 0, budget=Budget())
        except WireError:
            return
        if isinstance(decoded, catalog.UnknownMessage):
            return
        if told := _told(key, decoded[1]):
            self._of.setdefault(cluster, {}).update(told)

    def of(self, cluster: str | None) -> dict[str, Any]:
        """What is known of a cluster, as keys for the detail of its event."""
        return self._of.get(cluster, {})


def _told(key: int, values: dict[str, Any]) -> dict[str, Any]:
    if key == API_VERSIONS:
        features = values.get("finalized_features") or ()
        levels = {short_name(one["name"]): one["max_version_level"] for one in features[:MAX_TOLD]}
        return {c.FEATURES: levels} if levels else {}
    name = "node_id" if key == METADATA else "broker_id"
    nodes = [
        {
            "node_id": one[name],
            "host": short_name(one["host"]),
            "port": one["port"],
            "rack": short_name(one.get("rack")),
        }
        for one in values["brokers"][:MAX_TOLD]
    ]
    return {c.NODES: nodes} if nodes else {}
