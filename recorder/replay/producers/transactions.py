"""A producer as both sides know it (pairs, sequences, transaction), and the requests made for it.

The rules that use them stand in `producers` and `producer_pairs`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field

from proxy.wire.keys import ADD_OFFSETS_TO_TXN, ADD_PARTITIONS_TO_TXN, END_TXN, INIT_PRODUCER_ID
from recorder.replay.cluster import TRANSACTION
from recorder.replay.partitions import TopicPartition
from recorder.replay.plan import MadeRequest, ToCoordinator, ToNode, Values
from recorder.replay.producers.pending_requests import Done
from recorder.replay.producers.sequences import Pair, Sequences

NO_PAIR: Pair = (-1, -1)
# The Java client's default, for a producer whose InitProducerId is not in the capture.
DEFAULT_TIMEOUT_MS = 60_000
# The last version for clients: later ones are the brokers' own.
CLIENTS_ADD_PARTITIONS = 3
# Version 6 has two-phase commit, which a made request never asks for.
NEWEST_INIT = 5


@dataclass(eq=False)
class Producer:
    """One producer: a transactional id, or a producer id without one.

    Attributes:
        key: the recorded transactional id or producer id.
        pairs: recorded pair -> target's pair, the last two.
        renewed: the last recorded pair that needed a new one, because the target had refused its pair.
        given_up: the recorded pair whose second one was refused too.
        failed: the recorded pair whose transaction failed on the target and goes on in the recording.
        open_as: the target's pair of the transaction that is open there, None if none is.
        partitions, groups: those that the target knows in that transaction.
        abort_failure: why the abort at the end did not succeed, as far as is known; empty: it did, or was not needed.
        ended: the last transaction that has ended since the producer was initialised: the target's pair of it, and
            whether it was committed; None: there was none.
    """

    key: Hashable
    transactional_id: str | None
    pairs: dict[Pair, Pair] = field(default_factory=dict)
    sequences: dict[TopicPartition, Sequences] = field(default_factory=dict)
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    renewed: Pair | None = None
    given_up: Pair | None = None
    failed: Pair | None = None
    open_as: Pair | None = None
    partitions: set[TopicPartition] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    abort_failure: str = ""
    ended: tuple[Pair, bool] | None = None

    @property
    def is_empty(self) -> bool:
        """True if the target knows of nothing in the transaction."""
        return not self.partitions and not self.groups

    def end(self, ended: tuple[Pair, bool] | None) -> None:
        """The transaction has ended on the target: see `ended`. None: the producer was initialised."""
        self.open_as, self.ended = None, ended
        self.partitions.clear()
        self.groups.clear()

    def older(self, recorded: Pair) -> tuple[Pair, Pair] | None:
        """The pair of the same producer id with the nearest epoch below, recorded and target's."""
        known = [pair for pair in self.pairs if pair[0] == recorded[0] and pair[1] < recorded[1]]
        return (max(known), self.pairs[max(known)]) if known else None


def made_producer(target_id: str | None, timeout_ms: int, done: Done) -> MadeRequest:
    """An InitProducerId. With a transactional id it also aborts an open transaction."""
    to = ToNode() if target_id is None else ToCoordinator(TRANSACTION, target_id)
    values = {"transactional_id": target_id, "transaction_timeout_ms": timeout_ms}
    return MadeRequest(INIT_PRODUCER_ID, values, to, "a producer id that no answer gave", done, NEWEST_INIT)


def made_partitions(target_id: str, pair: Pair, topics: Iterable[tuple[str, list[int]]], done: Done) -> MadeRequest:
    """An AddPartitionsToTxn. `topics`: the target's names with their partitions."""
    values = {
        "v3_and_below_transactional_id": target_id,
        "v3_and_below_producer_id": pair[0],
        "v3_and_below_producer_epoch": pair[1],
        "v3_and_below_topics": [{"name": name, "partitions": indexes} for name, indexes in topics],
    }
    to, purpose = ToCoordinator(TRANSACTION, target_id), "partitions of a transaction"
    return MadeRequest(ADD_PARTITIONS_TO_TXN, values, to, purpose, done, CLIENTS_ADD_PARTITIONS)


def made_offsets(target_id: str, pair: Pair, group: str, done: Done) -> MadeRequest:
    """An AddOffsetsToTxn. `group`: the target's name."""
    values = {
        "transactional_id": target_id,
        "producer_id": pair[0],
        "producer_epoch": pair[1],
        "group_id": group,
    }
    return MadeRequest(ADD_OFFSETS_TO_TXN, values, ToCoordinator(TRANSACTION, target_id), "a transaction's group", done)


def made_abort(target_id: str, pair: Pair, done: Callable[[Values | None], None]) -> MadeRequest:
    """An EndTxn that aborts."""
    values = {
        "transactional_id": target_id,
        "producer_id": pair[0],
        "producer_epoch": pair[1],
        "committed": False,
    }
    purpose = "a transaction that was open at the end"
    return MadeRequest(END_TXN, values, ToCoordinator(TRANSACTION, target_id), purpose, done)
