from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

import pytest

from proxy.config import ClusterSettings, LiveSettings, LogSettings, ProxySettings
from proxy.schema.keys import Key, keys_of, wrong_values
from proxy.schema.kinds import INTEGER, LIMIT
from recorder.capture.session import CaptureSettings
from tests.tables import each_row

SECTIONS = (ProxySettings, LogSettings, LiveSettings, ClusterSettings, CaptureSettings)
KEYS = [
    pytest.param(field, id=f"{section.__name__}.{field.key.name}")
    for section in SECTIONS
    for field in keys_of(section).values()
]


@dataclass(frozen=True, slots=True)
class Pond:
    depth: Annotated[int, Key(LIMIT, "limits.depth", "How deep.", 3)] = 1
    ducks: Annotated[Mapping[int, int], Key(INTEGER, "ducks", "Ducks.", 1, name_kind=INTEGER)] = field(
        default_factory=dict
    )
    name: str = "pond"
    fish: Annotated[int | None, Key(INTEGER, "fish", "Fish.", 7, unset="none")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lake(Pond):
    shore: Annotated[int, Key(INTEGER, "shore", "Shore.", 7)]


def test_fields_with_a_key_are_the_users():
    assert {place: field.name for place, field in keys_of(Pond).items()} == {
        ("limits", "depth"): "depth",
        ("ducks",): "ducks",
        ("fish",): "fish",
    }


def test_defaults_are_the_fields_own():
    assert [field.default for field in keys_of(Pond).values()] == [1, {}, None]
    assert not any(field.is_required for field in keys_of(Pond).values())


def test_required_keys_come_first():
    first, *others = keys_of(Lake).values()
    assert (first.name, first.is_required) == ("shore", True)
    assert [field.name for field in others] == ["depth", "ducks", "fish"]


def test_a_value_that_its_kind_would_not_read_is_wrong():
    assert wrong_values(Pond()) == []
    assert [*map(str, wrong_values(Pond(depth=0, ducks={3: 1}, fish=2)))] == [
        "limits.depth 0 lets nothing through; right would be limits.depth 3"
    ]


@each_row("field", KEYS)
def test_a_keys_example_is_right(field):
    value = field.key.kind.read(field.key.example)
    assert field.key.kind.read(field.key.kind.written(value)) == value


@each_row("field", KEYS)
def test_a_default_is_right_too(field):
    if not field.is_required and field.default is not None and field.key.name_kind is None:
        assert field.key.kind.read(field.key.kind.written(field.default)) == field.default


@each_row("field", KEYS)
def test_a_key_explains_itself(field):
    key = field.key
    assert key.text.endswith(".")
    assert "|" not in key.text + key.unset + key.kind.name
    assert bool(key.unset) == (field.default is None or field.default == {})
    if key.name_kind is not None:
        key.name_kind.read(key.entry[0])
