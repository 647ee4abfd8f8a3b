"""Tests of producers: random histories played to a broker that assigns other values, and each rule alone."""

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
    DESCRIBE_TRANSACTIONS,
    END_TXN,
    INIT_PRODUCER_ID,
    PRODUCE,
    TXN_OFFSET_COMMIT,
)
from proxy.wire.records import Compression, Record, write_batch
from recorder.replay.cluster import Cluster
from recorder.replay.mapping import Pairs, ValueKind
from recorder.replay.options import Options
from recorder.replay.plan import (
    AskFirst,
    Exchange,
    Hold,
    MadeRequest,
    Origin,
    Reason,
    Refusal,
    Resend,
    Values,
    Withheld,
)
from recorder.replay.producers.producer_pairs import without_default_pair
from recorder.replay.producers.translator import Producers
from tests.recorder.replay.simulated import Broker, Place, exchange, names, passed, prefixed

V1 = {
    PRODUCE: 11,
    END_TXN: 4,
    TXN_OFFSET_COMMIT: 4,
    ADD_PARTITIONS_TO_TXN: 3,
    ADD_OFFSETS_TO_TXN: 3,
    INIT_PRODUCER_ID: 5,
}
V2 = V1 | {PRODUCE: 12, END_TXN: 5, TXN_OFFSET_COMMIT: 5}
SECOND = 10**9


def other(number: int) -> int:
    """The target's producer ids, none of which was recorded."""
    return 7_000_000 - 13 * number


@dataclass
class Target:
    """The engine's part, in short: it translates, sends prerequisites, sends, and passes responses on in order."""

    broker: Broker
    newest: dict[int, int] = field(default_factory=lambda: dict(V2))
    options: Options = field(default_factory=Options)

    def __post_init__(self) -> None:
        self.cluster = Cluster(features={"transaction.version": 2} if self.broker.has_v2 else {})
        self.pairs = Pairs()
        self.names = names(self.options.prefix, self.cluster)
        self.producers = Producers(self.names, self.cluster, self.pairs, self.options, self.chosen)
        self.now = 0
        self.made: list[MadeRequest] = []
        self.withheld: dict[Origin, Withheld] = {}
        self.answers: dict[Origin, Values] = {}
        self.sent: dict[Origin, list[Values]] = defaultdict(list)
        self.again: list[Origin] = []
        self.errors: dict[Origin, list[int]] = {}

    def chosen(self, api_key: int, version: int) -> int | None:
        return min(version, self.newest[api_key])

    def make(self, made: MadeRequest) -> None:
        version = min(self.newest[made.api_key], made.newest or 99)
        sent = exchange(0, made.api_key, version, made.values, None).decoded()
        self.made.append(made)
        made.done(passed(made.api_key, version, self.broker.answer(made.api_key, version, sent)))

    def translate(self, each: Exchange) -> Values | Withheld | Hold:
        """Returns the values to send; creates what they need."""
        for _ in range(20):
            each.dropped.clear()
            values = each.decoded()
            refused: Refusal | None = self.producers.request(each, values, self.now)
            if refused is None:
                return prefixed(values, self.options.prefix)  # type: ignore[no-any-return]
            if not isinstance(refused, AskFirst):
                return refused
            for made in refused.made:
                self.make(made)
        raise AssertionError("no end of what is needed")

    def leave(self, each: Exchange) -> Values | None:
        """Sends a request. Returns None if it is withheld or held back."""
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
        """The broker responds. Returns True if the exchange is sent again."""
        version = self.chosen(each.api_key, each.version) or 0
        errors = self.errors.get(each.origin)
        told = refusing(each, values, errors.pop(0)) if errors else self.broker.answer(each.api_key, version, values)
        answer = passed(each.api_key, version, told)
        if each.api_key == END_TXN and each.version >= 5:
            answer.setdefault("producer_id", -1)
            answer.setdefault("producer_epoch", -1)
        self.answers[each.origin] = answer
        return isinstance(self.producers.answered(each, values, answer, self.now), Resend)

    def play(self, each: Exchange) -> Values | None:
        """Plays one exchange alone."""
        for _ in range(10):
            values = self.leave(each)
            if values is None or not each.awaits or not self.answer(each, values):
                return values
            self.again.append(each.origin)
        raise AssertionError("no end of sending again")


