"""Producers of random recorded histories, played to a broker that assigns other values; and each rule alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire import records
from proxy.wire.keys import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    INIT_PRODUCER_ID,
    PRODUCE,
    TXN_OFFSET_COMMIT,
)
from proxy.wire.records import Record, write_batch
from recorder.replay.cluster import Cluster
from recorder.replay.mapping import Pairs, What
from recorder.replay.options import Options
from recorder.replay.plan import Again, Exchange, Hold, Made, Needs, Origin, Reason, Refusal, Values, Withheld
from recorder.replay.producers import Producers
from tests.recorder.replay.simulated import Broker, Place, exchange, names, passed, prefixed

V1 = {PRODUCE: 11, END_TXN: 4, TXN_OFFSET_COMMIT: 4, ADD_PARTITIONS_TO_TXN: 3, ADD_OFFSETS_TO_TXN: 3, INIT_PRODUCER_ID: 5}
V2 = V1 | {PRODUCE: 12, END_TXN: 5, TXN_OFFSET_COMMIT: 5}
SECOND = 10**9


def other(number: int) -> int:
    """The target's producer ids: none is a recorded one."""
    return 7_000_000 - 13 * number


@dataclass
class Target:
    """What the engine does, in short: translates, sends what is needed before, sends, tells the answers in order."""

    broker: Broker
    newest: dict[int, int] = field(default_factory=lambda: dict(V2))
    options: Options = field(default_factory=Options)

    def __post_init__(self) -> None:
        self.cluster = Cluster(features={"transaction.version": 2} if self.broker.has_v2 else {})
        self.pairs = Pairs()
        self.names = names(self.options.prefix, self.cluster)
        self.producers = Producers(self.names, self.cluster, self.pairs, self.options, self.chosen)
        self.now = 0
        self.made: list[Made] = []
        self.withheld: dict[Origin, Withheld] = {}
        self.answers: dict[Origin, Values] = {}
        self.sent: dict[Origin, list[Values]] = defaultdict(list)
        self.again: list[Origin] = []

    def chosen(self, api_key: int, version: int) -> int | None:
        return min(version, self.newest[api_key])

    def make(self, made: Made) -> None:
        version = min(self.newest[made.api_key], made.newest or 99)
        sent = exchange(0, made.api_key, version, made.values, None).decoded()
        self.made.append(made)
        made.done(passed(made.api_key, version, self.broker.answer(made.api_key, version, sent)))

    def translate(self, each: Exchange) -> Values | Withheld | Hold:
        """The values to send; what is needed before is made."""
        for _ in range(20):
            each.dropped.clear()
            values = each.decoded()
            refused: Refusal | None = self.producers.request(each, values, self.now)
            if refused is None:
                return prefixed(values, self.options.prefix)  # type: ignore[no-any-return]
            if not isinstance(refused, Needs):
                return refused
            for made in refused.made:
                self.make(made)
        raise AssertionError("no end of what is needed")

    def leave(self, each: Exchange) -> Values | None:
        """Sends it. None: withheld, or held back."""
        values = self.translate(each)
        if isinstance(values, Withheld):
            self.withheld[each.origin] = values
            self.producers.lost(each, None)
        if not isinstance(values, dict):
            return None
        self.producers.sent(each, values, self.now)
        self.sent[each.origin].append(values)
        return values

    def answer(self, each: Exchange, values: Values) -> bool:
        """The broker answers. True: the exchange goes again."""
        version = self.chosen(each.api_key, each.version) or 0
        answer = passed(each.api_key, version, self.broker.answer(each.api_key, version, values))
        if each.api_key == END_TXN and each.version >= 5:
            answer.setdefault("producer_id", -1)
            answer.setdefault("producer_epoch", -1)
        self.answers[each.origin] = answer
        return isinstance(self.producers.answered(each, values, answer, self.now), Again)

    def play(self, each: Exchange) -> Values | None:
        """One exchange, alone."""
        for _ in range(10):
            values = self.leave(each)
            if values is None or not each.awaits or not self.answer(each, values):
                return values
            self.again.append(each.origin)
        raise AssertionError("no end of sending again")


def batch(
    *values: bytes, pair: tuple[int, int] = (-1, -1), sequence: int = -1, transactional: bool = False, at: int = 5
) -> bytes:
    """Batches of one producer."""
    made = [Record(number, at, None, value) for number, value in enumerate(values)]
    return write_batch(
        made, producer_id=pair[0], producer_epoch=pair[1], base_sequence=sequence, transactional=transactional
    )


