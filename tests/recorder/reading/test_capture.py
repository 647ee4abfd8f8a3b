"""Tests of `recorder.open`, by the examples of its documentation, and of what passes a filter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import recorder
from proxy.wire import records
from proxy.wire.keys import API_VERSIONS, FETCH, HEARTBEAT, METADATA, PRODUCE, SYNC_GROUP
from recorder.query.evaluation import PartlyKnown, Subject, predicate
from recorder.query.fields import OF_ELEMENTS, OF_RESPONSES
from recorder.query.language import FilterError, parse
from recorder.reading.capture import Capture
from recorder.reading.elements import LOST, Side, joined, unknown_element
from recorder.reading.heads import of_exchange
from recorder.reading.told import told
from recorder.ready import NoCapture
from tests.recorder.small_capture import everything, request, response, write
from tests.sweeps import examples

Make = Callable[..., dict[str, Any]]
NOT_LEADER = 6
TOPIC_ID = bytes(15) + b"\7"


def batch(*values: bytes, codec: records.Compression = records.Compression.NONE) -> bytes:
    made = [records.Record(at, 1_000 + at, b"k%d" % at, value) for at, value in enumerate(values)]
    return records.write_batch(made, codec=codec)


def produced(*partitions: tuple[str, int, bytes]) -> dict[str, Any]:
    topics = [{"name": name, "partition_data": [{"index": at, "records": data}]} for name, at, data in partitions]
    return {"acks": 1, "topic_data": topics}


def answered(*partitions: tuple[str, int, int]) -> dict[str, Any]:
    found = [
        {"name": name, "partition_responses": [{"index": at, "error_code": code, "base_offset": 40}]}
        for name, at, code in partitions
    ]
    return {"responses": found}


def traffic() -> list[dict[str, Any]]:
    """Produces to several partitions, one refused; a heartbeat; a fetch by ids; a library."""
    gzip = records.Compression.GZIP
    both = produced(("orders", 0, batch(b"a")), ("payments", 0, batch(b"b", b"c", codec=gzip)))
    one = produced(("orders", 1, batch(b"d" * 1000)))
    named = {"topics": [{"name": "orders", "topic_id": TOPIC_ID, "partitions": []}]}
    fetched = {"topic_id": TOPIC_ID, "partitions": [{"partition_index": 0, "records": batch(b"a", b"b", b"c")}]}
    wanted = {"topics": [{"topic_id": TOPIC_ID, "partitions": [{"partition": 0, "fetch_offset": 1}]}]}
    library = {"client_software_name": "librdkafka", "client_software_version": "2.0"}
    beat = {"group_id": "billing", "member_id": "m-1"}
    return [
        request(10, 7, 0, API_VERSIONS, 3, values=library, client_id="writer"),
        request(11, 7, 2, PRODUCE, 9, values=both, client_id="writer"),
        response(
            12, 7, 3, PRODUCE, 9, values=answered(("orders", 0, 0), ("payments", 0, NOT_LEADER)), client_id="writer"
        ),
        request(13, 7, 4, PRODUCE, 9, values=one, client_id="writer"),
        response(14, 7, 5, PRODUCE, 9, values=answered(("orders", 1, 0)), client_id="writer"),
        request(15, 8, 0, HEARTBEAT, 4, values=beat, client_id="reader"),
        response(16, 8, 1, HEARTBEAT, 4, values={"error_code": 27}, client_id="reader"),
        request(17, 8, 2, FETCH, 13, values=wanted, client_id="reader"),
        response(18, 8, 3, FETCH, 13, values={"responses": [fetched]}, client_id="reader"),
        response(20, 9, 1, METADATA, 12, values=named, client_id="reader"),
        request(21, 9, 2, PRODUCE, 9, values=produced(("secret", 0, b"")), masked=[{"start": 0, "length": 1}]),
    ]


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Capture:
    folder = tmp_path_factory.mktemp("capture")
    # what a response tells of its request's size is what the request has, or nothing
    write(folder, "frames", [row | {"request_size": None} for row in (*everything(), *traffic())])
    return recorder.open(folder)


def listed(capture: Capture, text: str) -> list[str]:
    return [f"{pair.head['connection']}/e{pair.head['exchange']}" for pair in capture.exchanges(text)]


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ('api == Produce and topic ~ "ord*"', ["7/e1", "7/e2"]),
        ("topic == orders and error", []),
        ("topic == payments and error", ["7/e1"]),
        ("topic == payments and error == NOT_LEADER_OR_FOLLOWER and records == 2", ["7/e1"]),
        ("api == Produce and topic == orders and not error", ["7/e2"]),
        ("topic == orders and sent > 1KiB", ["7/e2"]),
        ("bytes > 1KiB", ["7/e2"]),
        ("codec == gzip", ["7/e1"]),
        ("codec == gzip and topic == orders", []),
        ("key == k1 and topic == payments", ["7/e1"]),
        ("value ~ 'd*'", ["7/e2"]),
        ("offset == 41 and api == Produce", ["7/e1"]),
        ("base_offset == 40 and partition == 1", ["7/e2"]),
        ("group == billing", ["8/e0"]),
        ("group == billing and error == REBALANCE_IN_PROGRESS", ["8/e0"]),
        ("group == billing and error", []),
        ("member == m-1", ["8/e0"]),
        ("topic == orders and api == Fetch", ["8/e1"]),
        ("fetch_offset == 1", ["8/e1"]),
        ("software == librdkafka and api == Produce", ["7/e1", "7/e2"]),
        ("connection == 7 and latency < 1s", ["7/e1", "7/e2"]),
        ("at >= 12:00:13 and at < 12:00:15.5 and connection > 6", ["7/e2", "8/e0"]),
        ("outcome == request_lost", ["2/e1", "9/e0"]),
    ],
)
def test_one_and_the_same_element_meets_all_conditions(capture: Capture, text: str, ids: list[str]) -> None:
    assert sorted(listed(capture, text)) == sorted(ids)


@pytest.mark.parametrize("text", ["topic == secret", "not topic == secret"])
def test_what_is_masked_passes_neither_a_filter_nor_its_not_and_is_counted(capture: Capture, text: str) -> None:
    passed = capture.exchanges(f"api == Produce and connection == 9 and {text}")
    assert [*passed] == []
    assert passed.unsure.unread["masked"] == 1


@pytest.mark.parametrize("text", ["topic == secret", "not topic == secret"])
def test_what_no_message_of_an_api_has_is_not_unknown_where_one_can_t_be_read(capture: Capture, text: str) -> None:
    passed = capture.exchanges(f"api == DescribeConfigs and {text}")
    assert len([*passed]) == text.startswith("not")
    assert not passed.unsure.unread


@pytest.mark.parametrize(
    ("text", "is_listed"),
    [
        ("error", True),
        ("error == INVALID_REQUEST", True),
        ("group == billing and error", True),
        ("error == REBALANCE_IN_PROGRESS", False),
    ],
)
def test_a_code_counts_where_the_rest_of_its_answer_can_t_be_read(text: str, is_listed: bool, tmp_path: Path) -> None:
    asked = request(1, 1, 0, SYNC_GROUP, 3, values={"group_id": "billing", "generation_id": 1, "member_id": "m"})
    answer = response(2, 1, 1, SYNC_GROUP, 3, values={"error_code": 42, "assignment": b"tasks"})
    answer["frame"] = answer["frame"][:-3]
    write(tmp_path, "frames", [asked, answer])
    opened = recorder.open(tmp_path)
    assert listed(opened, text) == ["1/e0"] * is_listed
    by_element = opened.exchanges(text, columns=["member"])
    assert [by_element.values(pair, ["error"]) for pair in by_element] == [{"error": [42]}] * is_listed


CONDITIONS = [
    *("api == Produce", "api == Fetch", "client == writer", "connection in (1, 7)", "size > 100", "latency > 1ms"),
    *("at >= 12:00:03", "at < 12:00:13", "outcome == answered", "node == 1", "principal ~ '*'", "sent > 60"),
    *("topic == orders", "topic != orders", "partition == 1", "error", "error != NONE", "records > 1", "bytes > 50"),
    *("group == billing", "codec == gzip", "key == k0", "base_offset > 0", "offset >= 1", "acks == 1"),
]


def texts() -> st.SearchStrategy[str]:
    def combined(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        pairs = st.tuples(parts, st.sampled_from(["and", "or"]), parts).map(lambda each: f"({' '.join(each)})")
        return st.one_of(pairs, parts.map(lambda each: f"not ({each})"))

    return st.recursive(st.sampled_from(CONDITIONS), combined, max_leaves=4)


@pytest.mark.real
@examples(40)
@given(text=texts())
def test_opening_only_what_may_pass_lists_the_same(capture: Capture, text: str) -> None:
    """The slow twin opens every frame, and leaves nothing to columns or heads."""
    wanted = capture.filter(text)
    node = wanted.node
    # errors stand in responses: a request that can't be read keeps none from being told
    asks_requests = wanted.names & OF_ELEMENTS != {"error"}
    passes, known = predicate(node), told(capture.folder, topics=True, software=True)
    expected = []
    for pair in capture.exchanges("", columns=OF_ELEMENTS):
        request = (pair.asked if pair.request else Side(unread=LOST)) if asks_requests else Side()
        head, reading = pair.head, pair.reading
        certain: dict[str, int | None] = {} if pair.response else dict.fromkeys(OF_RESPONSES)
        if reading and reading.unread is None and not reading.codes:
            certain["error"] = 0
        unknown = unknown_element(head["dialect"], head["api_key"], head["api_version"])
        elements = joined(request, pair.told, known, PartlyKnown({**unknown, **certain}))
        if passes(Subject(of_exchange(pair), elements)):
            expected.append(f"{pair.head['connection']}/e{pair.head['exchange']}")
    assert sorted(listed(capture, text)) == sorted(expected)


def test_a_requests_size_is_told_by_the_request_where_its_response_does_not(capture: Capture) -> None:
    assert listed(capture, "sent > 60 and records > 1") == ["7/e1", "8/e1"]


def test_frames_pass_by_what_each_says_alone(capture: Capture) -> None:
    found = [f"{row['connection']}/{row['sequence']}" for row in capture.rows("topic == payments")]
    assert found == ["7/2", "7/3"]
    assert [row["sequence"] for row in capture.rows("topic == payments and error")] == [3]
    assert [row["kind"] for row in capture.rows("kind == token")] == ["token"]


def test_a_capture_has_its_frames_as_a_dataset(capture: Capture) -> None:
    table = capture.frames.to_table(columns=["api", "size"])
    assert table.num_rows == len(everything()) + len(traffic())


def test_facts_that_were_made_are_a_dataset(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from recorder.making_facts import facts

    write(tmp_path, "frames", traffic()[:-1])
    capture = recorder.open(str(tmp_path))
    assert capture.facts("partitions").count_rows() == 0
    assert CliRunner().invoke(facts, [str(tmp_path)]).exit_code == 0
    topics = capture.facts("partitions").to_table(columns=["topic"])["topic"].to_pylist()
    assert topics.count("payments") == 2
    with pytest.raises(KeyError):
        capture.facts("no table")


def test_decoded_values_are_those_of_the_wire(capture: Capture) -> None:
    (row,) = capture.rows("api == Heartbeat and kind == request", bodies=lambda row: True)
    assert capture.values(row)["group_id"] == "billing"


def test_records_tell_who_wrote_and_who_read_them(capture: Capture) -> None:
    found = [*capture.records("topic == orders and partition == 0")]
    assert [(one.offset, one.value) for one in found] == [(1, b"b"), (2, b"c"), (40, b"a")]
    assert [one.produced and one.produced.client_id for one in found] == [None, None, "writer"]
    assert [[each.client_id for each in one.fetched] for one in found] == [["reader"], ["reader"], []]


def test_a_text_that_is_no_filter_is_refused(capture: Capture) -> None:
    with pytest.raises(FilterError):
        capture.exchanges("topic = x")
    assert parse("error")


def test_a_folder_without_a_capture_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(NoCapture, match="holds no capture"):
        recorder.open(tmp_path)
