"""The state file: which nodes were seen, and on which port each is listened for, so that a restart changes no address.

JSON, replaced as a whole: {"format": 1, "nodes": {"1": {"port": 9094, "upstream": "broker-1:9092"}}}
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from proxy.rewrite.nodes import Address

FORMAT = 1


@dataclass(frozen=True, slots=True)
class KnownNode:
    """A node as it was last seen: the port of its listener, and where its broker was."""

    port: int
    upstream: Address


def read_state(path: Path | None) -> dict[int, KnownNode]:
    """The nodes of a state file; none if there is no file.

    Raises:
        ValueError: the file is something else; the message names it.
    """
    if path is None or not path.exists():
        return {}
    try:
        state = json.loads(path.read_text())
        if state["format"] != FORMAT:
            raise ValueError(f"format {state['format']} is not {FORMAT}")
        return {int(number): _known(node) for number, node in state["nodes"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"--state {path} can't be read ({error}); right would be a file that this proxy wrote"
        ) from error


def _known(node: dict[str, object]) -> KnownNode:
    return KnownNode(int(str(node["port"])), Address.parse(str(node["upstream"])))


def write_state(path: Path, nodes: dict[int, KnownNode]) -> None:
    """Replaces the file. Blocks; raises OSError."""
    state = {
        "format": FORMAT,
        "nodes": {str(number): {"port": node.port, "upstream": str(node.upstream)} for number, node in nodes.items()},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(path.name + ".new")
    new.write_text(json.dumps(state, indent=1, sort_keys=True) + "\n")
    os.replace(new, path)
