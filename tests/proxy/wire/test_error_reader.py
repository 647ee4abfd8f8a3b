"""Tests of reading errors and throttle times from responses, against a full decode, for any cuts of the frame.

Masked bytes never pass for an error code.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from proxy.wire import apis, catalog, kafka07
from proxy.wire.budget import Budget
from proxy.wire.catalog import Codec
from proxy.wire.compile.costs import SPAN
from proxy.wire.compile.layout import Struct, layout
from proxy.wire.dialects import Dialect
from proxy.wire.error_codes import is_error_code
from proxy.wire.error_reader import (
    MAX_ELEMENTS,
    NOTHING,
    UNTHROTTLED,
    ErrorReader,
    FixedReader,
    FoundErrors,
    Throttled,
    Unread,
    apis_with_errors,
    error_codes,
    error_paths,
    error_reader,
    throttle_ms,
)
from proxy.wire.errors import WireError
from proxy.wire.framing import framed
from proxy.wire.headers import response_head
from proxy.wire.kafka07.responses import CODE_COST
from proxy.wire.keys import API_VERSIONS, DESCRIBE_CONFIGS, FETCH, HEARTBEAT, METADATA, PRODUCE, SASL_AUTHENTICATE
from tests.proxy.wire.interpreter import Writer
from tests.proxy.wire.probing import cut, found_whole, frame_of, in_pieces, probe_of, randoms
from tests.proxy.wire.sweeping import every_shape
from tests.strategies import Values, must_codec, swept_versions, values_of
from tests.tables import each_row

RESPONSES = [(key, version) for key in apis.api_keys() for version in apis.versions(key)]
FIXED = [one for one in RESPONSES if isinstance(error_reader(*one), FixedReader)]
any_response = st.sampled_from(RESPONSES)


def codes_in(struct: Struct, values: Mapping[str, Any]) -> Iterator[int]:
    """Yields all error codes of decoded values, in wire order."""
    for slot in struct:
        value = values[slot.name]
        if slot.struct is not None and value is not None:
            for inner in value if isinstance(value, list) else [value]:
                yield from codes_in(slot.struct, inner)
        elif is_error_code(slot.name):
            yield value


def elements_in(value: Any) -> int:
    """Counts elements of arrays, and at most one tag for each value: no fewer than a probe counts."""
    if isinstance(value, dict):
        return len(value) + sum(map(elements_in, value.values()))
    if isinstance(value, list):
        return len(value) + sum(map(elements_in, value))
    return 0


def same_as_decoded(codec: Codec, body: bytes, found: FoundErrors) -> None:
    values, _ = codec.decode(body)
    codes = [code for code in codes_in(layout(codec.message, codec.version), values) if code]
    assert not found.malformed, codec
    if found.beyond:
        assert elements_in(values) > MAX_ELEMENTS, codec
        assert not Counter(found.codes) - Counter(codes), codec
    else:
        assert found.codes == Counter(codes), codec


def by_projection(frame: bytes, key: int, version: int) -> list[int] | Unread:
    """The slow way: all codes of a frame without its length, by a projection over their paths."""
    if not error_paths(key, version):
        return Unread.UNKNOWN_VERSION
    try:
        body = response_head(frame, key, version).body
        found = must_codec("response", key, version).project(error_paths(key, version))(frame, body)
    except WireError:
        return Unread.MALFORMED
    return [code for path in found.values() for code, _, _ in path if code]


@every_shape
def test_each_version_says_what_a_full_decode_holds_whole_and_byte_by_byte(key: int) -> None:
    for version in swept_versions(key):
        codec, probe = must_codec("response", key, version), probe_of(key, version)
        for seed in range(2):
            values = values_of(codec, seed)
            long = Writer(codec.message, version, width=5, eager=True).write(values)
            for body in (codec.encode(values), long):
                frame = frame_of(codec, body)
                found = found_whole(probe, frame)
                same_as_decoded(codec, body, found)
                assert in_pieces(probe, (bytes([byte]) for byte in frame)) == found, codec


@given(any_response, randoms)
def test_any_values_in_any_pieces_say_what_a_full_decode_holds(response: tuple[int, int], random: Random) -> None:
    codec, probe = must_codec("response", *response), probe_of(*response)
    body = codec.encode(Values(random).struct(layout(codec.message, codec.version)))
    frame = frame_of(codec, body, random.choice([b"\0", b"\2\0\0\7\3tag"]))
    found = found_whole(probe, frame)
    same_as_decoded(codec, body, found)
    assert in_pieces(probe, cut(frame, random)) == found


@given(any_response, randoms)
def test_damaged_bytes_say_the_same_however_they_are_cut(response: tuple[int, int], random: Random) -> None:
    codec, probe = must_codec("response", *response), probe_of(*response)
    frame = bytearray(frame_of(codec, codec.encode(Values(random).struct(layout(codec.message, codec.version)))))
    for _ in range(random.randint(1, 4)):
        at = random.randrange(4, len(frame))
        bad = random.choice([b"\xff\xff\xff\xff\x0f", b"\x7f\xff\xff\xff", b"\x80\x00", b"\xff\xff", b"\0\0\0"])
        frame[at : at + len(bad)] = bad
    del frame[random.randint(8, len(frame)) :]
    assert in_pieces(probe, cut(bytes(frame), random)) == found_whole(probe, bytes(frame))


@given(any_response, randoms, st.booleans())
def test_all_codes_are_those_of_a_projection_in_whole_and_in_cut_and_damaged_frames(
    response: tuple[int, int], random: Random, is_damaged: bool
) -> None:
    codec = must_codec("response", *response)
    body = codec.encode(Values(random).struct(layout(codec.message, codec.version)))
    frame = bytearray(frame_of(codec, body, random.choice([b"\0", b"\2\0\0\7\3tag"]))[4:])
    if is_damaged:
        frame[random.randrange(4, len(frame) + 1) :] = random.choice([b"", b"\0\0", b"\xff\xff\xff\xff\x0f", b"\x80\0"])
    assert error_codes(bytes(frame), *response) == by_projection(bytes(frame), *response)


@given(st.sampled_from(FIXED), st.integers(1, 9), st.lists(st.sampled_from([0, 0, 0, 0, 1, 255]), min_size=1), randoms)
def test_frames_in_a_row_say_together_what_each_says(
    response: tuple[int, int], count: int, mould: list[int], random: Random
) -> None:
    """Most frames equal the mould, so many are alike. Stepping over each frame's fields gives the expected errors."""
    size = 8 + len(mould)
    frames = [bytes(8) + bytes(mould) for _ in range(count)]
    if random.random() < 0.5:
        changed = bytearray(frames[0])
        changed[random.randrange(8, size)] ^= random.choice([1, 255])
        frames[random.randrange(count)] = bytes(changed)
    probe = probe_of(*response)
    slow = ErrorReader(probe._functions)
    each = [slow.find(frame, 0, size) for frame in frames]
    expected = FoundErrors(
        sum((Counter(one.codes) for one in each), Counter()),
        sum(one.beyond for one in each),
        sum(one.malformed for one in each),
    )
    assert probe.find(b"__" + b"".join(frames) + b"\1" * 40, 2, size, count) == expected


