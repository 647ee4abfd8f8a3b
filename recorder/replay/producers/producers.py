"""Translates producers: ids and epochs, base sequences, transactions of both versions.

A request quotes the recorded pair of id and epoch, which is replaced by the target's (`producer_pairs`); batches get
sequences of the replay's own count (`sequences`, by `produce`). Transactions:

    v1 on the target   partitions and groups join by AddPartitionsToTxn and AddOffsetsToTxn: recorded ones, or made ones
                       where the recording used v2, or where its own are not in the capture. An EndTxn of an empty
                       transaction is not sent
    v2 on both         partitions join by being produced to; EndTxn gives the next pair. A commit of an empty
                       transaction is not sent
    refused            the target fences the producer (45, 47, 59, 90) where the recording did not: the transaction's
                       rest is withheld, and the next one begins with a made pair, which aborts this one
    at the end         open transactions are aborted
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from proxy.wire import WireError
from proxy.wire.error_codes import kafka_error
from proxy.wire.keys import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    DESCRIBE_TRANSACTIONS,
    END_TXN,
    INIT_PRODUCER_ID,
    PRODUCE,
    TXN_OFFSET_COMMIT,
)
from recorder.replay import partitions
from recorder.replay.cluster import Cluster
from recorder.replay.mapping import Pairs
from recorder.replay.names import Names
from recorder.replay.options import Options
from recorder.replay.partitions import TopicPartition
from recorder.replay.plan import NO_ANSWER, Exchange, MadeRequest, NotSent, Reason, Resend, Values, Withheld
from recorder.replay.producers.produce import FENCED, OUT_OF_ORDER, ProduceTranslator
from recorder.replay.producers.producer_pairs import Chosen, ProducerPairs, pair_of
from recorder.replay.producers.sequences import Pair
from recorder.replay.producers.transactions import NO_PAIR, Producer, made_abort, made_offsets, made_partitions
from recorder.replay.translator import Translator
from recorder.replay.versions.choosing import TRANSACTIONS_V2

_FATAL = FENCED | {OUT_OF_ORDER}
# The brokers' default limit (transaction.max.timeout.ms): a lengthened timeout stays within it.
_LONGEST_TIMEOUT_MS = 900_000
# Requests that open a transaction on the target. So does Produce.
_OPENING = frozenset({ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN, TXN_OFFSET_COMMIT})
# states of a transaction whose EndTxn was answered and whose markers are not all written
_ENDING = frozenset({"PrepareCommit", "PrepareAbort"})
_BELOW_4 = "v3_and_below_"


class _Rules(NamedTuple):
    request: Callable[[Exchange, Values, int], NotSent | None]
    answered: Callable[[Exchange, Values], Resend | None]


class Producers(Translator):
    """Translates requests of producers.

    Args:
        pairs: gets the pairs of What.PRODUCER: (id, epoch) -> (id, epoch).
        chosen: api key, recorded version -> the version for the target, None if it has none.
    """

    def __init__(self, names: Names, cluster: Cluster, pairs: Pairs, options: Options, chosen: Chosen) -> None:
        self._names, self._speed = names, options.speed
        self._known = ProducerPairs(names, cluster, pairs, chosen)
        self._produces = ProduceTranslator(names, self._known)
        self._rules = {
            PRODUCE: _Rules(self._produce, self._produced),
            INIT_PRODUCER_ID: _Rules(self._init, self._initialised),
            ADD_PARTITIONS_TO_TXN: _Rules(self._add, self._partitions_added),
            ADD_OFFSETS_TO_TXN: _Rules(self._add, self._group_added),
            TXN_OFFSET_COMMIT: _Rules(self._commit, self._committed),
            END_TXN: _Rules(self._end, self._ended),
            DESCRIBE_TRANSACTIONS: _Rules(_as_it_is, _described),
        }

    def concerns(self, api_key: int, version: int) -> bool:
        """True for APIs that this room translates."""
        return api_key in self._rules

    def request(self, exchange: Exchange, values: Values, now: int) -> NotSent | None:
        """Writes the target's pairs and sequences into a recorded request. Errors: WireError for unreadable batches."""
        rules = self._rules.get(exchange.api_key)
        return rules.request(exchange, values, now) if rules else None

    def sent(self, exchange: Exchange, values: Values, now: int) -> None:
        """A request leaves: its sequences are used, its transaction is open."""
        if exchange.api_key == PRODUCE:
            self._produces.sent(exchange, values)
        producer = self._producer_of(exchange) if exchange.api_key in _OPENING else None
        if producer is not None:
            producer.open_as = next(reversed(producer.pairs.values()), None)

    def answered(self, exchange: Exchange, values: Values, answer: Values, now: int) -> Resend | None:
        """Both sides have answered: learns pairs, and what the target alone refused."""
        rules = self._rules.get(exchange.api_key)
        return rules.answered(exchange, answer) if rules else None

    def lost(self, exchange: Exchange, values: Values | None) -> None:
        """No answer will come. A failed transaction is over with its EndTxn, which is withheld."""
        if exchange.api_key == PRODUCE:
            self._produces.lost(exchange, values)
        elif exchange.api_key == END_TXN:
            # an EndTxn that can't be read ends no transaction
            with suppress(WireError):
                self._end_lost(self._producer_of(exchange), has_left=values is not None)

    def finish(self) -> list[MadeRequest]:
        """An EndTxn for each transaction that is open on the target, once."""
        open_ones = [one for one in self._known.transactional.values() if one.open_as is not None]
        return [self._abort(producer, producer.open_as) for producer in open_ones if producer.open_as is not None]

    @property
    def maybe_twice(self) -> Counter[str]:
        """Records that may be on the target twice, by recorded topic."""
        return self._produces.maybe_twice

    def abort_failures(self) -> list[str]:
        """Transactions whose abort at the end did not succeed, and why."""
        producers = self._known.transactional.values()
        return [
            f"transaction {self._target_id(one)} (EndTxn: {one.abort_failure})"
            for one in producers
            if one.abort_failure
        ]

    def _abort(self, producer: Producer, pair: Pair) -> MadeRequest:
        def done(answer: Values | None) -> None:
            if answer is not None:
                code = answer["error_code"]
                producer.abort_failure = kafka_error(code).name if code else ""

        producer.end((pair, False))
        producer.abort_failure = NO_ANSWER
        return made_abort(self._target_id(producer), pair, done)

    # requests

    def _produce(self, exchange: Exchange, values: Values, now: int) -> NotSent | None:
        producer = self._producer(values.get("transactional_id"))
        if producer is None:
            return self._produces.request(exchange, values, now, None)
        # translated first: partitions that are left out must not join the transaction
        not_sent = self._produces.request(exchange, values, now, producer)
        if not_sent is not None or self._known.is_v2(PRODUCE, exchange.version):
            return not_sent
        pairs = self._produces.pairs(exchange)
        missing = sorted(pairs.keys() - producer.partitions)
        return self._join(producer, pairs[missing[0]], missing, now) if missing else None

    def _init(self, exchange: Exchange, values: Values, now: int) -> NotSent | None:
        producer = self._producer(values["transactional_id"])
        values["transaction_timeout_ms"] = self._stretched(values["transaction_timeout_ms"])
        recorded = pair_of(values)
        if producer is not None:
            producer.timeout_ms, producer.failed = values["transaction_timeout_ms"], None
        if recorded != NO_PAIR:
            # an unknown pair is sent as none: the answer gives another
            known = producer or self._known.of_id(recorded[0])
            values["producer_id"], values["producer_epoch"] = known.pairs.get(recorded, NO_PAIR)
        return None

    def _add(self, exchange: Exchange, values: Values, now: int) -> NotSent | None:
        prefix = _BELOW_4 if exchange.api_key == ADD_PARTITIONS_TO_TXN else ""
        not_sent = self._quote(values, now, prefix=prefix)
        return not_sent if isinstance(not_sent, NotSent) else None

    def _commit(self, exchange: Exchange, values: Values, now: int) -> NotSent | None:
        is_v2 = self._known.is_v2(TXN_OFFSET_COMMIT, exchange.version)
        found = self._quote(values, now, stays=self._stays(exchange))
        if isinstance(found, NotSent):
            return found
        producer, group = self._known.of_transaction(values["transactional_id"]), values["group_id"]
        if is_v2 or group in producer.groups:
            return None
        make = partial(made_offsets, self._target_id(producer), found, self._names.target(group))
        key = "group", producer.key, found, group
        return self._known.asking.ask(
            key,
            now,
            Reason.NO_TRANSACTION,
            make,
            lambda answer: self._joined(producer, found, groups=[group]),
            partial(self._unjoined, producer, found),
        )

    def _end(self, exchange: Exchange, values: Values, now: int) -> NotSent | None:
        found = self._quote(values, now, stays=self._stays(exchange))
        if isinstance(found, NotSent):
            return found
        producer = self._known.of_transaction(values["transactional_id"])
        is_v2 = self._known.is_v2(END_TXN, exchange.version)
        is_last = found == next(reversed(producer.pairs.values()))
        is_nothing_in_it = producer.open_as is None if is_v2 else producer.is_empty
        # A retry quotes the pair that has ended. With transactions v2 the answer to that gave another pair (KIP-890):
        # an EndTxn of the new one ends the next transaction. Kafka takes an abort of nothing there, too.
        is_retry = producer.ended == (found, values["committed"])
        is_taken = is_retry or (is_v2 and not values["committed"])
        if is_last and is_nothing_in_it and not (is_taken or _is_refused(exchange)):
            return Withheld(Reason.NO_TRANSACTION, "nothing is in it: error 48")
        return None

    def _quote(self, values: Values, now: int, *, prefix: str = "", stays: bool = False) -> Pair | NotSent:
        """Writes the target's pair, unless the transaction has failed."""
        transactional_id = values.get(f"{prefix}transactional_id")
        if transactional_id is None:
            return Withheld(Reason.NO_PRODUCER)
        producer = self._known.of_transaction(transactional_id)
        recorded = pair_of(values, f"{prefix}producer")
        found = self._known.pair(producer, recorded, now, stays=stays)
        if isinstance(found, tuple):
            values[f"{prefix}producer_id"], values[f"{prefix}producer_epoch"] = found
        return found

    def _join(self, producer: Producer, pair: Pair, places: list[TopicPartition], now: int) -> NotSent:
        topics: dict[str, list[int]] = {}
        for topic, index in places:
            topics.setdefault(self._names.target_topic(topic), []).append(index)
        make = partial(made_partitions, self._target_id(producer), pair, topics.items())
        key = "partitions", producer.key, pair, tuple(places)
        return self._known.asking.ask(
            key,
            now,
            Reason.NO_TRANSACTION,
            make,
            lambda answer: self._joined(producer, pair, places),
            partial(self._unjoined, producer, pair),
        )

    # answers

    def _produced(self, exchange: Exchange, answer: Values) -> Resend | None:
        return self._produces.answered(exchange, answer)

    def _initialised(self, exchange: Exchange, answer: Values) -> None:
        producer, recorded = self._producer_of(exchange), exchange.answer
        if answer["error_code"]:
            return
        if producer is not None:
            producer.end(None)
        if recorded is not None and not recorded["error_code"]:
            learner, ongoing = producer or self._known.of_id(recorded["producer_id"]), "ongoing_txn_producer"
            self._known.learn(learner, pair_of(recorded, ongoing), pair_of(answer, ongoing))
            self._known.learn(learner, pair_of(recorded), pair_of(answer))

    def _partitions_added(self, exchange: Exchange, answer: Values) -> None:
        codes = partitions.errors(ADD_PARTITIONS_TO_TXN, answer, self._names.recorded_topic)
        producer = self._checked(exchange, answer)
        if producer is not None:
            producer.partitions |= {place for place, code in codes.items() if not code}

    def _group_added(self, exchange: Exchange, answer: Values) -> None:
        producer = self._checked(exchange, answer)
        if producer is not None and not answer["error_code"]:
            producer.groups.add(exchange.request["group_id"])

    def _committed(self, exchange: Exchange, answer: Values) -> None:
        self._checked(exchange, answer)

    def _ended(self, exchange: Exchange, answer: Values) -> None:
        producer, recorded = self._checked(exchange, answer), exchange.answer
        if producer is None:
            return
        self._over(producer)
        if answer["error_code"]:
            return
        pair = producer.pairs.get(_quoted(exchange))
        producer.end(None if pair is None else (pair, exchange.request["committed"]))
        if recorded is not None and not recorded["error_code"]:
            # a target without transactions v2 gives no pair: the last one stays
            self._known.learn(producer, pair_of(recorded), pair_of(answer))

    def _end_lost(self, producer: Producer | None, *, has_left: bool) -> None:
        self._over(producer)
        if producer is not None and has_left:
            # the target may have ended it: partitions and groups join once more, which does no harm
            producer.partitions.clear()
            producer.groups.clear()

    def _over(self, producer: Producer | None) -> None:
        """The recorded transaction has ended."""
        if producer is not None:
            producer.failed = None

    def _checked(self, exchange: Exchange, answer: Values) -> Producer | None:
        """The producer of a request. Its transaction has failed if the target alone fences it."""
        producer = self._producer_of(exchange)
        target_codes, recorded_codes = (partitions.codes(exchange, each) & _FATAL for each in (answer, exchange.answer))
        if producer is not None and target_codes and not recorded_codes:
            self._known.fail(producer, _quoted(exchange))
        return producer

    def _joined(
        self,
        producer: Producer,
        pair: Pair,
        places: list[TopicPartition] | None = None,
        groups: list[str] | None = None,
    ) -> None:
        if pair in producer.pairs.values():
            producer.open_as = pair
            producer.partitions.update(places or ())
            producer.groups.update(groups or ())

    def _unjoined(self, producer: Producer, pair: Pair, code: int) -> None:
        for recorded in [recorded for recorded, target in producer.pairs.items() if target == pair]:
            if code in _FATAL:
                self._known.fail(producer, recorded)

    # producers and their values

    def _producer(self, transactional_id: str | None) -> Producer | None:
        return None if transactional_id is None else self._known.of_transaction(transactional_id)

    def _producer_of(self, exchange: Exchange) -> Producer | None:
        prefix = _BELOW_4 if exchange.api_key == ADD_PARTITIONS_TO_TXN else ""
        return self._producer(exchange.request.get(f"{prefix}transactional_id"))

    def _target_id(self, producer: Producer) -> str:
        return self._names.target(producer.transactional_id or "")

    def _stays(self, exchange: Exchange) -> bool:
        """True if the recorded EndTxn gives a new pair, and the target's does not."""
        key = exchange.api_key
        return exchange.version >= TRANSACTIONS_V2[key] and not self._known.is_v2(key, exchange.version)

    def _stretched(self, timeout_ms: int) -> int:
        if self._speed is None or self._speed >= 1:
            return timeout_ms
        return max(timeout_ms, min(round(timeout_ms / self._speed), _LONGEST_TIMEOUT_MS))


def _as_it_is(exchange: Exchange, values: Values, now: int) -> None:
    """Nothing to translate: transactional ids are the names translator's."""


def _described(exchange: Exchange, answer: Values) -> Resend | None:
    """Sent again while the target is still ending a transaction that had ended in the recording."""
    ending, recorded_ending = (
        {each["transaction_state"] for each in told.get("transaction_states") or ()} & _ENDING
        for told in (answer, exchange.answer or {})
    )
    return Resend() if exchange.answer is not None and ending - recorded_ending else None


def _is_refused(exchange: Exchange) -> bool:
    """True for an EndTxn that the recorded cluster refused."""
    return bool(exchange.answer and exchange.answer["error_code"])


def _quoted(exchange: Exchange) -> Pair:
    prefix = _BELOW_4 if exchange.api_key == ADD_PARTITIONS_TO_TXN else ""
    return pair_of(exchange.request, f"{prefix}producer")
