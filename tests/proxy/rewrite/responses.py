"""Builds responses that name brokers: the relevant fields, and defaults for all others."""

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from proxy.mapping.nodes import Node
from proxy.rewrite.addresses import ADDRESSES
from proxy.schema.addresses import Address
from proxy.wire import apis, catalog
from proxy.wire.keys import FIND_COORDINATOR

CORRELATION_ID = 77

# Every (api key, version) whose responses carry addresses.
CARRYING = [
    (row.api_key, version)
    for row in ADDRESSES
    for version in apis.versions(row.api_key)
    if version in row.versions
]  # fmt: skip
WALKED = [(key, version) for key, version in CARRYING if key in (78, 79) or (key == 1 and version >= 16)]

# Hosts that occur nowhere else: each node has its own, so a mix-up shows.
hosts = st.one_of(
    st.builds(lambda node, size: f"up-{node}-{'u' * size}.invalid", st.integers(0, 99), st.integers(0, 300)),
    st.just("ünïcode.invalid"),
)
node_lists = st.lists(
    st.builds(Node, st.integers(0, 2**31 - 1), hosts, st.integers(0, 65535)),
    max_size=5,
    unique_by=lambda node: node.node_id,
)
racks = st.one_of(st.none(), st.text(max_size=20))
unknown_tags = st.dictionaries(st.integers(20, 2**29), st.binary(max_size=40), max_size=3)
advertised_hosts = st.text("adverti.-", min_size=1, max_size=255)


def labelled(case: tuple[int, int]) -> str:
    return f"{apis.api_name(case[0])}-{case[1]}"


def holds_one(key: int, version: int) -> bool:
    """True for FindCoordinator below version 4, which names one node, in the body itself."""
    return key == FIND_COORDINATOR and version < 4


def values(
    key: int,
    version: int,
    nodes: list[Node],
    rack: str | None = None,
    tags: Mapping[int, bytes] | None = None,
) -> dict[str, Any]:
    """Returns the body that names these nodes, each with the rack. Nodes and body have the unknown tagged fields."""
    row = next(row for row in ADDRESSES if row.api_key == key and version in row.versions)
    more: dict[str, Any] = {"_tags": dict(tags)} if tags and apis.is_flexible(key, version) else {}
    entries = [{row.node_id: node.node_id, "host": node.host, "port": node.port} for node in nodes]
    if not row.nodes:
        return (entries[0] if entries else {"node_id": -1, "port": -1}) | more
    racked = {} if row.nodes == "coordinators" else {"rack": rack}
    return {row.nodes: [entry | racked | more for entry in entries]} | more


def response(key: int, version: int, body: Mapping[str, Any]) -> bytes:
    """Returns the frame after its length."""
    return catalog.encode_response(key, version, CORRELATION_ID, body)


def read(key: int, version: int, frame: bytes) -> dict[str, Any]:
    decoded = catalog.decode_response(frame, key, version)
    assert isinstance(decoded, tuple)
    assert decoded[0].correlation_id == CORRELATION_ID
    return decoded[1]


def replaced_slowly(body: Any, advertised: Mapping[int, Address]) -> Any:
    """The obvious twin of a rewrite: every struct with a host gets the address of its node id."""
    if isinstance(body, list):
        return [replaced_slowly(one, advertised) for one in body]
    if not isinstance(body, dict):
        return body
    body = {name: replaced_slowly(value, advertised) for name, value in body.items()}
    node_id = body.get("node_id", body.get("broker_id"))
    if "host" in body and node_id in advertised:
        body |= {"host": advertised[node_id].host, "port": advertised[node_id].port}
    return body
