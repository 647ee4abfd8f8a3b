"""A small Kafka for tests of translated state: producers, transactions, fetch sessions, by Kafka's rules.

It is one broker of any id: leader of all partitions, coordinator of all transactions. The values that it assigns
(producer ids, session ids, offsets) start where the test says, so two of them differ in every value. It is strict: a
first sequence is 0 (KIP-890), a partition joins a transaction of v1 only by AddPartitionsToTxn, and an EndTxn that is
no retry needs something to end, unless it is an abort of v2. A retry quotes the pair that the EndTxn before it quoted;
with v2 that is not the present one any more (Kafka's `TransactionCoordinator.endTransaction`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from typing import Any

from proxy import wire
from proxy.wire import records
from recorder.replay.cluster import Cluster
from recorder.replay.names import Names
from recorder.replay.plan import Exchange, Origin, Peer, Values

Place = tuple[str, int]
TOPIC_IDS = {"a": b"A" * 16, "b": b"B" * 16}
TARGET_IDS = {"a": b"x" * 16, "b": b"y" * 16}
LAST_BATCHES = 5
PEER = Peer("host", "client")


@dataclass
class Written:
    """A producer's state in a partition: its epoch, and its last batches as (first, last sequence) -> base offset."""

    epoch: int
    following: int = 0
    last: dict[tuple[int, int], int] = field(default_factory=dict)


@dataclass
class Transaction:
    """A transactional id. `ended`: the pair of its last transaction, and whether that was committed."""

    pair: tuple[int, int]
    partitions: set[Place] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    ended: tuple[tuple[int, int], bool] | None = None


@dataclass
class Session:
    """A fetch session: the next epoch, and the partitions with their parameters."""

    epoch: int
    partitions: dict[tuple[Any, int], Values] = field(default_factory=dict)


