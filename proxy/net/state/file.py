"""The state file: the nodes that are known, their brokers' addresses, and the ports that the kernel picked for them.

A port that follows from the settings is not in the file: it follows from them again at the next start. If a
response's cluster id is not the saved one, another cluster answers. The file names its owner, so that no proxy takes
over the nodes of another listener or another cluster. It is JSON, and is replaced as a whole:
{"format": 2, "listener": "127.0.0.1:19092", "upstream": ["broker-1:9092"], "cluster_id": "MkU3OEVBNTcwNTJENDM2Qg",
 "nodes": {"1": {"upstream": "broker-1:9092"}, "2": {"upstream": "broker-2:9092", "port": 40123}},
 "given_back": {"7": 40124}}

`given_back` has the ports of nodes that no answer names any more: they have no listener, and get this port when an
answer names them again. The node given back first stands first. Files of format 1 don't name their owner.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proxy.config import ClusterSettings
from proxy.files import Folder
from proxy.mapping.nodes import PORTS
from proxy.schema.addresses import Address
from proxy.schema.faults import Fault, Setting

FORMAT = 2
# the formats that can be read; older ones lack keys
FORMATS = (1, FORMAT)
# 20,000 nodes take 2 MB; no file of the proxy's reaches this
MAX_BYTES = 64 * 1024 * 1024
# broken JSON counts as a damaged state file, not as a foreign one, if it is a cut-off piece of _BEGINNING or contains
# one of _KEYS
_BEGINNING, _KEYS = b'{\n "format"', (b'"format"', b'"nodes"')


class NotAState(ValueError):
    """No state can be read from the file. The message says why."""


class Damaged(NotAState):
    """A state file that can't be understood: it was cut off or emptied, or a later version has written it."""


@dataclass(frozen=True, slots=True)
class KnownNode:
    """A node as it was last seen.

    upstream: its broker's address; None: not known.
    port: its listener's port if the kernel picked it, else None.
    """

    upstream: Address | None
    port: int | None = None


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of a state file: a proxy's cluster, known by its bootstrap listener and its bootstrap servers."""

    listener: Address
    upstream: tuple[Address, ...]

    @classmethod
    def of(cls, cluster: ClusterSettings) -> Owner:
        """The owner of a cluster's file."""
        return cls(cluster.listen, cluster.upstream)

    def __str__(self) -> str:
        return f"the proxy on {self.listener} for {','.join(map(str, self.upstream))}"

    def is_same(self, other: Owner) -> bool:
        """True if both are one owner: the same listener, and at least one bootstrap server in common."""
        ours, others = ({address.comparable for address in each.upstream} for each in (self, other))
        return self.listener.comparable == other.listener.comparable and not ours.isdisjoint(others)


@dataclass(frozen=True, slots=True)
class SavedState:
    """The saved state of a cluster.

    Args:
        cluster_id: the id that the cluster gives itself; None until a broker names it.
        owner: None if there is no file, or if it has format 1.
        given_back: node id -> port, of nodes without a listener whose port the kernel had picked; the node that was
            given back first stands first.
    """

    nodes: Mapping[int, KnownNode] = field(default_factory=dict)
    cluster_id: str | None = None
    owner: Owner | None = None
    given_back: Mapping[int, int] = field(default_factory=dict)

    @property
    def ports(self) -> dict[int, int]:
        """Node id -> port, of all nodes whose port the kernel has picked."""
        present = {number: node.port for number, node in self.nodes.items() if node.port is not None}
        return {**self.given_back, **present}


def read_state(path: Path) -> SavedState:
    """Returns the state in a file; an empty state if there is no file. Blocks.

    Raises:
        NotAState: the file is no state file. OSError: it can't be read.
    """
    try:
        with Folder.at(path.parent) as folder:
            return decoded(folder.read(path.name, MAX_BYTES + 1))
    except (FileNotFoundError, NotADirectoryError):
        return SavedState()


def unreadable(path: Path, error: NotAState | OSError) -> Fault:
    """Returns the fault of the setting `state` whose file can't be read."""
    reason = error.strerror if isinstance(error, OSError) else error
    return Fault((Setting("state", path), f" can't be read ({reason})"), "a file that this proxy wrote, or none yet")


def write_state(path: Path, state: SavedState) -> None:
    """Replaces the file. After a crash it has either its old content or its new one. Blocks. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with Folder.at(path.parent) as folder:
        folder.replace(path.name, encoded(state))


def decoded(content: bytes) -> SavedState:
    """Returns the state in a file's bytes. Raises NotAState."""
    # after a crash of the machine a file may hold only zeros
    text = content.strip(b"\0 \t\r\n")
    if not text:
        raise Damaged("it is empty")
    if len(content) > MAX_BYTES:
        raise NotAState(f"it is larger than {MAX_BYTES} bytes")
    try:
        read = json.loads(text)
    except (ValueError, RecursionError) as error:
        is_damaged = _BEGINNING.startswith(text) or any(key in text for key in _KEYS)
        raise (Damaged if is_damaged else NotAState)(_reason(error)) from error
    if not isinstance(read, dict) or read.keys().isdisjoint(("format", "nodes")):
        raise NotAState("it is JSON of another kind")
    try:
        return _state_from_json(read)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Damaged(_reason(error)) from error


def encoded(state: SavedState) -> bytes:
    """Returns the bytes of a state file."""
    fields: dict[str, object] = {"format": FORMAT}
    if state.owner is not None:
        fields |= {"listener": str(state.owner.listener), "upstream": [*map(str, state.owner.upstream)]}
    if state.cluster_id is not None:
        fields["cluster_id"] = state.cluster_id
    fields["nodes"] = {str(number): _node_to_json(node) for number, node in sorted(state.nodes.items())}
    if state.given_back:
        fields["given_back"] = {str(number): port for number, port in state.given_back.items()}
    return json.dumps(fields, indent=1).encode() + b"\n"


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _state_from_json(read: Mapping[str, Any]) -> SavedState:
    if read["format"] not in FORMATS:
        raise ValueError(f"format {read['format']} is none of {FORMATS}")
    nodes = {int(number): _node_from_json(node) for number, node in read["nodes"].items()}
    given_back = {int(number): int(str(port)) for number, port in read.get("given_back", {}).items()}
    cluster_id = read.get("cluster_id")
    state = SavedState(nodes, None if cluster_id is None else str(cluster_id), _owner_from_json(read), given_back)
    ports = Counter(state.ports.values())
    if any(count > 1 or port not in PORTS for port, count in ports.items()) or min([0, *nodes, *given_back]) < 0:
        raise ValueError("each node has an id from 0 on and a port of its own from 1 to 65535")
    return state


def _owner_from_json(read: Mapping[str, Any]) -> Owner | None:
    if "listener" not in read:
        return None
    return Owner(Address.parse(read["listener"]), tuple(map(Address.parse, read["upstream"])))


def _node_from_json(node: Mapping[str, Any]) -> KnownNode:
    upstream, port = node.get("upstream"), node.get("port")
    return KnownNode(
        None if upstream is None else Address.parse(str(upstream)), None if port is None else int(str(port))
    )


def _node_to_json(node: KnownNode) -> dict[str, object]:
    fields = {"upstream": None if node.upstream is None else str(node.upstream), "port": node.port}
    return {name: value for name, value in fields.items() if value is not None}
