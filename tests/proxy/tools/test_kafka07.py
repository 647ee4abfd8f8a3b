"""Tests of 0.7's requests and responses as text."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.tools.json_text import pieces
from proxy.tools.kafka07 import MESSAGE_COST, request_tree, response_tree
from proxy.tools.plain import as_lines
from proxy.wire import kafka07
from proxy.wire.budget import Budget
from proxy.wire.kafka07 import messages
from proxy.wire.records.kinds import Compression
from tests.proxy.wire.kafka07.clients import FRAMES, built
from tests.proxy.wire.kafka07.values import REQUESTS, answered


def written(tree: object) -> str:
    return "".join(pieces(tree, Budget().text))


FIRST, SECOND = messages.message(b"first"), messages.message(b"second", magic=0)


def told(client: str, call: str) -> dict[str, Any]:
    return request_tree(kafka07.decode_request(built(client, call)[4:]), 10)


def test_a_produce_is_its_topic_and_its_messages():
    assert told("brod", "'clicks', ['first'") == {
        "topic": "clicks",
        "partition": 1,
        "messages": [
            {"at": 0, "magic": 0, "codec": "none", "payload": b"first"},
            {"at": 14, "magic": 0, "codec": "none", "payload": b"second"},
            {"at": 29, "magic": 0, "codec": "none", "payload": b""},
        ],
    }


def test_compressed_messages_are_opened():
    assert told("prozess", "'zipped', 0") == {
        "topic": "zipped",
        "partition": 0,
        "messages": [{"at": 0, "magic": 1, "codec": "gzip", "payloads": [b"first", b"second"]}],
    }


def test_payloads_in_a_compressed_message_count_towards_the_limit():
    request = kafka07.decode_request(built("prozess", "'zipped', 0")[4:])
    tree: Any = request_tree(request, 1)
    (message,) = tree["messages"]
    assert (message["payloads"], message["more_messages"]) == ([b"first"], 1)


@pytest.mark.parametrize(
    ("call", "why"), [("'snappy', 0", "can't be read: "), ("'old', 0", "its checksum doesn't fit")]
)
def test_a_message_that_cannot_be_read_says_why_and_shows_its_bytes(call, why):
    (message,) = told("prozess", call)["messages"]
    assert message["why"].startswith(why)
    assert isinstance(message["payload"], bytes)


def test_a_request_of_0_7_is_shown_as_its_fields():
    fetch = {"topic": "clicks", "partition": 3, "offset": 2**40 + 7, "max_size": 300_000}
    assert told("prozess", "FetchRequest(") == fetch
    offsets = {"topic": "clicks", "partition": 0, "time": -2, "max_number": 1}
    assert told("brod", "EARLIEST") == offsets
    one = kafka07.decode_request(built("prozess", "FetchRequest(")[4:])
    assert isinstance(one, kafka07.Fetch)
    assert request_tree(kafka07.MultiFetch((one, one)), 1) == {"fetches": [fetch, fetch]}
    produce = kafka07.Produce("t", 0, FIRST)
    assert [*request_tree(kafka07.MultiProduce((produce,)), 1)["produces"]] == [request_tree(produce, 1)]
    assert request_tree(kafka07.UnknownRequest(9, b"body"), 1) == {"type": 9, "bytes": b"body"}


@pytest.mark.parametrize(
    ("most", "end"),
    [
        (0, [{"more_messages": 2}]),
        (1, [{"more_messages": 1}]),
        (2, []),
    ],
)
def test_the_requested_number_of_messages_is_shown(most, end):
    tree = response_tree(kafka07.FetchResponse(0, FIRST + SECOND), most)
    assert len(tree["messages"]) == most + len(end)
    assert tree["messages"][most:] == end


def test_a_cut_message_of_a_fetch_is_shown_as_such():
    tree = response_tree(kafka07.FetchResponse(0, FIRST + SECOND[:7]), 9)
    assert tree["messages"][1:] == [{"why": "a message that is cut", "bytes": SECOND[:7]}]
    (only,) = response_tree(kafka07.FetchResponse(0, b"\0\0\0\7\x09"), 9)["messages"]
    assert (only["why"][:13], only["bytes"]) == ("can't be read", b"\0\0\0\7\x09")


@pytest.mark.parametrize("start", [0, 12, 2**40])
def test_fetched_messages_have_their_log_offsets(start):
    """Each message takes 12 bytes: 4 of length, magic, attributes, 4 of checksum, and 2."""
    data = messages.message_set([b"aa", b"bb"]) + messages.compressed(messages.message_set([b"cc"]), Compression.GZIP)
    tree = response_tree(kafka07.FetchResponse(0, data), 9, kafka07.Fetch("t", 0, start, 1000))
    places = [(one["offset"], one["next_offset"]) for one in tree["messages"]]
    assert places == [(start, start + 12), (start + 12, start + 24), (start + 24, start + len(data))]
    assert not any("at" in one for one in tree["messages"])


@given(st.lists(st.binary(max_size=9), max_size=5), st.integers(0, 2**62), st.integers(0, 4))
def test_offsets_in_the_log_are_those_that_a_consumer_gets(payloads, start, most):
    data = messages.message_set(payloads)
    tree = response_tree(kafka07.FetchResponse(0, data), most, kafka07.Fetch("t", 0, start, 1000))
    told = [(one["offset"], one["next_offset"], one["payload"]) for one in tree["messages"][:most] if "payload" in one]
    assert told == [(one.offset, one.next_offset, one.payload) for one in messages.read(data, start)][:most]


def test_each_part_of_a_multifetch_has_its_own_places():
    asked = kafka07.MultiFetch((kafka07.Fetch("a", 1, 12, 99), kafka07.Fetch("b", 0, 500, 99)))
    found = kafka07.MultiFetchResponse(0, (kafka07.FetchResponse(0, FIRST), kafka07.FetchResponse(0, SECOND + FIRST)))
    first, second = response_tree(found, 9, asked)["parts"]
    assert (first["topic"], first["partition"], second["topic"], second["partition"]) == ("a", 1, "b", 0)
    assert [one["offset"] for one in first["messages"]] == [12]
    assert [one["offset"] for one in second["messages"]] == [500, 500 + len(SECOND)]
    assert response_tree(kafka07.MultiFetchResponse(-1), 9, asked) == {"error_code": -1, "parts": []}


def test_responses_name_their_errors():
    parts = (kafka07.FetchResponse(0, FIRST), kafka07.FetchResponse(3))
    tree = response_tree(kafka07.MultiFetchResponse(0, parts), 9)
    assert [part["error_code"] for part in tree["parts"]] == [0, 3]
    assert response_tree(kafka07.OffsetsResponse(0, (7, 0)), 9) == {"error_code": 0, "offsets": [7, 0]}
    assert response_tree(kafka07.OffsetsResponse(3), 9) == {"error_code": 3, "offsets": None}
    assert "      error_code: 3 UNKNOWN_TOPIC_OR_PARTITION" in [
        line.replace("- ", "  ") for line in as_lines(tree, 1, 9)
    ]


def test_every_frame_of_the_old_clients_can_be_shown():
    for row in FRAMES["built"]:
        tree = request_tree(kafka07.decode_request(bytes.fromhex(row["frame"])[4:]), 10)
        assert list(as_lines(tree, 0, 16))
        json.loads(written(tree))


@given(REQUESTS, answered(), st.integers(0, 3))
def test_any_request_and_response_has_its_tree(request, exchange, most):
    for tree in (request_tree(request, most), response_tree(exchange[1], most)):
        json.loads(written(tree))
        list(as_lines(tree, 0, 8))


def test_a_compression_that_0_7_does_not_have_is_no_end():
    damaged = bytearray(FIRST)
    damaged[5] = 3
    (message,) = response_tree(kafka07.FetchResponse(0, bytes(damaged)), 9)["messages"]
    assert message["codec"] == Compression.UNKNOWN.value
    assert "why" in message


def test_messages_are_unfolded_and_shown_within_a_budget():
    wrapper = messages.compressed(messages.message_set([b"m" * 1000] * 50), Compression.GZIP)
    tree = request_tree(kafka07.Produce("t", 0, wrapper * 3), 9, budget=Budget(100_000))
    first, *others = tree["messages"]
    assert (len(first["payloads"]), first["more_messages"]) == (9, 41)
    assert all(one["why"].endswith("unfolding makes more than 100000 bytes") for one in others)
    tree = response_tree(kafka07.FetchResponse(0, FIRST * 100), 100, budget=Budget(10 * MESSAGE_COST))
    assert len(tree["messages"]) == 11
    assert "decoding makes more" in tree["messages"][-1]["why"]
