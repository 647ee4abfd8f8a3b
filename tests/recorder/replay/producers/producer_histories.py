"""Random histories of producers with a broker of their own, recorded as a capture has them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from random import Random
from typing import Any

from proxy.wire.keys import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    INIT_PRODUCER_ID,
    PRODUCE,
    TXN_OFFSET_COMMIT,
)
from recorder.replay.plan import Exchange, Values
from tests.recorder.replay.producers.producer_exchanges import V1, V2, batch, produce
from tests.recorder.replay.simulated import Broker, Place, exchange


class Recording:
    """Exchanges with a broker of its own, as a capture has them."""

    def __init__(self, broker: Broker) -> None:
        self.broker, self.exchanges = broker, list[Exchange]()

    def ask(self, api_key: int, version: int, values: Values, **more: Any) -> Values:
        """Records one exchange; returns the values of its response."""
        number = len(self.exchanges)
        request = exchange(number, api_key, version, values, None).decoded()
        answer = self.broker.answer(api_key, version, request)
        self.exchanges.append(exchange(number, api_key, version, values, answer, **more))
        return answer

    def lose_last_answer(self) -> None:
        """The capture lacks the last response."""
        self.exchanges[-1].answer_frame = self.exchanges[-1].answered_ns = None

    def begin(self, name: str | None = None) -> tuple[int, int]:
        """Gets a producer's id and epoch."""
        values = {"transactional_id": name, "transaction_timeout_ms": 1000}
        answer = self.ask(INIT_PRODUCER_ID, 5, values)
        return answer["producer_id"], answer["producer_epoch"]


@dataclass
class Client:
    """A producer of a random history. `places`: partition -> its next sequence."""

    recording: Recording
    random: Random
    name: str | None
    is_v2: bool
    pair: tuple[int, int] = (-1, -1)
    places: dict[Place, int] = field(default_factory=lambda: defaultdict(int))
    added: set[Place] = field(default_factory=set)
    has_group: bool = False
    last: Values | None = None
    made: int = 0

    @property
    def versions(self) -> dict[int, int]:
        return V2 if self.is_v2 else V1

    def step(self) -> None:
        """Does one random action."""
        if self.pair[0] < 0:
            self.pair = self.recording.begin(self.name)
            self.places.clear()
            return
        self.random.choice([self.write, self.write, self.write, self.repeat, self.renew, self.commit, self.end])()

    def write(self) -> None:
        place = self.random.choice([("a", 0), ("a", 1), ("b", 0)])
        if self.name is not None and not self.is_v2 and place not in self.added:
            self.join(place)
        values = [f"{self.pair}-{self.name}-{self.made}-{n}".encode() for n in range(self.random.randint(1, 3))]
        self.made += 1
        data = batch(*values, pair=self.pair, sequence=self.places[place], transactional=self.name is not None)
        self.last = produce((*place, data), transactional_id=self.name)
        self.recording.ask(PRODUCE, self.versions[PRODUCE], self.last)
        self.places[place] += len(values)
        self.added.add(place)

    def join(self, place: Place) -> None:
        values = {
            "v3_and_below_transactional_id": self.name,
            "v3_and_below_producer_id": self.pair[0],
            "v3_and_below_producer_epoch": self.pair[1],
            "v3_and_below_topics": [{"name": place[0], "partitions": [place[1]]}],
        }
        self.recording.ask(ADD_PARTITIONS_TO_TXN, 3, values)

    def repeat(self) -> None:
        if self.last is not None:
            self.recording.ask(PRODUCE, self.versions[PRODUCE], self.last)

    def renew(self) -> None:
        """Renews the epoch: an idempotent producer increases it itself, a transactional one requests it."""
        self.last = None
        if self.name is None:
            self.pair = self.pair[0], self.pair[1] + 1
        else:
            self.pair = self.recording.begin(self.name)
        self.places.clear()
        self.added.clear()
        self.has_group = False

    def quoted(self) -> Values:
        return {"transactional_id": self.name, "producer_id": self.pair[0], "producer_epoch": self.pair[1]}

    def commit(self) -> None:
        if self.name is None:
            return
        if not self.is_v2 and not self.has_group:
            self.recording.ask(ADD_OFFSETS_TO_TXN, 3, {**self.quoted(), "group_id": "g"})
        self.has_group = True
        partition = {"partition_index": 0, "committed_offset": 3, "committed_metadata": None}
        values = {**self.quoted(), "group_id": "g", "topics": [{"name": "a", "partitions": [partition]}]}
        values |= {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
        self.recording.ask(TXN_OFFSET_COMMIT, self.versions[TXN_OFFSET_COMMIT], values)

    def end(self) -> None:
        is_empty = not self.added and not self.has_group
        if self.name is None or (not self.is_v2 and is_empty):
            return
        # clients commit no empty transaction; with v2, Kafka takes an abort of one
        values = {**self.quoted(), "committed": not is_empty and self.random.random() < 0.5}
        answer = self.recording.ask(END_TXN, self.versions[END_TXN], values)
        if self.random.random() < 0.2:
            # the client has not got the response, which the capture may lack, too
            if self.random.random() < 0.5:
                self.recording.lose_last_answer()
            answer = self.recording.ask(END_TXN, self.versions[END_TXN], values)
        if self.is_v2:
            self.pair = answer["producer_id"], answer["producer_epoch"]
            self.places.clear()
        self.last = None
        self.added.clear()
        self.has_group = False


def history(seed: int, is_v2: bool, steps: int) -> list[Exchange]:
    """Records random producers with a broker."""
    random = Random(seed)
    recording = Recording(Broker(has_v2=is_v2))
    clients = [Client(recording, random, name, is_v2) for name in (None, None, "t", "u")]
    for _ in range(steps):
        random.choice(clients).step()
    return recording.exchanges
