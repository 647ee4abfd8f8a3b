"""Tests of transactions: they begin with their first step, and end by a response, a later producer or a marker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from proxy.wire import keys, records
from proxy.wire.records import ControlType
from recorder.analysis.tables.transactions import TRANSACTIONS, transactions
from tests.recorder.analysis.by_exchange import Row, Talk, batch

pytestmark = pytest.mark.real
Build = Callable[..., Any]


class Producer:
    """A transactional producer's requests, one a second; `number` is its producer id."""

    def __init__(self, talk: Talk, name: str, number: int, second: bool = False) -> None:
        self.rows: list[Row] = []
        self.epoch, self.second = 0, second
        self._talk, self._name, self._number, self._at = talk, name, number, 0
        self._sequence = -3

    def init(self, epoch: int, code: int = 0) -> None:
        told = {"error_code": code, "producer_id": self._number, "producer_epoch": epoch}
        self._ask(keys.INIT_PRODUCER_ID, 4, {"transactional_id": self._name, "transaction_timeout_ms": 9000}, told)
        self.epoch = epoch

    def add(self, partition: int, code: int = 0) -> None:
        asked = {f"v3_and_below_{key}": value for key, value in self._self().items()}
        asked["v3_and_below_topics"] = [{"name": "t", "partitions": [partition]}]
        results = [{"partition_index": partition, "partition_error_code": code}]
        told = {"results_by_topic_v3_and_below": [{"name": "t", "results_by_partition": results}]}
        self._ask(keys.ADD_PARTITIONS_TO_TXN, 3, asked, told)

    def produce(self, *partitions: int, code: int = 0, again: bool = False) -> None:
        """`code`: of the last partition; `again`: the batch of the last time."""
        self._sequence += 0 if again else 3
        ids = {"producer_id": self._number, "producer_epoch": self.epoch, "base_sequence": self._sequence}
        data = batch(3, transactional=True, **ids)
        asked = {"transactional_id": self._name, "acks": -1}
        parts = [{"index": partition, "records": data} for partition in partitions]
        asked["topic_data"] = [{"name": "t", "partition_data": parts}]
        answered = [
            {"index": one, "error_code": code if one == partitions[-1] else 0, "base_offset": self._sequence}
            for one in partitions
        ]
        told = {"responses": [{"name": "t", "partition_responses": answered}]}
        self._ask(keys.PRODUCE, 12 if self.second else 11, asked, told)

    def offsets(self, group: str) -> None:
        self._ask(keys.ADD_OFFSETS_TO_TXN, 3, self._self() | {"group_id": group}, {"error_code": 0})
        partitions = [{"partition_index": 0, "committed_offset": 1}]
        topics = [{"name": "u", "partitions": partitions}]
        told = [{"name": "u", "partitions": [{"partition_index": 0, "error_code": 0}]}]
        self._ask(keys.TXN_OFFSET_COMMIT, 3, self._self() | {"group_id": group, "topics": topics}, {"topics": told})

    def end(self, commit: bool, code: int | None = 0) -> None:
        told = None if code is None else {"error_code": code}
        self._ask(keys.END_TXN, 5 if self.second else 3, self._self() | {"committed": commit}, told)

    def marked(self, kind: ControlType, epoch: int) -> None:
        """A consumer reads a marker."""
        ids = {"producer_id": self._number, "producer_epoch": epoch, "coordinator_epoch": 0}
        data = records.end_marker_batch(kind, offset=9, timestamp=0, **ids)
        parts = [{"partition_index": 0, "records": data, "high_watermark": 10}]
        self._ask(keys.FETCH, 12, {}, {"responses": [{"topic": "t", "partitions": parts}]})

    def _self(self) -> dict[str, Any]:
        return {"transactional_id": self._name, "producer_id": self._number, "producer_epoch": self.epoch}

    def _ask(self, key: int, version: int, asked: Any, told: Any) -> None:
        self.rows += self._talk.exchange(key, version, self._at, asked, told)
        self._at += 1


def two_of_an_epoch(it: Producer) -> None:
    """The second one writes twice, and its end is asked for twice."""
    it.init(4)
    it.add(0)
    it.produce(0)
    it.end(commit=True)
    it.add(1)
    it.produce(1)
    it.produce(0)
    it.offsets("g")
    it.end(commit=False, code=None)
    it.end(commit=False)
    it.end(commit=False)