def refusing(each: Exchange, values: Values, code: int) -> Values:
    """Returns a response with only this error."""
    if each.api_key == PRODUCE:
        return produce_answer(
            code, *((t["name"], p["index"]) for t in values["topic_data"] for p in t["partition_data"])
        )
    if each.api_key == ADD_PARTITIONS_TO_TXN:
        topics = [
            {
                "name": topic["name"],
                "results_by_partition": [
                    {"partition_index": index, "partition_error_code": code} for index in topic["partitions"]
                ],
            }
            for topic in values["v3_and_below_topics"]
        ]
        return {"throttle_time_ms": 0, "results_by_topic_v3_and_below": topics}
    none = {"producer_id": -1, "producer_epoch": -1} if each.version >= 5 else {}
    return {"throttle_time_ms": 0, "error_code": code, **none}


def produce_answer(code: int, *places: Place) -> Values:
    """Returns a response to Produce with one error for all partitions."""
    topics = [
        {"name": topic, "partition_responses": [{"index": index, "error_code": code, "base_offset": -1}]}
        for topic, index in places
    ]
    return {"throttle_time_ms": 0, "responses": topics}


def batch(
    *values: bytes,
    pair: tuple[int, int] = (-1, -1),
    sequence: int = -1,
    transactional: bool = False,
    at: int = 5,
    codec: Compression = Compression.NONE,
) -> bytes:
    """Returns batches of one producer."""
    made = [Record(number, at, None, value) for number, value in enumerate(values)]
    producer: dict[str, int] = {"producer_id": pair[0], "producer_epoch": pair[1], "base_sequence": sequence}
    return write_batch(made, transactional=transactional, codec=codec, **producer)


def produce(*entries: tuple[str, int, bytes], transactional_id: str | None = None, acks: int = -1) -> Values:
    """Returns a Produce request."""
    topics: dict[str, list[Values]] = defaultdict(list)
    for topic, index, data in entries:
        topics[topic].append({"index": index, "records": data})
    data = [{"name": topic, "partition_data": found} for topic, found in topics.items()]
    return {"transactional_id": transactional_id, "acks": acks, "timeout_ms": 1, "topic_data": data}


def written(broker: Broker) -> dict[Place, list[bytes]]:
    """Returns the values of the records in each partition's log."""
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
        """Records one exchange; returns the values of its response."""
        number = len(self.exchanges)
        request = exchange(number, api_key, version, values, None).decoded()
        answer = self.broker.answer(api_key, version, request)
        self.exchanges.append(exchange(number, api_key, version, values, answer, **more))
        return answer

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
    """Records random producers with a broker."""
    random = Random(seed)
    recording = Recording(Broker(has_v2=is_v2))
    clients = [Client(recording, random, name, is_v2) for name in (None, None, "t", "u")]
    for _ in range(steps):
        random.choice(clients).step()
    return recording.exchanges


def codes(values: Any) -> list[int]:
    """Returns all errors in a response."""
    if isinstance(values, list):
        return [code for each in values for code in codes(each)]
    if not isinstance(values, dict):
        return []
    own = [value for key, value in values.items() if key.endswith("error_code")]
    return own + [code for value in values.values() for code in codes(value)]


def produced_once(exchanges: Iterable[Exchange]) -> dict[Place, list[bytes]]:
    """Returns what these producers write if each batch counts once."""
    seen, found = set[bytes](), defaultdict[Place, list[bytes]](list)
    for each in exchanges:
        for topic in each.request["topic_data"] if each.api_key == PRODUCE else ():
            for partition in topic["partition_data"]:
                if partition["records"] not in seen:
                    seen.add(partition["records"])
                    found[topic["name"], partition["index"]] += [
                        r.value or b"" for r in records.read(partition["records"])
                    ]
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
            # an EndTxn of v2 may have nothing to end, and so may one whose transaction was cut off
            assert each.api_key == END_TXN
            assert target.withheld[each.origin].reason is Reason.NO_TRANSACTION
    assert all(not code for answer in target.answers.values() for code in codes(answer))
    assert written(target.broker) == produced_once(exchanges)
    for made in target.producers.finish():
        target.make(made)
    assert not any(found.partitions or found.groups for found in target.broker.transactions.values())


# each rule alone


