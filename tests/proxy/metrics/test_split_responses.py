"""Tests that errors are counted the same however the broker's bytes are cut into chunks."""

from collections import Counter
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from proxy.conversation import Conversation, Routes
from proxy.metrics.split_responses import SplitResponses
from proxy.metrics.traffic import Traffic
from proxy.wire import apis, catalog
from proxy.wire.error_codes import kafka_error
from proxy.wire.error_reader import error_codes
from proxy.wire.keys import CREATE_TOPICS, FETCH, HEARTBEAT, LEAVE_GROUP
from tests.proxy.conversation.script import VENDOR, framed, request, response
from tests.proxy.metrics.exchanges import anywhere
from tests.proxy.wire.probing import cut
from tests.strategies import must_codec, values_of
from tests.tables import each_row

# error codes at a fixed position, in an array, after large values, in tags; an opaque response
ASKED = [(HEARTBEAT, 0), (HEARTBEAT, 4), (LEAVE_GROUP, 5), (FETCH, 17), (CREATE_TOPICS, 7), (VENDOR, 0)]


def answered(key: int, version: int, number: int, seed: int) -> bytes:
    if key == VENDOR:
        return response(number, bytes([seed]) * seed)
    codec = must_codec("response", key, version)
    values = values_of(codec, seed, tame=True)
    return framed(catalog.encode_response(key, version, number, values))


def play(asked: list[tuple[int, int]], chunks: list[bytes]) -> Traffic:
    talk, traffic = Conversation(Routes()), Traffic()
    split_responses = SplitResponses(talk.responses_side)
    talk.requests(b"".join(request(*api, number) for number, api in enumerate(asked)), 1)
    for now, chunk in enumerate(chunks, 1000):
        step = talk.responses(chunk, now)
        traffic.finished(step.finished, now, step.data, split_responses.follow(step), anywhere())
    assert not talk.unfinished
    return traffic


@given(st.lists(st.tuples(st.sampled_from(ASKED), st.integers(0, 9)), min_size=1, max_size=8), st.randoms())
def test_errors_are_those_of_all_responses_in_any_chunks(drawn: list[Any], random: Random) -> None:
    frames = [answered(key, version, number, seed) for number, ((key, version), seed) in enumerate(drawn)]
    expected: Counter[tuple[str, str]] = Counter()
    for (key, version), frame in zip((api for api, _ in drawn), frames, strict=True):
        codes = error_codes(frame[4:], key, version)
        for code in codes if isinstance(codes, list) else ():
            expected[apis.api_name(key) or "", kafka_error(code).name] += 1
    data = b"".join(frames)
    for chunks in ([data], frames, cut(data, random), [bytes([byte]) for byte in data]):
        traffic = play([api for api, _ in drawn], [chunk for chunk in chunks if chunk])
        assert traffic.errors.named == expected
        assert traffic.errors.unread == Counter(
            {("other", "unknown_version"): sum(api[0] == VENDOR for api, _ in drawn)}
        )


@each_row("at", range(1, 21))
def test_a_response_cut_anywhere_is_followed_by_one_that_is_whole(at: int) -> None:
    frames = [framed(catalog.encode_response(HEARTBEAT, 4, number, {"error_code": 25 + number})) for number in range(3)]
    data = b"".join(frames)
    traffic = play([(HEARTBEAT, 4)] * 3, [data[:at], data[at:]])
    assert traffic.errors.named == Counter(("Heartbeat", kafka_error(code).name) for code in (25, 26, 27))


def test_a_response_in_pieces_that_ends_early_is_not_read_on_in_the_next_one() -> None:
    short, whole = response(0, b"\0" * 6), framed(catalog.encode_response(HEARTBEAT, 4, 1, {}))
    traffic = play([(HEARTBEAT, 4)] * 2, [short[:9], short[9:] + whole])
    assert traffic.errors.unread == {("Heartbeat", "malformed"): 1}
    assert not traffic.errors.named


def test_a_response_cut_by_the_connections_end_counts_no_error() -> None:
    talk, traffic = Conversation(Routes()), Traffic()
    split_responses = SplitResponses(talk.responses_side)
    talk.requests(request(HEARTBEAT, 4, 1), 1)
    step = talk.responses(framed(catalog.encode_response(HEARTBEAT, 4, 1, {"error_code": 25}))[:-1], 2)
    traffic.finished(step.finished, 2, step.data, split_responses.follow(step), anywhere())
    assert not traffic.errors.named
