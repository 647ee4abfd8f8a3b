"""Tests of streamed responses: the tail gets new addresses and keeps its length, for any difference."""

import io
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from typing import Any, NamedTuple, Self, TextIO

import pytest
from confluent_kafka import Consumer, TopicPartition
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import FetchResponse

from proxy.mapping.nodes import Node
from proxy.rewrite.equal_length import UNASSIGNED_TAG, nodes_in_tail, rewrite_tail, tail_field
from proxy.schema.addresses import Address
from proxy.wire import catalog
from proxy.wire.errors import WireError
from proxy.wire.primitives import uvarint
from tests.java.kafka_json import KafkaJson
from tests.proxy.rewrite.fetch_server import NODES, TOPIC, MovingLeader
from tests.proxy.rewrite.responses import (
    WALKED,
    advertised_hosts,
    labelled,
    node_lists,
    racks,
    read,
    replaced_slowly,
    response,
    unknown_tags,
    values,
)
from tests.sweeps import examples
from tests.tables import each_row

Case = tuple[int, int]
each_case = each_row("case", WALKED, ids=labelled)
# Runs for every api and version, which differ little.
few_each = examples(30)
each_api = each_row("case", [(1, 18), (78, 2), (79, 2)], ids=labelled)

# By how many bytes an advertised host is shorter (below 0: longer), and so a whole tail.
LIMIT = 20_000
ALL = range(-LIMIT, LIMIT + 1)
# Small differences, those at which a size takes another byte, and the extremes.
SOME = [-LIMIT, -16_385, -129, *range(-20, 21), *range(120, 141), *range(16_370, 16_400), LIMIT]

# Nothing else in these frames equals the upstream's hosts or its port.
UPSTREAM, UPSTREAM_PORT = "U", 0x5AFE5AFE
SHORTEST = Address("p", 9)
# librdkafka requests metadata after every tail that it can't read; after others only now and then, on a busy machine
TRIES = 5
# on its first connection to each node, librdkafka sometimes requests metadata by itself (one time in five)
FIRST_ROUNDS = [0] * 3 * len(NODES)


def told(_: int) -> Address:
    return SHORTEST


def longer(by: int) -> Address:
    return Address("p" * (1 + by), 9)


def split(case: Case, frame: bytes) -> tuple[bytes, bytes]:
    """Returns the frame up to its tail, and the tail."""
    at = catalog.walk_response(*case, tail_field(case[0])).feed(frame)
    assert at is not None
    return frame[:at], frame[at:]


def rewritten(case: Case, frame: bytes, advertised: Callable[[int], Address]) -> bytes:
    before, tail = split(case, frame)
    after = rewrite_tail(*case, tail, advertised)
    assert len(after) == len(tail)
    return before + after


class Differing(NamedTuple):
    """A frame, its body, and addresses that shorten the frame by exactly some difference."""

    frame: bytes
    body: dict[str, Any]
    told: dict[int, Address]

    @classmethod
    def by(cls, case: Case, difference: int, node_id: int = 1, dialled: Address = SHORTEST, **more: Any) -> Self:
        """`node_id` is to be dialled at `dialled`, or at a longer host where the difference is negative."""
        # Where a size takes a byte more, a difference is left out: there the broker's first count is a byte longer.
        for padding, spare in product((0, 1), range(6)):
            by_host = abs(difference - padding) - spare
            old, new = ("U" * (len(dialled.host) + by_host), dialled) if difference >= 0 else ("U", longer(by_host))
            nodes = [Node(node_id, old, UPSTREAM_PORT), Node(99, UPSTREAM, UPSTREAM_PORT)]
            body = values(*case, nodes, rack="rack") | {"_tags": {20: b"kept"}} | more
            told = {node_id: new, 99: SHORTEST}
            frame = response(*case, body)
            if len(frame) - len(response(*case, replaced_slowly(body, told))) + padding == difference:
                return cls(with_longer_count(case, frame) if padding else frame, body, told)
        raise AssertionError(f"no frame becomes {difference} bytes shorter")


def with_longer_count(case: Case, frame: bytes) -> bytes:
    before, tail = split(case, frame)
    return before + uvarint(tail[0], 2) + tail[1:]