def test_most_responses_have_their_only_code_at_a_fixed_place() -> None:
    assert (HEARTBEAT, 0) in FIXED
    assert (HEARTBEAT, 4) in FIXED
    assert (PRODUCE, 0) not in FIXED
    assert len(FIXED) > 100


def test_all_responses_without_errors_give_one_shared_value() -> None:
    for key, version in ((HEARTBEAT, 4), (PRODUCE, 9)):
        frame = frame_of(must_codec("response", key, version), must_codec("response", key, version).encode({}))
        assert probe_of(key, version).find(frame, 0, len(frame)) is NOTHING


def test_a_response_that_the_catalog_lacks_has_no_probe() -> None:
    assert error_reader(30_000, 0) is None
    assert error_reader(HEARTBEAT, 99) is None


def test_a_refusal_of_api_versions_is_read_whatever_version_was_requested() -> None:
    refusal = framed(b"\0\0\0\7" + must_codec("response", API_VERSIONS, 0).encode({"error_code": 35}))
    for version in (0, 3, 4, 99):
        assert found_whole(probe_of(API_VERSIONS, version), refusal) == FoundErrors({35: 1})


@pytest.mark.parametrize("number", [0, 3, 5, -1], ids=["produce", "multiproduce", "unknown", "negative"])
def test_requests_of_0_7_that_are_never_answered_have_no_probe(number: int) -> None:
    assert error_reader(number, None) is None


def fetch_response(*codes: int, records: bytes = b"", top: int = 0) -> bytes:
    partitions = [{"partition_index": i, "error_code": code, "records": records} for i, code in enumerate(codes)]
    responses = [{"topic": "orders", "partitions": partitions}]
    return catalog.encode_response(FETCH, 12, 1, {"error_code": top, "responses": responses})


