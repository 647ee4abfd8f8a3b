"""Recorded values of an answer in the target's terms, as the comparison expects them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from recorder.replay.comparison.elements import Name
from recorder.replay.comparison.known import Counterparts, is_nothing
from recorder.replay.mapping import ValueKind
from recorder.replay.plan import Values
from recorder.replay.requests.fields import KINDS, ComparisonRule, Fields

# a producer's id and epoch are one value
EPOCH_OF = {"producer_id": "producer_epoch", "ongoing_txn_producer_id": "ongoing_txn_producer_epoch"}
_IN_GROUP = frozenset({ValueKind.MEMBER, ValueKind.INSTANCE, ValueKind.GENERATION, ValueKind.MEMBER_EPOCH})
# the kinds of values that `known` is asked for, a producer's epoch with its id; any other value is its own counterpart
ASKED = frozenset(row.kind for row in KINDS if row.compared is ComparisonRule.MAPPED) - {ValueKind.PRODUCER_EPOCH}

# fields of members' blobs, in all messages -> the kind of their values
_IN_BLOBS = {"topic": ValueKind.TOPIC_NAME, "topics": ValueKind.TOPIC_NAME, "leader": ValueKind.MEMBER}


@dataclass(frozen=True, slots=True)
class EnclosingNames:
    """The names in the structs around a value, in recorded terms."""

    group: str | None = None
    topic: Hashable = None
    partition: Hashable = None
    resource_type: int | None = None


NOWHERE = EnclosingNames()


def expected(known: Counterparts, what: ValueKind | None, recorded: Any, around: EnclosingNames) -> Any | None:
    """The target's value for a recorded one; None if unknown. A value that means "none" is its own counterpart."""
    if what not in ASKED or what is None or is_nothing(recorded):
        return recorded
    return known.expected(what, scope_of(what, around), recorded)


def scope_of(what: ValueKind, around: EnclosingNames) -> Hashable:
    """Where a value of this kind is unique."""
    if what in _IN_GROUP:
        return around.group
    if what is ValueKind.OFFSET:
        return around.topic, around.partition
    return around.resource_type if what is ValueKind.RESOURCE else None


def with_epoch(struct: Values, field: str) -> Any:
    """The value of a field; that of a producer's id includes its epoch, if the struct has one."""
    epoch = EPOCH_OF.get(field)
    return (struct[field], struct[epoch]) if epoch in struct else struct[field]


def expected_name(
    known: Counterparts,
    whats: Mapping[str, ValueKind],
    element: Values,
    fields: Fields,
    name: Name,
    around: EnclosingNames,
) -> Name | None:
    """The target's name of a recorded element; None if unknown. `whats`: the kinds of the element's fields."""
    found = []
    for field, value in zip(fields, name, strict=True):
        what = whats.get(field)
        one = expected(known, what, with_epoch(element, field) if what is ValueKind.PRODUCER else value, around)
        if one is None and value is not None:
            return None
        found.append(one[0] if isinstance(one, tuple) and what is ValueKind.PRODUCER else one)
    return tuple(found)


def expected_blob(known: Counterparts, values: Any, around: EnclosingNames) -> Any | None:
    """The target's content for a decoded blob of a group's member; None if an unknown value is in it."""
    if isinstance(values, list):
        return _all([expected_blob(known, one, around) for one in values])
    if not isinstance(values, dict):
        return values
    found = {}
    for name, value in values.items():
        one = _in_blob(known, name, value, around)
        if one is None and value is not None:
            return None
        found[name] = one
    return found


def _in_blob(known: Counterparts, name: str, value: Any, around: EnclosingNames) -> Any | None:
    what = _IN_BLOBS.get(name)
    if isinstance(value, str):
        return expected(known, what, value, around)
    if what and isinstance(value, list) and all(isinstance(one, str) for one in value):
        return _all([expected(known, what, one, around) for one in value])
    return expected_blob(known, value, around)


def _all(found: list[Any]) -> list[Any] | None:
    return None if any(one is None for one in found) else found
