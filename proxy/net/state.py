"""The state file: which nodes were seen, where their brokers were, and the ports that were picked freely for them.

A port that follows from the flags is not kept: the flags say it again at the next start. The cluster's own id says
later whether those who answer are the brokers that were seen. JSON, replaced as a whole:
{"format": 1, "cluster_id": "MkU3OEVBNTcwNTJENDM2Qg",
 "nodes": {"1": {"upstream": "broker-1:9092"}, "2": {"upstream": "broker-2:9092", "port": 40123}}}
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from proxy.config import BadSetting, ClusterSettings
from proxy.rewrite.nodes import PORTS, Address

FORMAT = 1


@dataclass(frozen=True, slots=True)
class KnownNode:
    """A node as it was last seen: where its broker was, and the port of its listener if that was picked freely."""

    upstream: Address | None
    port: int | None = None


@dataclass(frozen=True, slots=True)
class State:
    """What is known of a cluster: its nodes, and the id that it gives itself; None while no broker has said it."""

    nodes: Mapping[int, KnownNode] = field(default_factory=dict)
    cluster_id: str | None = None


def read_state(path: Path | None) -> State:
    """What a state file says; nothing if there is no file.

    Raises:
        ValueError: the file is something else; the message names it.
    """
    if path is None:
        return State()
    try:
        return _read(json.loads(path.read_text()))
    except (FileNotFoundError, NotADirectoryError):
        return State()
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
        raise ValueError(
            f"--state {path} can't be read ({reason}); right would be a file that this proxy wrote, or none yet"
        ) from error


def remembering(cluster: ClusterSettings) -> ClusterSettings:
    """The settings, with the ports of their state file.

    Raises:
        BadSetting: the file is something else.
    """
    try:
        nodes = read_state(cluster.state).nodes
    except ValueError as error:
        raise BadSetting(str(error), cluster=cluster.name) from error
    return replace(cluster, remembered={number: node.port for number, node in nodes.items() if node.port is not None})


def _read(state: Mapping[str, Any]) -> State:
    if state["format"] != FORMAT:
        raise ValueError(f"format {state['format']} is not {FORMAT}")
    nodes = {int(number): _known(node) for number, node in state["nodes"].items()}
    ports = Counter(node.port for node in nodes.values() if node.port is not None)
    if any(count > 1 or port not in PORTS for port, count in ports.items()) or min(nodes, default=0) < 0:
        raise ValueError("each node has an id from 0 on and a port of its own from 1 to 65535")
    cluster_id = state.get("cluster_id")
    return State(nodes, None if cluster_id is None else str(cluster_id))


def _known(node: Mapping[str, Any]) -> KnownNode:
    upstream, port = node.get("upstream"), node.get("port")
    return KnownNode(
        None if upstream is None else Address.parse(str(upstream)), None if port is None else int(str(port))
    )


def write_state(path: Path, state: State) -> None:
    """Replaces the file. Blocks; raises OSError."""
    saved: dict[str, object] = {"format": FORMAT}
    if state.cluster_id is not None:
        saved["cluster_id"] = state.cluster_id
    saved["nodes"] = {str(number): _saved(node) for number, node in sorted(state.nodes.items())}
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(path.name + ".new")
    new.write_text(json.dumps(saved, indent=1) + "\n")
    os.replace(new, path)


def _saved(node: KnownNode) -> dict[str, object]:
    saved: dict[str, object] = {}
    if node.upstream is not None:
        saved["upstream"] = str(node.upstream)
    if node.port is not None:
        saved["port"] = node.port
    return saved