@dataclass
class Broker:
    """A Kafka cluster of one node. `log`: base offset and bytes of batches, also aborted ones."""

    ids: Callable[[int], int] = lambda number: number
    first_offset: int = 0
    has_v2: bool = True
    largest: int = 1 << 20
    log: dict[Place, list[tuple[int, bytes]]] = field(default_factory=lambda: defaultdict(list))
    ends: dict[Place, int] = field(default_factory=dict)
    written: dict[tuple[Place, int], Written] = field(default_factory=dict)
    transactions: dict[str, Transaction] = field(default_factory=dict)
    sessions: dict[int, Session] = field(default_factory=dict)
    session_ids: Callable[[int], int] = lambda number: number
    topics: dict[Any, str] = field(default_factory=dict)
    has_sessions: bool = True
    batches_each: int = 2
    given: int = 0
    opened: int = 0

    def answer(self, api_key: int, version: int, values: Values) -> Values:
        """Returns the response's values."""
        found = getattr(self, f"_{wire.api_name(api_key)}".lower())(version, values)
        return {"throttle_time_ms": 0, **found}

    def end(self, place: Place) -> int:
        """The offset of the next record."""
        return self.ends.get(place, self.first_offset)

    # producers

    def _initproducerid(self, version: int, values: Values) -> Values:
        name = values["transactional_id"]
        known = self.transactions.get(name)
        quoted = values.get("producer_id", -1), values.get("producer_epoch", -1)
        if known is not None and quoted not in ((-1, -1), known.pair):
            return {"error_code": 90, "producer_id": -1, "producer_epoch": -1}
        if known is None:
            pair = self.ids(self.given), 0
            self.given += 1
        else:
            pair = known.pair[0], known.pair[1] + 1
        if name is not None:
            self.transactions[name] = Transaction(pair)
        return {"error_code": 0, "producer_id": pair[0], "producer_epoch": pair[1]}

    def _addpartitionstotxn(self, version: int, values: Values) -> Values:
        found = self.transactions.get(values["v3_and_below_transactional_id"])
        pair = values["v3_and_below_producer_id"], values["v3_and_below_producer_epoch"]
        code = 0 if found and found.pair == pair else 47
        results = []
        for topic in values["v3_and_below_topics"]:
            if found and not code:
                found.partitions |= {(topic["name"], index) for index in topic["partitions"]}
            told = [{"partition_index": index, "partition_error_code": code} for index in topic["partitions"]]
            results.append({"name": topic["name"], "results_by_partition": told})
        return {"results_by_topic_v3_and_below": results}

    def _addoffsetstotxn(self, version: int, values: Values) -> Values:
        found = self.transactions.get(values["transactional_id"])
        if not found or found.pair != (values["producer_id"], values["producer_epoch"]):
            return {"error_code": 47}
        found.groups.add(values["group_id"])
        return {"error_code": 0}

    def _txnoffsetcommit(self, version: int, values: Values) -> Values:
        found = self.transactions.get(values["transactional_id"])
        code = 0
        if not found or found.pair != (values["producer_id"], values["producer_epoch"]):
            code = 47
        elif version >= 5 and self.has_v2:
            found.groups.add(values["group_id"])
        elif values["group_id"] not in found.groups:
            code = 48
        topics = [
            {
                "name": topic["name"],
                "partitions": [
                    {"partition_index": each["partition_index"], "error_code": code} for each in topic["partitions"]
                ],
            }
            for topic in values["topics"]
        ]
        return {"topics": topics}

    def _endtxn(self, version: int, values: Values) -> Values:
        found = self.transactions.get(values["transactional_id"])
        none = {"producer_id": -1, "producer_epoch": -1} if version >= 5 else {}
        quoted, is_v2 = (values["producer_id"], values["producer_epoch"]), version >= 5 and self.has_v2
        is_open = found is not None and bool(found.partitions or found.groups)
        is_retry = found is not None and not is_open and found.ended is not None and quoted == found.ended[0]
        if not found or not (is_retry or quoted == found.pair):
            return {"error_code": 47, **none}
        is_taken = found.ended == (quoted, values["committed"]) if is_retry else is_v2 and not values["committed"]
        if not (is_open or is_taken):
            return {"error_code": 48, **none}
        if not is_retry:
            self._end_transaction(found, (quoted, values["committed"]), is_v2)
        given = {"producer_id": found.pair[0], "producer_epoch": found.pair[1]} if is_v2 else none
        return {"error_code": 0, **given}

    def _end_transaction(self, found: Transaction, ended: tuple[tuple[int, int], bool], is_v2: bool) -> None:
        for place in found.partitions:
            self.ends[place] = self.end(place) + 1
        found.partitions.clear()
        found.groups.clear()
        found.ended = ended
        found.pair = found.pair[0], found.pair[1] + is_v2

    def _produce(self, version: int, values: Values) -> Values:
        topics = []
        for topic in values["topic_data"]:
            told = []
            for each in topic["partition_data"]:
                place = topic["name"], each["index"]
                code, base = self._append(version, values.get("transactional_id"), place, bytes(each["records"]))
                told.append({"index": each["index"], "error_code": code, "base_offset": base})
            topics.append({"name": topic["name"], "partition_responses": told})
        return {"responses": topics}

    def _append(self, version: int, transactional_id: str | None, place: Place, data: bytes) -> tuple[int, int]:
        (batch,) = records.batches(data)
        records.verify(data, batch)
        if len(data) > self.largest:
            return 10, -1
        if batch.producer_id < 0:
            return 0, self.write(place, data, batch.count or 0)
        if transactional_id is not None:
            code = self._joined(version, transactional_id, place, batch)
            if code:
                return code, -1
        written = self.written.setdefault((place, batch.producer_id), Written(batch.producer_epoch))
        if batch.producer_epoch < written.epoch:
            return 47, -1
        if batch.producer_epoch > written.epoch:
            written = self.written[place, batch.producer_id] = Written(batch.producer_epoch)
        numbers = batch.base_sequence, batch.base_sequence + (batch.count or 0) - 1
        if numbers in written.last:
            return 0, written.last[numbers]
        if batch.base_sequence != written.following:
            return 45, -1
        written.following = numbers[1] + 1
        written.last[numbers] = self.write(place, data, batch.count or 0)
        while len(written.last) > LAST_BATCHES:
            del written.last[next(iter(written.last))]
        return 0, written.last[numbers]

    def _joined(self, version: int, transactional_id: str, place: Place, batch: records.Batch) -> int:
        found = self.transactions.get(transactional_id)
        if found is None or found.pair != (batch.producer_id, batch.producer_epoch):
            return 47
        if version >= 12 and self.has_v2:
            found.partitions.add(place)
        return 0 if place in found.partitions else 48

    # fetches

    def _fetch(self, version: int, values: Values) -> Values:
        session, epoch = values["session_id"], values["session_epoch"]
        asked = {(_topic(entry), each["partition"]): each for entry in values["topics"] for each in entry["partitions"]}
        if epoch < 0:
            self.sessions.pop(session, None)
            return self._fetched(0, asked, asked)
        if epoch == 0:
            self.sessions.pop(session, None)
            self.opened += 1
            given = self.session_ids(self.opened) if self.has_sessions else 0
            if given:
                self.sessions[given] = Session(1, asked)
            return self._fetched(given, asked, asked)
        found = self.sessions.get(session)
        if found is None or found.epoch != epoch:
            return {"error_code": 70 if found is None else 71, "session_id": 0, "responses": []}
        found.epoch += 1
        found.partitions |= asked
        for entry in values["forgotten_topics_data"]:
            for index in entry["partitions"]:
                del found.partitions[_topic(entry), index]
        return self._fetched(session, found.partitions, ())

    def _fetched(self, session: int, asked: dict[tuple[Any, int], Values], named: Container[Any]) -> Values:
        told: dict[Any, list[Values]] = defaultdict(list)
        for (topic, index), each in asked.items():
            found = self._read(self.topics.get(topic, topic), index, each["fetch_offset"])
            if found["records"] or found["error_code"] or (topic, index) in named:
                told[topic].append(found)
        field: dict[type, str] = {bytes: "topic_id", str: "topic"}
        responses = [{field[type(topic)]: topic, "partitions": each} for topic, each in told.items()]
        return {"error_code": 0, "session_id": session, "responses": responses}

    def _read(self, topic: str, index: int, offset: int) -> Values:
        """Returns a few batches from an offset on."""
        end = self.end((topic, index))
        later = [
            records.with_base_offset(data, base)
            for base, data in self.log[topic, index]
            if base + next(iter(records.batches(data))).last_offset >= offset
        ]
        return {
            "partition_index": index,
            "error_code": 0 if self.first_offset <= offset <= end else 1,
            "high_watermark": end,
            "last_stable_offset": end,
            "log_start_offset": self.first_offset,
            "aborted_transactions": None,
            "preferred_read_replica": -1,
            "records": b"".join(later[: self.batches_each]),
        }

    def write(self, place: Place, data: bytes, count: int) -> int:
        base = self.end(place)
        self.log[place].append((base, data))
        self.ends[place] = base + count
        return base