def produce(*entries: tuple[str, int, bytes], transactional_id: str | None = None, acks: int = -1) -> Values:
    """A Produce request."""
    topics: dict[str, list[Values]] = defaultdict(list)
    for topic, index, data in entries:
        topics[topic].append({"index": index, "records": data})
    data = [{"name": topic, "partition_data": found} for topic, found in topics.items()]
    return {"transactional_id": transactional_id, "acks": acks, "timeout_ms": 1, "topic_data": data}


def written(broker: Broker) -> dict[Place, list[bytes]]:
    """The records' values in each partition's log."""
    return {
        (topic.removeprefix("p-"), index): [record.value or b"" for _, data in found for record in records.read(data)]
        for (topic, index), found in broker.log.items()
        if found
    }


class Recording:
    """Exchanges with a broker of its own, as a capture has them."""

    def __init__(self, broker: Broker) -> None:
        self.broker, self.exchanges = broker, list[Exchange]()

    def ask(self, api_key: int, version: int, values: Values, **more: Any) -> Values:
        """One exchange, whole: the recorded answer's values."""
        number = len(self.exchanges)
        request = exchange(number, api_key, version, values, None).decoded()
        answer = self.broker.answer(api_key, version, request)
        self.exchanges.append(exchange(number, api_key, version, values, answer, **more))
        return answer

    def begin(self, name: str | None = None) -> tuple[int, int]:
        """A producer's pair."""
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
        """Does one thing."""
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
        """An idempotent producer bumps its epoch itself, a transactional one asks for it."""
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
        if self.name is None or (not self.is_v2 and not self.added and not self.has_group):
            return
        values = {**self.quoted(), "committed": self.random.random() < 0.5}
        answer = self.recording.ask(END_TXN, self.versions[END_TXN], values)
        if self.is_v2:
            self.pair = answer["producer_id"], answer["producer_epoch"]
            self.places.clear()
        self.last = None
        self.added.clear()
        self.has_group = False


def history(seed: int, is_v2: bool, steps: int) -> list[Exchange]:
    """What random producers say to a broker."""
    random = Random(seed)
    recording = Recording(Broker(has_v2=is_v2))
    clients = [Client(recording, random, name, is_v2) for name in (None, None, "t", "u")]
    for _ in range(steps):
        random.choice(clients).step()
    return recording.exchanges


def codes(values: Any) -> list[int]:
    """All errors in an answer."""
    if isinstance(values, list):
        return [code for each in values for code in codes(each)]
    if not isinstance(values, dict):
        return []
    own = [value for key, value in values.items() if key.endswith("error_code")]
    return own + [code for value in values.values() for code in codes(value)]


def produced_once(exchanges: Iterable[Exchange]) -> dict[Place, list[bytes]]:
    """What these write, where each batch counts once."""
    seen, found = set[bytes](), defaultdict[Place, list[bytes]](list)
    for each in exchanges:
        for topic in each.request["topic_data"] if each.api_key == PRODUCE else ():
            for partition in topic["partition_data"]:
                if partition["records"] not in seen:
                    seen.add(partition["records"])
                    found[topic["name"], partition["index"]] += [r.value or b"" for r in records.read(partition["records"])]
    return dict(found)


@given(st.integers(0, 10**9), st.booleans(), st.booleans(), st.sampled_from([0, 0, 7, 20]))
def test_a_strict_broker_takes_what_producers_make_of_any_history_of_another(
    seed: int, is_v2: bool, has_v2: bool, cut: int
) -> None:
    has_v2 = has_v2 and is_v2
    exchanges = history(seed, is_v2, 60)[cut:]
    target = Target(Broker(other, 900, has_v2), dict(V2 if has_v2 else V1), Options(prefix="p-"))
    for each in exchanges:
        values = target.play(each)
        assert (values is None) == (each.origin in target.withheld)
        if each.origin in target.withheld:
            # an EndTxn of v2 may have nothing to end, one whose transaction the cut left out too
            assert each.api_key == END_TXN
            assert target.withheld[each.origin].reason is Reason.NO_TRANSACTION
    assert all(not code for answer in target.answers.values() for code in codes(answer))
    assert written(target.broker) == produced_once(exchanges)
    for made in target.producers.finish():
        target.make(made)
    assert not any(found.partitions or found.groups for found in target.broker.transactions.values())
