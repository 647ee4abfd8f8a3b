"""Plays members of classic and consumer groups in virtual time, and builds the capture of their traffic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar

from proxy import wire
from proxy.wire.keys import CONSUMER_GROUP_HEARTBEAT, HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, SYNC_GROUP
from recorder.replay.plan import Exchange, Origin, Peer
from tests.recorder.replay.group_coordinator import MILLISECOND, SECOND, Clock, Values

GROUP = "billing"
SESSION_MS, REBALANCE_MS = 10_000, 30_000


@dataclass
class Capture:
    """Exchanges in the order of their first bytes, and when connections ended."""

    clock: Clock
    handle: Callable[..., None]
    random: Random = field(default_factory=lambda: Random(0))
    exchanges: list[Exchange] = field(default_factory=list)
    closed: list[tuple[int, tuple[str, int]]] = field(default_factory=list)

    def open(self) -> int:
        self.connections = getattr(self, "connections", 0) + 1
        return self.connections

    def close(self, connection: int) -> None:
        self.closed.append((self.clock.now, ("s", connection)))

    def ask(self, connection: int, api_key: int, version: int, values: Values, done: Callable[[Values], None]) -> None:
        """Sends a request, and records it, and later its response."""
        exchange = recorded(
            api_key, version, values, at=self.clock.now, connection=connection, number=len(self.exchanges)
        )
        self.exchanges.append(exchange)

        def answered(answer: Values) -> None:
            def arrived() -> None:
                answer_to(exchange, answer, self.clock.now)
                done(exchange.answer or {})

            self.clock.after(self._delay(), arrived)

        self.clock.after(self._delay(), lambda: self.handle(api_key, version, exchange.decoded(), answered))

    def _delay(self) -> int:
        return self.random.randint(1, 4) * MILLISECOND


def recorded(
    api_key: int, version: int, values: Values, *, at: int = 0, connection: int = 1, number: int = 0
) -> Exchange:
    """A recorded exchange without an answer."""
    frame = wire.encode_request(api_key, version, correlation_id=number, client_id="c", values=values)
    origin, peer = Origin("s", connection, number), Peer("h", "c")
    return Exchange(origin, api_key, version, frame, at, at, peer)


def answer_to(exchange: Exchange, answer: Values, at: int = 1) -> Exchange:
    """Records an exchange's response."""
    exchange.answer_frame = wire.encode_response(exchange.api_key, exchange.version, correlation_id=0, values=answer)
    exchange.answered_ns = at
    exchange.forget_values()
    return exchange


def like_recorded(exchange: Exchange, answer: Values) -> Values:
    """Returns a response in the shape of the recorded version."""
    codec = wire.codec("response", exchange.api_key, exchange.version)
    assert codec
    return codec.decode(codec.encode(answer))[0]


