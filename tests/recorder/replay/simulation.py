"""Plays recorded exchanges with the engine in virtual time, to a target made of functions, and keeps the sent requests.

Recording    builds the recorded events, exchange by exchange
Simulation   opens channels, answers requests after a delay, and moves the time to the next event
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any, NamedTuple

from proxy.wire import apis, decode_request, encode_request, encode_response, request_head
from recorder.replay.choice import Choice
from recorder.replay.cluster import Cluster
from recorder.replay.engine.channels import Close, Load, Open, Send
from recorder.replay.engine.engine import Engine
from recorder.replay.engine.world import World, refused_anywhere
from recorder.replay.names import Names
from recorder.replay.options import Options
from recorder.replay.outcome import Ending, ReachedTarget, Result, Source
from recorder.replay.plan import Exchange, FramePlace, Origin, Peer
from recorder.replay.prepare import Prepared
from recorder.replay.stream import AnswerRecorded, ConnectionClosed, ConnectionOpened, Happening, RequestRecorded
from recorder.replay.survey import survey

MS = 10**6
AT_ONCE = 4
Values = dict[str, Any]
EVERYTHING = {key: range(apis.versions(key).start, apis.versions(key).stop) for key in apis.api_keys()}


class Recording:
    """Recorded events, in the order of the calls; times in ms."""

    def __init__(self) -> None:
        self.happenings: list[Happening] = []
        self._numbers: dict[int, count[int]] = defaultdict(count)
        self.frames: dict[FramePlace | None, bytes] = {}

    def asks(self, at: float, connection: int, key: int, version: int, values: Values, **other: Any) -> Exchange:
        """Adds a request; its connection's name is its client id."""
        origin = Origin("s", connection, next(self._numbers[connection]))
        client_id = f"connection-{connection}"
        frame = encode_request(key, version, correlation_id=1, client_id=client_id, values=values)
        ns = round(at * MS)
        exchange = Exchange(origin, key, version, frame, ns, ns, Peer("10.0.0.1", client_id), node=1, wall_ns=ns)
        exchange = replace(exchange, **{"place": self._placed(frame)} | other)
        self.happenings.append(RequestRecorded(ns, exchange, "main"))
        return exchange

    def answers(self, at: float, exchange: Exchange, values: Values | bytes) -> None:
        """Adds the response to an exchange: values, or a frame."""
        frame = values if isinstance(values, bytes) else _written(exchange, 1, values)
        told = AnswerRecorded(round(at * MS), exchange.origin, exchange.api_key, exchange.version, frame, False)
        self.happenings.append(told._replace(place=self._placed(frame)))

    def _placed(self, frame: bytes) -> FramePlace:
        """Returns the place where a frame can be read again."""
        place = FramePlace("capture", 0, len(self.frames))
        self.frames[place] = frame
        return place

    def exchanges(self, at: float, connection: int, key: int, version: int, asked: Values, told: Values) -> Exchange:
        """Adds requests that are answered a millisecond later."""
        exchange = self.asks(at, connection, key, version, asked)
        self.answers(at + 1, exchange, told)
        return exchange

    def opens(self, at: float, connection: int) -> None:
        self.happenings.append(ConnectionOpened(round(at * MS), ("s", connection)))

    def closes(self, at: float, connection: int) -> None:
        self.happenings.append(ConnectionClosed(round(at * MS), ("s", connection)))


class Got(NamedTuple):
    """A request that the target received."""

    at: float  # ms
    channel: int
    node: int
    key: int
    version: int
    client_id: str | None
    values: Values
    correlation_id: int = 0


Answer = Values | bytes | None


