"""One cluster's listeners: their sockets, and their names (the addresses that clients dial).

The proxy must not dial itself: it would pass that connection on to itself, without end. The remote address of a new
connection shows a loop for certain (`are_reached_by`). Names are only a short cut, because one address has many
spellings (`0`, `::ffff:127.0.0.1`, a name that some resolver knows).
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from proxy.ips import Ip, ip_of, is_of_this_machine
from proxy.schema.addresses import Address


class OwnListeners:
    """A cluster's listening sockets, and their advertised names. `report`: called with each of their addresses."""

    def __init__(self, report: Callable[..., None] = lambda *addresses: None) -> None:
        self._report = report
        self._names: set[Address] = set()
        # port -> the IP addresses that are listened on
        self._bound: dict[int, set[Ip]] = {}

    def add(self, sock: socket.socket, *names: Address) -> None:
        """Adds a listening socket, and its names."""
        host, port = sock.getsockname()[:2]
        self._bound.setdefault(port, set()).add(ip_of(host))
        self._report(Address(host, port))
        self.add_names(*names)

    def add_names(self, *names: Address) -> None:
        """Adds names of listeners."""
        self._names.update(names)
        self._report(*names)

    def __contains__(self, name: Address) -> bool:
        """True if this is one of the names, spelled exactly so."""
        return name in self._names

    def are_reached_by(self, sock: socket.socket) -> bool:
        """True if a connected socket leads to one of these listeners. Raises OSError: the connection has ended."""
        (local, from_port), (remote, port) = _ip_and_port(sock.getsockname()), _ip_and_port(sock.getpeername())
        if (local, from_port) == (remote, port):
            # TCP may connect a socket to itself if nobody listens and the socket dials its own port
            return True
        bound = self._bound.get(port, set())
        return remote in bound or (
            any(_accepts(wildcard, remote) for wildcard in bound) and is_of_this_machine(remote, local)
        )


def _ip_and_port(sockaddr: Any) -> tuple[Ip, int]:
    return ip_of(sockaddr[0]), sockaddr[1]


def _accepts(bound: Ip, remote: Ip) -> bool:
    """True if `bound` is a wildcard whose socket accepts connections to the address `remote`."""
    return bound.is_unspecified and (bound.version == 6 or remote.version == 4)
