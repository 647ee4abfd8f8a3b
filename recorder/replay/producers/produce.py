"""Translates Produce: each batch gets the target's pair of id and epoch, and a sequence of the replay's own count.

Bytes that the target has taken with a former pair are not sent again. Depending on the target's answer:

    46                                      counts as taken: the target had the batch before
    45 behind a refused batch               sent again with a new sequence (`sequences`)
    other 45, 47, 59, 90                    without transactional id: sent again with a made pair, counted from 0;
                                            with one: the transaction has failed
    other errors                            refused, except errors after which the records may be in the log

Where no recorded answer tells whether the records are in the recorded log, its client may have sent them twice. The
target tells batches with a sequence apart. Other records are counted by topic: they may be there twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from proxy.wire import Malformed
from proxy.wire.keys import PRODUCE
from proxy.wire.places import Partition
from proxy.wire.primitives import Buffer
from proxy.wire.records import Batch
from recorder.replay import partitions
from recorder.replay.messages import batches, record_count
from recorder.replay.names import Names
from recorder.replay.partitions import Topic, TopicPartition
from recorder.replay.plan import Exchange, Hold, NotSent, Origin, Reason, Resend, Values, Withheld
from recorder.replay.producers.producer_pairs import ProducerPairs
from recorder.replay.producers.sequences import LARGEST, Batches, Pair, Sequences
from recorder.replay.producers.transactions import Producer
from recorder.replay.requests.order import producers
from recorder.replay.requests.refused_parts import MAYBE_WRITTEN
from recorder.replay.versions.batches import Numbering, Records, renumbered

OUT_OF_ORDER, DUPLICATE = 45, 46
# The target does not know the producer, or knows a later epoch of it. So does 45 if no batch in flight is ahead.
FENCED = frozenset({47, 59, 90})
TAKEN = frozenset({0, DUPLICATE})
# Errors after which the records may be in the log: unknown error, timeout, network error, too few replicas after the
# append.
_OPEN = frozenset({-1, 7, 13, 20})
# Times that an exchange is sent again before a target is given up that refuses each new pair.
_MOST_ROUNDS = 5


class _Numbered(NamedTuple):
    """Batches of one partition that have a producer."""

    asked: Partition
    place: TopicPartition
    recorded: Pair
    batches: Batches
    producer: Producer

    @property
    def sequences(self) -> Sequences:
        return self.producer.sequences.setdefault(self.place, Sequences())


class _SentBatches(NamedTuple):
    numbered: _Numbered
    pair: Pair
    base: int


@dataclass
class _ProduceFlight:
    """One exchange.

    Attributes:
        producer: of its transactional id.
        written: batches as last translated; `sent`: batches in flight, or to be sent again.
        rounds: how often a part of it was sent again.
    """

    producer: Producer | None = None
    written: dict[TopicPartition, _SentBatches] = field(default_factory=dict)
    sent: dict[TopicPartition, _SentBatches] = field(default_factory=dict)
    rounds: int = 0


class ProduceTranslator:
    """The Produce requests of one replay.

    Attributes:
        maybe_twice: records that may be on the target twice, by recorded topic.
    """

    def __init__(self, names: Names, known: ProducerPairs) -> None:
        self._names, self._known = names, known
        self.maybe_twice = Counter[str]()
        self._flights: dict[Origin, _ProduceFlight] = {}

    def request(self, exchange: Exchange, values: Values, now: int, producer: Producer | None) -> NotSent | None:
        """Writes the target's pairs and sequences. `producer`: of the transactional id."""
        flight = self._flights.setdefault(exchange.origin, _ProduceFlight(producer))
        flight.written.clear()
        asked = partitions.in_request(PRODUCE, values)
        found = [numbered for each in asked if (numbered := self._numbered(each, producer))]
        if not all(each.sequences.may_leave(exchange.origin) for each in found):
            return Hold(Reason.GAVE_UP)
        return self._write(exchange, values, flight, found, now)

    def pairs(self, exchange: Exchange) -> dict[TopicPartition, Pair]:
        """The target's pair of each partition, as last translated."""
        return {place: each.pair for place, each in self._flights[exchange.origin].written.items()}

    def sent(self, exchange: Exchange, values: Values) -> None:
        """The request leaves: its sequences are used."""
        flight = self._flights[exchange.origin]
        left = self._target_places(partitions.in_request(PRODUCE, values))
        for place, each in flight.written.items():
            if place in left:
                flight.sent[place] = each
                numbered = each.numbered
                numbered.sequences.sent(exchange.origin, numbered.batches, each.pair, each.base, awaits=exchange.awaits)
        if flight.producer is not None:
            flight.producer.open_as = next(reversed(flight.producer.pairs.values()), None)
        if not exchange.awaits:
            del self._flights[exchange.origin]

    def answered(self, exchange: Exchange, answer: Values) -> Resend | None:
        """Both sides have answered: learns what was taken. Returns partitions to send again."""
        flight = self._flights.pop(exchange.origin, _ProduceFlight())
        recorded_codes = partitions.errors(PRODUCE, exchange.answer, self._names.topic)
        target_codes = partitions.errors(PRODUCE, answer, self._names.recorded_topic)
        may_renew = flight.rounds < _MOST_ROUNDS
        again = {
            place: sent
            for place, sent in flight.sent.items()
            if self._goes_again(exchange.origin, sent, target_codes.get(place), recorded_codes.get(place, 0), may_renew)
        }
        if not again:
            taken = [place for place, code in target_codes.items() if code in TAKEN]
            self._count_unknown(exchange, recorded_codes, taken)
            return None
        flight.sent, flight.rounds = again, flight.rounds + 1
        flight.written.clear()
        self._flights[exchange.origin] = flight
        return Resend(frozenset(self._named(answer, again)))

    def lost(self, exchange: Exchange, values: Values | None) -> None:
        """No answer will come. `values`: as sent; None: it was not sent."""
        flight = self._flights.pop(exchange.origin, _ProduceFlight())
        recorded_codes = partitions.errors(PRODUCE, exchange.answer, self._names.topic)
        self._count_unknown(exchange, recorded_codes, self._target_places(partitions.in_request(PRODUCE, values or {})))
        for sent in [*flight.written.values(), *flight.sent.values()]:
            sent.numbered.sequences.lost(exchange.origin)

    def _count_unknown(
        self, exchange: Exchange, codes: Mapping[TopicPartition, int], places: Container[TopicPartition]
    ) -> None:
        """Counts records without a sequence of which no recorded answer tells whether they are in the recorded log.

        `codes`: of the recorded answer. `places`: the partitions that the target may have them in.
        """
        if not (exchange.cut_ns is not None or MAYBE_WRITTEN & {*codes.values()}):
            return
        for each in partitions.in_request(PRODUCE, exchange.request):
            place, data = (self._names.topic(each.topic) or "", each.partition), each.values["records"]
            is_unknown = exchange.cut_ns is not None or codes.get(place) in MAYBE_WRITTEN
            if is_unknown and place in places and data and not producers(data):
                self.maybe_twice[place[0]] += record_count(data)

    def _numbered(self, asked: Partition, transactional: Producer | None) -> _Numbered | None:
        topic, found = self._names.topic(asked.topic), batches(asked.values["records"])
        pairs = {(batch.producer_id, batch.producer_epoch) for batch in found if batch.producer_id >= 0}
        if topic is None or not pairs:
            return None
        if len(pairs) > 1 or any(batch.magic < 2 for batch in found):
            raise Malformed("batches of several producers for one partition", api="Produce")
        (recorded,) = pairs
        identity = tuple((batch.crc, batch.base_sequence, batch.end - batch.start) for batch in found)
        count = sum(map(_length, found))
        producer = transactional or self._known.of_id(recorded[0])
        return _Numbered(asked, (topic, asked.partition), recorded, Batches(identity, count), producer)

    def _write(
        self, exchange: Exchange, values: Values, flight: _ProduceFlight, found: list[_Numbered], now: int
    ) -> NotSent | None:
        repeated: set[TopicPartition] = set()
        for each in found:
            stays = exchange.version >= 12 and not self._known.is_v2(PRODUCE, exchange.version)
            pair = self._known.pair(each.producer, each.recorded, now, stays=stays)
            if not isinstance(pair, tuple):
                return pair
            base = each.sequences.number(exchange.origin, each.batches, pair)
            if base is None:
                repeated.add(each.place)
            else:
                flight.written[each.place] = _SentBatches(each, pair, base)
                each.asked.values["records"] = _written(each.asked.values["records"], pair, base)

        def reason(each: Partition) -> Reason | None:
            return Reason.REPEATED if (self._names.topic(each.topic), each.partition) in repeated else None

        is_left = not repeated or partitions.drop(exchange, values, reason)
        return None if is_left else Withheld(Reason.REPEATED)

    def _goes_again(self, origin: Origin, sent: _SentBatches, code: int | None, recorded: int, may_renew: bool) -> bool:
        sequences = sent.numbered.sequences
        if code is None or code in _OPEN:
            sequences.lost(origin)
        elif code in TAKEN:
            sequences.taken(origin)
        elif code == OUT_OF_ORDER and recorded != OUT_OF_ORDER and sequences.goes_again(origin):
            return True
        elif (code in FENCED or code == OUT_OF_ORDER) and recorded not in FENCED and recorded != OUT_OF_ORDER:
            return self._is_renewed(origin, sent, may_renew)
        else:
            sequences.refused(origin)
        return False

    def _is_renewed(self, origin: Origin, sent: _SentBatches, may_renew: bool) -> bool:
        numbered = sent.numbered
        producer = numbered.producer
        is_current = producer.pairs.get(numbered.recorded) == sent.pair
        if producer.transactional_id is not None:
            self._known.fail(producer, numbered.recorded)
        elif may_renew:
            if is_current:
                self._known.renew(producer, numbered.recorded)
            numbered.sequences.renew(origin)
            return True
        numbered.sequences.refused(origin)
        return False

    def _target_places(self, found: list[Partition]) -> dict[TopicPartition, Values]:
        """The values of the target's partitions, by recorded topic."""
        named = ((self._names.recorded_topic(each.topic), each) for each in found)
        return {(topic, each.partition): each.values for topic, each in named if topic is not None}

    def _named(self, answer: Values, places: Container[TopicPartition]) -> list[tuple[Topic, int]]:
        found = [(each.topic, each.partition) for each in partitions.in_answer(PRODUCE, answer)]
        return [key for key in found if (self._names.recorded_topic(key[0]), key[1]) in places]


def _written(data: Buffer, pair: Pair, base: int) -> Records:
    """The batches of a partition with another pair, their sequences counted from `base`."""
    numberings = []
    for batch in batches(data):
        numberings.append(Numbering(*pair, base))
        base = (base + _length(batch)) & LARGEST
    return renumbered(data, numberings)


def _length(batch: Batch) -> int:
    """The number of sequences that a batch takes: one for each offset, as brokers count."""
    return batch.last_offset - (batch.base_offset or 0) + 1