A0 = ("a", 0)
PAIR = (500, 3)


def recorded_produce(number: int, data: bytes, code: int = 0, name: str | None = None, version: int = 9) -> Exchange:
    """A recorded Produce to the partition a-0, with an error in the response."""
    return exchange(number, PRODUCE, version, produce((*A0, data), transactional_id=name), produce_answer(code, A0))


def recorded_init(number: int, pair: tuple[int, int], name: str | None = None) -> Exchange:
    values = {"transactional_id": name, "transaction_timeout_ms": 1000}
    answer = {"throttle_time_ms": 0, "error_code": 0, "producer_id": pair[0], "producer_epoch": pair[1]}
    return exchange(number, INIT_PRODUCER_ID, 4, values, answer)


def recorded_end(number: int, pair: tuple[int, int], name: str, given: tuple[int, int] | None = None) -> Exchange:
    """A recorded EndTxn that commits. `given`: the next id and epoch, with transactions v2."""
    values = {"transactional_id": name, "producer_id": pair[0], "producer_epoch": pair[1], "committed": True}
    answer: Values = {"throttle_time_ms": 0, "error_code": 0}
    if given:
        answer |= {"producer_id": given[0], "producer_epoch": given[1]}
    return exchange(number, END_TXN, 5 if given else 4, values, answer)


def log(target: Target) -> list[bytes]:
    """Returns the values in the target's a-0."""
    return written(target.broker).get(A0, [])


def sequences(target: Target) -> list[tuple[int, int, int]]:
    """Returns id, epoch and sequence of each batch in the target's a-0."""
    found = [next(iter(records.batches(data))) for _, data in target.broker.log[A0]]
    return [(each.producer_id, each.producer_epoch, each.base_sequence) for each in found]


def test_batches_after_a_refused_one_are_resent_in_order_and_renumbered_before_new_ones() -> None:
    target = Target(Broker(other, largest=150))
    target.play(recorded_init(0, PAIR))
    large, second, third, last = (
        recorded_produce(number, batch(value, pair=PAIR, sequence=number))
        for number, value in enumerate([b"x" * 100, b"2", b"3", b"4"])
    )
    flying = [(each, target.leave(each)) for each in (large, second, third)]
    answered = [target.answer(each, values) for each, values in flying if values is not None]
    assert answered == [False, True, True]
    assert target.leave(last) is None
    assert target.leave(third) is None
    assert not target.withheld
    assert target.play(second)
    assert target.play(third)
    assert target.play(last)
    assert log(target) == [b"2", b"3", b"4"]
    assert [number for _, _, number in sequences(target)] == [0, 1, 2]


def test_a_batch_that_overtook_an_unanswered_one_is_sent_again_after_it() -> None:
    target = Target(Broker(other))
    target.play(recorded_init(0, PAIR))
    first, second = (
        recorded_produce(number, batch(b"%d" % number, pair=PAIR, sequence=number - 1)) for number in (1, 2)
    )
    one, two = target.leave(first), target.leave(second)
    assert one is not None
    assert two is not None
    # the first request went to a node that no longer leads; the engine sends it again
    assert target.answer(second, two)
    assert target.leave(second) is None
    target.play(first)
    target.play(second)
    assert log(target) == [b"1", b"2"]


def test_an_abandoned_batch_does_not_block_later_ones() -> None:
    target = Target(Broker(other, largest=150))
    target.play(recorded_init(0, PAIR))
    found = [recorded_produce(n, batch(b"x" * (100 if n < 2 else 1), pair=PAIR, sequence=n)) for n in range(1, 4)]
    flying = [(each, target.leave(each)) for each in found[:2]]
    target.errors[found[1].origin] = [45]
    assert [target.answer(each, values) for each, values in flying if values] == [False, True]
    assert target.leave(found[2]) is None
    target.producers.lost(found[1], None)
    assert target.play(found[2])


def test_the_same_bytes_keep_their_number_and_are_written_once() -> None:
    target = Target(Broker(other))
    target.play(recorded_init(0, PAIR))
    data = batch(b"1", b"2", pair=PAIR, sequence=7)
    target.play(recorded_produce(1, data))
    target.play(recorded_produce(2, data))
    target.play(recorded_produce(3, batch(b"3", pair=PAIR, sequence=9)))
    assert log(target) == [b"1", b"2", b"3"]
    assert [number for _, _, number in sequences(target)] == [0, 2]


