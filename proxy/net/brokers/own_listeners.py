"""One cluster's listeners: their sockets, and their names (the addresses that clients dial).

The proxy must not dial itself: it would pass that connection on to itself, without end. The remote address of a new
connection shows a loop for certain (`are_reached_by`). Names are only a short cut, because one address has many
spellings (`0`, `::ffff:127.0.0.1`, a name that some resolver knows).
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection
from typing import Any

from proxy.ips import Ip, ip_of, is_of_this_machine
from proxy.schema.addresses import Address


class OwnListeners:
    """A cluster's listening sockets, and their advertised names. `report`: called with each of their addresses."""

    def __init__(self, report: Callable[..., None] = lambda *addresses: None) -> None:
        self._report = report
        # name, and socket's port and IP address -> the node that it belongs to; None: bootstrap
        self._names: dict[Address, int | None] = {}
        self._bound: dict[int, dict[Ip, int | None]] = {}

    def add(self, sock: socket.socket, *names: Address, node_id: int | None = None) -> None:
        """Adds a listening socket of a node (None: of bootstrap), and its names."""
        host, port = sock.getsockname()[:2]
        self._bound.setdefault(port, {})[ip_of(host)] = node_id
        self._report(Address(host, port))
        self.add_names(*names, node_id=node_id)

    def add_names(self, *names: Address, node_id: int | None = None) -> None:
        """Adds names of a node (None: of bootstrap). A name that is bootstrap's too stays bootstrap's."""
        for name in (each.comparable for each in names):
            if self._names.get(name, node_id) is not None or name not in self._names:
                self._names[name] = node_id
        self._report(*names)

    def remove(self, node_ids: Collection[int]) -> None:
        """Removes the sockets and the names of nodes."""
        removed = {*node_ids}
        self._names = {name: owner for name, owner in self._names.items() if owner not in removed}
        self._bound = {
            port: left
            for port, bound in self._bound.items()
            if (left := {ip: owner for ip, owner in bound.items() if owner not in removed})
        }

    def __contains__(self, name: Address) -> bool:
        """True if this is one of the names."""
        return name.comparable in self._names

    def are_reached_by(self, sock: socket.socket) -> bool:
        """True if a connected socket leads to one of these listeners. Raises OSError: the connection has ended."""
        (local, from_port), (remote, port) = _ip_and_port(sock.getsockname()), _ip_and_port(sock.getpeername())
        if (local, from_port) == (remote, port):
            # TCP may connect a socket to itself if nobody listens and the socket dials its own port
            return True
        bound = self._bound.get(port, {})
        return remote in bound or (
            any(_accepts(wildcard, remote) for wildcard in bound) and is_of_this_machine(remote, local)
        )


def _ip_and_port(sockaddr: Any) -> tuple[Ip, int]:
    return ip_of(sockaddr[0]), sockaddr[1]


def _accepts(bound: Ip, remote: Ip) -> bool:
    """True if `bound` is a wildcard whose socket accepts connections to the address `remote`."""
    return bound.is_unspecified and (bound.version == 6 or remote.version == 4)
