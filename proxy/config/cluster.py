"""All settings of one cluster, checked together. Adds the keys of dialect and PROXY protocol to those of its bases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network
from typing import Annotated

from proxy.config.dialects import wrong_with_07
from proxy.config.flow import Flow
from proxy.config.mapping import NEEDLESS, MappingKind
from proxy.config.tls import ListenerTls, UpstreamTls, wrong_together
from proxy.ips import ip_of
from proxy.mapping.alone import AloneMap
from proxy.mapping.names import SniMap, TemplateMap
from proxy.mapping.nodes import Misplaced, NodeMap
from proxy.mapping.ports import PortMap
from proxy.schema.addresses import NETWORKS
from proxy.schema.errors import BadSetting
from proxy.schema.faults import Fault, Setting
from proxy.schema.flags import MAIN
from proxy.schema.keys import Key, wrong_values
from proxy.schema.kinds import NETWORK_TIMEOUT, SWITCH, choice
from proxy.wire.dialects import Dialect
from proxy.wire.framing import FrameLimits


class ProxyProtocolVersion(StrEnum):
    """The version of the PROXY protocol's header that the proxy sends to brokers."""

    OFF = "off"
    ONE = "v1"
    TWO = "v2"


class Others(StrEnum):
    """The treatment of clients that are not trusted load balancers, if there are trusted ones."""

    REFUSED = "refused"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class ClusterSettings(Flow):
    """One cluster that the proxy stands for.

    Args:
        name: the cluster's name in settings, log, metrics and captures.
        tls: towards clients; None: plaintext.
        upstream_tls: towards brokers; None: plaintext.
        remembered: node id -> port, from the state file.
        state_is_default: the user has not set `state`; if the file is another proxy's, another name is taken.

    node_map: the listener and the advertised address of each node.
    """

    dialect: Annotated[
        Dialect,
        Key(
            choice(Dialect),
            "dialect",
            "What clients and the broker speak. `kafka-0.7`: Kafka 0.7, where `upstream` is a single broker, whose "
            "address clients find in ZooKeeper. `kafka`: all later versions.",
            "kafka-0.7",
        ),
    ] = Dialect.KAFKA
    hide_unknown: Annotated[
        bool,
        Key(
            SWITCH,
            "hide_unknown",
            "Remove what the proxy can't decode from brokers' answers to ApiVersions: vendors' own APIs, from key "
            "10000 on.",
            True,
        ),
    ] = False
    accept_proxy: Annotated[
        bool,
        Key(
            SWITCH,
            "proxy_protocol.accept",
            "Every connection of a client must begin with a header of the PROXY protocol (v1 or v2), which a load "
            "balancer puts there. Log, capture and limits use the address in it as the client's.",
            True,
        ),
    ] = False
    trusted: Annotated[
        tuple[IPv4Network | IPv6Network, ...] | None,
        Key(
            NETWORKS,
            "proxy_protocol.trusted",
            "The addresses of load balancers whose headers are believed.",
            ["10.0.0.0/8", "192.0.2.7"],
            unset="everybody who reaches the listeners",
        ),
    ] = None
    others: Annotated[
        Others,
        Key(
            choice(Others),
            "proxy_protocol.others",
            "What happens to peers that are not in `trusted`: they are refused, or speak without a header and have "
            "their own address as the client's.",
            "plain",
        ),
    ] = Others.REFUSED
    header_seconds: Annotated[
        float, Key(NETWORK_TIMEOUT, "proxy_protocol.timeout", "How long such a header may take to arrive.", "3s")
    ] = 5
    send_proxy: Annotated[
        ProxyProtocolVersion,
        Key(
            choice(ProxyProtocolVersion),
            "proxy_protocol.send",
            "The header that the proxy sends to brokers first, with the client's address. The receiver must expect it: "
            "Kafka itself does not, but a load balancer in front of it may.",
            "v2",
        ),
    ] = ProxyProtocolVersion.OFF
    name: str = MAIN
    tls: ListenerTls | None = None
    upstream_tls: UpstreamTls | None = None
    remembered: Mapping[int, int] = field(default_factory=dict)
    state_is_default: bool = field(default=False, compare=False)
    node_map: NodeMap = field(init=False)

    def __post_init__(self) -> None:
        wrong = [*wrong_values(self), *self._wrong_upstream(), *self._wrong_mapping(), *self._wrong_header()]
        wrong += wrong_together(self.tls, self.upstream_tls)
        try:
            object.__setattr__(self, "node_map", self._map())
        except Misplaced as error:
            wrong += error.faults
        if wrong:
            raise BadSetting(*wrong, cluster=self.name)

    @property
    def limits(self) -> FrameLimits:
        """The longest requests and responses that are passed on."""
        return FrameLimits(self.request_limit, self.response_limit)

    def trusts(self, host: str) -> bool:
        """True if the header of a connection from this IP address is trusted."""
        if self.trusted is None:
            return True
        return any(ip_of(host) in network for network in self.trusted)

    def _map(self) -> NodeMap:
        if self.dialect is Dialect.KAFKA_07:
            return AloneMap()
        if self.mapping is MappingKind.TEMPLATE:
            return TemplateMap(self.listen, self.advertise, self.own_node, self.nodes)
        if self.mapping is MappingKind.SNI:
            return SniMap(self.listen, self.advertise, self.bootstrap_name)
        places = (self.listen, self.advertise, self.nodes, self.node_ports, self.node_count, self.remembered)
        return PortMap(*places, addresses=self.advertised, advertised_base=self.advertise_ports)

    def _wrong_mapping(self) -> Iterator[Fault]:
        """Yields a fault for each key that has no use in this mapping or dialect, or that this mapping lacks."""
        if self.dialect is Dialect.KAFKA_07:
            yield from wrong_with_07(self)
            return
        mapping = Setting("mapping", self.mapping)
        for key in NEEDLESS[self.mapping]:
            if getattr(self, key) not in (None, {}):
                yield Fault((Setting(key), " means nothing with ", replace(mapping, is_short=True)), "leaving one out")
        if self.mapping is MappingKind.SNI and self.tls is None:
            right = Setting("tls.certificate", "/etc/wiretap/proxy.pem", is_short=False)
            yield Fault((mapping, " needs TLS towards clients"), ("adding ", right))

    def _wrong_header(self) -> Iterator[Fault]:
        """Yields a fault for each key of the PROXY protocol that has no effect."""
        if self.trusted is not None and not self.accept_proxy:
            right = Setting("proxy_protocol.accept", True, is_short=False)
            yield Fault((Setting("proxy_protocol.trusted"), " means nothing without a header"), (right, " too"))
        if self.others is not Others.REFUSED and self.trusted is None:
            wrong = Setting("proxy_protocol.others"), " means nothing where everybody is trusted"
            yield Fault(wrong, (Setting("proxy_protocol.trusted", ["10.0.0.0/8"], is_short=False), " too"))

    def _wrong_upstream(self) -> Iterator[Fault]:
        if self.listen in self.upstream:
            upstream, listen = Setting("upstream", (self.listen,)), Setting("listen", self.listen)
            yield Fault((upstream, " is the proxy's own listener, ", listen), Setting("upstream", ("broker-1:9092",)))
