"""Keeps a replay from writing where it was recorded: looks at each connection before anything of the replay is sent.

    a connection    the address that it has reached, once names are resolved, is none of the recording's
    its node        the cluster's id is none of the recording's, and is the target's
    its answers     so is each id that one of them tells later

An address of this machine counts as every address of this machine, since a listener on all interfaces has them all.
Addresses may be used again by others, ids may not: so `--same-address` allows an equal address, and only
`--onto-recorded` an equal id.
"""

from __future__ import annotations

import socket
from collections import defaultdict
from collections.abc import Set
from contextlib import suppress
from typing import Any

import trio

from proxy.ips import Ip, ip_of, of_this_machine
from proxy.schema.addresses import Address, undotted
from recorder.replay.options import Options
from recorder.replay.plan import Values
from recorder.replay.recorded_clusters import RecordedClusters
from recorder.replay.requests.apis import TELLS_CLUSTER

# seconds for looking up the recorded names, all of them together; look-ups at a time
_LOOK_UP_SECONDS, _LOOK_UPS = 10.0, 20
# an address of this machine, whichever
_HERE = "this machine"
_EQUAL_IDS = ", which alone allows an equal id, even one that two clusters were given"


class Forbidden(Exception):
    """A connection leads to a recorded cluster, or to another cluster than the target. Nothing may be sent there.

    The text is a sentence that says what would be right.
    """


class Guard:
    """The guard of one replay. Made without arguments, it only sees to it that all nodes are of one cluster."""

    def __init__(self, recorded: RecordedClusters | None = None, options: Options | None = None) -> None:
        self._recorded, self._options = recorded or RecordedClusters(), options or Options()
        self._here = frozenset(of_this_machine())
        # names and places with the sessions that tell them
        self._names, self._places = defaultdict[Any, set[str]](set), defaultdict[Any, set[str]](set)
        for each, sessions in self._recorded.addresses.items():
            self._names[each.comparable] |= sessions
            if place := self._place(each.host, each.port):
                self._places[place] |= sessions
        # ids that nodes have told; None: a node of a cluster without an id
        self._target_ids: list[str | None] = []

    async def look_up(self) -> None:
        """Resolves the recorded names as far as they have addresses now."""
        limiter = trio.CapacityLimiter(_LOOK_UPS)
        with trio.move_on_after(_LOOK_UP_SECONDS):
            async with trio.open_nursery() as nursery:
                for address in self._recorded.addresses:
                    if self._place(address.host, address.port) is None:
                        nursery.start_soon(self._look_up, address, limiter)

    async def _look_up(self, name: Address, limiter: trio.CapacityLimiter) -> None:
        async with limiter:
            with suppress(OSError, UnicodeError):
                host = undotted(name.host)
                for *_, sockaddr in await trio.socket.getaddrinfo(host, name.port, type=socket.SOCK_STREAM):
                    self._places[self._ip(ip_of(str(sockaddr[0]))), name.port] |= self._recorded.addresses[name]

    def check_address(self, host: str, port: int) -> None:
        """Looks at an address before it is dialled. Errors: Forbidden."""
        name, place = Address(host, port).comparable, self._place(host, port)
        if name in self._names or place in self._places:
            self._refuse_address(
                str(Address(host, port)), self._names.get(name, set()) | self._places.get(place, set())
            )

    def check_ends(self, host: str, port: int, sock: Any) -> None:
        """Looks at both ends of a socket that is connected to a node. Errors: Forbidden; OSError: it has ended."""
        local, (reached, at) = ip_of(sock.getsockname()[0]), sock.getpeername()[:2]
        self.check_address(host, port)
        place = _HERE if ip_of(reached) == local else self._ip(ip_of(reached)), at
        if place in self._places:
            leads = f"{Address(host, port)} leads to {Address(str(ip_of(reached)), at)}"
            self._refuse_address(leads, self._places[place])

    def check_id(self, host: str, port: int, cluster_id: str | None) -> None:
        """Looks at the id that a node has told of its cluster; None: it has none. Errors: Forbidden."""
        if self._options.onto_recorded:
            return
        if sessions := self._recorded.sessions_of(cluster_id):
            raise Forbidden(recorded_cluster(f"cluster {cluster_id}{self._unplayed(sessions)}") + _EQUAL_IDS)
        if not self._target_ids:
            self._target_ids.append(cluster_id)
        if cluster_id not in self._target_ids:
            found, target = (
                f"cluster {each}" if each else "a cluster without an id" for each in (cluster_id, *self._target_ids)
            )
            raise Forbidden(
                f"{Address(host, port)} is a node of {found}, the target is {target}: "
                "right would be nodes of one cluster, or --onto-recorded"
            )

    def check_answer(self, host: str, port: int, api_key: int, answer: Values) -> None:
        """Looks at the cluster's id in an answer, if it tells one. Errors: Forbidden."""
        if api_key in TELLS_CLUSTER and "cluster_id" in answer:
            told = answer["cluster_id"] or None
            # a node that refuses to tell an id does not say that there is none
            if told or not answer.get("error_code"):
                self.check_id(host, port, told)

    @property
    def question(self) -> str:
        """What nobody can tell: whether the target is another cluster. Empty if that is certain, or was answered."""
        if self._options.onto_recorded or self._options.target_is_another:
            return ""
        unknown, sessions = [], sorted({*self._recorded.without_id} - self._recorded.unreadable)
        if sessions:
            more = f" and {len(sessions) - 1} more" if len(sessions) > 1 else ""
            unknown.append(f"the recording has no cluster id (session {sessions[0]}{more})")
        if damaged := sorted(self._recorded.unreadable):
            more = f" and {len(damaged) - 1} more" if len(damaged) > 1 else ""
            unknown.append(f"what session {damaged[0]}{more} tells of its cluster can't be read")
        if None in self._target_ids:
            unknown.append("the target has no cluster id")
        return f"{' and '.join(unknown)}, so the target may be the recorded cluster" if unknown else ""

    def _refuse_address(self, what: str, sessions: Set[str]) -> None:
        if not (self._options.onto_recorded or self._options.same_address):
            told = f"{what}, an address of the recording{self._unplayed(sessions)}"
            raise Forbidden(recorded_cluster(told, "--same-address"))

    def _unplayed(self, sessions: Set[str]) -> str:
        """Names the session that people don't think of: none of those that are played has told it."""
        is_known = not sessions or sessions & self._recorded.played
        return "" if is_known else f", of session {min(sessions)}, which is not played"

    def _place(self, host: str, port: int) -> tuple[Ip | str, int] | None:
        """The one spelling of an IP address with its port; None for a name."""
        try:
            return (_HERE if host == "*" else self._ip(ip_of(host))), port
        except ValueError:
            return None

    def _ip(self, address: Ip) -> Ip | str:
        return _HERE if address.is_loopback or address.is_unspecified or address in self._here else address


def recorded_cluster(known_by: str, allowed_by: str = "--onto-recorded") -> str:
    """The refusal of a recorded cluster."""
    return f"the target is the recorded cluster ({known_by}): right would be another cluster, or {allowed_by}"
