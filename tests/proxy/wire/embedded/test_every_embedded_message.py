"""Tests of each embedded message in each version: the compiled functions against the slow, obvious twin."""

from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire import embedded
from proxy.wire.catalog import Codec
from proxy.wire.compile.layout import layout
from proxy.wire.errors import Truncated, WireError
from tests.proxy.wire.interpreter import Reader, Writer
from tests.proxy.wire.test_every_message import damage
from tests.strategies import Values, at_path, extremes, field_paths, values_of
from tests.sweeps import examples
from tests.tables import each_row

EVERY_EMBEDDED = [(name, version) for name in embedded.names() for version in embedded.versions(name)]
every_embedded = each_row(("name", "version"), EVERY_EMBEDDED)


def must_embedded(name: str, version: int) -> Codec:
    codec = embedded.codec(name, version)
    assert codec is not None
    return codec


def samples(codec: Codec) -> list[dict[str, Any]]:
    return [extremes(codec), *(values_of(codec, seed) for seed in range(6))]


@every_embedded
def test_encoded_values_decode_to_themselves_and_equal_the_twins_bytes(name: str, version: int) -> None:
    codec = must_embedded(name, version)
    for values in samples(codec):
        data = codec.encode(values)
        assert data == Writer(codec.message, version).write(values)
        assert codec.decode(data) == (values, len(data))
        assert Reader(codec.message, version, data).read() == values


@every_embedded
def test_every_prefix_is_truncated(name: str, version: int) -> None:
    codec = must_embedded(name, version)
    data = codec.encode(values_of(codec, "prefix"))
    for size in range(min(len(data), 1000)):
        with pytest.raises(Truncated) as caught:
            codec.decode(data[:size])
        assert (caught.value.api, caught.value.version) == (name, version)


@st.composite
def embedded_messages(draw: st.DrawFn) -> tuple[Codec, dict[str, Any]]:
    codec = must_embedded(*draw(st.sampled_from(EVERY_EMBEDDED)))
    random = draw(st.randoms(use_true_random=False))
    return codec, Values(random).struct(layout(codec.message, codec.version))


@examples(100)
@given(embedded_messages(), st.data())
def test_a_projection_is_the_same_path_of_the_full_decode(
    drawn: tuple[Codec, dict[str, Any]], data: st.DataObject
) -> None:
    codec, values = drawn
    if paths := field_paths(layout(codec.message, codec.version)):
        path = data.draw(st.sampled_from(paths))
        found = codec.project((path,))(Writer(codec.message, codec.version, eager=True).write(values), 0)[path]
        assert [value for value, _, _ in found] == at_path(values, path)


@examples(200)
@given(embedded_messages(), st.randoms(use_true_random=False))
def test_damaged_bytes_raise_the_error_family_and_nothing_else(
    drawn: tuple[Codec, dict[str, Any]], random: Random
) -> None:
    codec, values = drawn
    with suppress(WireError):
        codec.decode(damage(codec.encode(values), random))
