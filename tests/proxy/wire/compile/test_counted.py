"""Tests of decoding within a budget: the same values, fair prices, and the values so far when it is used up."""

import tracemalloc
from collections.abc import Container, Iterator
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire import apis, catalog
from proxy.wire.budget import Budget
from proxy.wire.catalog import Codec
from proxy.wire.compile import costs
from proxy.wire.compile.costs import MAX_PER_BYTE, NEVER_TOO_LARGE
from proxy.wire.compile.layout import FIXED, Slot, Struct, layout
from proxy.wire.embedded import schemas
from proxy.wire.errors import Malformed, OverBudget, Truncated, WireError
from proxy.wire.language import parse
from proxy.wire.primitives import uvarint
from tests.proxy.wire.sweeping import every_shape
from tests.strategies import (
    EVERY_MESSAGE,
    KINDS,
    extremes,
    field_paths,
    messages,
    must_codec,
    swept_versions,
    values_of,
)

METADATA = must_codec("response", 3, 12)


def tagged_names(struct: Struct, within: bool = False) -> Iterator[str]:
    """Yields the names of all tagged fields, and of all fields within them."""
    yield "_tags"
    for slot in struct:
        is_tagged = within or slot.tag is not None
        if is_tagged:
            yield slot.name
        if slot.struct:
            yield from tagged_names(slot.struct, is_tagged)


def of_api(key: int) -> Iterator[Codec]:
    return (must_codec(kind, key, version) for version in swept_versions(key) for kind in KINDS)


def spent(codec: Codec, data: bytes) -> int:
    budget = Budget()
    codec.decode(data, budget=budget)
    return budget.size - budget.values.left


@every_shape
def test_values_are_those_of_the_quick_way(key: int) -> None:
    for codec in of_api(key):
        for data in (codec.encode(values_of(codec, 1)), codec.encode(extremes(codec))):
            assert codec.decode(data, budget=Budget()) == codec.decode(data), codec


@given(messages(), st.integers(0, 2000))
def test_damaged_bytes_raise_the_same_error_with_and_without_a_budget(
    message: tuple[Codec, dict[str, Any]], at: int
) -> None:
    codec, values = message
    data = codec.encode(values)
    damaged = bytearray(data or b"\0")
    damaged[at % len(damaged)] ^= 0xFF
    for wrong in (data[: at % (len(data) + 1)], bytes(damaged)):
        counted, quick = outcome(codec, wrong, Budget()), outcome(codec, wrong, None)
        # an impossible count is found at once; the function without a budget may meet other damage first
        assert counted == quick or (counted is Truncated and quick in (Truncated, Malformed))


def outcome(codec: Codec, data: bytes, budget: Budget | None) -> Any:
    """Returns the values, or the error's class."""
    try:
        return codec.decode(data, budget=budget)
    except WireError as error:
        return type(error)


@given(messages(), st.data())
def test_values_decoded_within_a_budget_are_a_prefix_of_all(
    message: tuple[Codec, dict[str, Any]], data: st.DataObject
) -> None:
    codec, values = message
    encoded = codec.encode(values)
    everything = spent(codec, encoded)
    most = data.draw(st.integers(0, everything - 1)) if everything else 0
    if most < everything:
        with pytest.raises(OverBudget) as caught:
            codec.decode(encoded, budget=Budget(most))
        assert (caught.value.api, caught.value.version) == (codec.message.api, codec.version)
        tagged = set(tagged_names(layout(codec.message, codec.version)))
        assert begins(caught.value.values, codec.decode(encoded)[0], tagged)


def begins(part: Any, whole: Any, tagged: Container[str]) -> bool:
    """True if `part` is `whole`, or a beginning of it: only its last place may be incomplete.

    Tagged fields have their defaults in `part` until they are read, so several may differ after the last place.
    """
    if part == whole:
        return True
    if isinstance(part, dict) and isinstance(whole, dict):
        unlike = [name for name in part if name not in whole or part[name] != whole[name]]
        return not unlike or (
            begins(part[unlike[0]], whole.get(unlike[0]), tagged) and all(name in tagged for name in unlike[1:])
        )
    if isinstance(part, list) and isinstance(whole, list):
        return not part or (part[:-1] == whole[: len(part) - 1] and begins(part[-1], whole[len(part) - 1], tagged))
    # a tagged field that has not been read yet
    return not isinstance(part, list | dict) or not part


def test_empty_elements_are_charged_one_by_one() -> None:
    count = 1000
    codec = must_codec("request", 3, 9)
    topics = uvarint(count + 1) + b"\x01\x00" * count
    data = topics + b"\x00\x00\x00" + b"\x00"
    (price,) = {spent(codec, uvarint(n + 1) + b"\x01\x00" * n + bytes(4)) - 2 * n for n in (0,)}
    each = (spent(codec, data) - len(data) - price + 5) // count
    with pytest.raises(OverBudget) as caught:
        codec.decode(data, budget=Budget(len(data) + 10 * each))
    assert caught.value.values == {"topics": [{"name": ""}] * 10}


@pytest.mark.parametrize("version", [8, 12])
def test_a_count_that_lies_costs_nothing(version: int) -> None:
    codec = must_codec("response", 3, version)
    data = codec.encode({"topics": [{"partitions": [{"replica_nodes": [1, 2, 3]}]}]})
    count, lie = (b"\0\0\0\3\0\0\0\1", b"\x7f\xff\xff\xff\0\0\0\1") if version < 9 else (b"\4\0\0\0\1", b"\x7f\0\0\0\1")
    budget = Budget(10_000)
    with pytest.raises(Truncated):
        codec.decode(data.replace(count, lie), budget=budget)
    assert not budget.used_up