def test_every_error_code_of_a_response_is_found_at_any_depth() -> None:
    assert error_paths(METADATA, 13) == ("topics.error_code", "topics.partitions.error_code", "error_code")
    assert error_paths(METADATA, 0) == ("topics.error_code", "topics.partitions.error_code")


def test_an_api_or_version_that_the_catalog_lacks_has_no_paths() -> None:
    assert error_paths(METADATA, 999) == ()
    assert error_paths(30_000, 0) == ()
    assert error_codes(b"\0\0\0\1", 30_000, 0) is Unread.UNKNOWN_VERSION


@each_row(
    ("asked", "frame", "codes"),
    [
        (1, b"\0\1", [1]),
        (1, b"\0\0messages", []),
        (2, b"\0\0" + b"\0\0\0\2\0\3" + b"\0\0\0\3\0\0m" + b"\0\0\0\2\0\3", [3, 3]),
        (4, b"\xff\xff", [-1]),
        (4, b"\0\0\0\0\0\1", Unread.MALFORMED),
        (0, b"\0\1", Unread.UNKNOWN_VERSION),
        (5, b"\0\1", Unread.UNKNOWN_VERSION),
        (-1, b"\0\1", Unread.UNKNOWN_VERSION),
    ],
)
def test_responses_of_0_7_have_theirs_too(asked: int, frame: bytes, codes: list[int] | Unread) -> None:
    assert error_codes(memoryview(frame), asked, None, dialect="kafka-0.7") == codes
    assert apis_with_errors(Dialect.KAFKA_07) == [1, 2, 4]


def test_errors_are_unread_without_a_version() -> None:
    assert error_codes(fetch_response(3), FETCH, None) is Unread.UNKNOWN_VERSION


def test_nearly_every_api_can_answer_with_an_error() -> None:
    assert {FETCH, METADATA, API_VERSIONS, SASL_AUTHENTICATE} <= set(apis_with_errors())


@given(codes=st.lists(st.integers(-1, 136), max_size=20), top=st.integers(-1, 136), records=st.binary(max_size=300))
def test_codes_are_those_of_a_full_decode_without_the_zeros(codes: list[int], top: int, records: bytes) -> None:
    frame = fetch_response(*codes, records=records, top=top)
    read = catalog.decode_response(frame, FETCH, 12)
    assert isinstance(read, tuple)
    _, body = read
    decoded = [partition["error_code"] for topic in body["responses"] for partition in topic["partitions"]]
    assert decoded == codes
    assert sorted(error_codes(frame, FETCH, 12)) == sorted(code for code in [top, *codes] if code)


def test_a_code_counts_as_often_as_it_stands_there() -> None:
    assert error_codes(fetch_response(6, 0, 6), FETCH, 12) == [6, 6]


def test_a_memoryview_serves_as_well_as_bytes() -> None:
    assert error_codes(memoryview(fetch_response(1)), FETCH, 12) == [1]


@pytest.mark.parametrize("count", [MAX_ELEMENTS - 2, MAX_ELEMENTS - 1, MAX_ELEMENTS, 500])
def test_all_codes_of_many_partitions_are_found_though_passing_frames_are_read_in_bounded_time(count: int) -> None:
    frame = fetch_response(*[6] * count)
    assert error_codes(frame, FETCH, 12) == [6] * count
    assert error_codes(frame[:-3], FETCH, 12) is Unread.MALFORMED


@each_row("size", [0, 3, 4, 10, 20])
def test_a_response_that_ends_early_tells_nothing(size: int) -> None:
    assert error_codes(fetch_response(6, records=b"x" * 50)[:size], FETCH, 12) is Unread.MALFORMED


def test_a_refusal_in_the_oldest_layout_is_read_whatever_version_was_asked() -> None:
    # Kafka answers a too new ApiVersions request with error 35 and a body of version 0
    refusal = catalog.encode_response(API_VERSIONS, 0, 1, {"error_code": 35, "api_keys": []})
    assert error_codes(refusal, API_VERSIONS, 4) == [35]


def test_codes_beside_masked_values_still_count() -> None:
    results = [{"error_code": 40, "configs": [{"name": "k", "value": "secret"}]}, {"error_code": 29}]
    frame = catalog.encode_response(DESCRIBE_CONFIGS, 4, 1, {"results": results})
    masked_from = frame.index(b"secret")
    blanked = frame.replace(b"secret", bytes(6))
    assert error_codes(blanked, DESCRIBE_CONFIGS, 4, masked_from=masked_from) == [40, 29]


