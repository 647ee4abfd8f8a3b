"""Tests of each message in each version: the compiled functions against the slow, obvious twin.

The sweeps take each version once, or those of `swept_versions`, with a few fixed values. The properties draw any
message and any values.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire import apis, catalog
from proxy.wire.budget import Budget
from proxy.wire.catalog import Codec, Walk
from proxy.wire.compile.costs import NEVER_TOO_LARGE
from proxy.wire.compile.layout import Slot, Struct, layout
from proxy.wire.errors import Truncated, WireError
from proxy.wire.keys import PRODUCE
from proxy.wire.language import Field
from proxy.wire.pieces import LARGE, Pieces
from tests.proxy.wire.interpreter import Reader, Writer
from tests.proxy.wire.sweeping import every_api, every_shape
from tests.strategies import KINDS, at_path, field_paths, messages, must_codec, swept_versions, values_of
from tests.sweeps import examples

FEW, MANY = 2, 40
FEW_BYTES, MANY_BYTES = 80, 3000


def samples(
    key: int, count: int = FEW, versions: Iterable[int] | None = None
) -> Iterator[tuple[Codec, dict[str, Any]]]:
    """Draws request and response of each version of a sweep, or of these versions, with `count` values each."""
    for version in swept_versions(key) if versions is None else versions:
        for kind in KINDS:
            codec = must_codec(kind, key, version)
            for seed in range(count):
                yield codec, values_of(codec, seed)


def spans_of(codec: Codec, data: bytes) -> dict[str, list[tuple[Any, int, int]]]:
    """Returns path -> (value, start, end), as the twin finds them."""
    reader = Reader(codec.message, codec.version, data)
    reader.read()
    found: dict[str, list[tuple[Any, int, int]]] = defaultdict(list)
    for path, value, start, end in reader.spans:
        found[path].append((value, start, end))
    return found


@every_api
def test_encoded_values_decode_to_themselves(key: int) -> None:
    for codec, values in samples(key):
        data = codec.encode(values)
        assert codec.decode(data) == (values, len(data)), codec
        assert codec.encode(codec.decode(data)[0]) == data, codec


@every_api
def test_bytes_are_those_of_the_twin(key: int) -> None:
    for codec, values in samples(key):
        assert codec.encode(values) == Writer(codec.message, codec.version).write(values), codec


@every_shape
def test_with_records_as_views_of_the_buffer_and_in_pieces_all_is_the_same(key: int) -> None:
    for codec, values in samples(key):
        data = codec.encode(values)
        for budget in (None, Budget()):
            viewed, end = codec.decode(data, budget=budget, views=True)
            assert (viewed, end) == (values, len(data)), codec
            assert bytes(codec.encode_pieces(viewed)) == data, codec
            assert codec.encode(viewed) == data, codec


@pytest.mark.parametrize("size", [LARGE, NEVER_TOO_LARGE], ids=["large", "counted"])
def test_large_records_are_neither_copied_when_they_are_read_nor_when_they_are_written(size: int) -> None:
    values = {"topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": bytes(size)}]}]}
    codec = must_codec("request", PRODUCE, 9)
    data = codec.encode(values)
    found, _ = codec.decode(data, views=True)
    read = found["topic_data"][0]["partition_data"][0]["records"]
    assert read.obj is data
    pieces = codec.encode_pieces(found)
    assert isinstance(pieces, Pieces)
    head, written, tail = pieces.buffers
    assert isinstance(written, memoryview)
    assert written.obj is data
    assert b"".join((head, written, tail)) == data


@every_shape
def test_long_varints_and_tags_with_their_default_are_read_too(key: int) -> None:
    for codec, values in samples(key):
        if codec.version in codec.message.flexible:
            data = Writer(codec.message, codec.version, width=5, eager=True).write(values)
            assert codec.decode(data) == (values, len(data)), codec
            ((_, start, end),) = codec.project(("tags",))(data, 0)["tags"]
            assert end == len(data), codec
            assert fed(codec.walk("tags"), [bytes([byte]) for byte in data]) == start, codec


@every_shape
def test_all_paths_at_once_are_projected_as_the_twin_finds_them(key: int) -> None:
    """Compares value and span."""
    for codec, values in samples(key, 1):
        data = codec.encode(values)
        expected = spans_of(codec, data)
        paths = tuple(field_paths(layout(codec.message, codec.version)))
        assert codec.project(paths)(data, 0) == {path: expected[path] for path in paths}, codec


@every_shape
def test_each_path_of_the_newest_version_is_projected_alone(key: int) -> None:
    for codec, values in list(samples(key, 1))[-2:]:
        each_path_alone(codec, values)


@pytest.mark.long
@every_api
def test_each_path_of_every_version_is_projected_alone(key: int) -> None:
    for codec, values in samples(key, 2, apis.versions(key)):
        each_path_alone(codec, values)


def each_path_alone(codec: Codec, values: dict[str, Any]) -> None:
    data = codec.encode(values)
    expected = spans_of(codec, data)
    for path in field_paths(layout(codec.message, codec.version)):
        assert codec.project((path,))(memoryview(data), 0) == {path: expected[path]}, (codec, path)


@every_shape
def test_the_span_of_every_path_is_what_its_value_encodes_to(key: int) -> None:
    for codec, values in samples(key):
        data, writer = codec.encode(values), Writer(codec.message, codec.version)
        paths = tuple(field_paths(layout(codec.message, codec.version)))
        for path, found in codec.project(paths)(data, 0).items():
            field = field_at(codec, path)
            assert [writer.value(field, value) for value, _, _ in found] == [data[s:e] for _, s, e in found], (
                codec,
                path,
            )


def field_at(codec: Codec, path: str) -> Field:
    """Returns the field of that version."""
    fields, names = codec.message.fields, path.split(".")
    for name in names:
        (found,) = (one for one in fields if one.name == name and codec.version in one.versions)
        fields = found.fields
    return found


@every_shape
def test_unknown_tags_of_every_struct_survive_byte_for_byte(key: int) -> None:
    for codec, values in samples(key):
        struct = layout(codec.message, codec.version)
        if struct.flexible:
            tagged = tagged_everywhere(struct, values)
            data = Writer(codec.message, codec.version, eager=True).write(tagged)
            assert codec.decode(data) == (tagged, len(data)), codec
            again = codec.encode(codec.decode(data)[0])
            assert again == codec.encode(tagged) == Writer(codec.message, codec.version).write(tagged), codec
            assert data.count(MARK) == again.count(MARK) > 0, codec


MARK = b"unknown to anybody"


def tagged_everywhere(struct: Struct, values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values with unknown tags in every struct, unsorted: the first, the last possible, and others."""
    known = {slot.tag for slot in struct.tagged}
    found = {slot.name: inside(slot, values[slot.name]) for slot in struct}
    tags = {tag: payload for tag, payload in [(0, MARK), (77, b""), (2**32 - 1, b"last")] if tag not in known}
    return found | {"_tags": tags | {50: MARK}}