def without_adding_partitions(it: Producer) -> None:
    it.init(0)
    it.produce(0)
    it.end(commit=True)
    it.epoch = 1
    it.produce(1)


def refused(it: Producer) -> None:
    it.init(0)
    it.add(0, code=51)
    it.produce(0, code=47)
    it.add(1)
    it.end(commit=True, code=51)


def partly_refused(it: Producer) -> None:
    """One of two partitions refuses its batch; a later batch is sent twice, and stored once."""
    it.init(0)
    it.produce(0, 1, code=10)
    it.produce(0)
    it.produce(0, again=True)
    it.end(commit=True)


def replaced(it: Producer) -> None:
    """Open when another producer of this name begins; that one is open too, after it asked to commit."""
    it.add(0)
    it.init(2, code=51)
    it.init(2)
    it.add(0)
    it.end(commit=True, code=None)
    it.init(4)


def marked(it: Producer) -> None:
    it.init(0)
    it.add(0)
    it.marked(ControlType.ABORT, 1)


def marked_in_its_own_epoch(it: Producer) -> None:
    it.init(3)
    it.add(0)
    it.end(commit=True, code=None)
    it.marked(ControlType.COMMIT, 3)


def marked_for_another(it: Producer) -> None:
    """The marker of the next epoch is that of the next transaction, which has the same epoch as its marker."""
    it.add(0)
    it.epoch = 1
    it.add(0)
    it.end(commit=True)
    it.marked(ControlType.COMMIT, 1)


SCRIPTS = {
    two_of_an_epoch: (
        [(4, 1, "committed", "EndTxn", 1, 3, []), (4, 2, "aborted", "EndTxn", 2, 6, ["g"])],
        False,
    ),
    without_adding_partitions: (
        [(0, 1, "committed", "EndTxn", 1, 3, []), (1, 1, None, None, 1, 3, [])],
        True,
    ),
    refused: ([(0, 1, None, None, 1, 0, [])], False),
    partly_refused: ([(0, 1, "committed", "EndTxn", 1, 6, [])], True),
    replaced: ([(0, 1, "aborted", "InitProducerId", 1, 0, []), (2, 1, None, None, 1, 0, [])], False),
    marked: ([(0, 1, "aborted", "marker", 1, 0, [])], False),
    marked_in_its_own_epoch: ([(3, 1, "committed", "marker", 1, 0, [])], False),
    marked_for_another: ([(0, 1, None, None, 1, 0, []), (1, 1, "committed", "EndTxn", 1, 0, [])], False),
}


@pytest.fixture(scope="module")
def found(captured_once: Build) -> dict[str, list[Any]]:
    """The rows of each script, in order of time."""
    talk, rows = Talk(), []
    for number, (script, (_, second)) in enumerate(SCRIPTS.items()):
        producer = Producer(talk, script.__name__, number, second)
        script(producer)
        rows += producer.rows
    table = transactions(captured_once(*rows)).orderBy("transactional_id", "begun_at")
    assert table.columns == TRANSACTIONS.names
    told: dict[str, list[Any]] = {}
    for row in table.collect():
        told.setdefault(row.transactional_id, []).append(row)
    return told


def test_each_transaction_is_a_row_with_what_it_holds_and_how_it_ended(found: dict[str, list[Any]]) -> None:
    told = {
        name: [
            (row.producer_epoch, row.number, row.outcome, row.told_by, row.partitions, row.records, row.groups)
            for row in rows
        ]
        for name, rows in found.items()
    }
    assert told == {script.__name__: expected for script, (expected, _) in SCRIPTS.items()}


def test_times_are_those_of_the_first_step_the_last_one_and_the_answered_end(found: dict[str, list[Any]]) -> None:
    first, second = found["two_of_an_epoch"]
    times = [at.second + at.microsecond / 1e6 for at in (second.begun_at, second.last_at, second.ended_at)]
    assert times == [4, 8, 10.005]
    assert (second.timeout_ms, second.bytes) == (9000, 2 * len(batch(3, producer_id=5)))
    assert second.exchange > first.exchange


def test_a_transaction_has_ended_once_the_next_producer_of_its_name_has_begun(found: dict[str, list[Any]]) -> None:
    """The first of these died, the second one asked to commit and got no answer."""
    ended = [at.second + at.microsecond / 1e6 for at in (row.ended_at for row in found["replaced"])]
    assert ended == [2.005, 5.005]
    assert [row.ended_at for row in found["marked"]] == [None]
