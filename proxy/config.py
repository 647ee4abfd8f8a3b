"""The settings of a proxy: values that are right once they exist.

A wrong one is a `BadSetting`, with a line and a right example for each thing that is wrong, in the words of the flags;
`settings/wording.py` says it in a file's words. What stands in the annotations is what a user may set, where, and why:
`settings/` reads it, and docs/settings.md is made of it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import combinations
from pathlib import Path
from typing import Annotated, NamedTuple

from proxy.rewrite.names import SniMap, TemplateMap
from proxy.rewrite.nodes import WILDCARDS, Address, Misplaced, NodeMap
from proxy.rewrite.ports import PortMap
from proxy.settings.addresses import ADDRESS, BROKERS, HOST
from proxy.settings.keys import Key, wrong_values
from proxy.settings.kinds import COUNT, INTEGER, LIMIT, MIB, PATH, SECONDS, SWITCH, TIMEOUT, choice
from proxy.tls.settings import ListenerTls, UpstreamTls, wrong_together
from proxy.wire.framing import FrameLimits

LIMITS = FrameLimits()
# the cluster that flags speak of
MAIN = "main"
# it is a metric's label, a part of a file's name and of an environment variable's
_CLUSTER_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")


class BadSetting(ValueError):
    """Settings that can't be: each argument is a line that the user reads. `cluster`: whose settings they are."""

    def __init__(self, *lines: str, cluster: str | None = None) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines
        self.cluster = cluster