def test_the_same_numbers_with_other_bytes_are_another_batch() -> None:
    target = Target(Broker(other, largest=150))
    target.play(recorded_init(0, PAIR))
    target.play(recorded_produce(1, batch(b"x" * 100, pair=PAIR, sequence=0), code=10))
    target.play(recorded_produce(2, batch(b"y", pair=PAIR, sequence=0)))
    target.play(recorded_produce(3, batch(b"z", pair=PAIR, sequence=1)))
    assert log(target) == [b"y", b"z"]


@pytest.mark.parametrize("pair", [PAIR, (-1, -1)], ids=["idempotent", "plain"])
def test_records_that_only_the_recording_refused_are_not_sent_again(pair: tuple[int, int]) -> None:
    target = Target(Broker(other))
    is_idempotent = pair == PAIR
    if is_idempotent:
        target.play(recorded_init(0, pair))
    whole = recorded_produce(1, batch(b"1", b"2", b"3", pair=pair, sequence=0 if is_idempotent else -1), code=10)
    target.play(whole)
    parts = [
        recorded_produce(n, batch(*values, pair=pair, sequence=first if is_idempotent else -1))
        for n, (values, first) in enumerate([((b"1", b"2"), 0), ((b"3",), 2)], 2)
    ]
    for each in parts:
        assert target.play(each) is None
        assert target.withheld[each.origin].reason is Reason.REPEATED
    target.play(recorded_produce(9, batch(b"3", pair=pair, sequence=3 if is_idempotent else -1)))
    assert log(target) == [b"1", b"2", b"3", b"3"]


@pytest.mark.parametrize("code", [7, 20], ids=["timed out", "too few replicas"])
def test_a_cluster_that_appended_records_in_spite_of_its_error_recognizes_their_retry_by_its_sequence(
    code: int,
) -> None:
    target = Target(Broker(other))
    target.play(recorded_init(0, PAIR))
    target.play(recorded_produce(1, batch(b"1", pair=PAIR, sequence=0), code=code))
    assert target.play(recorded_produce(2, batch(b"1", pair=PAIR, sequence=0), code=code)) is None
    assert target.play(recorded_produce(3, batch(b"1", pair=PAIR, sequence=0))) is None
    assert log(target) == [b"1"]


def test_records_that_the_recording_refused_again_and_again_are_sent_once() -> None:
    target = Target(Broker(other))
    for number, code in enumerate([6, 6, 6, 0]):
        target.play(recorded_produce(number, batch(b"1"), code=code))
    assert [each.reason for each in target.withheld.values()] == [Reason.REPEATED] * 3
    target.play(recorded_produce(9, batch(b"1")))
    assert log(target) == [b"1", b"1"]


def test_a_retry_whose_recorded_answer_is_read_later_is_not_sent_either() -> None:
    target = Target(Broker(other))
    target.play(recorded_produce(0, batch(b"1"), code=6))
    retries = [recorded_produce(number, batch(b"1"), code=code) for number, code in [(1, 6), (2, 0)]]
    for each in retries:
        frame, each.answer_frame, each.answered_ns = each.answer_frame, None, None
        assert target.play(each) is None
        each.take_answer(1, frame)
    assert target.play(recorded_produce(3, batch(b"1"))) is not None
    assert log(target) == [b"1", b"1"]


def test_batches_that_only_the_recording_refused_may_be_repeated_in_one() -> None:
    target = Target(Broker(other))
    for number, value in enumerate([b"1", b"2", b"3"]):
        target.play(recorded_produce(number, batch(value), code=6))
    assert target.play(recorded_produce(4, batch(b"1", b"2", b"3"))) is None
    assert log(target) == [b"1", b"2", b"3"]


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP], ids=str)
def test_only_the_new_records_of_an_extended_retry_are_sent(codec: Compression) -> None:
    target = Target(Broker(other))
    target.play(recorded_produce(1, batch(b"1", b"2"), code=6))
    target.play(recorded_produce(2, batch(b"1", b"2", b"3", codec=codec), code=6))
    target.play(recorded_produce(3, batch(b"1", b"2", b"3", b"4", codec=codec)))
    target.play(recorded_produce(4, batch(b"2", b"4")))
    assert log(target) == [b"1", b"2", b"3", b"4", b"2", b"4"]


