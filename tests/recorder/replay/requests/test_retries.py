"""Tests of errors that pass, after which a request is sent again."""

from __future__ import annotations

import pytest

from proxy.wire.keys import FETCH, LIST_OFFSETS
from recorder.replay.cluster import Cluster
from recorder.replay.names import Names
from recorder.replay.plan import Exchange
from recorder.replay.requests.retries import passing
from recorder.replay.stream import AnswerRecorded
from tests.recorder.replay.simple import LIST_VERSION, listed
from tests.recorder.replay.simulation import Recording, Values

OUT_OF_RANGE, NOT_LEADER = 1, 6
RECORDED_ID, TARGET_ID = b"r" * 16, b"t" * 16
FETCH_VERSION = 13


def exchanged(key: int, version: int, asked: Values, told: Values) -> Exchange:
    """Returns an exchange that has its recorded answer."""
    recording = Recording()
    exchange = recording.exchanges(0, 1, key, version, asked, told)
    answer = recording.happenings[-1]
    assert isinstance(answer, AnswerRecorded)
    exchange.take_answer(answer.ns, answer.frame)
    return exchange


def offsets(topic: str, *codes: int) -> Values:
    """Returns an answer to ListOffsets: partitions 0, 1, ... have these error codes."""
    told = [{"partition_index": at, "error_code": code, "timestamp": -1, "offset": 0} for at, code in enumerate(codes)]
    return {"topics": [{"name": topic, "partitions": told}]}


def fetched(topic_id: bytes, *codes: int) -> Values:
    """Returns an answer to Fetch: partitions 0, 1, ... have these error codes."""
    told = [
        {"partition_index": at, "error_code": code, "high_watermark": 0, "records": b""}
        for at, code in enumerate(codes)
    ]
    return {"responses": [{"topic_id": topic_id, "partitions": told}]}


@pytest.mark.parametrize("prefix", ["", "p-"])
def test_an_error_passes_though_another_partition_had_it_in_the_recording(prefix: str) -> None:
    exchange = exchanged(LIST_OFFSETS, LIST_VERSION, listed(), offsets("a", NOT_LEADER, 0, 0))
    answer = offsets(f"{prefix}a", NOT_LEADER, NOT_LEADER, OUT_OF_RANGE)
    assert passing(exchange, answer, Names(prefix, {}, Cluster())) == {(f"{prefix}a", 1)}


def test_a_fetch_of_records_that_are_on_their_way_is_sent_again() -> None:
    asked = {"max_wait_ms": 0, "min_bytes": 0, "topics": []}
    cluster, answer = Cluster(), fetched(RECORDED_ID, OUT_OF_RANGE)
    cluster.name_topic("a", RECORDED_ID)
    names = Names("", {RECORDED_ID: "a"}, cluster)
    assert passing(exchanged(FETCH, FETCH_VERSION, asked, fetched(RECORDED_ID, 0)), answer, names)
    assert not passing(exchanged(FETCH, FETCH_VERSION, asked, answer), answer, names)


def test_a_topic_is_the_same_under_the_ids_of_both_sides() -> None:
    asked = {"max_wait_ms": 0, "min_bytes": 0, "topics": []}
    exchange = exchanged(FETCH, FETCH_VERSION, asked, fetched(RECORDED_ID, NOT_LEADER, 0))
    cluster = Cluster()
    cluster.name_topic("p-a", TARGET_ID)
    names = Names("p-", {RECORDED_ID: "a"}, cluster)
    assert passing(exchange, fetched(TARGET_ID, NOT_LEADER, NOT_LEADER), names) == {(TARGET_ID, 1)}
    # of an id that the replay does not know, it knows no recorded error
    assert passing(exchange, fetched(b"?" * 16, NOT_LEADER), names) == {(b"?" * 16, 0)}


def test_an_error_of_the_whole_answer_passes_unless_the_recording_had_it() -> None:
    asked = {"max_wait_ms": 0, "min_bytes": 0, "topics": []}
    names, failed = Names("", {}, Cluster()), {"error_code": NOT_LEADER, "responses": []}
    assert passing(exchanged(FETCH, FETCH_VERSION, asked, failed), failed, names) == set()
    assert passing(exchanged(FETCH, FETCH_VERSION, asked, failed | {"error_code": 0}), failed, names) == {None}