def outcomes(case: Case, differences: Iterable[int]) -> Iterator[tuple[int, bytes, dict[str, Any]]]:
    """For each difference: the rewritten frame, and the body that a client should read, without unknown tags."""
    for difference in differences:
        frame, body, there = Differing.by(case, difference)
        expected = replaced_slowly(body, there) if difference >= 0 else body | {"node_endpoints": []}
        yield difference, rewritten(case, frame, there.__getitem__), expected


def check(case: Case, differences: Iterable[int]) -> None:
    for difference, frame, expected in outcomes(case, differences):
        found = read(*case, frame)
        filler = found["_tags"].pop(UNASSIGNED_TAG, None)
        assert found == read(*case, response(*case, expected)), difference
        assert (filler is None) == (0 <= difference <= 4), difference
        assert not any(filler or b""), difference
        assert b"UU" not in frame, difference
        assert UPSTREAM_PORT.to_bytes(4, "big") not in frame, difference


@each_case
def test_differences_of_every_kind_are_made_up(case: Case) -> None:
    check(case, SOME)


@pytest.mark.long
@pytest.mark.timeout(1200)
@each_api
def test_every_difference_is_made_up(case: Case) -> None:
    check(case, ALL)


@each_case
@few_each
@given(data=st.data())
def test_clients_read_what_a_splice_would_give_or_no_nodes_at_all(case: Case, data: st.DataObject) -> None:
    nodes = data.draw(node_lists)
    body = values(*case, nodes, data.draw(racks), data.draw(unknown_tags))
    there = {node.node_id: Address(data.draw(advertised_hosts), data.draw(st.integers(0, 65535))) for node in nodes}
    frame = response(*case, body)
    assert nodes_in_tail(*case, split(case, frame)[1]) == tuple(nodes)
    after = rewritten(case, frame, there.__getitem__)
    assert not any(node.host.encode() in after for node in nodes)
    found, expected = read(*case, after), read(*case, frame)
    fillers = set(found.get("_tags", {})) - set(expected.get("_tags", {}))
    assert len(fillers) <= 1
    for tag in fillers:
        assert tag == max(found["_tags"])
        assert not any(found["_tags"].pop(tag))
    if not found.get("node_endpoints"):
        expected.pop("node_endpoints", None)
        found.pop("node_endpoints", None)
    assert {"_tags": {}} | found == {"_tags": {}} | replaced_slowly(expected, there)


@each_case
def test_a_tail_without_nodes_stays_as_it_is(case: Case) -> None:
    for tags in ({}, {5: b"kept"}):
        frame = response(*case, {"_tags": tags})
        assert nodes_in_tail(*case, split(case, frame)[1]) == ()
        assert rewritten(case, frame, told) == frame


@each_case
def test_addresses_that_are_right_already_stay_as_they_are(case: Case) -> None:
    frame = response(*case, values(*case, [Node(1, "p", 9), Node(2, "p", 9)], "rack", {20: b"kept"}))
    assert rewritten(case, frame, told) == frame


@each_case
def test_tags_of_any_number_and_count_leave_room_for_one_more(case: Case) -> None:
    for tags in ({127: b""}, {2**31 - 2: b"x"}, dict.fromkeys(range(1, 127), b""), dict.fromkeys(range(1, 128), b"")):
        for difference in (-40, 0, *range(5, 12)):
            body = values(*case, [Node(1, UPSTREAM * max(1, 1 + difference), UPSTREAM_PORT)]) | {"_tags": tags}
            host = "p" * max(1, 1 - difference)
            found = read(*case, rewritten(case, response(*case, body), {1: Address(host, 9)}.__getitem__))
            left = [(node["host"], node["port"]) for node in found.get("node_endpoints", [])]
            assert left == ([(host, 9)] if difference >= 0 else [])
            assert all(found["_tags"].pop(tag) == value for tag, value in tags.items())
            assert not any(any(value) for value in found["_tags"].values())