@dataclass
class Simulation:
    """An engine, its clock and its target.

    Attributes:
        answer: the target's response: values, the bytes of a whole frame, or None.
        delay: the time to a response, in ms.
        refuses: connections that can't be opened; `dials`: the time to open another one, in ms.
        writes: the time until the first byte of a request leaves, in ms; None: never.
        reads: the time that it takes to read `AT_ONCE` rows of the capture, in ms; 0: they are fed one by one.
    """

    recording: Recording
    answer: Callable[[Got], Answer]
    options: Options = field(default_factory=Options)
    delay: Callable[[Got], float] = lambda _: 1.0
    cluster: Cluster = field(default_factory=lambda: one_node())
    prepared: Prepared = field(default_factory=Prepared)
    refuses: Callable[[Open], bool] = lambda _: False
    dials: Callable[[Open], float] = lambda _: 0.0
    writes: Callable[[Send], float | None] = lambda _: 0.0
    reads: float = 0.0

    def __post_init__(self) -> None:
        self.got: list[Got] = []
        self.loads = 0
        self.dialled: list[tuple[float, Open]] = []
        self.hung_up: list[int] = []
        self.now = 0
        self._reads_at = 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._tickets = count()
        self._nodes: dict[int, int] = {}
        choice = Choice(self.options)
        rows = deque(sorted(self.recording.happenings, key=lambda happening: happening.ns))
        found = survey(rows, choice.plays, lambda exchange: refused_anywhere(exchange, self.options))
        names = Names(self.options.prefix, found.topic_ids, self.cluster, found.internal)
        result = Result(Source("capture"), ReachedTarget("target"))
        self.world = World(self.options, choice.filter, found, self.cluster, names, self.prepared, result)
        self.engine = Engine(self.world, 0)
        self.rows = rows

    def run(self, until: float = float("inf")) -> Result:
        """Plays until the engine has finished, or until virtual time is over (ms)."""
        while not self.engine.finished and self.now <= until * MS:
            self._feed()
            self._do()
            if not self._step():
                break
        self._do()
        return self.world.result

    def stop(self, ending: Ending = Ending.INTERRUPTED) -> None:
        self.engine.stop(ending, self.now)

    def at(self, when: float, do: Callable[[], None]) -> None:
        """Calls a function at a time, in ms."""
        heapq.heappush(self._events, (round(when * MS), next(self._tickets), do))

    def cut(self, channel: int) -> None:
        """Breaks the connection."""
        self._nodes.pop(channel, None)
        self.engine.closed(channel, self.now)

    def asked(self, key: int | None = None) -> list[Got]:
        """Returns the requests of one API that the target received."""
        return [got for got in self.got if key is None or got.key == key]

    def times(self, key: int | None = None) -> list[float]:
        """Returns the times at which the target received them."""
        return [got.at for got in self.asked(key)]

    def _feed(self) -> None:
        while self.now >= self._reads_at and self.engine.wants(self.now):
            if not self.rows:
                self.engine.end(self.now)
                return
            at_once = range(min(AT_ONCE, len(self.rows)) if self.reads else 1)
            # the engine takes no more than it wants
            self.engine.feed((self.rows.popleft() for _ in at_once), self.now)
            if self.reads:
                self._reads_at = self.now + round(self.reads * MS)
                self.at(self._reads_at / MS, lambda: None)

    def _step(self) -> bool:
        """Moves the time to the next event. Returns False if there is none."""
        wake = self.engine.next_wake
        first = self._events[0][0] if self._events else None
        if wake is None and first is None:
            return False
        if first is not None and (wake is None or first <= wake):
            self.now = max(first, self.now)
            heapq.heappop(self._events)[2]()
        else:
            self.now = max(wake or 0, self.now)
        self.engine.wake(self.now)
        return True

    def _do(self) -> None:
        while actions := self.engine.actions():
            for action in actions:
                if isinstance(action, Open):
                    self._open(action)
                elif isinstance(action, Send):
                    self._send(action)
                elif isinstance(action, Load):
                    self._load(action)
                elif isinstance(action, Close):
                    self._nodes.pop(action.channel, None)
                    self.hung_up.append(action.channel)

    def _load(self, action: Load) -> None:
        self.loads += 1
        request, answer = self.recording.frames[action.place], self.recording.frames.get(action.answer_place)
        self.at(self.now / MS + 1, lambda: self.engine.loaded(action.origin, request, answer, self.now))

    def _open(self, action: Open) -> None:
        self.dialled.append((self.now / MS, action))
        if self.refuses(action):
            self.at(self.now / MS + 1, lambda: self.engine.closed(action.channel, self.now))
            return
        self._nodes[action.channel] = action.node
        offered = self.cluster.offered.get(action.node, EVERYTHING)
        self.at(self.now / MS + self.dials(action), lambda: self.engine.opened(action.channel, offered, self.now))

    def _send(self, action: Send) -> None:
        full = self.writes(action)
        if full == 0:
            self._take(action)
        elif full is not None:
            self.at(self.now / MS + full, lambda: self._take(action))

    def _take(self, action: Send) -> None:
        if action.channel not in self._nodes:
            return
        self.engine.wrote(action.channel, 1, self.now)
        for frame in _frames(bytes(action.data)):
            head = request_head(frame)
            decoded = decode_request(frame)
            assert isinstance(decoded, tuple)
            got = Got(
                self.now / MS,
                action.channel,
                self._nodes[action.channel],
                head.api_key,
                head.api_version,
                head.client_id,
                decoded[1],
                head.correlation_id,
            )
            self.got.append(got)
            values = self.answer(got)
            if values is not None:
                answer = values if isinstance(values, bytes) else _written(head, head.correlation_id, values)
                self.at(self.now / MS + self.delay(got), partial(self.receive, action.channel, answer))

    def receive(self, channel: int, frame: bytes) -> None:
        if channel in self._nodes:
            self.engine.received(channel, (frame,), self.now)


def _written(head: Any, correlation_id: int, values: Values) -> bytes:
    version = head.version if isinstance(head, Exchange) else head.api_version
    return encode_response(head.api_key, version, correlation_id, values)


def _frames(data: bytes) -> Iterable[bytes]:
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        yield data[at + 4 : at + 4 + size]
        at += 4 + size


def one_node(*topics: tuple[str, int], node: int = 1) -> Cluster:
    """A target of one node that leads and coordinates everything. `topics`: names with their partitions."""
    cluster = Cluster("target", node, {node: ("127.0.0.1", 9092)}, offered={node: EVERYTHING})
    for name, partitions in topics:
        cluster.leaders.update({(name, index): node for index in range(partitions)})
    return cluster
