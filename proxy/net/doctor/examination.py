"""The steps of one cluster's examination. Each step is told as soon as it is known; a failed step ends its server's.

dns        every address of a bootstrap server's name
tcp        each of these addresses accepts a connection. The proxy needs one that does
tls        the handshake, and the names and the end of the broker's certificate
versions   ApiVersions: what the broker offers, and what the proxy passes on of it
login      with a login, as a client
nodes      Metadata: the nodes. Without a login, a broker that demands one does not tell them
node       each node's advertised address: it can be looked up, dialled, and has the right certificate
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from typing import Any

import trio

from proxy.config import ClusterSettings
from proxy.ips import is_ip
from proxy.mapping.nodes import Node
from proxy.net.brokers.discovery import DemandsLogin, DiscoveredNodes, OfferedVersions, ask_for_nodes
from proxy.net.brokers.upstreams import connection
from proxy.net.doctor.session import Dialler, StartLogin
from proxy.net.doctor.step import Outcome, Step
from proxy.net.doctor.trial import Trial, try_topic
from proxy.net.sockets.lookups import Lookups
from proxy.net.sockets.streams import PeerLost, dial
from proxy.net.sockets.tls import LiveCredentials, NoHandshake, TlsStream, cluster_credentials
from proxy.rewrite import api_versions
from proxy.schema.addresses import Address
from proxy.schema.errors import BadSetting
from proxy.tls.contexts import look_only
from proxy.wire import apis
from proxy.wire.dialects import Dialect
from proxy.wire.errors import WireError
from proxy.wire.keys import FETCH, METADATA, PRODUCE
from proxy.wire.releases import releases, versions_in

# nodes that are dialled at a time
NODES_AT_ONCE = 16
# a certificate that ends sooner is a note: renewals that work come earlier
NEAR_SECONDS = 14 * 86_400
# APIs whose newest version tells how new a broker is: nothing in development
TELLING = (PRODUCE, FETCH, METADATA)

Tell = Callable[[Step], None]


def examine(
    settings: ClusterSettings, tell: Tell, *, start_login: StartLogin | None = None, trial: Trial | None = None
) -> None:
    """Examines a cluster's brokers as a proxy with these settings would meet them. Opens no listener.

    Args:
        tell: called with each step.
        start_login: begins a login on each connection; None: nobody logs in.
        trial: a topic to produce to, or to consume from; None: no record is touched.

    Raises BadSetting: a file that the settings of TLS name can't be used.
    """
    credentials = cluster_credentials(settings).upstream
    trio.run(_Examination(Dialler(settings, credentials, start_login), tell).run, trial)


class _Examination:
    def __init__(self, dialler: Dialler, tell: Tell) -> None:
        self._dialler = dialler
        self._settings = dialler.settings
        self._tell = tell

    async def run(self, trial: Trial | None) -> None:
        trio.socket.set_custom_hostname_resolver(Lookups())
        found: DiscoveredNodes | None = None
        for server in self._settings.upstream:
            if await self._is_reached(server) and await self._is_secured(server):
                # the nodes are those of the cluster, whichever server names them
                found = await self._ask(server) or found
        if found is not None:
            await self._look_at_nodes(found.nodes)
            if trial is not None:
                await try_topic(self._dialler, found.nodes, trial, self._tell)

    def _wrong(self, name: str, at: object, error: object, right: str, **facts: Any) -> None:
        self._tell(Step(name, str(at), Outcome.WRONG, str(error), right, facts))

    def _ok(self, name: str, at: object, said: str, **facts: Any) -> None:
        self._tell(Step(name, str(at), Outcome.OK, said, facts=facts))

    async def _is_reached(self, server: Address) -> bool:
        """Looks a server up, and dials each of its addresses. True if one accepts."""
        ips = [server] if is_ip(server.host) else await self._look_up(server)
        failures: dict[Address, PeerLost] = {}
        for ip in ips:
            try:
                (await dial(ip, self._settings.dial_seconds)).close()
                self._ok("tcp", ip, "accepts connections")
            except PeerLost as error:
                failures[ip] = error
        is_reached = len(failures) < len(ips)
        for ip, lost in failures.items():
            right = "a broker that listens there, and a network that lets this machine reach it"
            # the proxy takes the first address that accepts: `localhost` often has one where nobody listens
            outcome = Outcome.NOTE if is_reached else Outcome.WRONG
            self._tell(Step("tcp", str(ip), outcome, str(lost), right))
        return is_reached

    async def _look_up(self, server: Address) -> list[Address]:
        try:
            ips = await look_up(server, self._settings.dial_seconds)
        except (OSError, UnicodeError, trio.TooSlowError) as error:
            why = "no answer in time" if isinstance(error, trio.TooSlowError) else getattr(error, "strerror", error)
            said = f"{server.host} can't be looked up: {why}"
            self._wrong("dns", server, said, "a name that this machine can look up")
            return []
        self._ok("dns", server, ", ".join(ip.host for ip in ips), addresses=[ip.host for ip in ips])
        return ips

    async def _is_secured(self, server: Address) -> bool:
        """Shows the broker's certificate. True if the proxy can connect, with TLS or without."""
        if self._settings.upstream_tls is None:
            return True
        try:
            stream = await connection(server, self._settings, self._dialler.credentials)
        except PeerLost as error:
            self._wrong("tls", server, error, await self._right_tls(server))
            return False
        with closing(stream):
            assert isinstance(stream, TlsStream)
            certificate = stream.peer_certificate
            near = seconds_left(certificate) < NEAR_SECONDS
            said = f"{stream.tls_version}, a certificate for {_names_text(certificate)}, {_end_text(certificate)}"
            facts = {"version": stream.tls_version, "names": names_of(certificate), "ends": certificate.get("notAfter")}
            right = "a new certificate, before this one ends" if near else ""
            self._tell(Step("tls", str(server), Outcome.NOTE if near else Outcome.OK, said, right, facts))
        return True

    async def _right_tls(self, server: Address) -> str:
        """What would be right where a handshake failed: looks at the certificate without checking name and time."""
        settings = self._settings.upstream_tls
        assert settings is not None
        try:
            stream = await connection(server, self._settings, LiveCredentials(look_only(settings)))
        except NoHandshake:
            return "tls.upstream with the broker's CA, or a port that speaks TLS"
        except PeerLost:
            return "a broker that stays connected"
        with closing(stream):
            assert isinstance(stream, TlsStream)
            certificate = stream.peer_certificate
            names = names_of(certificate)
            if seconds_left(certificate) <= 0:
                return f"a new certificate: the broker's {_end_text(certificate)}"
            wanted = settings.server_name or server.host
            one = next((name for name in names if "*" not in name), "")
            example = f', or tls.upstream.server_name = "{one}"' if one else ""
            return f"a certificate for {wanted}: the broker's is for {_names_text(certificate)}{example}"

    async def _ask(self, server: Address) -> DiscoveredNodes | None:
        """Asks a server for its versions and for the cluster's nodes; None: it does not tell them."""
        if self._settings.dialect is Dialect.KAFKA_07:
            self._tell(Step("versions", str(server), Outcome.NOTE, "a broker of Kafka 0.7 answers no question"))
            return None
        try:
            async with self._dialler.connected(server) as session:
                offered = await session.versions()
            # where brokers demand a login, a connection has one ApiVersions
            async with self._dialler.connected(server) as session:
                self._show_versions(server, offered, await session.features(offered))
        except (PeerLost, WireError) as error:
            has_tls = self._settings.upstream_tls is not None
            how = (
                "tls.upstream.certificate where it demands one" if has_tls else "in plaintext: tls.upstream is not set"
            )
            self._wrong("versions", server, error, f"a broker of Kafka 0.10 or newer, {how}")
            return None
        if self._dialler.start_login is not None and not await self._is_let_in(server):
            return None
        return await self._nodes_of(server)

    def _show_versions(self, server: Address, offered: OfferedVersions, features: Mapping[str, int]) -> None:
        limited = {
            apis.name_or_key(key): _range_text(api_versions.passable(key, versions)) or "none"
            for key, versions in offered.items()
            if api_versions.passable(key, versions) != versions
        }
        told = f", metadata.version {features['metadata.version']}" if "metadata.version" in features else ""
        named = ", ".join(f"{name} {passed}" for name, passed in limited.items())
        passes = f"; the proxy passes on all but: {named}" if limited else "; the proxy passes all of them on"
        self._ok(
            "versions",
            server,
            f"{_age_text(offered)}: {len(offered)} APIs{told}{passes}",
            offered={apis.name_or_key(key): _range_text(versions) for key, versions in offered.items()},
            limited=limited,
            features=dict(features),
        )

    async def _is_let_in(self, server: Address) -> bool:
        try:
            (await self._dialler.logged_in(server)).close()
        except BadSetting as error:
            self._wrong("login", server, error, "a login whose secret can be read")
        except PeerLost as error:
            self._wrong("login", server, error, f"a login that the broker takes{await self._mechanisms_text(server)}")
        else:
            self._ok("login", server, "the broker takes the login")
            return True
        return False

    async def _mechanisms_text(self, server: Address) -> str:
        """Says which mechanisms the broker takes, on a connection of its own; "": it does not say."""
        try:
            async with self._dialler.connected(server) as session:
                names = await session.mechanisms()
        except PeerLost:
            return ""
        return f", by {' or '.join(names)}" if names else ""

    async def _nodes_of(self, server: Address) -> DiscoveredNodes | None:
        try:
            found = await ask_for_nodes(partial(self._dialler.logged_in, server), self._dialler.loop_probe)
        except DemandsLogin:
            how = await self._mechanisms_text(server)
            said = f"not known, because the broker demands a login{how}. The proxy learns them from answers to clients"
            self._tell(Step("nodes", str(server), Outcome.NOTE, said, "--login FILE, to look further"))
            return None
        except (PeerLost, BadSetting) as error:
            self._wrong("nodes", server, error, "a cluster whose brokers have started")
            return None
        count = "1 node" if len(found.nodes) == 1 else f"{len(found.nodes)} nodes"
        of = f" of the cluster {found.cluster_id}" if found.cluster_id else ""
        self._ok("nodes", server, f"{count}{of}", cluster_id=found.cluster_id, nodes=[*map(_node_facts, found.nodes)])
        return found

    async def _look_at_nodes(self, nodes: Sequence[Node]) -> None:
        """Dials all nodes, some at a time; tells them in their order."""
        steps: dict[Node, Step] = {}
        limiter = trio.CapacityLimiter(NODES_AT_ONCE)

        async def look(node: Node) -> None:
            async with limiter:
                steps[node] = await self._node_step(node)

        async with trio.open_nursery() as nursery:
            for node in nodes:
                nursery.start_soon(look, node)
        for node in nodes:
            self._tell(steps[node])

    async def _node_step(self, node: Node) -> Step:
        address = Address(node.host, node.port)
        at, named = f"node {node.node_id}", f"advertises {address}"
        try:
            (await connection(address, self._settings, self._dialler.credentials)).close()
            ips = await look_up(address, self._settings.dial_seconds)
        except (PeerLost, OSError, UnicodeError, trio.TooSlowError) as error:
            right = "advertised.listeners of that broker with an address that this machine can look up and reach"
            return Step("node", at, Outcome.WRONG, f"{named}: {error}", right, _node_facts(node))
        where = "" if is_ip(node.host) else f" ({', '.join(ip.host for ip in ips)})"
        return Step("node", at, Outcome.OK, f"{named}{where}, and is reached there", facts=_node_facts(node))