@each_case
def test_a_tail_that_is_cut_short_or_continues_is_an_error(case: Case) -> None:
    tail = split(case, response(*case, values(*case, [Node(1, "upstream", 1)], "rack", {20: b"kept"})))[1]
    for wrong in (*(tail[:size] for size in range(len(tail))), tail + b"\x00"):
        with pytest.raises(WireError):
            nodes_in_tail(*case, wrong)
        with pytest.raises(WireError):
            rewrite_tail(*case, wrong, told)


def test_a_tail_whose_last_tag_leaves_no_number_after_it_is_an_error() -> None:
    body = values(1, 16, [Node(1, "upstream", 1)]) | {"_tags": {2**31 - 1: b""}}
    with pytest.raises(WireError, match="no number is left"):
        rewritten((1, 16), response(1, 16, body), told)


@pytest.mark.parametrize("case", [(1, 15), (1, 19), (78, 3)], ids=labelled)
def test_a_tail_of_a_version_without_a_rewrite_is_an_error(case: Case) -> None:
    with pytest.raises(WireError, match="no rewrite"):
        rewrite_tail(*case, b"\x00", told)


# --- other readers ---------------------------------------------------------------------------------------------------


def check_with_kafka_python(version: int, differences: Iterable[int]) -> None:
    for difference, frame, expected in outcomes((1, version), differences):
        found = FetchResponse.decode(frame[5:], version=version)
        nodes = [
            {name: node[name] for name in ("node_id", "host", "port", "rack")} for node in expected["node_endpoints"]
        ]
        assert found.to_dict().get("node_endpoints", []) == nodes, difference
        assert found.unknown_tags["_20"] == b"kept", difference


@pytest.mark.parametrize("version", [16, 17, 18])
def test_kafka_python_reads_differences_of_every_kind(version: int) -> None:
    check_with_kafka_python(version, SOME)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_kafka_python_reads_every_difference() -> None:
    check_with_kafka_python(18, ALL)


def check_with_java(kafka_json: KafkaJson, case: Case, differences: Iterable[int]) -> None:
    for difference, frame, expected in outcomes(case, differences):
        found = kafka_json.decode("response", *case, frame[5:])
        nodes = [tuple(node.values()) for node in found.body.get("nodeEndpoints", [])]
        assert nodes == [tuple(node.values()) for node in expected["node_endpoints"]], difference
        assert found.read == len(frame) - 5, difference
        assert found.tags.pop(20) == b"kept", difference
        assert not any(any(value) for value in found.tags.values()), difference


def unread_by_librdkafka(differences: Sequence[int]) -> list[int]:
    """Returns the moves after which librdkafka requested metadata. Each response's tail names a new leader."""
    # one more at the end: before its response, librdkafka must have requested metadata about the one before
    moves = [*FIRST_ROUNDS, *differences, 0]

    def respond(step: int, leader: int, address: Address, fields: dict[str, Any]) -> bytes:
        frame, _, there = Differing.by((1, 16), moves[step], leader, address, **fields)
        return rewritten((1, 16), frame, there.__getitem__)[5:]

    complaints = io.StringIO()
    with MovingLeader(len(moves), respond) as brokers, consuming(brokers.addresses[1], complaints):
        assert brokers.done.wait(250)
    assert complaints.getvalue() == ""
    return [moves[move] for move in sorted(brokers.unread) if len(FIRST_ROUNDS) <= move < len(moves) - 1]


@contextmanager
def consuming(bootstrap: Address, complaints: TextIO) -> Iterator[None]:
    logger = logging.Logger("librdkafka")
    logger.addHandler(logging.StreamHandler(complaints))
    # A second query of the old leader shows an unread tail; waiting before it would only take time.
    settings = {"bootstrap.servers": str(bootstrap), "group.id": "g", "fetch.error.backoff.ms": 1}
    consumer = Consumer(settings, logger=logger)
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    try:
        yield
    finally:
        consumer.poll(0)  # hands the log over
        consumer.close()


def check_that_librdkafka_follows(differences: Sequence[int]) -> None:
    for _ in range(TRIES):
        differences = unread_by_librdkafka(differences) if differences else []
    assert list(differences) == []


def test_librdkafka_dials_the_new_leader_that_a_tail_names() -> None:
    check_that_librdkafka_follows([difference for difference in SOME if difference >= 0])