@pytest.mark.parametrize("version", [0, 2])
def test_a_response_masked_whole_does_not_pass_for_one_without_errors(version: int) -> None:
    frame = catalog.encode_response(SASL_AUTHENTICATE, version, 1, {"error_code": 58})
    masked = frame[:4] + bytes(len(frame) - 4)
    assert error_codes(masked, SASL_AUTHENTICATE, version, masked_from=4) is Unread.MASKED


def test_codes_are_charged_before_they_are_kept() -> None:
    frame = catalog.encode_response(42, 2, 7, {"results": [{"group_id": "", "error_code": 69}] * 1000})
    assert error_codes(frame, 42, 2) == [69] * 1000
    assert error_codes(frame, 42, 2, budget=Budget(500 * SPAN)) is Unread.OVER_BUDGET
    old = kafka07.encode_response(kafka07.MultiFetchResponse(0, (kafka07.FetchResponse(1),) * 1000))
    fetch = int(kafka07.RequestType.MULTIFETCH)
    assert error_codes(old, fetch, None, dialect=Dialect.KAFKA_07) == [1] * 1000
    little = Budget(500 * CODE_COST)
    assert error_codes(old, fetch, None, dialect=Dialect.KAFKA_07, budget=little) is Unread.OVER_BUDGET


def test_every_version_that_has_the_field_gives_its_value() -> None:
    """The decoder gives the same value."""
    for key, version in RESPONSES:
        codec = catalog.codec("response", key, version)
        assert codec is not None
        has_field = any(one.name == "throttle_time_ms" and version in one.versions for one in codec.message.fields)
        frame = catalog.encode_response(key, version, 1, {"throttle_time_ms": 70_001} if has_field else {})
        assert throttle_ms(frame, key, version) == (70_001 if has_field else None), (key, version)


@pytest.mark.parametrize("version", [8, 13])
def test_a_produce_answers_throttle_time_follows_its_topics(version: int) -> None:
    topic = {"name": "t", "topic_id": bytes(range(16)), "partition_responses": [{"index": 0, "base_offset": 7}]}
    told = {"responses": [topic], "throttle_time_ms": 250}
    assert throttle_ms(catalog.encode_response(0, version, 1, told), 0, version) == 250


def test_tags_after_the_throttle_time_do_not_change_it() -> None:
    node = {"node_id": 1, "host": "h", "port": 1}
    frame = catalog.encode_response(0, 10, 1, {"throttle_time_ms": 250, "node_endpoints": [node]})
    assert throttle_ms(frame, 0, 10) == 250


def test_tags_in_the_header_are_stepped_over() -> None:
    """Kafka defines none."""
    frame = catalog.encode_response(1, 12, 1, {"throttle_time_ms": 250})
    assert throttle_ms(frame[:4] + b"\1\7\1x" + frame[5:], 1, 12) == 250


def test_a_refusal_of_api_versions_has_no_throttle_time() -> None:
    offered = [{"api_key": 18, "min_version": 0, "max_version": 2}]
    refusal = catalog.encode_response(18, 0, 1, {"error_code": 35, "api_keys": offered})
    assert [throttle_ms(refusal, 18, version) for version in range(5)] == [None] * 5


def test_a_cut_response_has_no_throttle_time() -> None:
    frame = catalog.encode_response(1, 12, 1, {"throttle_time_ms": 250})
    assert [throttle_ms(frame[:size], 1, 12) for size in range(9)] == [None] * 9
    assert throttle_ms(b"", 0, 9) is None


RESPONSE_CODECS = [
    codec
    for key in apis.api_keys()
    for version in apis.versions(key)
    if (codec := catalog.codec("response", key, version)) is not None
]


@given(
    randoms,
    st.sampled_from(RESPONSE_CODECS),
    st.sampled_from([0, 0, 1, 256, 1 << 30, -1]),
    st.integers(1, 3),
    st.booleans(),
)
def test_throttle_times_of_passing_frames_are_those_of_the_decoded_responses(random, codec, wait, count, is_tagged):
    values = values_of(codec, random.random())
    if "throttle_time_ms" in values:
        values["throttle_time_ms"] = wait
    frame = frame_of(codec, codec.encode(values), b"\1\7\1x" if is_tagged else b"\0")
    told = max(values.get("throttle_time_ms", 0), 0)
    # unknown tags at the end that look like no throttling
    assume(not told or not frame.endswith(bytes(5)))
    found = probe_of(codec.message.key or 0, codec.version).throttled(
        b"before" + frame * count + b"\1", 6, len(frame), count
    )
    assert found == (Throttled(told * count, count) if told else UNTHROTTLED)