def names(prefix: str = "", cluster: Cluster | None = None) -> Names:
    """Names of both sides, with the topics a and b."""
    found = cluster or Cluster()
    for name, topic_id in TARGET_IDS.items():
        found.name_topic(prefix + name, topic_id)
    return Names(prefix, {topic_id: name for name, topic_id in TOPIC_IDS.items()}, found)


def _topic(entry: Values) -> Any:
    return entry.get("topic", entry.get("topic_id"))


_NAMES = {"name", "group_id", "transactional_id", "v3_and_below_transactional_id"}


def prefixed(values: Any, prefix: str) -> Any:
    """Returns a request as the translator of names leaves it, which is the last one."""
    if isinstance(values, list):
        return [prefixed(each, prefix) for each in values]
    if not isinstance(values, dict):
        return values
    return {
        key: prefix + value if key in _NAMES and isinstance(value, str) else prefixed(value, prefix)
        for key, value in values.items()
    }


def exchange(
    number: int,
    api_key: int,
    version: int,
    values: Values,
    answer: Values | None,
    *,
    connection: int = 1,
    peer: Peer = PEER,
    node: int | None = None,
    awaits: bool = True,
) -> Exchange:
    """Returns a recorded exchange, through the wire."""
    frame = wire.encode_request(api_key, version, correlation_id=number, client_id="client", values=values)
    answered = None
    if answer is not None:
        answered = wire.encode_response(api_key, version, correlation_id=number, values=answer)
    origin = Origin("s", connection, number)
    found = Exchange(origin, api_key, version, frame, number, number, peer, node, awaits=awaits)
    found.answer_frame, found.answered_ns = answered, None if answered is None else number
    return found


def passed(api_key: int, version: int, answer: Values) -> Values:
    """Returns a response as it is after the wire."""
    data = wire.encode_response(api_key, version, correlation_id=1, values=answer)
    found = wire.decode_response(data, api_key, version)
    assert isinstance(found, tuple)
    return found[1]
