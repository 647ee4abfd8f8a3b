"""A target for tests of producers: it plays exchanges to a broker that assigns other values."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from proxy.wire import records
from proxy.wire.keys import ADD_PARTITIONS_TO_TXN, END_TXN, PRODUCE
from recorder.replay.cluster import Cluster
from recorder.replay.mapping import Pairs
from recorder.replay.options import Options
from recorder.replay.plan import (
    AnsweredBefore,
    AskFirst,
    Exchange,
    Hold,
    MadeRequest,
    NotSent,
    Origin,
    Resend,
    Values,
    Withheld,
)
from recorder.replay.producers.producers import Producers
from tests.recorder.replay.producers.producer_exchanges import A0, V2, produce_answer
from tests.recorder.replay.simulated import Broker, Place, exchange, names, passed, prefixed


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
            refused: NotSent | None = self.producers.request(each, values, self.now)
            if refused is None:
                return prefixed(values, self.options.prefix)  # type: ignore[no-any-return]
            assert not isinstance(refused, AnsweredBefore)
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


def written(broker: Broker) -> dict[Place, list[bytes]]:
    """Returns the values of the records in each partition's log."""
    return {
        (topic.removeprefix("p-"), index): [record.value or b"" for _, data in found for record in records.read(data)]
        for (topic, index), found in broker.log.items()
        if found
    }


def log(target: Target) -> list[bytes]:
    """Returns the values in the target's a-0."""
    return written(target.broker).get(A0, [])


def sequences(target: Target) -> list[tuple[int, int, int]]:
    """Returns id, epoch and sequence of each batch in the target's a-0."""
    found = [next(iter(records.batches(data))) for _, data in target.broker.log[A0]]
    return [(each.producer_id, each.producer_epoch, each.base_sequence) for each in found]