@pytest.mark.long
def test_librdkafka_dials_the_new_leader_for_every_difference() -> None:
    check_that_librdkafka_follows(range(LIMIT + 1))


def test_librdkafka_asks_for_metadata_where_the_addresses_did_not_fit() -> None:
    assert unread_by_librdkafka([-1, -2, -130]) == [-1, -2, -130]


@pytest.mark.real
@pytest.mark.parametrize("case", [case for case in WALKED if case not in [(78, 0), (79, 0)]], ids=labelled)
def test_kafkas_own_classes_read_differences_of_every_kind(kafka_json: KafkaJson, case: Case) -> None:
    check_with_java(kafka_json, case, SOME)


@pytest.mark.long
@pytest.mark.real
@pytest.mark.timeout(1200)
@each_api
def test_kafkas_own_classes_read_every_difference(kafka_json: KafkaJson, case: Case) -> None:
    check_with_java(kafka_json, case, ALL)


# --- byte by byte ----------------------------------------------------------------------------------------------------

TOLD = "00000005 0270 00000009 00 00"  # node 5 at p:9, no rack, no tagged fields
FILLER_129 = "7f 7f" + "00" * 127
FILLER_130 = "7f ff00" + "00" * 127  # 126 zeros would need 2 bytes less, 128 zeros 1 byte more
FILLER_131 = "7f 8001" + "00" * 128


def nodes(host_length: int) -> bytes:
    """The array with node 5, at a host of that length."""
    host = uvarint(host_length + 1) + b"U" * host_length
    return b"\x02" + (5).to_bytes(4, "big") + host + bytes.fromhex("00000007 00 00")


def fetch_tail(host_length: int, before: str = "", after: str = "", count: int = 1) -> bytes:
    array = nodes(host_length)
    return uvarint(count) + bytes.fromhex(before) + b"\x00" + uvarint(len(array)) + array + bytes.fromhex(after)


def share_tail(host_length: int, tags: str = "00") -> bytes:
    return nodes(host_length) + bytes.fromhex(tags)


@each_row(
    ("host_length", "tail"),
    [
        (1, f"01 00 0d 02 {TOLD}"),
        (2, f"8100 00 0d 02 {TOLD}"),
        (5, f"8180808000 00 0d 02 {TOLD}"),
        (6, f"02 00 0d 02 {TOLD} 7f 03 000000"),
        (128, f"02 00 0d 02 {TOLD} {FILLER_129}"),
        (129, f"02 00 0d 02 {TOLD} {FILLER_130}"),
        (130, f"02 00 0d 02 {TOLD} {FILLER_131}"),
    ],
)
def test_a_fetch_tail_with_a_shorter_host(host_length: int, tail: str) -> None:
    assert rewrite_tail(1, 16, fetch_tail(host_length), told).hex() == bytes.fromhex(tail).hex()


@pytest.mark.parametrize(
    ("host_length", "tail"),
    [
        (1, f"02 {TOLD} 00"),
        (2, f"8200 {TOLD} 00"),
        (5, f"8280808000 {TOLD} 00"),
        (6, f"02 {TOLD} 01 7f 03 000000"),
    ],
)
def test_a_share_tail_with_a_shorter_host(host_length: int, tail: str) -> None:
    for key in (78, 79):
        assert rewrite_tail(key, 1, share_tail(host_length), told).hex() == bytes.fromhex(tail).hex()


def test_a_fetch_tail_with_a_longer_host_keeps_its_other_tags_and_a_blank_behind_them() -> None:
    old = fetch_tail(3, before="80 01 aa".replace("80", "ff00"), after="09 01 bb", count=3)
    new = "03 ff0001aa 0901bb" + "8001 0e" + "00" * 14
    assert rewrite_tail(1, 16, old, lambda _: longer(3)).hex() == bytes.fromhex(new).hex()


def test_a_share_tail_with_a_longer_host_has_an_empty_array() -> None:
    assert (
        rewrite_tail(78, 1, share_tail(3, "01 09 01 bb"), lambda _: longer(3)).hex()
        == bytes.fromhex("01 02 0901bb" + "7f 0c" + "00" * 12).hex()
    )