@given(
    randoms,
    st.sampled_from(FIXED),
    st.sampled_from([{}, {"throttle_time_ms": 1}, {"error_code": 1}, {"error_code": -1}]),
    st.sampled_from([b"\0", b"\0", b"\1\7\1x"]),
    st.booleans(),
)
def test_a_quiet_frame_has_no_error_and_makes_no_client_wait(random, response, values, tags, is_cut):
    codec, probe = must_codec("response", *response), probe_of(*response)
    known = values_of(codec, random.random())
    frame = frame_of(codec, codec.encode({name: value for name, value in values.items() if name in known}), tags)
    size = random.randrange(8, len(frame)) if is_cut else len(frame)
    # zeros behind the frame are not the frame's
    data = b"before" + frame[:size] + bytes(40)
    if probe.is_quiet(data, 6, size):
        assert probe.find(data, 6, size) is NOTHING
        assert probe.throttled(data, 6, size) is UNTHROTTLED


def new_probe(key: int, version: int) -> ErrorReader:
    """Returns a probe that remembers nothing: others share those of `probe_of`."""
    found = error_reader.__wrapped__(key, version)
    assert found is not None
    return found


def produce_response(name: str, *, offset: int, error: int = 0, throttle: int = 0) -> bytes:
    partition = {"index": offset % 7, "base_offset": offset, "error_code": error}
    topics = [{"name": name, "topic_id": name.encode(), "partition_responses": [partition] * 2}]
    codec = must_codec("response", PRODUCE, 13)
    return frame_of(codec, codec.encode({"responses": topics, "throttle_time_ms": throttle}))


def test_a_quiet_response_is_known_by_one_that_is_alike_and_none_with_an_error_or_a_throttle_time_is() -> None:
    probe = new_probe(PRODUCE, 13)
    first, other = produce_response("a" * 16, offset=1), produce_response("b" * 16, offset=1 << 40)
    assert not probe.is_quiet(other, 0, len(other))
    probe.note_quiet(first, 0, len(first))
    assert probe.is_quiet(other, 0, len(other))
    assert probe.is_quiet(first + other, 0, len(other), 2)
    for loud in (produce_response("a" * 16, offset=2, error=6), produce_response("a" * 16, offset=2, throttle=1)):
        assert not probe.is_quiet(loud, 0, len(loud))
        assert not probe.is_quiet(first + loud, 0, len(loud), 2)


@given(st.sampled_from([one for one in RESPONSES if one not in FIXED]), randoms)
def test_a_response_that_is_known_as_quiet_is_so_whatever_was_changed_in_one(response, random):
    codec, probe = must_codec("response", *response), new_probe(*response)
    frame = frame_of(codec, codec.encode(values_of(codec, random.random(), tame=True) if random.random() < 0.5 else {}))
    if probe.throttled(frame, 0, len(frame)) is UNTHROTTLED and probe.find(frame, 0, len(frame)) is NOTHING:
        probe.note_quiet(frame, 0, len(frame))
    for _ in range(20):
        changed = bytearray(frame)
        for _ in range(random.randint(1, 3)):
            changed[random.randrange(8, len(frame))] = random.choice([0, 1, 2, 255])
        if probe.is_quiet(bytes(changed), 0, len(frame)):
            assert probe.find(bytes(changed), 0, len(frame)) is NOTHING
            assert probe.throttled(bytes(changed), 0, len(frame)) is UNTHROTTLED


def test_most_responses_are_seen_to_be_quiet_by_one_look() -> None:
    quiet = 0
    for key, version in FIXED:
        codec = must_codec("response", key, version)
        frame = frame_of(codec, codec.encode({}))
        quiet += probe_of(key, version).is_quiet(frame, 0, len(frame))
    # in the others the throttle time comes after the code
    assert quiet > len(FIXED) / 2


# the time comes first, after the header's tags, last, and before the body's tags
@pytest.mark.parametrize(("key", "version"), [(HEARTBEAT, 3), (HEARTBEAT, 4), (FETCH, 11), (PRODUCE, 8), (PRODUCE, 9)])
def test_those_of_many_adjacent_responses_that_throttle_are_found(key, version):
    codec = must_codec("response", key, version)
    values = values_of(codec, "any")
    frames = [frame_of(codec, codec.encode(values | {"throttle_time_ms": wait})) for wait in (0, 0, 70_000, 0, 5)]
    found = probe_of(key, version).throttled(b"".join(frames), 0, len(frames[0]), len(frames))
    assert found == Throttled(70_005, 2)
