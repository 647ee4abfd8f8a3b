"""What a cluster can be known by again, for the recorder: its id, and the addresses of its brokers and of the proxy.

A reader of the recording must know the recorded cluster again under any spelling, and through any address of the proxy.
So each address is reported as it is named, and as sockets and look-ups resolve it. A listener on every interface is
reported at each address of this machine. Names are looked up beside the traffic, one at a time, and again and again:
a name may lead elsewhere later.

An address may lead elsewhere, too: to another cluster, behind a name or a load balancer that has moved. So the proxy
asks for the id itself wherever clients are connected (`Upstreams.keep_asking_for_ids`), and says when it can't know it.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from contextlib import suppress

import trio

from proxy.ips import ip_of, is_ip, of_this_machine
from proxy.mapping.nodes import WILDCARDS
from proxy.observer import Observer
from proxy.schema.addresses import Address

# a look-up that takes longer is given up until the next round
LOOK_UP_SECONDS = 5.0
# seconds between two rounds of look-ups
ROUND_SECONDS = 600.0
# addresses that are reported of each kind: brokers and load balancers may name any number of them. All clusters' fit
# into one entry of the recorder's log
MOST_REPORTED = 1 << 12
# ids that are reported: a cluster has one, and another one if another cluster takes its place
MOST_IDS = 1000
# what is reported among the ids if brokers were reached that did not tell theirs, or told more ids than are reported
UNTOLD = ""


class Identity:
    """Reports each thing once. `observer`: None: nothing is recorded, and nothing is looked up."""

    def __init__(self, cluster: str, observer: Observer | None) -> None:
        self._cluster, self._observer = cluster, observer
        self._ids: set[str] = set()
        self._lists_without_id = self._is_unanswered = False
        self._upstreams: set[Address] = set()
        self._listeners: set[Address] = set()
        self._interfaces = of_this_machine() if observer is not None else []
        # names that were not looked up yet, in the order in which they came
        self._new_names: dict[Address, None] = {}
        self._more_names = trio.Event()

    @property
    def is_recorded(self) -> bool:
        """True if anybody wants to know."""
        return self._observer is not None

    def add_id(self, cluster_id: str | None) -> None:
        """An answer to a client tells this id of the cluster. None: it tells none."""
        if cluster_id:
            self._report(cluster_id if len(self._ids) < MOST_IDS else UNTOLD)

    def answered(self, cluster_id: str | None) -> None:
        """A broker has answered the proxy's own question for the id. None: it is older than ids."""
        self._report(cluster_id or UNTOLD)

    def not_answered(self) -> None:
        """A broker does not answer the proxy's questions: it demands a login. So clients' answers must tell the id."""
        self._is_unanswered = True
        self._report_unknown()

    def listed_without_id(self) -> None:
        """An answer lists the nodes for a client, in a version without the id. So the proxy has to ask itself."""
        self._lists_without_id = True
        self._report_unknown()

    def _report_unknown(self) -> None:
        if self._lists_without_id and self._is_unanswered:
            self._report(UNTOLD)

    def _report(self, cluster_id: str) -> None:
        if self._observer is not None and cluster_id not in self._ids:
            self._ids.add(cluster_id)
            self._observer.identified(self._cluster, ids=[cluster_id])

    def add_upstreams(self, *addresses: Address) -> None:
        """These are addresses of the cluster's brokers."""
        if self._observer is not None and (new := self._new(self._upstreams, addresses)):
            self._observer.identified(self._cluster, upstreams=map(str, new))

    def add_listeners(self, *addresses: Address) -> None:
        """The proxy can be reached at these addresses for the cluster."""
        if self._observer is not None and (new := self._new(self._listeners, self._everywhere(addresses))):
            self._observer.identified(self._cluster, listeners=map(str, new))

    def reached(self, sock: socket.socket) -> None:
        """A broker was dialled. Raises OSError: the connection has ended."""
        if self._observer is not None:
            self.add_upstreams(Address(*sock.getpeername()[:2]))

    async def keep_looking_up(self) -> None:
        """Looks up each new name at once, and all names in rounds, until cancelled."""
        while self._observer is not None:
            with trio.move_on_after(ROUND_SECONDS):
                while True:
                    await self._look_up_new_names()
            self._interfaces = await trio.to_thread.run_sync(of_this_machine)
            self.add_listeners(*(each for each in self._listeners if each.host in WILDCARDS))
            self._new_names |= dict.fromkeys(each for each in self._upstreams | self._listeners if _is_name(each.host))

    async def _look_up_new_names(self) -> None:
        while self._new_names:
            name = next(iter(self._new_names))
            del self._new_names[name]
            found = await _resolved(name)
            for known, add in ((self._upstreams, self.add_upstreams), (self._listeners, self.add_listeners)):
                if name in known:
                    add(*found)
        self._more_names = trio.Event()
        await self._more_names.wait()

    def _everywhere(self, addresses: Iterable[Address]) -> Iterator[Address]:
        for address in addresses:
            yield address
            if address.host in WILDCARDS:
                yield from (Address(str(ip), address.port) for ip in self._interfaces)

    def _new(self, known: set[Address], addresses: Iterable[Address]) -> list[Address]:
        spelled = dict.fromkeys(Address(_one_spelling(each.host), each.port) for each in addresses)
        new = [each for each in spelled if each not in known][: MOST_REPORTED - len(known)]
        known.update(new)
        self._new_names |= dict.fromkeys(each for each in new if _is_name(each.host))
        self._more_names.set()
        return new


def _one_spelling(host: str) -> str:
    try:
        return str(ip_of(host))
    except ValueError:
        return host


def _is_name(host: str) -> bool:
    return host not in WILDCARDS and not is_ip(host)


async def _resolved(name: Address) -> list[Address]:
    """The addresses that a name has now; none if no look-up tells them in time."""
    with trio.move_on_after(LOOK_UP_SECONDS), suppress(OSError, UnicodeError):
        found = await trio.socket.getaddrinfo(name.host, name.port, type=socket.SOCK_STREAM)
        return [Address(*sockaddr[:2]) for *_, sockaddr in found]
    return []
