"""The target's producer id and epoch for a recorded pair of them. It comes from answers or from made InitProducerIds:

an answer gave it (InitProducerId, EndTxn 5)       that pair; the last two of a producer are kept
none, without transactional id: (p, e + n)         (p', e' + n): clients bump the epoch themselves
none, transactions v2 become v1 on the target      (p', e'): EndTxn v1 gives no new pair, so the last one stays
none                                               a made InitProducerId gives it
the target refused it (45, 47, 59, 90)             another made InitProducerId; once only for a transactional id
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial

from proxy.wire.keys import END_TXN, INIT_PRODUCER_ID
from recorder.replay.cluster import Cluster
from recorder.replay.mapping import Pairs, ValueKind
from recorder.replay.names import Names
from recorder.replay.plan import NotSent, Reason, Values, Withheld
from recorder.replay.producers.pending_requests import PendingRequests
from recorder.replay.producers.sequences import Pair
from recorder.replay.producers.transactions import NEWEST_INIT, Producer, made_producer
from recorder.replay.versions.choosing import TRANSACTIONS_V2

Chosen = Callable[[int, int], int | None]
LARGEST_EPOCH = 2**15 - 1
# Producers without transactional id that are remembered; a forgotten one gets a made pair.
_MOST_PRODUCERS = 10_000
_LAST = 2


class ProducerPairs:
    """The pairs of all producers of one replay.

    Args:
        chosen: api key, recorded version -> the version for the target, None if it has none.
    """

    def __init__(self, names: Names, cluster: Cluster, pairs: Pairs, chosen: Chosen) -> None:
        self._names, self._cluster, self._pairs, self._chosen = names, cluster, pairs, chosen
        self.asking = PendingRequests()
        self.transactional: dict[str, Producer] = {}
        self._by_id: OrderedDict[int, Producer] = OrderedDict()

    def of_transaction(self, transactional_id: str) -> Producer:
        """The producer of a recorded transactional id."""
        found = self.transactional.get(transactional_id)
        if found is None:
            found = self.transactional[transactional_id] = Producer(transactional_id, transactional_id)
        return found

    def of_id(self, producer_id: int) -> Producer:
        """The producer without transactional id that has this recorded id."""
        found = self._by_id.pop(producer_id, None) or Producer(producer_id, None)
        self._by_id[producer_id] = found
        while len(self._by_id) > _MOST_PRODUCERS:
            self._forget_all(self._by_id.popitem(last=False)[1])
        return found

    def is_v2(self, api_key: int, version: int) -> bool:
        """True if the target takes a request of this recorded version as one of transactions v2."""
        if version < TRANSACTIONS_V2[api_key] or self._cluster.features.get("transaction.version", 0) < 2:
            return False
        return (self._chosen(api_key, version) or 0) >= TRANSACTIONS_V2[api_key]

    def pair(self, producer: Producer, recorded: Pair, now: int, *, stays: bool = False) -> Pair | NotSent:
        """The target's pair, or why a request that quotes the recorded one is not sent.

        Args:
            stays: the recording bumped the epoch where the target does not: v2 became v1.
        """
        if producer.failed == recorded:
            return Withheld(Reason.NO_TRANSACTION)
        found = producer.pairs.get(recorded) or self._derived(producer, recorded, stays)
        if found is not None:
            return found
        if recorded == producer.given_up:
            return Withheld(Reason.NO_PRODUCER, "the target refused two pairs of it")
        if self._chosen(INIT_PRODUCER_ID, NEWEST_INIT) is None:
            return Withheld(Reason.NO_PRODUCER, "the target has no InitProducerId")
        target = None if producer.transactional_id is None else self._names.target(producer.transactional_id)
        make = partial(made_producer, target, producer.timeout_ms)
        key = "producer", producer.key, recorded
        return self.asking.ask(key, now, Reason.NO_PRODUCER, make, partial(self._made, producer, recorded))

    def learn(self, producer: Producer, recorded: Pair, target: Pair) -> None:
        """Learns a pair from answers."""
        if min(recorded) < 0 or min(target) < 0:
            return
        producer.pairs.pop(recorded, None)
        producer.pairs[recorded] = target
        self._pairs.learn(ValueKind.PRODUCER, recorded, target)
        while len(producer.pairs) > _LAST:
            self._forget(producer, next(iter(producer.pairs)))
        self.asking.forget(("producer", producer.key, recorded))

    def renew(self, producer: Producer, recorded: Pair) -> None:
        """The target refused a pair: the next request that quotes it gets a made one.

        With a transactional id, only once.
        """
        if producer.transactional_id is not None and producer.renewed == recorded:
            producer.given_up = recorded
        producer.renewed = recorded
        self._forget_all(producer)

    def fail(self, producer: Producer, recorded: Pair) -> None:
        """The target has refused a transaction that goes on in the recording."""
        producer.failed = recorded
        if recorded in producer.pairs:
            self.renew(producer, recorded)

    def _derived(self, producer: Producer, recorded: Pair, stays: bool) -> Pair | None:
        older = producer.older(recorded)
        if older is None or (producer.transactional_id is not None and not stays):
            return None
        (_, from_epoch), (target_id, target_epoch) = older
        epoch = target_epoch if stays else target_epoch + recorded[1] - from_epoch
        if epoch > LARGEST_EPOCH:
            return None
        self.learn(producer, recorded, (target_id, epoch))
        return target_id, epoch

    def _made(self, producer: Producer, recorded: Pair, answer: Values) -> None:
        if producer.transactional_id is not None:
            producer.end(None)
        self.learn(producer, recorded, pair_of(answer))

    def _forget(self, producer: Producer, recorded: Pair) -> None:
        del producer.pairs[recorded]
        self._pairs.forget(ValueKind.PRODUCER, recorded)

    def _forget_all(self, producer: Producer) -> None:
        for recorded in [*producer.pairs]:
            self._forget(producer, recorded)


def pair_of(values: Values, prefix: str = "producer") -> Pair:
    """The pair in a request or an answer; (-1, -1) if the version has none."""
    return values.get(f"{prefix}_id", -1), values.get(f"{prefix}_epoch", -1)


def without_default_pair(api_key: int, version: int, answer: Values) -> Values:
    """An EndTxn answer without the default pair that its recorded shape adds: below version 5 the target gives none."""
    if api_key != END_TXN or version >= TRANSACTIONS_V2[END_TXN]:
        return answer
    return {name: value for name, value in answer.items() if name not in ("producer_id", "producer_epoch")}