def test_all_new_records_of_a_largely_extended_retry_are_sent() -> None:
    target = Target(Broker(other))
    target.play(recorded_produce(1, batch(b"1", b"2"), code=6))
    target.play(recorded_produce(2, batch(*[b"%d" % number for number in range(1, 20_000)])))
    assert log(target) == [b"%d" % number for number in range(1, 20_000)]


def test_a_partition_that_was_sent_is_no_retry_when_its_request_goes_again_for_another_one() -> None:
    target = Target(Broker(other))
    target.play(recorded_init(0, PAIR))
    both = exchange(
        2,
        PRODUCE,
        9,
        produce((*A0, batch(b"1")), ("b", 0, batch(b"2", pair=PAIR, sequence=0))),
        produce_answer(0, A0, ("b", 0)),
    )
    values = target.leave(both)
    # another connection of the client's: its equal record is refused meanwhile
    refused = exchange(1, PRODUCE, 9, produce((*A0, batch(b"1"))), produce_answer(6, A0), connection=2)
    target.play(refused)
    assert values is not None
    assert isinstance(target.translate(both), dict)
    assert not both.dropped


def test_a_repeated_partition_is_left_out_and_the_rest_is_sent() -> None:
    target = Target(Broker(other))
    data = batch(b"1")
    target.play(recorded_produce(1, data, code=6))
    both = exchange(2, PRODUCE, 9, produce((*A0, data), ("b", 0, batch(b"2"))), produce_answer(0, A0, ("b", 0)))
    assert target.play(both)
    assert [(each.topic, each.partition, each.reason) for each in both.dropped] == [("a", 0, Reason.REPEATED)]
    assert written(target.broker) == {A0: [b"1"], ("b", 0): [b"2"]}


def test_refused_records_are_sent_again_in_the_next_transaction() -> None:
    target = Target(Broker(other))
    target.play(recorded_init(0, PAIR, "t"))
    target.play(recorded_produce(1, batch(b"1", pair=PAIR, sequence=0), code=6, name="t", version=12))
    following = (PAIR[0], PAIR[1] + 1)
    target.play(recorded_end(2, PAIR, "t", following))
    assert target.play(recorded_produce(3, batch(b"1", pair=following, sequence=0), name="t", version=12))


@pytest.mark.parametrize("code", [45, 47, 59, 90])
def test_a_producer_that_the_target_alone_refuses_gets_a_made_pair_and_counts_from_0(code: int) -> None:
    target = Target(Broker(other))
    target.play(recorded_init(0, PAIR))
    target.play(recorded_produce(1, batch(b"1", pair=PAIR, sequence=0)))
    refused = recorded_produce(2, batch(b"2", pair=PAIR, sequence=1))
    target.errors[refused.origin] = [code]
    target.play(refused)
    target.play(recorded_produce(3, batch(b"3", pair=PAIR, sequence=2)))
    assert target.again == [refused.origin]
    assert [made.api_key for made in target.made] == [INIT_PRODUCER_ID]
    assert sequences(target) == [(other(0), 0, 0), (other(1), 0, 0), (other(1), 0, 1)]


def test_a_target_that_refuses_every_pair_is_given_up() -> None:
    target = Target(Broker(other))
    refused = recorded_produce(2, batch(b"2", pair=PAIR, sequence=1))
    target.errors[refused.origin] = [59] * 100
    target.play(refused)
    assert len(target.again) < 10


def test_an_error_that_the_recording_has_too_changes_nothing() -> None:
    target = Target(Broker(other))
    target.play(recorded_init(0, PAIR))
    fenced = recorded_produce(1, batch(b"1", pair=PAIR, sequence=0), code=90)
    target.errors[fenced.origin] = [90]
    target.play(fenced)
    assert not target.again
    assert not target.made


def test_a_duplicate_counts_as_taken() -> None:
    target = Target(Broker(other))
    target.play(recorded_init(0, PAIR))
    first = recorded_produce(1, batch(b"1", pair=PAIR, sequence=0), code=6)
    target.errors[first.origin] = [46]
    target.play(first)
    assert target.play(recorded_produce(2, batch(b"1", pair=PAIR, sequence=0))) is None
    following = target.leave(recorded_produce(3, batch(b"2", pair=PAIR, sequence=1)))
    assert following is not None
    (sent,) = records.batches(bytes(following["topic_data"][0]["partition_data"][0]["records"]))
    assert sent.base_sequence == 1