class Level(StrEnum):
    """What is logged: this, and what is worse."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Format(StrEnum):
    """How an event is written."""

    TEXT = "text"
    JSON = "json"


class MappingKind(StrEnum):
    """How clients tell nodes apart."""

    PORTS = "ports"
    TEMPLATE = "template"
    SNI = "sni"


# keys that belong to other mappings
_NEEDLESS = {
    MappingKind.PORTS: ("own_node", "bootstrap_name"),
    MappingKind.TEMPLATE: ("node_ports", "advertise_ports", "advertised", "bootstrap_name"),
    MappingKind.SNI: ("node_ports", "advertise_ports", "advertised", "nodes", "own_node"),
}


class ProxyHeader(StrEnum):
    """The header of the PROXY protocol that a connection begins with."""

    OFF = "off"
    ONE = "v1"
    TWO = "v2"


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The log on standard error."""

    level: Annotated[Level, Key(choice(Level), "level", "The least important events that are logged.", "info")] = (
        Level.INFO
    )
    format: Annotated[
        Format, Key(choice(Format), "format", "One line an event: for people, or a JSON object.", "json")
    ] = Format.TEXT


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """One cluster that the proxy stands for.

    Args:
        name: the label of its metrics.
        tls: towards clients; None: plaintext.
        upstream_tls: towards brokers; None: plaintext.
        remembered: node id -> port, from the state file.

    `node_map`: which listener stands for which node, and what clients are told of it.
    """

    upstream: Annotated[
        tuple[Address, ...],
        Key(BROKERS, "upstream", "Bootstrap brokers, tried in order.", ["broker-1:9092", "broker-2:9092"]),
    ]
    listen: Annotated[
        Address, Key(ADDRESS, "listen", "The bootstrap listener. Port 0: any free one.", "127.0.0.1:19092")
    ]
    advertise: Annotated[
        str | None,
        Key(
            HOST,
            "advertise",
            "What clients are told to dial: a host; with `template` and `sni` a name for each node, "
            "`broker-{node_id}.example.org:9092`, and the port of `listen` where none is said.",
            "proxy.example.org",
            unset="the host of `listen`",
        ),
    ] = None
    node_ports: Annotated[
        int | None,
        Key(INTEGER, "node_ports", "Node N listens on this port + N.", 19100, unset="the port of `listen` + 1"),
    ] = None
    node_count: Annotated[int, Key(INTEGER, "node_count", "Nodes below it have such a port.", 1000)] = 1000
    nodes: Annotated[
        Mapping[int, Address],
        Key(ADDRESS, "nodes", "The listener of one node, by its id.", "127.0.0.1:9094", unset="none", each=INTEGER),
    ] = field(default_factory=dict)
    mapping: Annotated[
        MappingKind,
        Key(
            choice(MappingKind),
            "mapping",
            "How clients tell nodes apart: by a port for each, or by a name made of the id: `template`, where each "
            "proxy stands for one node or some, and others for the rest; `sni`, one TLS port for all of them.",
            "template",
        ),
    ] = MappingKind.PORTS
    own_node: Annotated[
        int | None,
        Key(
            INTEGER,
            "own_node",
            "With `template`: the node that `listen` is the listener of, and whose broker `upstream` is.",
            3,
            unset="none",
        ),
    ] = None
    bootstrap_name: Annotated[
        str | None,
        Key(
            HOST,
            "bootstrap_name",
            "With `sni`: the name by which clients find the cluster. It and all nodes' must lead to `listen`.",
            "kafka.example.org",
            unset="none",
        ),
    ] = None
    advertise_ports: Annotated[
        int | None,
        Key(
            INTEGER,
            "advertise_ports",
            "With `ports`: clients are told this port + N where node N listens on `node_ports` + N.",
            31100,
            unset="the ports that are listened on",
        ),
    ] = None
    advertised: Annotated[
        Mapping[int, Address],
        Key(
            ADDRESS,
            "advertised",
            "With `ports`: what clients are told of one node, by its id.",
            "kafka-1.example.org:443",
            unset="none",
            each=INTEGER,
        ),
    ] = field(default_factory=dict)
    state: Annotated[
        Path | None,
        Key(
            PATH,
            "state",
            "Keeps nodes and their ports over restarts.",
            "nodes.json",
            unset="beside the capture, or in your state folder; nothing is kept for a listener on port 0",
        ),
    ] = None
    hide_unknown: Annotated[
        bool,
        Key(
            SWITCH,
            "hide_unknown",
            "Brokers' answers to ApiVersions lose what the proxy can't decode: vendors' own APIs, from key 10000 on.",
            True,
        ),
    ] = False
    request_limit: Annotated[
        int,
        Key(
            LIMIT,
            "limits.request",
            "The longest request that is let through; brokers' own limit is socket.request.max.bytes.",
            "100MiB",
        ),
    ] = LIMITS.request
    response_limit: Annotated[
        int, Key(LIMIT, "limits.response", "The longest response that is let through.", "1GiB")
    ] = LIMITS.response
    hold_limit: Annotated[
        int,
        Key(
            LIMIT,
            "limits.hold",
            "The longest response that is held whole to be rewritten; a connection with a longer one is closed.",
            "64MiB",
        ),
    ] = 64 * MIB
    dial_seconds: Annotated[
        float, Key(TIMEOUT, "timeouts.dial", "How long a broker may take to accept a connection.", "10s")
    ] = 10
    # a client waits for an answer no longer than its request.timeout.ms, 30 s by default
    half_close_seconds: Annotated[
        float,
        Key(
            TIMEOUT,
            "timeouts.half_close",
            "How long a client's end of stream is kept from the broker while answers are in flight.",
            "30s",
        ),
    ] = 30
    tls_seconds: Annotated[
        float, Key(TIMEOUT, "timeouts.tls", "How long a TLS handshake may take, with clients and with brokers.", "10s")
    ] = 10
    idle_seconds: Annotated[
        float | None,
        Key(
            TIMEOUT,
            "timeouts.idle",
            "After how long a connection is closed on which nothing moves. While an answer is owed it is never.",
            "15m",
            unset="never: brokers end idle connections themselves (connections.max.idle.ms, 10 minutes by default)",
        ),
    ] = None
    keepalive_seconds: Annotated[
        float,
        Key(
            TIMEOUT,
            "timeouts.keepalive",
            "After how much silence a peer's machine is asked whether it is still there; one that does not answer for "
            "as long again is lost.",
            "2m",
        ),
    ] = 60
    connection_limit: Annotated[
        int | None,
        Key(
            COUNT,
            "limits.connections",
            "Connections of this cluster's clients at the same time; those above are closed at once.",
            2000,
            unset="as many as files may be open",
        ),
    ] = None
    address_limit: Annotated[
        int | None,
        Key(
            COUNT,
            "limits.connections_per_address",
            "Likewise, from one IP address of clients.",
            200,
            unset="any number",
        ),
    ] = None
    accept_proxy: Annotated[
        bool,
        Key(
            SWITCH,
            "proxy_protocol.accept",
            "Whether clients' connections begin with a header of the PROXY protocol (v1 or v2), which a load balancer "
            "puts there: then each one must. The address in it is the client's in log, capture and limits.",
            True,
        ),
    ] = False
    header_seconds: Annotated[
        float, Key(TIMEOUT, "proxy_protocol.timeout", "How long such a header may take to come.", "3s")
    ] = 5
    send_proxy: Annotated[
        ProxyHeader,
        Key(
            choice(ProxyHeader),
            "proxy_protocol.send",
            "The header that brokers are sent first, with the client's address. They must expect it: Kafka itself does "
            "not, a load balancer in front of it may.",
            "v2",
        ),
    ] = ProxyHeader.OFF
    name: str = MAIN
    tls: ListenerTls | None = None
    upstream_tls: UpstreamTls | None = None
    remembered: Mapping[int, int] = field(default_factory=dict)
    node_map: NodeMap = field(init=False)

    def __post_init__(self) -> None:
        wrong = [*wrong_values(self), *self._wrong_upstream(), *self._wrong_mapping()]
        wrong += wrong_together(self.tls, self.upstream_tls, f"clusters.{self.name}")
        try:
            object.__setattr__(self, "node_map", self._made_map())
        except Misplaced as error:
            # keys that are no flags: nobody else says whose they are
            said = (line if line.startswith(("--", "the ")) else f"clusters.{self.name}.{line}" for line in error.lines)
            wrong.extend(said)
        if wrong:
            raise BadSetting(*wrong, cluster=self.name)

    @property
    def limits(self) -> FrameLimits:
        """The longest frames that are let through."""
        return FrameLimits(self.request_limit, self.response_limit)

    def _made_map(self) -> NodeMap:
        if self.mapping is MappingKind.TEMPLATE:
            return TemplateMap(self.listen, self.advertise, self.own_node, self.nodes)
        if self.mapping is MappingKind.SNI:
            return SniMap(self.listen, self.advertise, self.bootstrap_name)
        places = (self.listen, self.advertise, self.nodes, self.node_ports, self.node_count, self.remembered)
        return PortMap(*places, told=self.advertised, told_base=self.advertise_ports)

    def _wrong_mapping(self) -> Iterator[str]:
        """Keys that only another mapping has a use for, and what is missing for this one."""
        where = f"clusters.{self.name}"
        for key in _NEEDLESS[self.mapping]:
            if getattr(self, key) not in (None, {}):
                yield f'{where}.{key} means nothing with mapping = "{self.mapping}"; right would be leaving one out'
        if self.mapping is MappingKind.SNI and self.tls is None:
            right = f'{where}.tls.certificate = "/etc/wiretap/proxy.pem"'
            yield f'{where}.mapping = "sni" needs TLS towards clients; right would be adding {right}'

    def _wrong_upstream(self) -> Iterator[str]:
        if self.listen in self.upstream:
            yield f"--upstream {self.listen} is the proxy's own listener; right would be --upstream broker-1:9092"