async def look_up(address: Address, seconds: float) -> list[Address]:
    """All addresses of a host. Raises OSError, UnicodeError; trio.TooSlowError."""
    with trio.fail_after(seconds):
        found = await trio.socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    return [*dict.fromkeys(Address(*sockaddr[:2]) for *_, sockaddr in found)]


def names_of(certificate: Mapping[str, Any]) -> list[str]:
    """The hosts that a certificate is for."""
    return [name for kind, name in certificate.get("subjectAltName", ()) if kind in ("DNS", "IP Address")]


def seconds_left(certificate: Mapping[str, Any]) -> float:
    """The time until a certificate ends; below 0: it has ended."""
    return ssl.cert_time_to_seconds(certificate["notAfter"]) - time.time()


def _names_text(certificate: Mapping[str, Any]) -> str:
    return ", ".join(names_of(certificate)) or "no host"


def _end_text(certificate: Mapping[str, Any]) -> str:
    end = datetime.fromtimestamp(ssl.cert_time_to_seconds(certificate["notAfter"]), UTC)
    days = int(seconds_left(certificate) // 86_400)
    return f"{'ended' if days < 0 else 'ends'} on {end:%Y-%m-%d}" + (f", in {days} days" if days >= 0 else "")


def _age_text(offered: OfferedVersions) -> str:
    """How new a broker is, by the releases that the program knows."""
    reached = [release for release in releases() if all(_offers(offered, release, key) for key in TELLING)]
    return f"as new as Kafka {reached[-1]}" if reached else f"older than Kafka {releases()[0]}"


def _offers(offered: OfferedVersions, release: str, key: int) -> bool:
    return versions_in(release, key)[-1] in offered.get(key, ())


def _range_text(versions: range) -> str:
    if not versions:
        return ""
    return f"{versions[0]}-{versions[-1]}" if len(versions) > 1 else str(versions[0])


def _node_facts(node: Node) -> dict[str, Any]:
    return {"node": node.node_id, "host": node.host, "port": node.port}
