"""Tests of how far a compiled probe reads. `test_error_reader.py` tests what it finds."""

import tracemalloc

import pytest

from proxy.wire.error_reader import MAX_ELEMENTS, FoundErrors
from proxy.wire.keys import CREATE_TOPICS, DESCRIBE_CONFIGS, FETCH, HEARTBEAT, METADATA, PRODUCE
from tests.proxy.wire.probing import MIB, found_whole, frame_of, in_pieces, probe_of
from tests.strategies import must_codec
from tests.tables import each_row


def produced(codes: list[int], version: int = 9) -> bytes:
    codec = must_codec("response", PRODUCE, version)
    partitions = [{"index": index, "error_code": code} for index, code in enumerate(codes)]
    return frame_of(codec, codec.encode({"responses": [{"name": "t", "partition_responses": partitions}]}))


@pytest.mark.parametrize("version", [3, 9])
def test_a_probe_reads_at_most_max_elements(version: int) -> None:
    """The topic is one of the elements."""
    most = MAX_ELEMENTS - 1
    for codes, found in (
        ([3] * most, FoundErrors({3: most})),
        ([3] * most + [0], FoundErrors({3: most}, beyond=1)),
        ([0] * most + [3], FoundErrors(beyond=1)),
    ):
        frame = produced(codes, version)
        assert found_whole(probe_of(PRODUCE, version), frame) == found
        assert in_pieces(probe_of(PRODUCE, version), [frame[:20], frame[20:]]) == found


def test_a_probe_stops_after_the_last_error_code() -> None:
    codec = must_codec("response", DESCRIBE_CONFIGS, 4)
    settings = [{"name": f"setting-{number}"} for number in range(500)]
    for results, found in (
        ([{"error_code": 3, "configs": settings}], FoundErrors({3: 1})),
        ([{"configs": settings}, {"error_code": 3}], FoundErrors(beyond=1)),
        ([{"configs": settings[:30]}, {"error_code": 3, "configs": settings}], FoundErrors({3: 1})),
    ):
        frame = frame_of(codec, codec.encode({"results": results}))
        assert found_whole(probe_of(DESCRIBE_CONFIGS, 4), frame) == found
        assert in_pieces(probe_of(DESCRIBE_CONFIGS, 4), [frame[:90], frame[90:]]) == found


@each_row(
    ("key", "version", "body"),
    [
        pytest.param(PRODUCE, 3, b"\x7f\xff\xff\xff" + bytes(MIB), id="topics"),
        pytest.param(PRODUCE, 3, b"\0\0\0\1\0\0\x7f\xff\xff\xff" + bytes(MIB), id="partitions"),
        pytest.param(HEARTBEAT, 4, b"", id="tags of a header"),
        pytest.param(METADATA, 12, b"\0\0\0\0\xff\xff\xff\xff\x0f" + bytes(MIB), id="brokers, which hold no code"),
        pytest.param(CREATE_TOPICS, 7, b"\0\0\0\0\2\2t" + bytes(26) + b"\xff\xff\xff\xff\x0f" + bytes(MIB), id="tags"),
    ],
)
def test_a_number_of_elements_that_is_made_up_takes_no_longer(key: int, version: int, body: bytes) -> None:
    tags = b"\0" if body else b"\xff\xff\xff\xff\x0f" + bytes(MIB)
    frame = frame_of(must_codec("response", key, version), body, tags)
    assert found_whole(probe_of(key, version), frame) == FoundErrors(beyond=1)
    assert in_pieces(probe_of(key, version), [frame[:4000]]) == FoundErrors(beyond=1)


def test_records_of_any_size_are_stepped_over_and_nothing_is_kept() -> None:
    codec = must_codec("response", FETCH, 12)
    partitions = [{"partition_index": n, "error_code": n % 2 * 6, "records": b"r" * MIB} for n in range(32)]
    view = memoryview(frame_of(codec, codec.encode({"responses": [{"topic": "t", "partitions": partitions}]})))
    arriving = probe_of(FETCH, 12).begin()
    tracemalloc.start()
    for at in range(0, len(view), 100_000):
        arriving.feed(view[at : at + 100_000])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert arriving.found == FoundErrors({6: 16})
    assert peak < 50_000


def test_a_response_that_ends_early_is_malformed() -> None:
    """No probe reads the bytes after the last code."""
    frame = produced([3, 7])
    for size in range(8, frame.rindex(b"\7") + 1):
        short = frame[:size]
        assert found_whole(probe_of(PRODUCE, 9), short) == in_pieces(probe_of(PRODUCE, 9), [short])
        assert found_whole(probe_of(PRODUCE, 9), short).malformed == 1
