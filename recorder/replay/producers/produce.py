"""Translates Produce: each batch gets the target's pair of id and epoch, and a sequence of the replay's own count.

Retries of records that the target has taken already are not sent. Depending on the target's answer:

    taken, but the recording refused it     a later retry of these records is not sent (`repeats`), unless the recorded
                                            cluster had appended them and takes a retry for new records. No client
                                            retries after errors that will not pass
    46                                      counts as taken: the target had the batch before
    45 behind a refused batch               sent again with a new sequence (`sequences`)
    other 45, 47, 59, 90                    without transactional id: sent again with a made pair, counted from 0;
                                            with one: the transaction has failed
    other errors                            refused, except errors after which the records may be in the log
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from proxy.wire import Malformed
from proxy.wire.error_codes import kafka_error
from proxy.wire.keys import PRODUCE
from proxy.wire.places import Partition
from proxy.wire.primitives import Buffer
from proxy.wire.records import Batch
from recorder.replay import partitions
from recorder.replay.messages import batches, record_count
from recorder.replay.names import Names
from recorder.replay.partitions import Topic, TopicPartition
from recorder.replay.plan import Exchange, Hold, Origin, Reason, Refusal, Resend, Values, Withheld
from recorder.replay.producers.producer_pairs import ProducerPairs
from recorder.replay.producers.repeats import Key, Repeats, are_new
from recorder.replay.producers.sequences import LARGEST, Batches, Pair, Sequences
from recorder.replay.producers.transactions import Producer
from recorder.replay.versions.batches import Numbering, Records, picked, renumbered

OUT_OF_ORDER, DUPLICATE = 45, 46
# The target does not know the producer, or knows a later epoch of it. So does 45 if no batch in flight is ahead.
FENCED = frozenset({47, 59, 90})
TAKEN = frozenset({0, DUPLICATE})
# Errors after which the records may be in the log: unknown error, timeout, network error, too few replicas after the
# append.
_OPEN = frozenset({-1, 7, 13, 20})
# Errors after which the leader has appended the records: timeout, too few replicas after the append.
_APPENDED = frozenset({7, 20})
# Errors that are not retriable, after which clients send the records again nevertheless: split, if their batch was too
# large; with another epoch, if the cluster did not know the sequence.
_TOO_LARGE = 10
_OF_SEQUENCES = FENCED | {OUT_OF_ORDER}
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


class _Sent(NamedTuple):
    numbered: _Numbered
    pair: Pair
    base: int


@dataclass
class _Flight:
    """One exchange.

    Attributes:
        producer: of its transactional id.
        written: batches as last translated; `sent`: batches in flight, or to be sent again.
        left: partitions that were sent, at least once.
        repeated: partitions left out as retries; `rest`: new records of partitions whose other ones are retries.
        retried: keys of both.
        owed: partitions that the target took and the recording refused.
        rounds: how often a part of it was sent again.
    """

    producer: Producer | None = None
    written: dict[TopicPartition, _Sent] = field(default_factory=dict)
    sent: dict[TopicPartition, _Sent] = field(default_factory=dict)
    left: set[TopicPartition] = field(default_factory=set)
    repeated: set[TopicPartition] = field(default_factory=set)
    rest: dict[TopicPartition, Records] = field(default_factory=dict)
    retried: set[Key] = field(default_factory=set)
    owed: set[TopicPartition] = field(default_factory=set)
    rounds: int = 0


class ProduceTranslator:
    """The Produce requests of one replay."""

    def __init__(self, names: Names, known: ProducerPairs) -> None:
        self._names, self._known = names, known
        self._repeats = Repeats(self._is_over)
        self._flights: dict[Origin, _Flight] = {}

    def request(self, exchange: Exchange, values: Values, now: int, producer: Producer | None) -> Refusal | None:
        """Writes the target's pairs and sequences. `producer`: of the transactional id."""
        flight = self._flights.setdefault(exchange.origin, _Flight(producer))
        flight.written.clear()
        may_repeat = flight.repeated or flight.rest or not self._repeats.is_empty
        if may_repeat and not self._drop_repeats(exchange, values, flight):
            return Withheld(Reason.REPEATED)
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
        flight.left.update(left)
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
        flight = self._flights.pop(exchange.origin, _Flight())
        self._settle_repeats(flight)
        recorded_codes = partitions.errors(PRODUCE, exchange.answer, self._names.topic)
        target_codes = partitions.errors(PRODUCE, answer, self._names.recorded_topic)
        taken = {place for place, code in target_codes.items() if code in TAKEN}
        new = {place: code for place, code in recorded_codes.items() if code not in TAKEN and place in taken}
        if new:
            self._owe(exchange, {place: new[place] for place in new.keys() - flight.owed}, answer, flight.producer)
        may_renew = flight.rounds < _MOST_ROUNDS
        again = {
            place: sent
            for place, sent in flight.sent.items()
            if self._goes_again(exchange.origin, sent, target_codes.get(place), recorded_codes.get(place, 0), may_renew)
        }
        if not again:
            return None
        flight.sent, flight.owed, flight.rounds = again, flight.owed | new.keys(), flight.rounds + 1
        flight.written.clear()
        self._flights[exchange.origin] = flight
        return Resend(frozenset(self._named(answer, again)))

    def unretried(self, place: TopicPartition, at_ns: int) -> int | None:
        """The target's lowest offset of records that the recording has refused and not taken yet, but may still take.

        `at_ns`: the recorded time. None: there are none.
        """
        return self._repeats.lowest(*place, at_ns)

    @property
    def forgotten_repeats(self) -> int:
        """Refused records of which a retry would be sent, because the replay remembers only so many."""
        return self._repeats.forgotten

    def retry_known(self, exchange: Exchange) -> None:
        """The recorded answer to a Produce with retries was read."""
        self._repeats.settle_retry(exchange)

    def forget_topic(self, topic: str) -> None:
        """A topic was deleted on the target, with the records that retries would repeat. `topic`: its recorded name."""
        self._repeats.forget_topic(topic)

    def lost(self, exchange: Exchange) -> None:
        """No answer will come."""
        flight = self._flights.pop(exchange.origin, _Flight())
        self._settle_repeats(flight)
        for sent in [*flight.written.values(), *flight.sent.values()]:
            sent.numbered.sequences.lost(exchange.origin)

    def end(self, producer: Producer) -> None:
        """A transaction ends: the next one may contain its refused records again."""
        for place in producer.refused:
            self._repeats.forget(place)
        producer.refused.clear()

    def _drop_repeats(self, exchange: Exchange, values: Values, flight: _Flight) -> bool:
        """Leaves out retries. False if nothing is left."""
        name = values.get("transactional_id")
        return partitions.drop(exchange, values, lambda each: self._repeat(exchange, name, flight, each))

    def _repeat(
        self, exchange: Exchange, transactional_id: str | None, flight: _Flight, each: Partition
    ) -> Reason | None:
        topic = self._names.topic(each.topic)
        if topic is None or not each.values["records"]:
            return None
        place = topic, each.partition
        if not (place in flight.repeated or place in flight.rest or place in flight.left):
            key = Key(exchange.peer, transactional_id, *place, _is_plain(each.values["records"]))
            self._find_repeats(exchange, key, flight, each.values["records"])
        each.values["records"] = flight.rest.get(place, each.values["records"])
        return Reason.REPEATED if place in flight.repeated else None

    def _find_repeats(self, exchange: Exchange, key: Key, flight: _Flight, data: Buffer) -> None:
        """Finds the records that are retries."""
        found = self._repeats.take(key, data, exchange)
        if not found:
            return
        place = key.place
        flight.retried.add(key)
        exchange.repeated[place] = found
        rest = picked(data, are_new(found)) if key.is_plain else b""
        if rest:
            flight.rest[place] = rest
        else:
            flight.repeated.add(place)

    def _settle_repeats(self, flight: _Flight) -> None:
        """Looks whether the recorded cluster took a retry, now that its answer is at hand, if it was read."""
        for key in flight.retried:
            self._repeats.settle(key)

    def _is_over(self, exchange: Exchange, key: Key, length: int) -> bool:
        code = partitions.errors(PRODUCE, exchange.answer, self._names.topic).get(key.place)
        return code is not None and not _is_retried(code, length, is_plain=key.is_plain)

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
        self, exchange: Exchange, values: Values, flight: _Flight, found: list[_Numbered], now: int
    ) -> Refusal | None:
        for each in found:
            stays = exchange.version >= 12 and not self._known.is_v2(PRODUCE, exchange.version)
            pair = self._known.pair(each.producer, each.recorded, now, stays=stays)
            if not isinstance(pair, tuple):
                return pair
            base = each.sequences.number(exchange.origin, each.batches, pair)
            if base is None:
                flight.repeated.add(each.place)
            else:
                flight.written[each.place] = _Sent(each, pair, base)
                each.asked.values["records"] = _written(each.asked.values["records"], pair, base)
        if not flight.repeated or self._without_repeats(exchange, values, flight):
            return None
        return Withheld(Reason.REPEATED)

    def _without_repeats(self, exchange: Exchange, values: Values, flight: _Flight) -> bool:
        def reason(each: Partition) -> Reason | None:
            return Reason.REPEATED if (self._names.topic(each.topic), each.partition) in flight.repeated else None

        return partitions.drop(exchange, values, reason)

    def _owe(
        self, exchange: Exchange, refused: Mapping[TopicPartition, int], answer: Values, producer: Producer | None
    ) -> None:
        """Notes records that the target has taken and the recording refused. `refused`: the errors of partitions."""
        request = exchange.decoded() if refused else {}
        taken = self._target_places(partitions.in_answer(PRODUCE, answer)) if refused else {}
        for each in partitions.in_request(PRODUCE, request):
            place, data = (self._names.topic(each.topic) or "", each.partition), each.values["records"]
            if place not in refused or not data:
                continue
            key = Key(exchange.peer, request.get("transactional_id"), *place, _is_plain(data))
            if not _is_retried(refused[place], record_count(data), is_plain=key.is_plain):
                continue
            self._repeats.refused(key, data, exchange, taken[place]["base_offset"], exchange.repeated.get(place, ()))
            if producer is not None:
                producer.refused.add(key)

    def _goes_again(self, origin: Origin, sent: _Sent, code: int | None, recorded: int, may_renew: bool) -> bool:
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

    def _is_renewed(self, origin: Origin, sent: _Sent, may_renew: bool) -> bool:
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


def _is_retried(code: int, length: int, *, is_plain: bool) -> bool:
    """True if clients send records again after this error of a partition, and the cluster does not have them yet.

    `length`: how many records they are; a single one can't be split. `is_plain`: the records have no sequence, so that
    the cluster takes a retry for new records.
    """
    if is_plain and code in _APPENDED:
        return False
    if code == _TOO_LARGE:
        return length > 1
    return kafka_error(code).retriable or (not is_plain and code in _OF_SEQUENCES)


def _is_plain(data: Buffer) -> bool:
    """True for batches without a producer: a cluster does not recognize their retries."""
    return all(batch.producer_id < 0 for batch in batches(data))


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
