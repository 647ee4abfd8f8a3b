"""The proxy's own listeners: the sockets that it listens on, and the names that clients are told for them.

A connection from the proxy to itself would be passed on to itself, without end. One address has many spellings (`0`,
`::ffff:127.0.0.1`, a name that some resolver knows), so names are only a short cut: the address at which a connection
has arrived decides.
"""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any

from proxy.mapping.nodes import ip_of
from proxy.schema.addresses import Address

Ip = IPv4Address | IPv6Address

# where these files say 1, other machines' addresses can be bound (for services that move between machines)
BINDS_ANYTHING = (Path("/proc/sys/net/ipv4/ip_nonlocal_bind"), Path("/proc/sys/net/ipv6/ip_nonlocal_bind"))


class OwnListeners:
    """The proxy's listening sockets, and their advertised names."""

    def __init__(self) -> None:
        self._names: set[Address] = set()
        # port -> the addresses that are listened on
        self._bound: dict[int, set[Ip]] = {}

    def add(self, sock: socket.socket, *names: Address) -> None:
        """Adds one of the proxy's listening sockets, and its names."""
        host, port = sock.getsockname()[:2]
        self._bound.setdefault(port, set()).add(ip_of(host))
        self._names.update(names)

    def add_names(self, *names: Address) -> None:
        """Adds names that clients are told."""
        self._names.update(names)

    def __contains__(self, name: Address) -> bool:
        """True if this is one of the proxy's names, spelled exactly so."""
        return name in self._names

    def are_reached_by(self, sock: socket.socket) -> bool:
        """True if a connected socket leads to one of these listeners. Raises OSError: it is not connected any more."""
        (here, from_port), (there, port) = _ip_and_port(sock.getsockname()), _ip_and_port(sock.getpeername())
        if (here, from_port) == (there, port):
            # nobody listens, and TCP has connected the socket to itself: it may, where a socket dials its own port
            return True
        bound = self._bound.get(port, set())
        return there in bound or (any(_accepts(wildcard, there) for wildcard in bound) and _is_local(there, here))


def _ip_and_port(sockaddr: Any) -> tuple[Ip, int]:
    return ip_of(sockaddr[0]), sockaddr[1]


def _accepts(bound: Ip, there: Ip) -> bool:
    """True if `bound` is a wildcard whose socket accepts connections to the address `there`."""
    return bound.is_unspecified and (bound.version == 6 or there.version == 4)


def _is_local(there: Ip, here: Ip) -> bool:
    """True if the address `there`, which was reached from `here`, is one of this machine's."""
    return there.is_loopback or there == here or (not _binds_anything() and _can_be_bound(there))


def _binds_anything() -> bool:
    return any(path.read_text().strip() != "0" for path in BINDS_ANYTHING if path.exists())


def _can_be_bound(address: Ip) -> bool:
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        try:
            sock.bind((str(address), 0))
        except OSError:
            return False
    return True
