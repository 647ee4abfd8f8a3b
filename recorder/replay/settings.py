"""The settings file of a replay, with its long settings: logins, TLS, nodes. All others are options.

[nodes]                     # recorded id = target id
1 = 4

[tls]                       # the keys of the proxy's tls.upstream
ca = "/etc/wiretap/brokers-ca.pem"

[login."User:alice"]        # and [login."*"], for everybody else (`logins`)
mechanism = "SCRAM-SHA-512"
username = "alice"
password_file = "/run/secrets/alice"
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proxy.limited_files import UnusableFile, content_of, tables

_SECTIONS = ("login", "nodes", "tls")


class BadReplaySettings(ValueError):
    """The settings file can't be used. The text names the key, and what would be right."""


@dataclass(frozen=True, slots=True)
class FileSettings:
    """The contents of the file. `tls`, `logins`: tables as they are, for the rooms that know them.

    `folder`: the file's own, from which its paths count.
    """

    nodes: dict[int, int] = field(default_factory=dict)
    tls: dict[str, Any] | None = None
    logins: dict[str, Any] = field(default_factory=dict)
    folder: Path = Path()


def read_settings(path: Path) -> FileSettings:
    """Reads the file. Errors: BadReplaySettings."""
    try:
        found = tables(content_of(path))
    except UnusableFile as error:
        raise BadReplaySettings(f"{path} {error}") from error
    unknown = sorted(found.keys() - {*_SECTIONS})
    if unknown:
        raise BadReplaySettings(f"{path} has [{unknown[0]}]: right would be one of {', '.join(_SECTIONS)}")
    for name, section in found.items():
        if not isinstance(section, dict):
            raise BadReplaySettings(f"{path}: {name} is no section: right would be [{name}]")
    return FileSettings(_nodes(path, found.get("nodes", {})), found.get("tls"), found.get("login", {}), path.parent)


def is_node(text: str) -> bool:
    """True for a node id as typed."""
    return text.isascii() and text.isdigit()


def _nodes(path: Path, section: dict[str, Any]) -> dict[int, int]:
    nodes: dict[int, int] = {}
    for name, value in section.items():
        if not is_node(name) or not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise BadReplaySettings(f"{path}: nodes.{name} is no pair of node ids: right would be 1 = 4")
        nodes[int(name)] = value
    return nodes
