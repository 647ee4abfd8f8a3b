"""The warnings and notes of `kafka-wiretap config check` about valid settings: what may go wrong with them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address
from typing import Any, NamedTuple

from proxy.config import ClusterSettings, ProxySettings
from proxy.config.places import HostPorts, demand_of
from proxy.ips import is_loopback
from proxy.mapping.nodes import PORTS
from proxy.schema.addresses import Address, is_ip
from proxy.schema.kinds import shown
from proxy.schema.patterns import NOT, Patterns, matching_nothing
from proxy.settings.load import LoadedSettings
from proxy.wire.dialects import Dialect
from proxy.wire.framing import FrameLimits

# Kafka's defaults: socket.request.max.bytes, fetch.max.bytes (one large batch may exceed it), request.timeout.ms
_SOCKET_REQUEST_MAX_BYTES, _FETCH_MAX_BYTES, _REQUEST_TIMEOUT_SECONDS = FrameLimits().request, 52_428_800, 30
# the default path of the configuration of Kerberos
KRB5_CONFIG = "/etc/krb5.conf"
# what brokers and ACLs write before the name of a user
_KAFKAS_USER = "User:"
_LOCALHOST = ("127.0.0.1", "::1")


class Risk(NamedTuple):
    """A risk. `is_taken`: True if settings take it. `warning`: continues a sentence that begins with `key`."""

    key: str
    is_taken: Callable[[Any], bool]
    warning: str


PROXY_RISKS = (
    Risk(
        "metrics",
        lambda proxy: proxy.metrics is not None and not is_loopback(proxy.metrics.host),
        "is open to everybody who reaches that address: brokers' addresses and traffic by API can be read there",
    ),
    Risk("drain", lambda proxy: proxy.drain_seconds == 0, "cuts exchanges in flight off at every stop"),
    Risk(
        "held",
        lambda proxy: any(cluster.hold_limit > proxy.held_in_all // proxy.workers for cluster in proxy.clusters),
        "is less, for each worker, than one response may take (limits.hold): "
        "such a response is held all the same, and all others wait",
    ),
)
CLUSTER_RISKS = (
    Risk(
        "listen",
        lambda cluster: cluster.listen.port == 0,
        "is another port at every start: clients that remember the old one are turned away",
    ),
    Risk(
        "proxy_protocol.accept",
        lambda cluster: cluster.accept_proxy and cluster.trusted is None,
        "believes whoever connects: only the load balancer may be able to reach these listeners, or "
        "proxy_protocol.trusted names it",
    ),
    Risk(
        "limits.request",
        lambda cluster: cluster.request_limit < _SOCKET_REQUEST_MAX_BYTES,
        "is below what brokers take (socket.request.max.bytes, 100 MiB by default): "
        "a longer request ends its connection",
    ),
    Risk(
        "limits.response",
        lambda cluster: cluster.response_limit <= _FETCH_MAX_BYTES,
        "is below what consumers ask for (fetch.max.bytes, 50 MiB by default): a longer response ends its connection",
    ),
    Risk(
        "timeouts.half_close",
        lambda cluster: cluster.half_close_seconds < _REQUEST_TIMEOUT_SECONDS,
        "is shorter than clients wait (request.timeout.ms, 30 s by default): answers of one that half-closes are lost",
    ),
)
CLUSTER_TLS_RISKS = (
    Risk(
        "tls",
        lambda cluster: (
            cluster.tls is None and cluster.upstream_tls is not None and not is_loopback(cluster.listen.host)
        ),
        "is not set: what brokers are told over TLS, passwords too, comes to the proxy in plaintext",
    ),
    Risk(
        "tls.client_ca",
        lambda cluster: cluster.tls is not None and cluster.tls.client_ca is not None,
        "asks clients for certificates, which end at the proxy: brokers see the proxy's (tls.upstream.certificate) or "
        "none, so ACLs for clients' own names need SASL",
    ),
    Risk(
        "tls.upstream.insecure_any_host_will_do",
        lambda cluster: cluster.upstream_tls is not None and cluster.upstream_tls.any_host,
        "lets whoever has any certificate of these CAs stand in for the brokers: read and change all traffic",
    ),
    Risk(
        "tls.upstream.anyone_may_use_it",
        lambda cluster: (
            cluster.upstream_tls is not None
            and cluster.upstream_tls.certificate is not None
            and cluster.upstream_tls.anyone_may_use_it
            and (cluster.tls is None or cluster.tls.lets_anyone_in)
        ),
        "gives everybody who reaches the listener all that brokers allow the proxy's certificate",
    ),
)
CAPTURE_RISKS = (
    Risk(
        "capture.when_full",
        lambda capture: capture.when_full.value == "wait",
        "lets a slow or full disk stop the traffic",
    ),
    Risk(
        "capture.compactor",
        lambda capture: not capture.compactor,
        "makes no Parquet: once capture.spool is full, traffic is not recorded, unless `kafka-wiretap compact` runs",
    ),
)


def notes(loaded: LoadedSettings, environment: Mapping[str, str] = os.environ) -> Iterator[str]:
    """A line for each cluster whose brokers need a Kerberos key for the proxy's host, if clients log in with GSSAPI.

    Nothing if this machine does not use Kerberos.
    """
    if not _knows_kerberos(environment):
        return
    for cluster in loaded.proxy.clusters:
        host = cluster.advertise or cluster.listen.host
        # in Kafka 0.7 there are no logins
        if cluster.dialect is not Dialect.KAFKA_07 and host not in {broker.host for broker in cluster.upstream}:
            yield (
                f"clusters.{cluster.name}: clients that log in with GSSAPI ask for a ticket for the host that they "
                f"dial; brokers need a key for it, kafka/{host}"
            )


def _knows_kerberos(environment: Mapping[str, str]) -> bool:
    """True if this machine belongs to a realm, so clients may log in with GSSAPI. Source: krb5.conf(5)."""
    # `Path.exists` would raise for a path that can't be looked at
    return any(os.path.exists(path) for path in environment.get("KRB5_CONFIG", KRB5_CONFIG).split(":") if path)


def risks(loaded: LoadedSettings) -> Iterator[str]:
    """A line for each risk that the settings take. It begins with the key."""
    yield from _lines(PROXY_RISKS, loaded.proxy, "")
    for cluster in loaded.proxy.clusters:
        yield from _lines(CLUSTER_RISKS + CLUSTER_TLS_RISKS, cluster, f"clusters.{cluster.name}.")
    if loaded.capture is not None:
        yield from _lines(CAPTURE_RISKS, loaded.capture, "")
    yield from _unmatched(loaded)


def _unmatched(loaded: LoadedSettings) -> Iterator[str]:
    """A line for each pattern in `capture.only` that can match nothing."""
    capture = loaded.capture
    if capture is None:
        return
    for name in ("apis", "clusters", "listeners", "client_ids", "principals", "topics"):
        how = {"ignore_case": name == "apis", "addresses": name == "listeners"}
        for pattern in matching_nothing(getattr(capture, name) or (), **how):
            why = f"{NOT}* leaves everything out" if pattern.startswith(NOT) else f"a pattern with {NOT} leaves it out"
            yield f"capture.only.{name} has {shown(pattern)}, which matches nothing: {why}"
    for pattern in capture.principals or ():
        if pattern.removeprefix(NOT).startswith(_KAFKAS_USER):
            yield (
                f"capture.only.principals has {shown(pattern)}, which matches nothing: principals are written as in "
                f"the capture, without {_KAFKAS_USER}"
            )
    listeners = _listeners(loaded.proxy.clusters)
    excluded = matching_nothing(capture.listeners or (), addresses=True)
    for pattern in capture.listeners or () if listeners is not None else ():
        if pattern not in excluded and not any(
            map(Patterns([pattern.removeprefix(NOT)], addresses=True).matches, listeners or ())
        ):
            listen = loaded.proxy.clusters[0].listen
            yield (
                f"capture.only.listeners has {shown(pattern)}, which matches none of the listeners: they are written "
                f"as in the log, such as {listen}"
            )


def _listeners(clusters: Iterable[ClusterSettings]) -> list[str] | None:
    """The listeners that the clusters may have, as the log writes them; None if only the system can tell."""
    found: list[str] = []
    for cluster in clusters:
        places = [*demand_of(cluster).places, *([] if cluster.listen.port else [HostPorts(cluster.listen.host, PORTS)])]
        for host, ports in places:
            # the log has addresses, not names
            hosts = _LOCALHOST if host == "localhost" else (host,)
            if not all(is_ip(each, IPv4Address) or is_ip(each, IPv6Address) for each in hosts):
                return None
            found += [str(Address(each, port)) for each in hosts for port in ports]
    return found


def _lines(table: tuple[Risk, ...], settings: ProxySettings | ClusterSettings | object, prefix: str) -> Iterator[str]:
    return (f"{prefix}{risk.key} {risk.warning}" for risk in table if risk.is_taken(settings))
