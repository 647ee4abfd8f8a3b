from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

from bench import wire_messages
from bench.wire_messages import batch, messages
from proxy.wire.compile.layout import Slot, Struct, layout


def test_the_twelve_messages_are_the_same_each_time() -> None:
    first = [message.body for message in messages()]
    messages.cache_clear()
    assert [message.body for message in messages()] == first
    assert len(set(first)) == 12


def test_metadata_and_fetch_have_the_sizes_that_they_are_known_by() -> None:
    metadata, fetch, many_partitions, *_ = messages()
    assert 53_500 < len(metadata.body) < 54_500
    assert 780_000 < len(fetch.body) < 830_000
    assert sum(len(topic["partitions"]) for topic in many_partitions.values["responses"]) == 1000


def test_a_batch_begins_at_its_offset_and_keeps_its_checksum() -> None:
    written = batch(Random(1), 77, 3, 20)
    assert int.from_bytes(written[:8], "big") == 77
    assert int.from_bytes(written[8:12], "big") == len(written) - 12
    assert written[8:] == batch(Random(1), 0, 3, 20)[8:]


def test_every_field_of_the_version_is_given() -> None:
    """Except tagged fields that are usually absent."""
    for message in messages():
        for slots, values in structs(message):
            assert {slot.name for slot in slots if slot.tag is None} <= values.keys(), message.name


def structs(message: wire_messages.Message) -> list[tuple[tuple[Slot, ...], Mapping[str, Any]]]:
    return list(_within(layout(message.codec.message, message.version), message.values))


def _within(struct: Struct, values: Mapping[str, Any]) -> Iterator[tuple[tuple[Slot, ...], Mapping[str, Any]]]:
    yield tuple(struct), values
    for slot in struct:
        if slot.struct and slot.array:
            for one in values.get(slot.name) or []:
                yield from _within(slot.struct, one)