def test_a_retry_of_what_the_target_took_from_a_former_pair_is_not_sent() -> None:
    target = Target(Broker(other))
    target.play(recorded_init(0, PAIR))
    first = batch(b"1", pair=PAIR, sequence=0)
    target.play(recorded_produce(1, first))
    refused = recorded_produce(2, batch(b"2", pair=PAIR, sequence=1))
    target.errors[refused.origin] = [59]
    target.play(refused)
    retry = recorded_produce(3, first)
    assert target.play(retry) is None
    assert target.withheld[retry.origin].reason is Reason.REPEATED
    assert log(target) == [b"1", b"2"]


def test_a_bumped_epoch_that_no_answer_gave_is_as_far_above_the_targets() -> None:
    target = Target(Broker(other))
    target.play(recorded_init(0, PAIR))
    target.play(recorded_produce(1, batch(b"1", pair=(PAIR[0], PAIR[1] + 2), sequence=0)))
    assert sequences(target) == [(other(0), 2, 0)]
    assert not target.made


def test_an_epoch_beyond_the_largest_gets_a_made_pair() -> None:
    target = Target(Broker(other))
    target.play(recorded_init(0, (500, 0)))
    target.producers._known.learn(target.producers._known.of_id(500), (500, 0), (9, 32_767))
    target.play(recorded_produce(1, batch(b"1", pair=(500, 1), sequence=0)))
    assert sequences(target) == [(other(1), 0, 0)]


def test_the_last_two_pairs_of_a_producer_stay() -> None:
    target = Target(Broker(other))
    for number in range(3):
        target.play(recorded_init(number, (500 + number, 0), "t"))
    found = [target.pairs.target(ValueKind.PRODUCER, (500 + number, 0)) for number in range(3)]
    assert found == [None, (other(0), 1), (other(0), 2)]


def test_without_answers_batches_count_as_they_are_sent() -> None:
    target = Target(Broker(other))
    target.play(recorded_init(0, PAIR))
    for number in range(3):
        values = produce((*A0, batch(b"1", pair=PAIR, sequence=number)), acks=0)
        sent = target.play(exchange(number + 1, PRODUCE, 9, values, None, awaits=False))
        assert sent is not None
        target.broker.answer(PRODUCE, 9, sent)
    assert [number for _, _, number in sequences(target)] == [0, 1, 2]
    assert not target.producers._produces._flights
    assert not target.producers._known.of_id(PAIR[0]).sequences[A0]._flying


def joined(number: int, pair: tuple[int, int], name: str = "t") -> Exchange:
    """A recorded AddPartitionsToTxn of a-0."""
    values = {
        "v3_and_below_transactional_id": name,
        "v3_and_below_producer_id": pair[0],
        "v3_and_below_producer_epoch": pair[1],
        "v3_and_below_topics": [{"name": "a", "partitions": [0]}],
    }
    told = [{"name": "a", "results_by_partition": [{"partition_index": 0, "partition_error_code": 0}]}]
    return exchange(
        number, ADD_PARTITIONS_TO_TXN, 3, values, {"throttle_time_ms": 0, "results_by_topic_v3_and_below": told}
    )


@pytest.mark.parametrize("code", [45, 47, 59, 90])
def test_the_rest_of_a_failed_transaction_is_withheld_and_the_next_has_a_made_pair(code: int) -> None:
    target = Target(Broker(other, has_v2=False), V1)
    target.play(recorded_init(0, PAIR, "t"))
    target.play(joined(1, PAIR))
    refused = recorded_produce(2, batch(b"1", pair=PAIR, sequence=0), name="t", version=11)
    target.errors[refused.origin] = [code]
    target.play(refused)
    rest = [recorded_produce(3, batch(b"2", pair=PAIR, sequence=1), name="t", version=11), recorded_end(4, PAIR, "t")]
    assert [target.play(each) for each in rest] == [None, None]
    assert {target.withheld[each.origin].reason for each in rest} == {Reason.NO_TRANSACTION}
    assert target.play(joined(5, PAIR))
    assert target.play(recorded_produce(6, batch(b"3", pair=PAIR, sequence=2), name="t", version=11))
    assert target.play(recorded_end(7, PAIR, "t"))
    assert [made.api_key for made in target.made] == [INIT_PRODUCER_ID]
    assert sequences(target) == [(other(0), 1, 0)]