def test_unknown_tags_are_charged() -> None:
    body = METADATA.encode({"_tags": dict.fromkeys(range(1000, 2000), b"")})
    assert spent(METADATA, body) >= spent(METADATA, METADATA.encode({})) + 1000 * costs.TAG
    with pytest.raises(OverBudget):
        METADATA.decode(body, budget=Budget(100 * costs.TAG))


def test_without_a_budget_a_call_has_one_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    fetch = must_codec("response", 1, 12)
    body = fetch.encode({"responses": [{"partitions": [{"records": bytes(NEVER_TOO_LARGE)}]}]})
    assert fetch.decode(body) == fetch.decode(body, budget=Budget())
    monkeypatch.setattr(catalog, "Budget", lambda: Budget(1000))
    with pytest.raises(OverBudget, match=r"Fetch v12 at byte .*: decoding makes more than 1000 bytes"):
        fetch.decode(body)


def test_a_projection_that_counts_finds_the_same() -> None:
    body = METADATA.encode({"brokers": [{"host": "h", "node_id": n} for n in range(3)], "cluster_id": "c"})
    paths = ("brokers.host", "brokers.node_id", "cluster_id")
    budget = Budget()
    assert METADATA.project_within(paths)(body, 0, budget.values.take) == METADATA.project(paths)(body, 0)
    assert budget.size - budget.values.left == 7 * costs.SPAN
    with pytest.raises(OverBudget, match="Metadata v12"):
        METADATA.project_within(paths)(body, 0, Budget(6 * costs.SPAN).values.take)


@given(messages())
def test_a_projection_that_counts_finds_all_that_the_other_one_does(message: tuple[Codec, dict[str, Any]]) -> None:
    codec, values = message
    data = codec.encode(values)
    paths = tuple(field_paths(layout(codec.message, codec.version)))
    assert codec.project_within(paths)(data, 0, Budget().values.take) == codec.project(paths)(data, 0)


def smallest(slot: Slot) -> int:
    """Returns the fewest bytes that a field takes."""
    if slot.code:
        return slot.size
    if slot.struct and not slot.array:
        return 1 if slot.nullable else smallest_of(slot.struct)
    return 1 if slot.varint or slot.compact else 2 if slot.type == "string" and not slot.array else 4


def smallest_of(struct: Struct) -> int:
    return sum(map(smallest, struct.slots)) + struct.flexible


def arrays(struct: Struct) -> Iterator[Slot]:
    for slot in struct:
        if slot.array:
            yield slot
        if slot.struct:
            yield from arrays(slot.struct)


def all_arrays() -> Iterator[Slot]:
    known = [must_codec(*message) for message in EVERY_MESSAGE]
    known += [schemas.must(name, version) for name in schemas.names() for version in schemas.versions(name)]
    for codec in known:
        yield from arrays(layout(codec.message, codec.version))


def test_an_element_that_is_not_counted_costs_a_bounded_multiple_of_its_bytes() -> None:
    for slot in all_arrays():
        width = smallest_of(slot.struct) if slot.struct else FIXED[slot.type][1] if slot.element_code else 1
        assert width >= 1, slot
        assert costs.of_element(slot) <= MAX_PER_BYTE * width, slot
    assert costs.TAG <= MAX_PER_BYTE * 2


MANY = 400


@every_shape
def test_values_take_no_more_than_is_charged_for_them(key: int) -> None:
    """Takes the newest version, with every array full of the smallest elements."""
    for kind in ("request", "response"):
        found = catalog.codec(kind, key, apis.versions(key)[-1])
        if found is None:
            continue
        for path in _paths_of_arrays(found):
            data = found.encode(_full(layout(found.message, found.version), path.split(".")))
            price = spent(found, data)
            assert size_of(found, data) <= price, (found, path)


def _paths_of_arrays(codec: Codec) -> list[str]:
    """Returns the paths of arrays of structs and texts, at most one deep, so that nothing else is large."""
    struct = layout(codec.message, codec.version)
    return [slot.name for slot in struct if slot.array and f"{slot.name}" in field_paths(struct)]


def _full(struct: Struct, path: list[str]) -> dict[str, Any]:
    (slot,) = (one for one in struct if one.name == path[0])
    return {slot.name: [_least(slot)] * MANY}


def _least(slot: Slot) -> Any:
    if slot.struct:
        return {one.name: [] for one in slot.struct if one.array and not one.nullable}
    return {"string": "", "bool": False, "uuid": Random(1).randbytes(16)}.get(slot.type, 1)


def size_of(codec: Codec, data: bytes) -> int:
    """Returns the size of a body's values; its functions have been compiled."""
    tracemalloc.start()
    try:
        with suppress(OverBudget):
            values = codec.decode(data, budget=Budget())
        return tracemalloc.get_traced_memory()[0] if values else 0
    finally:
        tracemalloc.stop()


def test_a_message_of_a_users_own_is_counted_too() -> None:
    (message,) = parse("ARequest  key 1  versions 0-1  flexible 1+\n  spend: []\n    message: string\n  size: int8\n")
    codec = Codec(message, 1)
    values = {"spend": [{"message": "a"}], "size": 1}
    assert codec.decode(codec.encode(values), budget=Budget())[0] == values
