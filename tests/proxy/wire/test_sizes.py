"""Tests of calculated sizes against the encoders of messages with these types."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire import apis, embedded
from proxy.wire.catalog import Codec
from proxy.wire.compile.layout import layout
from proxy.wire.integers import Encoding
from proxy.wire.keys import METADATA
from proxy.wire.language import parse
from proxy.wire.sizes import BEST, Sizes, reencoded, sizes
from tests.proxy.wire.sweeping import every_api, every_shape
from tests.strategies import EVERY_MESSAGE, field_paths, messages, must_codec, swept_versions, values_of
from tests.sweeps import examples


def written(codec: Codec, values: Mapping[str, Any]) -> tuple[int, dict[str, int]]:
    """Returns the bytes of the body, and of every path, by encoder and projector."""
    data = codec.encode(values)
    paths = tuple(field_paths(layout(codec.message, codec.version)))
    spans = codec.project(paths)(data, 0)
    return len(data), {path: sum(end - start for _, start, end in spans[path]) for path in paths}


def reckoned(found: Sizes) -> tuple[int, Mapping[str, int]]:
    return found.total, dict(found.fields)


def agree(codec: Codec, values: Mapping[str, Any]) -> None:
    message, version = codec.message, codec.version
    for encoding in Encoding:
        found = sizes(message, version, values, encoding)
        assert reckoned(found) == written(Codec(reencoded(message, encoding), version), values), (codec, encoding)
        assert set(found.encodings.values()) <= {encoding}
    best = sizes(message, version, values, BEST)
    assert reckoned(best) == written(Codec(reencoded(message, best.encodings), version), values), codec


@every_shape
def test_the_fixed_size_is_what_every_message_has_today(key: int) -> None:
    for version in swept_versions(key):
        for kind in ("request", "response"):
            codec = must_codec(kind, key, version)
            values = values_of(codec, "sizes")
            assert reckoned(sizes(codec.message, version, values, "fixed")) == written(codec, values), codec


@every_shape
def test_each_encoding_is_what_the_newest_message_takes_with_those_types(key: int) -> None:
    for kind in ("request", "response"):
        codec = must_codec(kind, key, apis.versions(key)[-1])
        agree(codec, values_of(codec, "sizes"))


@pytest.mark.long
@every_api
def test_each_encoding_is_what_every_message_takes_with_those_types(key: int) -> None:
    for kind, of, version in EVERY_MESSAGE:
        if of == key:
            codec = must_codec(kind, key, version)
            agree(codec, values_of(codec, "all sizes"))


@pytest.mark.real
def test_messages_inside_messages_have_sizes_too() -> None:
    for name in embedded.names():
        codec = embedded.codec(name, embedded.versions(name)[-1])
        assert codec
        agree(codec, values_of(codec, "sizes"))


@examples(40)
@given(messages())
def test_any_values_take_what_is_reckoned(drawn: tuple[Codec, dict[str, Any]]) -> None:
    agree(*drawn)


@examples(60)
@given(messages())
def test_no_choice_of_encodings_is_better_than_the_best(drawn: tuple[Codec, dict[str, Any]]) -> None:
    codec, values = drawn
    best = sizes(codec.message, codec.version, values, BEST)
    assert all(best.total <= sizes(codec.message, codec.version, values, one).total for one in Encoding)
    for path in best.encodings:
        assert best.fields[path] == min(
            sizes(codec.message, codec.version, values, one).fields[path] for one in Encoding
        )


def test_a_path_that_only_negative_numbers_go_to_is_best_signed_or_fixed() -> None:
    head = "ARequest  key 1  versions 0  flexible 0+\n"
    (message,) = parse(head + "  ids: []int32\n  epoch: int32\n  code: int16\n  b: int8\n")
    values = {"ids": [-1, -2], "epoch": 300, "code": 7, "b": 1}
    found = sizes(message, 0, values, BEST)
    assert found.encodings == {"ids": Encoding.SIGNED, "epoch": Encoding.UNSIGNED, "code": Encoding.UNSIGNED}
    assert found.fields == {"ids": 3, "epoch": 2, "code": 1, "b": 1}
    assert found.total == 8, "with the tag buffer's byte"
    assert sizes(message, 0, values, "unsigned").fields["ids"] == 11


def test_types_that_change_with_the_version_are_counted_in_the_versions_width() -> None:
    (message,) = parse("ARequest  key 1  versions 0-1  flexible never\n  lag: unsigned_varint32 v0, int64 v1+\n")
    assert [sizes(message, version, {"lag": 5}, "fixed").total for version in (0, 1)] == [4, 8]
    assert [sizes(message, version, {"lag": -1}, "unsigned").total for version in (0, 1)] == [5, 10]
    assert reencoded(message, Encoding.SIGNED).fields[0].element_at(0) == "varint32"
    assert reencoded(message, {}) == message


def partition(**lists: list[int]) -> dict[str, Any]:
    """Returns a partition whose numbers take one byte each in the unsigned encoding."""
    return {"error_code": 0, "partition_index": 99, "leader_id": 127, "leader_epoch": 5} | lists


@given(st.lists(st.tuples(*[st.lists(st.integers(0, 127), max_size=126)] * 3), max_size=5), st.integers(9, 13))
def test_a_partition_of_metadata_takes_what_the_documents_formulas_say(
    nodes: list[tuple[list[int], ...]], version: int
) -> None:
    """KAFKA-9927, of the fields alone: 17 + 4 x (replica + isr + offline) fixed, 7 + replica + isr + offline at best;
    and 21 + 5 x (replica + isr + offline) at worst.

    Flexible versions add a byte for the tag buffer of each partition; the counts take a byte each up to 126.
    """
    message = must_codec("response", METADATA, version).message
    names = ("replica_nodes", "isr_nodes", "offline_replicas")
    topic = {"partitions": [partition(**dict(zip(names, lists, strict=True))) for lists in nodes]}
    count = [sum(map(len, lists)) for lists in nodes]
    fixed = sizes(message, version, {"topics": [topic]}, "fixed").fields["topics.partitions"]
    assert fixed == 1 + sum(17 + 4 * nodes_of + 1 for nodes_of in count)
    best = sizes(message, version, {"topics": [topic]}, "unsigned").fields["topics.partitions"]
    assert best == 1 + sum(7 + nodes_of + 1 for nodes_of in count)
    large = {"partitions": [at_worst(one) for one in topic["partitions"]]}
    worst = sizes(message, version, {"topics": [large]}, "unsigned").fields["topics.partitions"]
    assert worst == 1 + sum(21 + 5 * nodes_of + 1 for nodes_of in count)


def at_worst(small: dict[str, Any]) -> dict[str, Any]:
    """Returns the partition with numbers that take the most bytes."""
    lists = {name: [2**28 + node for node in value] for name, value in small.items() if isinstance(value, list)}
    return dict.fromkeys(small, -1) | lists


def test_an_unknown_encoding_is_an_error() -> None:
    codec = must_codec("request", METADATA, 12)
    with pytest.raises(ValueError, match="zigzag"):
        sizes(codec.message, 12, {}, "zigzag")


def test_a_version_that_the_message_lacks_is_an_error() -> None:
    codec = must_codec("request", METADATA, 12)
    with pytest.raises(ValueError, match="MetadataRequest has no version 99"):
        sizes(codec.message, 99, {}, BEST)