def inside(slot: Slot, value: Any) -> Any:
    if slot.struct is None or value is None:
        return value
    if isinstance(value, list):
        return [tagged_everywhere(slot.struct, one) for one in value]
    return tagged_everywhere(slot.struct, value)


@every_shape
def test_a_walk_stops_where_the_projection_says(key: int) -> None:
    """Feeds the body whole, and byte by byte."""
    for codec, values in samples(key, 1):
        data = b"12345" + codec.encode(values)
        stops = [slot.name for slot in layout(codec.message, codec.version).slots]
        stops += ["tags"] * (codec.version in codec.message.flexible)
        for stop in stops:
            ((_, start, _),) = codec.project((stop,))(data, 5)[stop]
            assert codec.walk(stop).feed(data[5:]) == start - 5, (codec, stop)
            assert fed(codec.walk(stop), [bytes([byte]) for byte in data[5:]]) == start - 5, (codec, stop)


def fed(walk: Walk, chunks: list[bytes]) -> int | None:
    """Returns the offset in all chunks together."""
    before = 0
    for chunk in chunks:
        if (found := walk.feed(chunk)) is not None:
            return before + found
        before += len(chunk)
    return None


@every_shape
def test_every_prefix_of_a_body_is_truncated(key: int) -> None:
    """Reads it whole, and projects it, up to the size from which all prefixes are alike."""
    for codec, values in samples(key, 1):
        every_prefix_is_truncated(codec, codec.encode(values), FEW_BYTES)


@pytest.mark.long
@every_api
def test_every_prefix_of_many_bodies_is_truncated(key: int) -> None:
    for codec, values in samples(key, 3, apis.versions(key)):
        every_prefix_is_truncated(codec, codec.encode(values), MANY_BYTES)