@dataclass(frozen=True, slots=True)
class ProxySettings:
    """What `kafka-wiretap proxy` was told, but for what is recorded."""

    clusters: tuple[ClusterSettings, ...]
    metrics: Annotated[
        Address | None,
        Key(ADDRESS, "metrics", "Serve /metrics, /livez and /readyz here.", "127.0.0.1:9464", unset="not served"),
    ] = None
    drain_seconds: Annotated[
        float,
        Key(SECONDS, "drain", "How long exchanges in flight may take to finish after SIGTERM.", "10s"),
    ] = 10
    held_in_all: Annotated[
        int,
        Key(LIMIT, "held", "Bytes of responses held to be rewritten, in all connections together.", "256MiB"),
    ] = 256 * MIB
    log: LogSettings = LogSettings()
    stalled_seconds: Annotated[
        float,
        Key(
            TIMEOUT,
            "stalled",
            "While others wait for their share of `held`: how long one may be kept without a byte moving.",
            "1m",
        ),
    ] = 30
    connection_limit: Annotated[
        int | None,
        Key(
            COUNT,
            "connections",
            "Connections of all clusters' clients at the same time; those above are closed at once.",
            5000,
            unset="as many as files may be open",
        ),
    ] = None
    workers: Annotated[
        int,
        Key(COUNT, "workers", "Processes that pass the traffic on; no more than there are processors for them.", 4),
    ] = 1

    def __post_init__(self) -> None:
        wrong = [*wrong_values(self), *self._wrong_names(), *self._wrong_places()]
        if wrong:
            raise BadSetting(*wrong)

    def _wrong_names(self) -> Iterator[str]:
        if not self.clusters:
            yield "clusters names no cluster; right would be [clusters.main] with upstream and listen"
        names = [cluster.name for cluster in self.clusters]
        for name in names:
            if not _CLUSTER_NAME.fullmatch(name):
                yield (
                    f"clusters.{name} is no name for a cluster; right would be small letters, digits, - and _, "
                    "[clusters.east-1]"
                )
        if len({*names}) < len(names):
            yield "clusters names a cluster twice; right would be a name for each, [clusters.east] and [clusters.west]"

    def _wrong_places(self) -> Iterator[str]:
        """No two clusters may want the same port, whatever nodes they turn out to have; nor the same state file."""
        for one, other in combinations(self.clusters, 2):
            clash = next(_clashes(one, other), None)
            if clash is not None:
                yield (
                    f"clusters.{other.name} and clusters.{one.name} both want {clash}; right would be ports of its "
                    f"own for each: clusters.{other.name} behind port {_places(one)[-1].ports[-1]}, or less node_count"
                )
            if one.state is not None and one.state == other.state:
                yield (
                    f"clusters.{other.name}.state {one.state} is the file of clusters.{one.name} too; "
                    f"right would be clusters.{other.name}.state nodes-{other.name}.json"
                )