def test_a_transactional_pair_is_replaced_only_once() -> None:
    target = Target(Broker(other, has_v2=False), V1)
    target.play(recorded_init(0, PAIR, "t"))
    for number in (10, 20):
        added = joined(number, PAIR)
        target.errors[added.origin] = [47]
        target.play(added)
        target.play(recorded_end(number + 1, PAIR, "t"))
    last = joined(30, PAIR)
    assert target.play(last) is None
    assert target.withheld[last.origin].reason is Reason.NO_PRODUCER


def test_with_transactions_v2_the_next_pair_begins_another_transaction_even_after_a_gap() -> None:
    target = Target(Broker(other))
    target.play(recorded_init(0, PAIR, "t"))
    refused = recorded_produce(1, batch(b"1", pair=PAIR, sequence=0), name="t", version=12)
    target.errors[refused.origin] = [90]
    target.play(refused)
    following = (PAIR[0], PAIR[1] + 1)
    assert target.play(recorded_produce(5, batch(b"2", pair=following, sequence=0), name="t", version=12))
    assert log(target) == [b"2"]


def test_a_gap_that_hides_the_end_of_a_transaction_leaves_nothing_open() -> None:
    for is_v2 in (False, True):
        target = Target(Broker(other, has_v2=is_v2), V2 if is_v2 else V1)
        version = 12 if is_v2 else 11
        following = (PAIR[0], PAIR[1] + is_v2)
        target.play(recorded_init(0, PAIR, "t"))
        target.play(recorded_produce(1, batch(b"1", pair=PAIR, sequence=0), name="t", version=version))
        target.play(recorded_produce(5, batch(b"2", pair=following, sequence=1 - is_v2), name="t", version=version))
        target.play(recorded_end(6, following, "t", (500, 9) if is_v2 else None))
        assert not target.broker.transactions["t"].partitions
        assert not target.producers.finish()


def test_transactions_v2_on_a_target_without_them_are_made_ones_of_v1_and_the_pair_stays() -> None:
    target = Target(Broker(other, has_v2=False), V1)
    following = (PAIR[0], PAIR[1] + 1)
    target.play(recorded_init(0, PAIR, "t"))
    target.play(recorded_produce(1, batch(b"1", pair=PAIR, sequence=0), name="t", version=12))
    target.play(recorded_end(2, PAIR, "t", following))
    target.play(recorded_produce(3, batch(b"2", pair=following, sequence=0), name="t", version=12))
    assert [made.api_key for made in target.made] == [ADD_PARTITIONS_TO_TXN] * 2
    assert sequences(target) == [(other(0), 0, 0), (other(0), 0, 1)]


def test_an_empty_end_is_not_sent_to_a_target_without_transactions_v2() -> None:
    target = Target(Broker(other, has_v2=False), V1)
    target.play(recorded_init(0, PAIR, "t"))
    following = (PAIR[0], PAIR[1] + 1)
    empty = recorded_end(1, PAIR, "t", following)
    assert target.play(empty) is None
    assert target.withheld[empty.origin].reason is Reason.NO_TRANSACTION
    target.play(recorded_produce(2, batch(b"1", pair=following, sequence=0), name="t", version=12))
    assert sequences(target) == [(other(0), 0, 0)]


def test_an_end_that_quotes_a_pair_before_the_last_is_sent_for_the_target_to_refuse() -> None:
    target = Target(Broker(other, has_v2=False), V1)
    target.play(recorded_init(0, PAIR, "t"))
    target.play(recorded_init(1, (PAIR[0], PAIR[1] + 2), "t"))
    fenced = recorded_end(2, PAIR, "t")
    assert target.leave(fenced) is not None
    assert not target.withheld


def test_a_pair_that_no_answer_gave_is_withheld_at_once_from_a_target_without_init_producer_id() -> None:
    target = Target(Broker(other))
    target.newest[INIT_PRODUCER_ID] = None  # type: ignore[assignment]
    target.chosen = lambda api_key, version: target.newest[api_key]  # type: ignore[method-assign]
    target.__post_init__()
    found = target.translate(recorded_produce(1, batch(b"1", pair=PAIR, sequence=0)))
    assert isinstance(found, Withheld)
    assert found.reason is Reason.NO_PRODUCER
    assert not target.made


