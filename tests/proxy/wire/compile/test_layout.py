import struct

import pytest

from proxy.wire.compile.layout import FIXED, Slot, Struct, layout
from proxy.wire.language import parse
from tests.strategies import EVERY_MESSAGE, must_codec

TEXT = """
ARequest  key 1  versions 0-3  flexible 2+
  id: int32
  name: string?1+
  rows: []                  v1+
    left: int8
    right: uuid             v2+
  late: string              v2+  tag 1
  early: int8               v3+  tag 0
"""
(MESSAGE,) = parse(TEXT)


def test_a_version_has_its_own_fields_only() -> None:
    assert [slot.name for slot in layout(MESSAGE, 0)] == ["id", "name"]
    assert [slot.name for slot in layout(MESSAGE, 1)] == ["id", "name", "rows"]


def test_tagged_fields_stand_behind_the_others_by_their_tag() -> None:
    struct = layout(MESSAGE, 3)
    assert [slot.name for slot in struct.slots] == ["id", "name", "rows"]
    assert [(slot.tag, slot.name) for slot in struct.tagged] == [(0, "early"), (1, "late")]


def test_names_of_all_versions_are_known_in_each() -> None:
    assert layout(MESSAGE, 0).names == {"id", "name", "rows", "late", "early"}


def test_nullability_and_compact_lengths_belong_to_the_version() -> None:
    names = [layout(MESSAGE, version).slots[1] for version in range(4)]
    assert [name.nullable for name in names] == [False, True, True, True]
    assert [name.compact for name in names] == [False, False, True, True]


def test_a_struct_of_fixed_fields_has_a_size_unless_tags_follow() -> None:
    (*_, rows) = layout(MESSAGE, 1).slots
    assert rows.struct is not None
    assert rows.struct.fixed_size == 1
    (*_, rows) = layout(MESSAGE, 2).slots
    assert rows.struct is not None
    assert rows.struct.fixed_size is None
    assert layout(MESSAGE, 0).fixed_size is None


def test_an_element_is_no_array_and_not_null() -> None:
    (message,) = parse("ARequest  key 1  versions 0  flexible 0+\n  names: []string?\n  ids: []int64\n")
    names, ids = layout(message, 0).slots
    assert (names.element.array, names.element.nullable, names.element.type) == (False, False, "string")
    assert (ids.code, ids.element.code, ids.size) == (None, "q", 8)


def elements(struct: Struct) -> list[Slot]:
    found = []
    for slot in struct:
        found += [slot] * slot.array
        found += elements(slot.struct) if slot.struct else []
    return found


@pytest.mark.parametrize("kind", ["request", "response"])
def test_every_element_of_every_array_takes_at_least_a_byte(kind: str) -> None:
    """This bounds a reader's memory: there can't be more elements than bytes."""
    for message in EVERY_MESSAGE:
        if message[0] == kind:
            codec = must_codec(*message)
            for slot in elements(layout(codec.message, codec.version)):
                empty = slot.struct is not None and not slot.struct.slots and not slot.struct.flexible
                assert not empty, (codec, slot.name)


def test_sizes_are_those_of_the_struct_codes() -> None:
    assert all(struct.calcsize(">" + code) == size for code, size in FIXED.values())


def test_the_type_of_an_integer_is_that_of_the_version() -> None:
    (message,) = parse("ARequest  key 1  versions 0-2  flexible never\n  a: []int16 v0, []varint32 v1, []int64 v2\n")
    (first,), (second,), (third,) = (layout(message, version).slots for version in range(3))
    assert (first.element_code, second.element_code, third.element_code) == ("h", None, "q")
    assert second.element_varint == second.element.varint == (32, "signed")
    assert (second.varint, first.element_varint) == (None, None)


def test_an_absent_field_has_its_declared_default_or_its_types_zero() -> None:
    (message,) = parse(
        "ARequest  key 1  versions 0  flexible 0+\n"
        "  a: varint16  = -1\n  b: string\n  c: string?  = null\n"
        "  d: {}\n    e: []int8\n    f: uuid\n  g: unsigned_varint64\n"
    )
    defaults = {slot.name: slot.default for slot in layout(message, 0)}
    assert defaults == {"a": -1, "b": "", "c": None, "d": {"e": [], "f": bytes(16)}, "g": 0}
