"""One cluster's listeners: their sockets, and their names (the addresses that clients dial).

The proxy must not dial itself: it would pass that connection on to itself, without end. The remote address of a new
connection shows a loop for certain (`are_reached_by`). Names are only a short cut, because one address has many
spellings (`0`, `::ffff:127.0.0.1`, a name that some resolver knows).
"""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any

from proxy.mapping.nodes import ip_of
from proxy.schema.addresses import Address

Ip = IPv4Address | IPv6Address

# where one of these files says 1, a socket can be bound to another machine's address
BINDS_ANYTHING = (Path("/proc/sys/net/ipv4/ip_nonlocal_bind"), Path("/proc/sys/net/ipv6/ip_nonlocal_bind"))


class OwnListeners:
    """A cluster's listening sockets, and their advertised names."""

    def __init__(self) -> None:
        self._names: set[Address] = set()
        # port -> the IP addresses that are listened on
        self._bound: dict[int, set[Ip]] = {}

    def add(self, sock: socket.socket, *names: Address) -> None:
        """Adds a listening socket, and its names."""
        host, port = sock.getsockname()[:2]
        self._bound.setdefault(port, set()).add(ip_of(host))
        self.add_names(*names)

    def add_names(self, *names: Address) -> None:
        """Adds names of listeners."""
        self._names.update(name.comparable for name in names)

    def __contains__(self, name: Address) -> bool:
        """True if this is one of the names."""
        return name.comparable in self._names

    def are_reached_by(self, sock: socket.socket) -> bool:
        """True if a connected socket leads to one of these listeners. Raises OSError: the connection has ended."""
        (local, from_port), (remote, port) = _ip_and_port(sock.getsockname()), _ip_and_port(sock.getpeername())
        if (local, from_port) == (remote, port):
            # TCP may connect a socket to itself if nobody listens and the socket dials its own port
            return True
        bound = self._bound.get(port, set())
        return remote in bound or (any(_accepts(wildcard, remote) for wildcard in bound) and _is_local(remote, local))


def _ip_and_port(sockaddr: Any) -> tuple[Ip, int]:
    return ip_of(sockaddr[0]), sockaddr[1]


def _accepts(bound: Ip, remote: Ip) -> bool:
    """True if `bound` is a wildcard whose socket accepts connections to the address `remote`."""
    return bound.is_unspecified and (bound.version == 6 or remote.version == 4)


def _is_local(remote: Ip, local: Ip) -> bool:
    """True if the address `remote`, which a socket has reached from `local`, is one of this machine's."""
    return remote.is_loopback or remote == local or (not _binds_anything() and _can_be_bound(remote))


def _binds_anything() -> bool:
    """True if a socket can be bound to another machine's address."""
    return any(path.read_text().strip() != "0" for path in BINDS_ANYTHING if path.exists())


def _can_be_bound(address: Ip) -> bool:
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        try:
            sock.bind((str(address), 0))
        except OSError:
            return False
    return True