def test_a_target_without_transactions_v2_is_not_expected_to_give_a_pair() -> None:
    given = {"throttle_time_ms": 0, "error_code": 0, "producer_id": -1, "producer_epoch": -1}
    assert without_default_pair(END_TXN, 4, given) == {"throttle_time_ms": 0, "error_code": 0}
    assert without_default_pair(END_TXN, 5, given) == given
    assert without_default_pair(INIT_PRODUCER_ID, 4, given) == given


def described(*states: str) -> Values:
    """A response to DescribeTransactions."""
    each = {"error_code": 0, "transactional_id": "t", "transaction_timeout_ms": 1, "transaction_start_time_ms": 1}
    each |= {"producer_id": 1, "producer_epoch": 1, "topics": []}
    return {"throttle_time_ms": 0, "transaction_states": [each | {"transaction_state": state} for state in states]}


def test_a_transaction_is_described_again_until_its_markers_are_written() -> None:
    target = Target(Broker(other))
    values = {"transactional_ids": ["t"]}
    recorded = exchange(1, DESCRIBE_TRANSACTIONS, 0, values, described("CompleteCommit"))
    assert isinstance(target.producers.answered(recorded, values, described("PrepareCommit"), 0), Resend)
    assert target.producers.answered(recorded, values, described("CompleteCommit"), 0) is None
    unfinished = exchange(2, DESCRIBE_TRANSACTIONS, 0, values, described("PrepareCommit"))
    assert target.producers.answered(unfinished, values, described("PrepareCommit"), 0) is None


def test_behind_an_end_whose_answer_was_lost_partitions_join_once_more() -> None:
    target = Target(Broker(other, has_v2=False), V1)
    target.play(recorded_init(0, PAIR, "t"))
    target.play(recorded_produce(1, batch(b"1", pair=PAIR, sequence=0), name="t", version=12))
    ends = recorded_end(2, PAIR, "t")
    values = target.leave(ends)
    assert values is not None
    target.broker.answer(END_TXN, 4, values)
    target.producers.lost(ends, values)
    target.play(recorded_produce(3, batch(b"2", pair=PAIR, sequence=1), name="t", version=12))
    assert log(target) == [b"1", b"2"]


def test_at_the_end_open_transactions_are_aborted() -> None:
    target = Target(Broker(other), options=Options(prefix="p-"))
    target.play(recorded_init(0, PAIR, "t"))
    target.play(recorded_produce(1, batch(b"1", pair=PAIR, sequence=0), name="t", version=12))
    (made,) = target.producers.finish()
    target.make(made)
    assert made.values["committed"] is False
    assert not target.broker.transactions["p-t"].partitions
    assert target.producers.finish() == []


def test_below_the_recorded_speed_transactions_may_take_longer() -> None:
    for speed, timeout in ((0.5, 2000), (1.0, 1000), (2.0, 1000), (0.0001, 900_000)):
        target = Target(Broker(other), options=Options(speed=speed))
        sent = target.play(recorded_init(0, PAIR, "t"))
        assert sent is not None
        assert sent["transaction_timeout_ms"] == timeout


def test_a_made_request_is_made_once_and_again_with_pauses_while_its_error_passes() -> None:
    target = Target(Broker(other))
    each = recorded_produce(1, batch(b"1", pair=PAIR, sequence=0))
    found = target.producers.request(each, each.decoded(), 0)
    assert isinstance(found, AskFirst)
    assert isinstance(target.producers.request(each, each.decoded(), 0), Hold)
    found.made[0].done({"error_code": 15, "producer_id": -1, "producer_epoch": -1})
    assert isinstance(target.producers.request(each, each.decoded(), 0), Hold)
    found = target.producers.request(each, each.decoded(), SECOND)
    assert isinstance(found, AskFirst)
    found.made[0].done({"error_code": 53, "producer_id": -1, "producer_epoch": -1})
    refused = target.producers.request(each, each.decoded(), 2 * SECOND)
    assert refused == Withheld(Reason.NO_PRODUCER, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED")
