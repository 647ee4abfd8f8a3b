"""Sends the requests that the replay makes itself to a leader, a coordinator or a node.

An unknown coordinator is first asked for with FindCoordinator, an unknown leader with Metadata. A request is repeated
after errors that pass, until `--wait` is over. After that, or after three lost connections, it has no answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from proxy.wire.errors import WireError
from proxy.wire.keys import FIND_COORDINATOR, METADATA
from recorder.replay.cluster import ROUTING, Cluster, about_coordinator, about_topics, newest
from recorder.replay.engine.channels import OutgoingRequest
from recorder.replay.engine.item import Lane
from recorder.replay.engine.links import Links
from recorder.replay.engine.timers import Timer, Timers
from recorder.replay.plan import CLIENT_ID, MadeRequest, OfferedVersions, ToCoordinator, ToLeader, ToNode, Values
from recorder.replay.requests import retries
from recorder.replay.requests.apis import OPENING

# Lost connections after which a request is given up: a node that answers with a hang-up does so again.
MAX_CUTS = 3
Done = Callable[[Values | None, int], None]


@dataclass(eq=False, slots=True)
class _MadeInFlight:
    """A made request until it is answered."""

    made: MadeRequest
    lane: Lane
    principal: str | None
    done: Done
    until: int
    gives_up: Timer | None = None
    pause: int = 0
    cuts: int = 0
    tries: int = 0
    is_done: bool = False


class OwnRequests:
    """Sends made requests. `topics`: the target's names of the topics that Metadata is asked about."""

    def __init__(
        self,
        cluster: Cluster,
        links: Links,
        timers: Timers,
        wait: int,
        topics: Callable[[], list[str]],
        count: Callable[[str], None],
    ) -> None:
        self._cluster, self._links, self._timers, self._wait = cluster, links, timers, wait
        self._topics, self._count = topics, count
        self._until_open: dict[tuple[Lane, int], list[_MadeInFlight]] = {}
        self._learning: dict[object, list[Callable[[int], None]]] = {}
        self.lane = Lane(None)
        # requests in flight with which a member joins, or a transaction begins or ends
        self.opening = 0

    def make(self, made: MadeRequest, lane: Lane, principal: str | None, now: int, then: Callable[[int], None]) -> None:
        """Sends a request. Calls `made.done` and then `then` once, after `--wait` at the latest."""

        def done(answer: Values | None, at: int) -> None:
            made.done(answer)
            then(at)

        self._count(made.purpose)
        self._begin(_MadeInFlight(made, lane, principal, done, now + self._wait), now)

    def make_all(
        self, every: Sequence[MadeRequest], lane: Callable[[MadeRequest], Lane], now: int, then: Callable[[int], None]
    ) -> None:
        """Sends requests that belong to no recorded principal. Calls `then` once, when all of them are done."""
        left = len(every)

        def done(at: int) -> None:
            nonlocal left
            left -= 1
            if not left:
                then(at)

        for made in every:
            self.make(made, lane(made), None, now, done)

    def _begin(self, asked: _MadeInFlight, now: int) -> None:
        """Sends a request, and gives it up when `--wait` is over."""
        self.opening += asked.made.api_key in OPENING
        asked.gives_up = self._timers.at(asked.until, lambda at: self._end(asked, None, at))
        self._send(asked, now)

    def _end(self, asked: _MadeInFlight, answer: Values | None, now: int) -> None:
        if not asked.is_done:
            asked.is_done = True
            self.opening -= asked.made.api_key in OPENING
            if asked.gives_up is not None:
                self._timers.cancel(asked.gives_up)
            asked.done(answer, now)

    def refresh(self, now: int, then: Callable[[int], None] | None = None) -> None:
        """Asks for the topics' leaders. Calls before the answer share one request."""
        self._learn("metadata", METADATA, about_topics(self._topics()), self._cluster.learn_metadata, now, then)

    def find(self, kind: int, key: str, now: int, then: Callable[[int], None]) -> None:
        """Asks for the coordinator of a key."""
        learn = partial(self._cluster.learn_coordinator, kind, key)
        self._learn((kind, key), FIND_COORDINATOR, about_coordinator(kind, key), learn, now, then)

    def _learn(
        self,
        what: object,
        api_key: int,
        values: Values,
        learn: Callable[[Values], None],
        now: int,
        then: Callable[[int], None] | None,
    ) -> None:
        waiting = self._learning.get(what)
        if waiting is not None:
            waiting += [then] if then else []
            return
        self._learning[what] = [then] if then else []

        def done(answer: Values | None, at: int) -> None:
            if answer is not None:
                learn(answer)
            for each in self._learning.pop(what):
                each(at)

        made = MadeRequest(api_key, values, ToNode(), ROUTING, lambda answer: None)
        self._begin(_MadeInFlight(made, self.lane, None, done, now + self._wait), now)

    def opened(self, lane: Lane, node: int, now: int) -> None:
        """A channel is open: sends the requests that waited for it."""
        for asked in self._until_open.pop((lane, node), []):
            self._send(asked, now)

    def closed(self, lane: Lane, now: int) -> None:
        """A channel of a lane could not be opened: requests that waited for it try again."""
        for where in [each for each in self._until_open if each[0] is lane and each[1] not in lane.channels]:
            for asked in self._until_open.pop(where):
                self._again(asked, now)

    def _again(self, asked: _MadeInFlight, now: int) -> None:
        if now >= asked.until or self._links.are_all_gone(now, self._wait):
            self._end(asked, None, now)
            return
        asked.pause = retries.next_pause(asked.pause)
        asked.tries += 1
        self._timers.at(now + asked.pause, lambda at: self._send(asked, at))

    def _send(self, asked: _MadeInFlight, now: int) -> None:
        node = None if asked.is_done else self._node(asked, now)
        if node is None:
            return
        channel = self._links.channel(asked.lane, node, asked.principal, now)
        offered = self._cluster.offered.get(node)
        if channel is None:
            self._again(asked, now)
        elif offered is None:
            self._until_open.setdefault((asked.lane, node), []).append(asked)
        else:
            self._write(asked, node, offered, now)

    def _write(self, asked: _MadeInFlight, node: int, offered: OfferedVersions, now: int) -> None:
        made, channel = asked.made, asked.lane.channels[node]
        version = newest(made.api_key, offered, made.newest)
        if version is None:
            self._end(asked, None, now)
            return

        out = OutgoingRequest(made.api_key, version, made.values, CLIENT_ID, True, _Sender(self, asked))
        try:
            self._links.write(channel, out, now)
        except WireError:
            self._end(asked, None, now)

    def answered(self, asked: _MadeInFlight, answer: Values | None, now: int) -> None:
        """Takes the answer to a request; None if its connection broke."""
        asked.cuts += answer is None
        passing = answer is None or retries.is_passing(asked.made.api_key, answer)
        if not passing or now >= asked.until or asked.cuts == MAX_CUTS:
            self._end(asked, answer, now)
            return
        if isinstance(asked.made.to, ToCoordinator):
            self._cluster.coordinators.pop((asked.made.to.kind, asked.made.to.key), None)
        if isinstance(asked.made.to, ToLeader):
            self._cluster.leaders.pop((asked.made.to.topic, asked.made.to.partition), None)
        self._again(asked, now)

    def _node(self, asked: _MadeInFlight, now: int) -> int | None:
        """The node that a request goes to; None while its leader or coordinator is being asked for."""
        to = asked.made.to
        if isinstance(to, ToNode):
            node = to.node if to.node is not None else self._any_node(asked.tries)
            if node is None:
                self._again(asked, now)
            return node
        if isinstance(to, ToLeader):
            leader = self._cluster.leaders.get((to.topic, to.partition), -1)
            if leader < 0:
                self.refresh(now, lambda at: self._again(asked, at))
            return leader if leader >= 0 else None
        found = self._cluster.coordinators.get((to.kind, to.key))
        if found is None:
            self.find(to.kind, to.key, now, lambda at: self._again(asked, at))
        return found

    def _any_node(self, tries: int) -> int | None:
        """A node, the next one with each try: a node may be down for good."""
        known = sorted(self._cluster.nodes)
        first = self._cluster.any_node()
        return None if first is None else known[(known.index(first) + tries) % len(known)]


class _Sender(NamedTuple):
    """The sender of a made request."""

    own: OwnRequests
    asked: _MadeInFlight

    def answered(self, answer: Values | None, frame: bytes | None, now: int) -> None:
        self.own.answered(self.asked, answer, now)

    def left(self, given: int, began: int) -> None:
        """Ignored: how late a made request leaves is not measured."""

    def unsent(self, now: int) -> None:
        self.own.answered(self.asked, None, now)
