"""Tests of probes of responses against a full decode, as far as the probe reads, for any cuts of the frame."""

from collections import Counter
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire import apis
from proxy.wire.catalog import Codec
from proxy.wire.compile.layout import Struct, layout
from proxy.wire.error_codes import is_error_code
from proxy.wire.error_probes import MAX_ELEMENTS, NOTHING, ErrorProbe, FixedProbe, FoundErrors, error_probe
from proxy.wire.framing import framed
from proxy.wire.keys import API_VERSIONS, HEARTBEAT, PRODUCE
from tests.proxy.wire.interpreter import Writer
from tests.proxy.wire.probing import cut, found_whole, frame_of, in_pieces, probe_of, randoms
from tests.proxy.wire.sweeping import every_shape
from tests.strategies import Values, must_codec, swept_versions, values_of

RESPONSES = [(key, version) for key in apis.api_keys() for version in apis.versions(key)]
FIXED = [one for one in RESPONSES if isinstance(error_probe(*one), FixedProbe)]
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
    slow = ErrorProbe(probe._functions)
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
    assert error_probe(30_000, 0) is None
    assert error_probe(HEARTBEAT, 99) is None


def test_a_refusal_of_api_versions_is_read_whatever_version_was_requested() -> None:
    refusal = framed(b"\0\0\0\7" + must_codec("response", API_VERSIONS, 0).encode({"error_code": 35}))
    for version in (0, 3, 4, 99):
        assert found_whole(probe_of(API_VERSIONS, version), refusal) == FoundErrors({35: 1})


@pytest.mark.parametrize("number", [0, 3, 5, -1], ids=["produce", "multiproduce", "unknown", "negative"])
def test_requests_of_0_7_that_are_never_answered_have_no_probe(number: int) -> None:
    assert error_probe(number, None) is None