@dataclass(eq=False)
class ClassicClient:
    """A consumer as librdkafka and Java implement it."""

    session_ms: ClassVar[int] = SESSION_MS
    rebalance_ms: ClassVar[int] = REBALANCE_MS
    capture: Capture
    number: int
    instance: str | None = None
    join_version: int = 5
    id: str = ""
    generation: int = -1
    alive: bool = False
    connection: int = 0
    beats: int = 0
    life: int = 0

    def start(self) -> None:
        if self.alive:
            return
        self.alive, self.connection, self.id = True, self.capture.open(), ""
        self.life += 1
        self._join()

    def crash(self) -> None:
        """The client stops, and its connection ends."""
        if self.alive:
            self.capture.close(self.connection)
        self.alive = False
        self.life += 1

    def hang(self) -> None:
        """The client stops; its connection ends when its session has long expired."""
        if self.alive:
            connection = self.connection
            self.capture.clock.after(40 * SECOND, lambda: self.capture.close(connection))
        self.alive = False
        self.life += 1

    def leave(self) -> None:
        if not self.alive or not self.id:
            return
        values = {
            "group_id": GROUP,
            "member_id": self.id,
            "members": [{"member_id": self.id, "group_instance_id": self.instance}],
        }
        self._ask(LEAVE_GROUP, 4, values, lambda answer: None)
        self.crash()

    def rejoin(self) -> None:
        """Joins again, as for a subscription's new partitions."""
        if self.alive and self.beats:
            self._join()

    def _ask(self, api_key: int, version: int, values: Values, done: Callable[[Values], None]) -> None:
        life = self.life
        self.capture.ask(
            self.connection, api_key, version, values, lambda answer: done(answer) if self.life == life else None
        )

    def _join(self) -> None:
        self.beats = 0
        values = {
            "group_id": GROUP,
            "session_timeout_ms": self.session_ms,
            "rebalance_timeout_ms": self.rebalance_ms,
            "member_id": self.id,
            "group_instance_id": self.instance,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b"client %d" % self.number}],
        }
        self._ask(JOIN_GROUP, self.join_version, values, self._joined)

    def _joined(self, answer: Values) -> None:
        error = answer["error_code"]
        if error == 79:
            self.id = answer["member_id"]
            self._join()
        elif error == 25:
            self.id = ""
            self._join()
        elif error == 0:
            self.id, self.generation = answer["member_id"], answer["generation_id"]
            leads = answer["leader"] == self.id and not answer.get("skip_assignment")
            self._sync(self._assign(answer["members"]) if leads else [])

    @staticmethod
    def _assign(members: list[Values]) -> list[Values]:
        ordered = sorted(members, key=lambda member: member["metadata"])
        return [
            {"member_id": member["member_id"], "assignment": b"%d of %d: " % (i, len(ordered)) + member["metadata"]}
            for i, member in enumerate(ordered)
        ]

    def _sync(self, assignments: list[Values]) -> None:
        values = self._quoted() | {"protocol_type": "consumer", "protocol_name": "range", "assignments": assignments}
        self._ask(SYNC_GROUP, 5, values, self._synced)

    def _quoted(self) -> Values:
        return {
            "group_id": GROUP,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance,
        }

    def _synced(self, answer: Values) -> None:
        if not self.refused(answer["error_code"]):
            self.beats += 1
            self._beat_later(self.beats)

    def _beat_later(self, beats: int) -> None:
        life, generation = self.life, self.generation

        def beat() -> None:
            if self.life == life and self.generation == generation and self.beats == beats:
                self._ask(HEARTBEAT, 3, self._quoted(), self._beaten)

        self.capture.clock.after(3 * SECOND, beat)

    def _beaten(self, answer: Values) -> None:
        if self.beats and not self.refused(answer["error_code"]):
            self.beats += 1
            self._beat_later(self.beats)

    def refused(self, error: int) -> bool:
        if error == 25:
            self.id = ""
        if error:
            self._join()
        return bool(error)


@dataclass(eq=False)
class ConsumerClient:
    """A consumer of KIP-848. In version 0 it gets its id, in version 1 it makes one."""

    capture: Capture
    number: int
    topics: list[str]
    version: int = 1
    id: str = ""
    epoch: int = 0
    owned: list[Values] = field(default_factory=list)
    alive: bool = False
    connection: int = 0
    life: int = 0

    def start(self) -> None:
        if self.alive:
            return
        self.alive, self.connection, self.epoch = True, self.capture.open(), 0
        self.life += 1
        self.id = f"client-{self.number}-{self.life}" if self.version else ""
        self.owned = []
        self._beat(full=True)

    def leave(self) -> None:
        if self.alive and self.epoch > 0:
            self.epoch = -1
            self._beat(full=False)
        self.crash()

    def crash(self) -> None:
        if self.alive:
            self.capture.close(self.connection)
        self.alive = False
        self.life += 1

    def _beat(self, full: bool, owned: bool = False) -> None:
        values = {
            "group_id": GROUP,
            "member_id": self.id,
            "member_epoch": self.epoch,
            "rebalance_timeout_ms": REBALANCE_MS if full else -1,
            "subscribed_topic_names": self.topics if full else None,
            "topic_partitions": self.owned if full or owned else None,
        }
        life = self.life

        def done(answer: Values) -> None:
            if self.life == life:
                self._beaten(answer)

        self.capture.ask(self.connection, CONSUMER_GROUP_HEARTBEAT, self.version, values, done)

    def _beaten(self, answer: Values) -> None:
        if answer["error_code"] in (25, 110):
            self.epoch, self.owned = 0, []
            self._later(True, False)
            return
        self.id, self.epoch = answer["member_id"], answer["member_epoch"]
        news = answer["assignment"] is not None
        if news:
            self.owned = answer["assignment"]["topic_partitions"]
        self._later(False, news)

    def _later(self, full: bool, owned: bool) -> None:
        life = self.life

        def beat() -> None:
            if self.life == life:
                self._beat(full, owned)

        self.capture.clock.after(5 * SECOND, beat)


def lines_of(capture: Capture) -> list[Any]:
    """Lines to read when a test fails."""
    return [
        (e.first_ns / SECOND, e.origin.connection, e.api_key, e.request.get("member_id"), e.answer)
        for e in capture.exchanges
    ]
