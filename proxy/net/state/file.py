"""The state file: which nodes were seen, where their brokers were, and the ports that were picked freely for them.

A port that follows from the flags is not kept: the flags say it again at the next start. The cluster's own id says
later whether those who answer are the brokers that were seen. A file says whose it is, too: another listener's nodes,
or another cluster's, are none of this one's. JSON, replaced as a whole:
{"format": 2, "listener": "127.0.0.1:19092", "upstream": ["broker-1:9092"], "cluster_id": "MkU3OEVBNTcwNTJENDM2Qg",
 "nodes": {"1": {"upstream": "broker-1:9092"}, "2": {"upstream": "broker-2:9092", "port": 40123}}}

Files of format 1 don't say whose they are.
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
# formats that are read; the older ones lack keys
FORMATS = (1, FORMAT)
# 20,000 nodes take 2 MB; what is larger is nothing that this program wrote
MOST_BYTES = 64 * 1024 * 1024
# how every file begins that is written here, and what stands in it somewhere
_HEAD, _MARKS = b'{\n "format"', (b'"format"', b'"nodes"')


class NotAState(ValueError):
    """The file is something else. The message says what."""


class Damaged(NotAState):
    """The file was one of these, and can't be read any more: cut off, emptied, or written by a later version."""


@dataclass(frozen=True, slots=True)
class KnownNode:
    """A node as it was last seen: where its broker was, and the port of its listener if that was picked freely."""

    upstream: Address | None
    port: int | None = None


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose a file is: the cluster's bootstrap listener, as the settings have it, and its bootstrap servers."""

    listener: Address
    upstream: tuple[Address, ...]

    @classmethod
    def of(cls, cluster: ClusterSettings) -> Owner:
        """The one that a cluster's file belongs to."""
        return cls(cluster.listen, cluster.upstream)

    def __str__(self) -> str:
        return f"the proxy on {self.listener} for {','.join(map(str, self.upstream))}"

    def is_same(self, other: Owner) -> bool:
        """Whether this is the same one at another start: bootstrap servers come and go, but not all at once."""
        return self.listener == other.listener and not {*self.upstream}.isdisjoint(other.upstream)


@dataclass(frozen=True, slots=True)
class State:
    """What is known of a cluster.

    Args:
        cluster_id: the id that it gives itself; None while no broker has said it.
        owner: None: it was written before files said whose they are.
    """

    nodes: Mapping[int, KnownNode] = field(default_factory=dict)
    cluster_id: str | None = None
    owner: Owner | None = None


def read_state(path: Path) -> State:
    """What a state file says; nothing if there is no file. Blocks.

    Raises:
        NotAState: the file is something else. OSError: it can't be read.
    """
    try:
        with Folder.at(path.parent) as folder:
            return decoded(folder.read(path.name, MOST_BYTES + 1))
    except (FileNotFoundError, NotADirectoryError):
        return State()


def unreadable(path: Path, error: NotAState | OSError) -> Fault:
    """What is wrong with a setting whose file can't be read."""
    reason = error.strerror if isinstance(error, OSError) else error
    return Fault((Setting("state", path), f" can't be read ({reason})"), "a file that this proxy wrote, or none yet")


def write_state(path: Path, state: State) -> None:
    """Replaces the file: through any crash it is the old one or the new one. Blocks; raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with Folder.at(path.parent) as folder:
        folder.replace(path.name, encoded(state))


def decoded(content: bytes) -> State:
    """What a file's bytes say. Raises NotAState."""
    text = content.strip(b"\0 \t\r\n")
    if not text:
        raise Damaged("it is empty")
    if len(content) > MOST_BYTES:
        raise NotAState(f"it is larger than {MOST_BYTES} bytes")
    try:
        read = json.loads(text)
    except (ValueError, RecursionError) as error:
        is_ours = _HEAD.startswith(text) or any(mark in text for mark in _MARKS)
        raise (Damaged if is_ours else NotAState)(_reason(error)) from error
    if not isinstance(read, dict) or read.keys().isdisjoint(("format", "nodes")):
        raise NotAState("it is JSON of another kind")
    try:
        return _state(read)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Damaged(_reason(error)) from error


def encoded(state: State) -> bytes:
    """A file's bytes."""
    saved: dict[str, object] = {"format": FORMAT}
    if state.owner is not None:
        saved |= {"listener": str(state.owner.listener), "upstream": [*map(str, state.owner.upstream)]}
    if state.cluster_id is not None:
        saved["cluster_id"] = state.cluster_id
    saved["nodes"] = {str(number): _saved(node) for number, node in sorted(state.nodes.items())}
    return json.dumps(saved, indent=1).encode() + b"\n"


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _state(read: Mapping[str, Any]) -> State:
    if read["format"] not in FORMATS:
        raise ValueError(f"format {read['format']} is none of {FORMATS}")
    nodes = {int(number): _known(node) for number, node in read["nodes"].items()}
    ports = Counter(node.port for node in nodes.values() if node.port is not None)
    if any(count > 1 or port not in PORTS for port, count in ports.items()) or min(nodes, default=0) < 0:
        raise ValueError("each node has an id from 0 on and a port of its own from 1 to 65535")
    cluster_id = read.get("cluster_id")
    return State(nodes, None if cluster_id is None else str(cluster_id), _owner(read))


def _owner(read: Mapping[str, Any]) -> Owner | None:
    if "listener" not in read:
        return None
    return Owner(Address.parse(read["listener"]), tuple(map(Address.parse, read["upstream"])))


def _known(node: Mapping[str, Any]) -> KnownNode:
    upstream, port = node.get("upstream"), node.get("port")
    return KnownNode(
        None if upstream is None else Address.parse(str(upstream)), None if port is None else int(str(port))
    )


def _saved(node: KnownNode) -> dict[str, object]:
    saved: dict[str, object] = {}
    if node.upstream is not None:
        saved["upstream"] = str(node.upstream)
    if node.port is not None:
        saved["port"] = node.port
    return saved
