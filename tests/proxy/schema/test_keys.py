from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

import pytest

from proxy.config import ClusterSettings, LogSettings, ProxySettings
from proxy.schema.keys import Key, keys_of, wrong_values
from proxy.schema.kinds import INTEGER, LIMIT
from recorder.capture.session import CaptureSettings

SECTIONS = (ProxySettings, LogSettings, ClusterSettings, CaptureSettings)
KEYS = [
    pytest.param(known, id=f"{section.__name__}.{known.key.name}")
    for section in SECTIONS
    for known in keys_of(section).values()
]


@dataclass(frozen=True, slots=True)
class Pond:
    depth: Annotated[int, Key(LIMIT, "limits.depth", "How deep.", 3)] = 1
    ducks: Annotated[Mapping[int, int], Key(INTEGER, "ducks", "Ducks.", 1, each=INTEGER)] = field(default_factory=dict)
    name: str = "pond"
    fish: Annotated[int | None, Key(INTEGER, "fish", "Fish.", 7, unset="none")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lake(Pond):
    shore: Annotated[int, Key(INTEGER, "shore", "Shore.", 7)]


def test_fields_with_a_key_are_the_users():
    assert {place: known.field for place, known in keys_of(Pond).items()} == {
        ("limits", "depth"): "depth",
        ("ducks",): "ducks",
        ("fish",): "fish",
    }


def test_defaults_are_the_fields_own():
    assert [known.default for known in keys_of(Pond).values()] == [1, {}, None]
    assert not any(known.is_required for known in keys_of(Pond).values())


def test_what_must_be_given_comes_first():
    first, *others = keys_of(Lake).values()
    assert (first.field, first.is_required) == ("shore", True)
    assert [known.field for known in others] == ["depth", "ducks", "fish"]


def test_a_value_that_its_kind_would_not_read_is_wrong():
    assert wrong_values(Pond()) == []
    assert [*map(str, wrong_values(Pond(depth=0, ducks={3: 1}, fish=2)))] == [
        "limits.depth 0 lets nothing through; right would be limits.depth 3"
    ]


@pytest.mark.parametrize("known", KEYS)
def test_a_keys_example_is_right(known):
    value = known.key.kind.read(known.key.example)
    assert known.key.kind.read(known.key.kind.written(value)) == value


@pytest.mark.parametrize("known", KEYS)
def test_a_default_is_right_too(known):
    if not known.is_required and known.default is not None and known.key.each is None:
        assert known.key.kind.read(known.key.kind.written(known.default)) == known.default


@pytest.mark.parametrize("known", KEYS)
def test_a_key_explains_itself(known):
    key = known.key
    assert key.text.endswith(".")
    assert "|" not in key.text + key.unset + key.kind.name
    assert bool(key.unset) == (known.default is None or known.default == {})
    assert key.each in (None, INTEGER)
