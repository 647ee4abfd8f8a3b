"""Changes a message's values from one version to another, field by field, by the catalog.

A field that the other version lacks must hold its default or be `ignorable`, as in Kafka's own encoder; otherwise its
value is lost. A field that only the other version has gets its default, unless a translator has set it already. If one
version names a topic and the other one has its id, the target's topics translate it. `crossings` has changes that
concern more than single fields.

A plan of changes is made once for each message and pair of versions. A request that would lose a value raises `Loss`;
an answer is only compared, so lost values of it are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from proxy.wire.apis import MessageKind
from proxy.wire.catalog import must
from proxy.wire.compile.layout import Slot, Struct, layout
from proxy.wire.language import IGNORABLE
from proxy.wire.places import NO_ID
from recorder.replay.plan import Reason, Values, Withheld

# more than the pairs of versions in one play, where most connections use one version of each API on either side
PLANS = 1024
TAGS = "_tags"
_T = TypeVar("_T")


class Topics(NamedTuple):
    """The target's topics: name -> id, id -> name. None: it has no such topic, or its ids are unknown."""

    topic_id: Callable[[str], bytes | None]
    topic_name: Callable[[bytes], str | None]


class Loss(Exception):
    """The other version can't express the request."""

    def __init__(self, withheld: Withheld) -> None:
        super().__init__(withheld)
        self.withheld = withheld


class KeptField(NamedTuple):
    """A field of both versions. `inner`: the plan of its structs."""

    name: str
    before: Slot
    after: Slot
    inner: RecodePlan | None


class TopicFields(NamedTuple):
    """The fields that identify a topic in the two versions; None if a version has no such field."""

    name_before: str | None
    id_before: str | None
    name_after: str | None
    id_after: str | None


class RecodePlan(NamedTuple):
    """The changes of a struct's fields.

    Attributes:
        lost: those that are lost unless they hold their default.
        new: those that only the later version has.
        tags: the known tags of the later version; None if it has no tag buffer.
    """

    kept: tuple[KeptField, ...]
    lost: tuple[Slot, ...]
    new: tuple[Slot, ...]
    topic: TopicFields | None
    tags: frozenset[int] | None


def recoded(kind: MessageKind, api_key: int, before: int, after: int, values: Values, topics: Topics) -> Values:
    """The values of version `before` as those of version `after`.

    Errors: Loss, for a request that loses a field's value or names a topic that the target lacks.
    """
    return values if before == after else completed(kind, api_key, before, after, values, topics)


def completed(kind: MessageKind, api_key: int, before: int, after: int, values: Values, topics: Topics) -> Values:
    """As `recoded`, with all fields of the later version and no others, even if both versions are the same."""
    return _Recoding(kind == "request", topics).struct(_plan(kind, api_key, before, after), values, "")


@lru_cache(PLANS)
def _plan(kind: MessageKind, api_key: int, before: int, after: int) -> RecodePlan:
    old, new = (layout(must(kind, api_key, version).message, version) for version in (before, after))
    return _struct_plan(old, new, new.flexible)


def _struct_plan(old: Struct, new: Struct, flexible: bool) -> RecodePlan:
    before, after = ({slot.name: slot for slot in struct} for struct in (old, new))
    topic = _named(before, after)
    renamed = {topic.name_before, topic.id_before} if topic else set()
    return RecodePlan(
        tuple(_kept(before[name], slot, flexible) for name, slot in after.items() if name in before),
        tuple(
            slot
            for name, slot in before.items()
            if name not in after and name not in renamed and IGNORABLE not in slot.field.marks
        ),
        tuple(slot for name, slot in after.items() if name not in before),
        topic,
        frozenset(slot.tag for slot in new.tagged if slot.tag is not None) if flexible else None,
    )


def _kept(before: Slot, after: Slot, flexible: bool) -> KeptField:
    inner = _struct_plan(before.struct, after.struct, flexible) if before.struct and after.struct else None
    return KeptField(after.name, before, after, inner)


def _named(before: Mapping[str, Slot], after: Mapping[str, Slot]) -> TopicFields | None:
    """The fields that identify a topic, if the two versions do so in different ways."""
    found = TopicFields(
        _only(before, "topic_name"), _only(before, "topic_id"), _only(after, "topic_name"), _only(after, "topic_id")
    )
    says_both = (found.name_before or found.name_after) and (found.id_before or found.id_after)
    return found if says_both and not (found[:2] == found[2:] and _same_nulls(before, after, found)) else None


