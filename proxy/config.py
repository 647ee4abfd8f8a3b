"""The settings of a proxy: values that are right once they exist.

A wrong one is a `BadSetting`: one line with the setting's name and a right example. Knows no command line and no file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from proxy.rewrite.nodes import Address, PortMap
from proxy.wire.framing import FrameLimits

MIB = 1024 * 1024


class BadSetting(ValueError):
    """A setting that can't be: its message is the one line that the user reads."""


@dataclass(frozen=True, slots=True)
class ProxySettings:
    """What `kafka-wiretap proxy` was told.

    Args:
        upstream: bootstrap servers, tried in order.
        ports: which listener stands for which node.
        state: the file that keeps nodes and their ports; None: nothing is kept.
        metrics: where the admin page is served; None: nowhere.
        drain_seconds: how long exchanges in flight may take to finish after SIGTERM.
        hold_limit: the largest frame that is held whole to be rewritten, in bytes.
        held_in_all: bytes of frames held in all connections together.
        dial_seconds: how long a broker may take to accept a connection.
        half_close_seconds: how long a client's end of stream is kept from the broker while answers are in flight.
    """

    upstream: tuple[Address, ...]
    ports: PortMap
    state: Path | None = None
    metrics: Address | None = None
    drain_seconds: float = 10
    limits: FrameLimits = field(default_factory=FrameLimits)
    hold_limit: int = 64 * MIB
    held_in_all: int = 256 * MIB
    dial_seconds: float = 10
    # a client waits for an answer no longer than its request.timeout.ms, 30 s by default
    half_close_seconds: float = 30

    def __post_init__(self) -> None:
        if not self.upstream:
            raise BadSetting("--upstream names no broker; right would be --upstream broker-1:9092")
        for address in self.upstream:
            if address.port == 0 or address == self.listen:
                raise BadSetting(
                    f"--upstream {address} is {'no port of a broker' if not address.port else '--listen itself'}; "
                    "right would be --upstream broker-1:9092"
                )
        # written so that "not a number" is wrong too
        if not self.drain_seconds >= 0:
            raise BadSetting(f"--drain {self.drain_seconds} is no time to wait; right would be --drain 10")

    @property
    def listen(self) -> Address:
        """The bootstrap listener."""
        return self.ports.bootstrap


def addresses(flag: str, text: str) -> tuple[Address, ...]:
    """ "HOST:PORT,HOST:PORT" as addresses. Raises BadSetting that names the flag."""
    return tuple(address(flag, part) for part in text.split(",") if part.strip())


# what a right one looks like
EXAMPLES = {
    "--listen": "--listen 127.0.0.1:19092",
    "--metrics": "--metrics 127.0.0.1:9464",
    "--node": "--node 1=127.0.0.1:9094",
}


def address(flag: str, text: str) -> Address:
    """One "HOST:PORT". Raises BadSetting that names the flag."""
    try:
        return Address.parse(text)
    except ValueError as error:
        wrong = str(error).split("; right would be")[0]
        example = EXAMPLES.get(flag, f"{flag} broker-1:9092")
        raise BadSetting(f"{flag} {wrong}; right would be {example}") from error


def named_nodes(texts: tuple[str, ...]) -> dict[int, Address]:
    """Each "N=HOST:PORT" as node id and listener. Raises BadSetting."""
    nodes: dict[int, Address] = {}
    for text in texts:
        number, equals, rest = text.partition("=")
        if not equals or not number.strip().isdecimal():
            raise BadSetting(f"--node {text} names no node; right would be --node 1=127.0.0.1:9094")
        if int(number) in nodes:
            raise BadSetting(f"--node {text} names node {int(number)} twice; right would be one --node for each node")
        nodes[int(number)] = address("--node", rest)
    return nodes


def port_map(
    listen: Address,
    advertise: str | None,
    named: Mapping[int, Address],
    base: int | None,
    count: int,
    remembered: Mapping[int, int],
) -> PortMap:
    """The rules for listeners, as `PortMap` checks them. Raises BadSetting."""
    try:
        return PortMap(listen, advertise, dict(named), base, count, dict(remembered))
    except ValueError as error:
        raise BadSetting(str(error)) from error


def default_state_file(
    listen: Address, record: Path | None, environment: Mapping[str, str] = os.environ
) -> Path | None:
    """Beside the capture, or in the user's state folder; none for a port that changes with every start."""
    if record is not None:
        return record / "_nodes.json"
    if not listen.port:
        return None
    home = environment.get("XDG_STATE_HOME") or Path(environment.get("HOME", "/")) / ".local" / "state"
    return Path(home) / "kafka-wiretap" / f"nodes-{listen.host.replace(':', '_') or 'any'}-{listen.port}.json"


SIZES = {"KIB": 1024, "MIB": MIB, "GIB": 1024 * MIB, "TIB": 1024 * 1024 * MIB, "B": 1}


def size(flag: str, text: str) -> int:
    """ "64MiB" in bytes. Raises BadSetting that names the flag."""
    for unit, factor in SIZES.items():
        number = text.strip().upper().removesuffix(unit)
        if number != text.strip().upper() and number.strip().isdecimal():
            return int(number) * factor
    if text.strip().isdecimal():
        return int(text)
    raise BadSetting(f"{flag} {text} is no size; right would be {flag} 64MiB")