class _Place(NamedTuple):
    """Ports of a host that a cluster's settings claim."""

    host: str
    ports: range


def _places(cluster: ClusterSettings) -> list[_Place]:
    single = (cluster.listen, *cluster.nodes.values())
    places = [_Place(address.host, range(address.port, address.port + 1)) for address in single if address.port]
    return [*places, _Place(cluster.listen.host, cluster.node_map.usual)] if cluster.node_map.usual else places


def _clashes(one: ClusterSettings, other: ClusterSettings) -> Iterator[str]:
    for here in _places(one):
        for there in _places(other):
            both = range(max(here.ports.start, there.ports.start), min(here.ports.stop, there.ports.stop))
            if both and (here.host == there.host or {here.host, there.host} & WILDCARDS):
                ports = f"port {both.start}" if len(both) == 1 else f"ports {both.start} to {both.stop - 1}"
                yield f"{ports} of {there.host}"


def default_state_file(
    listen: Address, record: Path | None, name: str = MAIN, environment: Mapping[str, str] = os.environ
) -> Path | None:
    """Beside the capture, or in the user's state folder; none for a port that changes with every start."""
    if record is not None:
        return record / ("_nodes.json" if name == MAIN else f"_nodes-{name}.json")
    if not listen.port:
        return None
    home = environment.get("XDG_STATE_HOME") or Path(environment.get("HOME", "/")) / ".local" / "state"
    return Path(home) / "kafka-wiretap" / f"nodes-{listen.host.replace(':', '_') or 'any'}-{listen.port}.json"