def _only(slots: Mapping[str, Slot], mark: str) -> str | None:
    """The field with this mark; None unless there is exactly one, and it is no array."""
    found = [name for name, slot in slots.items() if mark in slot.field.marks and not slot.array]
    return found[0] if len(found) == 1 else None


def _same_nulls(before: Mapping[str, Slot], after: Mapping[str, Slot], topic: TopicFields) -> bool:
    return not topic.name_after or before[topic.name_after].nullable == after[topic.name_after].nullable


def is_default(slot: Slot, value: Any) -> bool:
    """True for the default of a field. Absent fields of a struct count as defaults."""
    if slot.struct and not slot.array and isinstance(value, Mapping):
        return all(is_default(inner, value[inner.name]) for inner in slot.struct if inner.name in value)
    return bool(value == slot.default)


class _Recoding:
    """One message on its way to another version. `strict`: lost values raise Loss."""

    def __init__(self, strict: bool, topics: Topics) -> None:
        self._strict, self._topics = strict, topics

    def struct(self, plan: RecodePlan, values: Mapping[str, Any], path: str) -> Values:
        if self._strict:
            self._check_losses(plan, values, path)
        found: Values = {}
        for kept in plan.kept:
            found[kept.name] = self._kept(kept, values, path) if kept.name in values else kept.after.default
        for slot in plan.new:
            found[slot.name] = values.get(slot.name, slot.default)
        if plan.topic:
            found.update(self._topic(plan.topic, plan, values, path))
        if TAGS in values and (unknown := self._unknown_tags(plan, values[TAGS], path)):
            found[TAGS] = unknown
        return found

    def _check_losses(self, plan: RecodePlan, values: Mapping[str, Any], path: str) -> None:
        for slot in plan.lost:
            if slot.name in values and not is_default(slot, values[slot.name]):
                raise _lost(path + slot.name)

    def _kept(self, kept: KeptField, values: Mapping[str, Any], path: str) -> Any:
        value = values[kept.name]
        if value is None:
            return self._null(kept, path)
        if kept.inner is None:
            return value
        if kept.after.array:
            return [self.struct(kept.inner, one, f"{path}{kept.name}.") for one in value]
        return self.struct(kept.inner, value, f"{path}{kept.name}.")

    def _null(self, kept: KeptField, path: str) -> Any:
        """Null, or the default if the later version has no null."""
        if kept.after.nullable or not self._strict:
            return None if kept.after.nullable else kept.after.default
        if "topic_name" in kept.after.field.marks:
            return None  # `_topic` looks for the id
        raise _lost(path + kept.name)

    def _topic(
        self, topic: TopicFields, plan: RecodePlan, values: Mapping[str, Any], path: str
    ) -> Iterator[tuple[str, Any]]:
        """The fields of the later version that identify a topic."""
        name = values.get(topic.name_before) if topic.name_before else None
        topic_id = values.get(topic.id_before, NO_ID) if topic.id_before else NO_ID
        if topic.name_after and name is None and not _may_be_null(plan, topic.name_after):
            yield topic.name_after, self._name(topic_id, path + topic.name_after)
        # a request that names its topics may ask by name
        if topic.id_after and not topic.id_before and not (self._strict and topic.name_after):
            yield topic.id_after, self._id(name)

    def _name(self, topic_id: bytes, path: str) -> str:
        if topic_id == NO_ID and self._strict:
            raise _lost(path)
        return self._must(self._topics.topic_name(topic_id), topic_id.hex()) or ""

    def _id(self, name: str | None) -> bytes:
        return self._must(self._topics.topic_id(name or ""), name or "") or NO_ID

    def _must(self, found: _T | None, what: str) -> _T | None:
        if found is None and self._strict:
            raise Loss(Withheld(Reason.NO_TOPIC, what))
        return found

    def _unknown_tags(self, plan: RecodePlan, tags: Mapping[int, bytes], path: str) -> dict[int, bytes]:
        """Tagged fields that the catalog doesn't know, if the later version has a tag buffer for them."""
        known = tags.keys() if plan.tags is None else plan.tags & tags.keys()
        if known and self._strict:
            raise _lost(f"{path}{TAGS}")
        return {tag: data for tag, data in tags.items() if tag not in known}


def _may_be_null(plan: RecodePlan, name: str) -> bool:
    return any(kept.name == name and kept.after.nullable for kept in plan.kept)


def _lost(path: str) -> Loss:
    return Loss(Withheld(Reason.LOST_FIELD, path))
