"""The proxy's own listeners: the sockets that it listens on, and the names that clients are told for them.

A connection from the proxy to itself would be passed on to itself, without end. One address has many spellings (`0`,
`::ffff:127.0.0.1`, a name that some resolver knows), so names are only a short cut: what counts is where a connection
has arrived.
"""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any

from proxy.mapping.nodes import ip_of
from proxy.schema.addresses import Address

Ip = IPv4Address | IPv6Address

# where these say 1, addresses can be bound that are other machines' (for services that move between machines)
BINDS_ANYTHING = (Path("/proc/sys/net/ipv4/ip_nonlocal_bind"), Path("/proc/sys/net/ipv6/ip_nonlocal_bind"))


class OwnListeners:
    """The proxy's listening sockets, and what they are called."""

    def __init__(self) -> None:
        self._names: set[Address] = set()
        # port -> the addresses that are listened on
        self._bound: dict[int, set[Ip]] = {}

    def add(self, sock: socket.socket, *names: Address) -> None:
        """This socket listens for the proxy, and so it is called."""
        host, port = sock.getsockname()[:2]
        self._bound.setdefault(port, set()).add(ip_of(host))
        self._names.update(names)

    def call(self, *names: Address) -> None:
        """Clients are told these names, too."""
        self._names.update(names)

    def __contains__(self, name: Address) -> bool:
        """Whether this is one of the proxy's names, letter by letter."""
        return name in self._names

    def are_reached_by(self, sock: socket.socket) -> bool:
        """Whether a connected socket has arrived at one of these. Raises OSError: it is connected no more."""
        (here, from_port), (there, port) = _end(sock.getsockname()), _end(sock.getpeername())
        if (here, from_port) == (there, port):
            # nobody listens: TCP has connected the socket to itself, which it may where its own port is dialled
            return True
        bound = self._bound.get(port, set())
        return there in bound or (any(_takes(wildcard, there) for wildcard in bound) and _is_here(there, here))


def _end(sockaddr: Any) -> tuple[Ip, int]:
    return ip_of(sockaddr[0]), sockaddr[1]


def _takes(bound: Ip, there: Ip) -> bool:
    """Whether a socket that is bound to every address of this machine accepts what arrives at this one."""
    return bound.is_unspecified and (bound.version == 6 or there.version == 4)


def _is_here(there: Ip, here: Ip) -> bool:
    """Whether an address that was reached from `here` is one of this machine's."""
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
