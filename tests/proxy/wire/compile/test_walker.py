import tracemalloc
from contextlib import suppress

from proxy.wire import catalog
from proxy.wire.errors import WireError
from proxy.wire.keys import CONSUMER_GROUP_HEARTBEAT, FETCH, SHARE_FETCH
from tests.strategies import must_codec

MIB = 1 << 20


def test_a_record_of_any_size_is_one_step() -> None:
    """Feeds 64 MiB of records in chunks of one byte: none of them is stored."""
    codec = must_codec("response", FETCH, 16)
    body = codec.encode({"responses": [{"partitions": [{"records": b"r" * MIB}] * 64}], "_tags": {5: b"end"}})
    start = codec.project(("tags",))(body, 0)["tags"][0][1]
    walk, view = codec.walk("tags"), memoryview(body)
    tracemalloc.start()
    found = [walk.feed(view[at : at + MIB]) for at in range(0, start + 1, MIB)]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found[:-1] == [None] * (len(found) - 1)
    assert found[-1] == start % MIB
    assert peak < 100_000


def test_a_field_that_begins_with_the_next_chunk_stands_at_the_end_of_this_one() -> None:
    walk = must_codec("response", FETCH, 16).walk("error_code")
    assert walk.feed(b"") is None
    assert walk.feed(b"\0\0\0") is None
    assert walk.feed(b"\0") == 1


def test_a_walk_ends_in_front_of_the_endpoints_of_share_fetch() -> None:
    codec = must_codec("response", SHARE_FETCH, 1)
    frame = catalog.encode_response(SHARE_FETCH, 1, 9, {"responses": [{"partitions": [{"records": b"xy"}]}]})
    (found,) = [catalog.walk_response(SHARE_FETCH, 1, "node_endpoints").feed(frame)]
    assert found is not None
    assert frame[found:] == codec.encode({})[-2:]


def test_a_walk_steps_over_a_struct_that_is_there_or_null() -> None:
    codec = must_codec("response", CONSUMER_GROUP_HEARTBEAT, 0)
    for assignment in (None, {"topic_partitions": [{"partitions": [1, 2]}]}):
        data = codec.encode({"assignment": assignment})
        assert codec.walk("tags").feed(data) == len(data) - 1


def test_a_walk_over_nonsense_raises_the_error_family_or_waits() -> None:
    for byte in range(256):
        with suppress(WireError):
            assert must_codec("response", FETCH, 16).walk("tags").feed(bytes([byte]) * 5000) in (None, *range(5001))
