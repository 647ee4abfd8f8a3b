"""The ports of nodes' listeners: which are tried, which belong to other nodes, and which were given back.

A port that a node has given back stands for no other node, because clients may remember it. The node gets the port
again when an answer names the node again. Most ports follow from the settings, by the mapping; only ports that the
kernel picked are remembered here, and in the state file.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Mapping
from logging import WARNING

import trio

from proxy.log import log
from proxy.mapping.nodes import WILDCARDS, NodeMap
from proxy.net.log_throttle import LogThrottle
from proxy.schema.addresses import Address

# connections that may wait to be accepted
BACKLOG = 1024
# /etc/hosts gives a name of this machine at once; a look-up that takes longer hangs in a name service
LOOK_UP_SECONDS = 5.0
# the most free ports that are passed over because they are reserved; after them, any free port is taken
MAX_PASSED_OVER = 64
# the most ports of given-back listeners that are remembered. Beyond, the port that was given back first is forgotten:
# its node's clients are the least likely to remember it. The kernel picks from some 28,000
MAX_REMEMBERED = 20_000


class NodePorts:
    """The ports of one cluster's nodes.

    Args:
        cluster: its name, for the log.
        reserved: ports of other clusters, passed over when a free port is picked.
        given_back: node id -> port, from the state file; the port that was given back first stands first.
    """

    def __init__(self, cluster: str, reserved: tuple[range, ...], given_back: Mapping[int, int]) -> None:
        self._cluster = cluster
        self._reserved = reserved
        self._given_back = dict(given_back)
        self._log_throttle = LogThrottle()

    @property
    def given_back(self) -> dict[int, int]:
        """The ports given back, as in the state file. Called in any thread."""
        return self._given_back.copy()

    def give_back(self, node_id: int, port: int) -> None:
        """Remembers the port that the kernel had picked for a node, which has no listener any more."""
        self._given_back[node_id] = port
        if len(self._given_back) > MAX_REMEMBERED:
            first = next(iter(self._given_back))
            port = self._given_back.pop(first)
            event = "a port given back is forgotten: too many are remembered"
            level = self._log_throttle.level(event)
            log(level, event, cluster=self._cluster, node=first, port=port, limit=MAX_REMEMBERED)

    def take_back(self, node_id: int, port: int) -> None:
        """The node has a listener at this port, which was another node's if the settings give it to this one."""
        if node_id in self._given_back or port in self._given_back.values():
            # a new table, for the thread that writes the state file
            given_back = self._given_back.items()
            self._given_back = {one: given for one, given in given_back if one != node_id and given != port}

    def bind(self, node_id: int, node_map: NodeMap, host: str) -> socket.socket:
        """Returns a socket that listens at `host`, on the first of the node's ports that is free. Raises OSError."""
        wanted = node_map.wanted_listener(node_id)
        assert wanted is not None
        ports = [*wanted.ports[:-1]]
        if node_id in self._given_back:
            # clients may remember it; only a port that the settings give goes before it
            ports.insert(len(ports) if node_id in node_map.named else 0, self._given_back[node_id])
        for port in dict.fromkeys(ports):
            try:
                return bind(Address(host, port))
            except OSError as error:
                log(WARNING, "port can't be had", cluster=self._cluster, node=node_id, port=port, reason=error.strerror)
        return bind(Address(host, wanted.ports[-1])) if wanted.ports[-1] else self._bind_any(node_id, node_map, host)

    def _bind_any(self, node_id: int, node_map: NodeMap, host: str) -> socket.socket:
        """Returns a socket that listens on a free port. Passes over at most MAX_PASSED_OVER reserved ports."""
        passed_over: list[socket.socket] = []
        try:
            while True:
                sock = bind(Address(host, 0))
                is_reserved = self._is_reserved(sock.getsockname()[1], node_id, node_map)
                if len(passed_over) >= MAX_PASSED_OVER or not is_reserved:
                    return sock
                passed_over.append(sock)
        finally:
            for sock in passed_over:
                sock.close()

    def _is_reserved(self, port: int, node_id: int, node_map: NodeMap) -> bool:
        is_anothers = any(port == given and number != node_id for number, given in self._given_back.items())
        return is_anothers or node_map.is_set_aside(port, node_id) or any(port in ports for ports in self._reserved)


async def ip_of_host(host: str) -> str:
    """Returns the IP address, or the wildcard, of a listener's host. Raises OSError."""
    if host in WILDCARDS:
        return host
    with trio.move_on_after(LOOK_UP_SECONDS):
        (*_, sockaddr), *_ = await trio.socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return str(sockaddr[0])
    raise OSError(errno.ETIMEDOUT, "its name can't be looked up in time")


def bind(address: Address) -> socket.socket:
    """Returns a socket that listens at the address; host "*" is every IPv4 interface. Raises OSError."""
    sock = socket.socket(socket.AF_INET6 if ":" in address.host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("" if address.host == "*" else address.host, address.port))
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock
