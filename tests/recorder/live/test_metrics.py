"""Tests of metrics by topic, client and group, by what is shown of frames that are written here."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_families
from prometheus_client.parser import text_string_to_metric_families

from proxy.metrics.rendering import END, renderer
from proxy.metrics.table import LIVE_METRICS
from proxy.wire import keys, records
from recorder import group_lag, labels
from recorder.capture.frames import frames_schema
from recorder.live.beside_proxy import AGE_HEADER
from recorder.live.consumer import Missed
from recorder.live.lag import MOST_ROWS
from recorder.live.metrics import LARGEST_FRAME, Metrics, Page
from recorder.live.otlp import otlp_part
from recorder.live.stream import MOST_TOLD, BoundedTold
from recorder.reading.elements import Told
from tests.brokers.waiting import PATIENCE
from tests.hostile_text import NAME, TEXT
from tests.recorder.facts.frames import Row, request, response
from tests.recorder.tracing.receiver import receiver

NOW = 1_800_000_000


class Reading:
    """Metrics that read exchanges, one a second."""

    def __init__(self, **asked: int) -> None:
        self.told, self.now = Told(), float(NOW)
        self.metrics = Metrics(self.told, **asked, clock=lambda: self.now)
        self._exchange = 0
        self._held: list[list[Row]] | None = None

    def say(self, key: int, version: int, asked: Row, told: Row | None, **head: Any) -> None:
        said = self.exchange(key, version, asked, told, **head)
        if self._held is None:
            self.read(said)
        else:
            self._held.append(said)

    @contextmanager
    def held_back(self) -> Iterator[list[list[Row]]]:
        """Exchanges that are said meanwhile are not read."""
        self._held = said = list[list[Row]]()
        yield said
        self._held = None

    def exchange(self, key: int, version: int, asked: Row, told: Row | None, **head: Any) -> list[Row]:
        self._exchange += 1
        self.now += 1
        at = datetime.fromtimestamp(self.now, UTC)
        head = {"cluster": "main", "exchange": self._exchange, "at": at, "at_ns": int(self.now * 1e9)} | head
        found = [request(key, version, asked, **head)]
        return found if told is None else [*found, response(key, version, told, **head)]

    def read(self, rows: Iterable[Row]) -> None:
        self.metrics.read(pa.Table.from_pylist([*rows], frames_schema()))

    def shown(self, name: str) -> dict[tuple[str, ...], float]:
        """The values of a metric by those of its labels, without the cluster."""
        text = renderer(is_open=False).text(self.metrics.families()).decode()
        samples = (one for family in text_string_to_metric_families(text) for one in family.samples)
        named = [one for one in samples if one.name == f"kafka_wiretap_{name}"]
        return {tuple(value for label, value in one.labels.items() if label != "cluster"): one.value for one in named}

    # what clients and brokers say

    def produce(self, topic: str, count: int, base: int, *, partition: int = 0, code: int = 0, acks: int = -1) -> None:
        batch = records.write_batch([records.Record(n, NOW * 1000, b"k", b"value") for n in range(count)])
        asked = {"acks": acks, "topic_data": [_topic(topic, "partition_data", index=partition, records=batch)]}
        answer = _topic(topic, "partition_responses", index=partition, error_code=code, base_offset=base)
        self.say(keys.PRODUCE, 9, asked, {"responses": [answer]} if acks else None)

    def fetch(self, topic: str, high: int, count: int = 0, *, partition: int = 0) -> None:
        batch = records.write_batch([records.Record(n, 1, None, b"v") for n in range(count)]) if count else b""
        ends = {"high_watermark": high, "last_stable_offset": high, "records": batch}
        asked = {"topics": [{"topic": topic, "partitions": [{"partition": partition, "fetch_offset": 0}]}]}
        told = {"responses": [{"topic": topic, "partitions": [{"partition_index": partition, **ends}]}]}
        self.say(keys.FETCH, 11, asked, told)

    def commit(self, group: str, topic: str, offset: int, *, partition: int = 0, code: int = 0) -> None:
        asked = {"group_id": group, "generation_id_or_member_epoch": 3, "member_id": "m"}
        asked["topics"] = [_topic(topic, "partitions", partition_index=partition, committed_offset=offset)]
        told = {"topics": [_topic(topic, "partitions", partition_index=partition, error_code=code)]}
        self.say(keys.OFFSET_COMMIT, 8, asked, told)

    def commit_in(self, transaction: str, group: str, topic: str, offset: int) -> None:
        asked = {"transactional_id": transaction, "group_id": group, "producer_id": 5, "producer_epoch": 0}
        asked["topics"] = [_topic(topic, "partitions", partition_index=0, committed_offset=offset)]
        told = {"topics": [_topic(topic, "partitions", partition_index=0, error_code=0)]}
        self.say(keys.TXN_OFFSET_COMMIT, 3, asked, told)

    def end(self, transaction: str, *, committed: bool) -> None:
        asked = {"transactional_id": transaction, "producer_id": 5, "producer_epoch": 0, "committed": committed}
        self.say(keys.END_TXN, 3, asked, {"error_code": 0})


def _topic(name: str, partitions: str, **partition: Any) -> dict[str, Any]:
    return {"name": name, partitions: [partition]}


# topics


def test_bytes_records_and_errors_are_counted_by_topic() -> None:
    reading = Reading(topics=10)
    reading.produce("t", 3, 0)
    reading.produce("t", 2, 3)
    reading.produce("u", 1, -1, code=6)
    reading.fetch("t", 5, 5)
    assert reading.shown("topic_produced_records_total") == {("t",): 5, ("u",): 1}
    assert reading.shown("topic_fetched_records_total") == {("t",): 5, ("u",): 0}
    assert reading.shown("topic_errors_total") == {("Produce", "NOT_LEADER_OR_FOLLOWER", "u"): 1}
    one = records.write_batch([records.Record(0, NOW * 1000, b"k", b"value")])
    assert reading.shown("topic_produced_bytes_total")["u",] == len(one)


def test_an_error_of_a_topic_in_metadata_counts_and_one_that_kafka_lacks_has_no_name() -> None:
    reading = Reading(topics=10)
    for code in (3, 3, 1234):
        told: Row = {"topics": [{"error_code": code, "name": "t", "topic_id": bytes(16), "partitions": []}]}
        reading.say(keys.METADATA, 9, {"topics": [{"name": "t"}]}, told)
    expected = {("Metadata", "UNKNOWN_TOPIC_OR_PARTITION", "t"): 2, ("Metadata", "other", "t"): 1}
    assert reading.shown("topic_errors_total") == expected


def test_a_topic_that_is_named_by_its_id_has_its_name_once_somebody_has_told_it() -> None:
    reading = Reading(topics=10)
    topic_id = bytes(range(16))
    batch = records.write_batch([records.Record(0, 1, None, b"v")])
    told = {"responses": [{"topic_id": topic_id, "partitions": [{"partition_index": 0, "records": batch}]}]}
    for _ in range(2):
        reading.say(keys.FETCH, 13, {"topics": []}, told)
        reading.told.topics["AAECAwQFBgcICQoLDA0ODw"] = "orders"
    assert reading.shown("topic_fetched_records_total") == {("AAECAwQFBgcICQoLDA0ODw",): 1, ("orders",): 1}


def test_topics_beyond_the_limit_are_one_and_counted_and_idle_ones_make_room() -> None:
    reading = Reading(topics=2)
    for topic in "abcdc":
        reading.produce(topic, 1, 0)
    assert reading.shown("topic_produced_records_total") == {("a",): 1, ("b",): 1, ("other",): 3}
    # the answers name the topics, too
    assert reading.shown("live_label_overflow_total") == {("topic",): 6}
    reading.now += labels.IDLE_SECONDS
    reading.produce("b", 1, 0)
    reading.produce("e", 1, 0)
    assert reading.shown("topic_produced_records_total") == {("b",): 2, ("e",): 1, ("other",): 3}


def test_many_plain_messages_make_the_same_counts_as_those_read_one_by_one() -> None:
    many, one_by_one = Reading(topics=10, groups=10), Reading(topics=10, groups=10)
    batch = records.write_batch([records.Record(n, 1, None, b"v") for n in range(3)])
    rows: list[Row] = []
    for number in range(100):
        asked = {"acks": 1, "topic_data": [_topic(f"t{number % 3}", "partition_data", index=number % 2, records=batch)]}
        answer = _topic(f"t{number % 3}", "partition_responses", index=number % 2, base_offset=number)
        rows += many.exchange(keys.PRODUCE, 9, asked, {"responses": [answer]})
    many.read(rows)
    for row in rows:
        one_by_one.read([row])
    for name in ("topic_produced_bytes_total", "topic_produced_records_total", "partition_log_end_offset"):
        assert many.shown(name) == one_by_one.shown(name) != {}
    assert many.shown("topic_produced_records_total") == {("t0",): 102, ("t1",): 99, ("t2",): 99}


# clients


def test_requests_and_bytes_are_counted_by_client_id_and_by_software() -> None:
    reading = Reading(clients=10)
    reading.told.software["s", 1] = "librdkafka", "2.5"
    for client, connection in (("a", 1), ("a", 1), (None, 2)):
        reading.say(keys.HEARTBEAT, 4, {"group_id": "g"}, {"error_code": 0}, client_id=client, connection=connection)
    assert reading.shown("client_requests_total") == {("a",): 2, ("",): 1}
    assert reading.shown("software_requests_total") == {("librdkafka", "2.5"): 2, ("", ""): 1}
    sizes = reading.shown("client_request_bytes_total"), reading.shown("client_response_bytes_total")
    assert all(size["a",] == 2 * size["",] > 0 for size in sizes)


def test_errors_are_counted_by_client_id() -> None:
    reading = Reading(clients=10)
    for client, code in (("a", 3), ("a", 3), ("b", 1234), ("b", 0)):
        told: Row = {"topics": [{"error_code": code, "name": "t", "topic_id": bytes(16), "partitions": []}]}
        reading.say(keys.METADATA, 9, {"topics": [{"name": "t"}]}, told, client_id=client)
    reading.produce("t", 1, -1, code=6)
    reading.commit("g", "t", 5, code=25)
    assert reading.shown("client_errors_total") == {
        ("Metadata", "a", "UNKNOWN_TOPIC_OR_PARTITION"): 2,
        ("Metadata", "b", "other"): 1,
        ("Produce", "app", "NOT_LEADER_OR_FOLLOWER"): 1,
        ("OffsetCommit", "app", "UNKNOWN_MEMBER_ID"): 1,
    }


@pytest.mark.parametrize("client", [NAME, TEXT, 'a"b', "a\nb", "\\", "x" * 10_000])
def test_a_hostile_name_is_text_in_both_formats_and_cut(client: str) -> None:
    reading = Reading(clients=10, topics=10)
    reading.say(keys.HEARTBEAT, 4, {"group_id": "g"}, None, client_id=client)
    assert [name for (name,) in reading.shown("client_requests_total")] == [labels.cut(client)]
    text = renderer(is_open=True).text(reading.metrics.families()).decode() + END
    samples = [one for family in open_families(text) for one in family.samples if "client_requests" in one.name]
    assert [one.labels["client_id"] for one in samples] == [labels.cut(client)]
    assert len(labels.cut(client)) <= labels.LONGEST


# groups


def test_the_lag_is_what_lies_between_the_end_of_the_log_and_the_last_commit() -> None:
    reading = Reading(groups=10)
    reading.produce("t", 10, 100)
    reading.commit("g", "t", 104)
    assert reading.shown("partition_log_end_offset") == {("0", "t"): 110}
    assert reading.shown("group_committed_offset") == {("g", "0", "t"): 104}
    assert reading.shown("group_lag") == {("g", "0", "t"): 6}
    assert reading.shown("group_committed_timestamp_seconds") == {("g", "0", "t"): NOW + 2}
    assert reading.shown("partition_log_end_timestamp_seconds") == {("0", "t"): NOW + 1}
    reading.fetch("t", 120)
    reading.commit("g", "t", 130)
    assert reading.shown("group_lag") == {("g", "0", "t"): 0}


def test_a_refused_commit_is_none_and_neither_is_the_end_of_a_refused_produce() -> None:
    reading = Reading(groups=10)
    reading.commit("g", "t", 104, code=22)
    reading.produce("t", 10, 100, code=6)
    assert not reading.shown("group_committed_offset")
    assert not reading.shown("partition_log_end_offset")


def test_an_answer_may_be_read_before_its_request() -> None:
    reading = Reading(groups=10)
    batch = records.write_batch([records.Record(n, 1, None, b"v") for n in range(4)])
    asked = {"acks": 1, "topic_data": [_topic("t", "partition_data", index=0, records=batch)]}
    told = {"responses": [_topic("t", "partition_responses", index=0, base_offset=6)]}
    first, second = reading.exchange(keys.PRODUCE, 9, asked, told)
    reading.read([second])
    reading.read([first])
    assert reading.shown("partition_log_end_offset") == {("0", "t"): 10}


def test_list_offsets_tells_the_end_only_if_it_was_asked_for_the_end() -> None:
    reading = Reading(groups=10)
    for partition, timestamp in ((0, -1), (1, -2)):
        asked = {
            "replica_id": -1,
            "topics": [_topic("t", "partitions", partition_index=partition, timestamp=timestamp)],
        }
        told = {"topics": [_topic("t", "partitions", partition_index=partition, offset=7, timestamp=-1)]}
        reading.say(keys.LIST_OFFSETS, 5, asked, told)
    assert reading.shown("partition_log_end_offset") == {("0", "t"): 7}


@pytest.mark.parametrize("version", [5, 8])
def test_what_a_group_is_told_of_its_offsets_counts_until_it_commits(version: int) -> None:
    reading = Reading(groups=10)
    topics = [_topic("t", "partitions", partition_index=0, committed_offset=40)]
    asked = {"group_id": "g", "groups": [{"group_id": "g"}]}
    told = {"topics": topics, "groups": [{"group_id": "g", "topics": topics}]}
    reading.say(keys.OFFSET_FETCH, version, asked, told)
    assert reading.shown("group_committed_offset") == {("g", "0", "t"): 40}
    reading.commit("g", "t", 50)
    reading.say(keys.OFFSET_FETCH, version, asked, told)
    assert reading.shown("group_committed_offset") == {("g", "0", "t"): 50}


def test_offsets_in_a_transaction_count_once_it_is_committed() -> None:
    reading = Reading(groups=10)
    reading.commit_in("x", "g", "t", 5)
    assert not reading.shown("group_committed_offset")
    reading.end("x", committed=False)
    assert not reading.shown("group_committed_offset")
    reading.commit_in("x", "g", "t", 7)
    reading.end("x", committed=True)
    assert reading.shown("group_committed_offset") == {("g", "0", "t"): 7}


def test_a_transactions_end_may_be_read_before_what_it_commits() -> None:
    reading = Reading(groups=10)
    for committed, expected in ((False, {}), (True, {("g", "0", "t"): 7})):
        with reading.held_back() as said:
            reading.commit_in("x", "g", "t", 7)
            reading.end("x", committed=committed)
        for rows in reversed(said):
            reading.read(rows)
        assert reading.shown("group_committed_offset") == expected


def test_a_deleted_group_is_gone() -> None:
    reading = Reading(groups=10)
    for group in ("g", "h"):
        reading.commit(group, "t", 5)
    told = {"results": [{"group_id": "g", "error_code": 0}]}
    reading.say(keys.DELETE_GROUPS, 2, {"groups_names": ["g"]}, told)
    assert reading.shown("group_committed_offset") == {("h", "0", "t"): 5}


def test_beyond_the_limit_the_partition_of_a_group_that_was_named_longest_ago_makes_room_and_is_counted() -> None:
    reading = Reading(groups=2)
    for partition in (0, 1, 0, 2):
        reading.commit("g", "t", 5, partition=partition)
        reading.fetch("t", 9, partition=partition)
    assert [*reading.shown("group_lag")] == [("g", "0", "t"), ("g", "2", "t")]
    told = {label: count for (label,), count in reading.shown("live_label_overflow_total").items() if count}
    assert told == {"group": 1, "partition": 1}


def test_halves_of_exchanges_that_wait_for_the_other_one_are_bounded_and_counted() -> None:
    reading = Reading(groups=2)
    half = MOST_ROWS // 2 + 1
    topic = {"name": "t", "partitions": [{"partition_index": n, "committed_offset": 5} for n in range(half)]}
    for _ in range(3):
        reading.say(keys.OFFSET_COMMIT, 8, {"group_id": "g", "topics": [topic]}, None)
    assert reading.shown("live_label_overflow_total")["exchange",] == 2


def test_names_of_topics_and_software_that_were_forgotten_are_counted() -> None:
    told = BoundedTold()
    for number in range(MOST_TOLD + 3):
        told.software["s", number] = "client", None
    families = Metrics(told).families(forgotten=told.forgotten)
    (found,) = [one for one in families if one.name.endswith("live_label_overflow")]
    assert {one.labels["label"]: one.value for one in found.samples} == {"topic_id": 0, "connection": 3}


def test_the_state_of_a_group_is_shown_as_one_of_four() -> None:
    reading = Reading(groups=10)
    reading.fetch("t", 100)
    for _ in range(group_lag.WINDOW):
        reading.now += 5
        reading.commit("g", "t", 50)
    assert reading.shown("group_state") == {("g", "0", "stalled", "t"): 1}
    reading.now += 600
    assert reading.shown("group_state") == {("g", "0", "stopped", "t"): 1}
    reading.commit("g", "t", 100)
    assert reading.shown("group_state") == {("g", "0", "ok", "t"): 1}


# what is missing


def test_what_is_missed_and_what_cannot_be_read_is_counted() -> None:
    reading = Reading(topics=10)
    reading.metrics.missed(Missed(7, "a gap"))
    reading.metrics.missed(Missed(None, "a gap"))
    asked, told = reading.exchange(keys.PRODUCE, 9, {"topic_data": []}, {"responses": []})
    reading.read([asked | {"frame": asked["frame"][:-1] + b"\xff", "masked": None}, told | {"size": LARGEST_FRAME + 1}])
    assert reading.shown("live_missed_frames_total") == {(): 7}
    assert reading.shown("live_missed_total") == {(): 2}
    assert reading.shown("live_unread_frames_total") == {(): 2}


# the page


def test_all_that_is_declared_is_shown_and_nothing_else() -> None:
    with receiver() as got:
        # nothing is sent: no exchange comes, and metrics go once a minute
        part = otlp_part(Told(), got.url, {}, 1, f"{got.url}/metrics", print)
        families = [*Metrics(Told(), topics=1, clients=1, groups=1).families(), *part.families()]
        for consumer in part.consumers:
            consumer.close()
    assert {family.name for family in families} == {metric.name.removesuffix("_total") for metric in LIVE_METRICS}


def test_a_text_that_takes_long_is_made_in_the_background_and_says_how_old_it_is() -> None:
    clock, may_make, made = [0.0], threading.Event(), threading.Event()
    may_make.set()

    def families() -> list[Any]:
        may_make.wait()
        clock[0] += 1
        made.set()
        return []

    page, told = Page(families, lambda: clock[0]), list[dict[str, str]]()

    def start(_: str, headers: list[tuple[str, str]], *__: Any) -> Any:
        told.append(dict(headers))

    assert page({"HTTP_ACCEPT": ""}, start) == [b""]
    may_make.clear()
    assert page({"HTTP_ACCEPT": ""}, start) == [b""]
    # the second answer did not wait
    assert [one[AGE_HEADER] for one in told] == ["1.000", "1.000"]
    made.clear()
    may_make.set()
    assert made.wait(PATIENCE)