def every_prefix_is_truncated(codec: Codec, data: bytes, most: int) -> None:
    names = [slot.name for slot in layout(codec.message, codec.version).slots]
    names += ["tags"] * (codec.version in codec.message.flexible)
    # the last one, if there is any
    project = codec.project(tuple(names[-1:]))
    for size in range(min(len(data), most)):
        for read in (codec.decode, lambda prefix: project(prefix, 0)):
            with pytest.raises(Truncated) as caught:
                read(data[:size])
            assert (caught.value.api, caught.value.version) == (codec.message.api, codec.version)
            assert caught.value.offset is not None
            assert 0 <= caught.value.offset <= size


@every_shape
def test_every_prefix_of_a_frame_is_truncated(key: int) -> None:
    for codec, values in list(samples(key, 1))[-2:]:
        for size in range(len(frame := whole_frame(codec, values))):
            with pytest.raises(Truncated):
                decode_frame(codec, frame[:size])
        assert decode_frame(codec, frame)[1] == values


def whole_frame(codec: Codec, values: dict[str, Any]) -> bytes:
    kind, key, version = codec.message.kind, codec.message.key, codec.version
    assert key is not None
    if kind == "request":
        return catalog.encode_request(key, version, 7, "client", values)
    return catalog.encode_response(key, version, 7, values)


def decode_frame(codec: Codec, frame: bytes) -> Any:
    assert codec.message.key is not None
    if codec.message.kind == "request":
        return catalog.decode_request(frame)
    return catalog.decode_response(frame, codec.message.key, codec.version)


@pytest.mark.long
@every_api
def test_many_values_of_every_version_round_trip(key: int) -> None:
    for codec, values in samples(key, MANY, apis.versions(key)):
        data = codec.encode(values)
        assert codec.decode(data) == (values, len(data)), codec
        assert data == Writer(codec.message, codec.version).write(values), codec


@examples(100)
@given(messages())
def test_any_values_round_trip(drawn: tuple[Codec, dict[str, Any]]) -> None:
    codec, values = drawn
    data = codec.encode(values)
    assert codec.decode(bytearray(data)) == (values, len(data))


@examples(60)
@given(messages(), st.data())
def test_a_projection_is_the_same_path_of_the_full_decode(
    drawn: tuple[Codec, dict[str, Any]], data: st.DataObject
) -> None:
    codec, values = drawn
    if paths := field_paths(layout(codec.message, codec.version)):
        path = data.draw(st.sampled_from(paths))
        eager = Writer(codec.message, codec.version, eager=True).write(values)
        found = codec.project((path,))(eager, 0)[path]
        assert [value for value, _, _ in found] == at_path(codec.decode(eager)[0], path)


@examples(60)
@given(messages(), st.randoms(use_true_random=False))
def test_a_walk_takes_any_pieces(drawn: tuple[Codec, dict[str, Any]], random: Random) -> None:
    codec, values = drawn
    data = codec.encode(values)
    stops = [slot.name for slot in layout(codec.message, codec.version).slots]
    if stops:
        ((_, start, _),) = codec.project((stops[-1],))(data, 0)[stops[-1]]
        assert fed(codec.walk(stops[-1]), pieces(data, random)) == start


def pieces(data: bytes, random: Random) -> list[bytes]:
    """Cuts `data` into pieces, some of them empty."""
    cuts = sorted(random.randint(0, len(data)) for _ in range(random.randint(0, 9)))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


@examples(200)
@given(messages(), st.randoms(use_true_random=False))
def test_damaged_bytes_raise_the_error_family_and_nothing_else(
    drawn: tuple[Codec, dict[str, Any]], random: Random
) -> None:
    codec, values = drawn
    damaged = damage(codec.encode(values), random)
    paths = tuple(field_paths(layout(codec.message, codec.version)))
    for read in (codec.decode, lambda data: codec.project(paths)(data, 0), lambda data: walk_through(codec, data)):
        with suppress(WireError):
            read(damaged)


def walk_through(codec: Codec, data: bytes) -> None:
    slots = layout(codec.message, codec.version).slots
    if slots:
        codec.walk(slots[-1].name).feed(data)


def damage(data: bytes, random: Random) -> bytes:
    """Replaces a few bytes by impossible lengths, or by anything."""
    out = bytearray(data or b"\0")
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(out))
        bad = random.choice(
            [b"\xff\xff\xff\xff\x0f", b"\x7f\xff\xff\xff", b"\x80\x00", b"\xff\xff", bytes([random.randrange(256)])]
        )
        out[at : at + len(bad)] = bad
    return bytes(out)
