"""What may be deleted on the target without `--prefix`: things that this replay made; with `--deletes all`, all.

With `--prefix` all that a request names is the replay's own, or the request is withheld (`translate_names`).

A request that would delete one thing too many is withheld as a whole. Names are the recorded ones. Access rules never
count as made by the replay, since a target that already had a rule gives the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from enum import StrEnum
from typing import NamedTuple

from proxy.wire.keys import (
    CREATE_TOPICS,
    DELETE_ACLS,
    DELETE_GROUPS,
    DELETE_RECORDS,
    DELETE_SHARE_GROUP_OFFSETS,
    DELETE_TOPICS,
    OFFSET_DELETE,
)
from recorder.replay.options import Deletes, Options
from recorder.replay.plan import Reason, Values
from recorder.replay.requests.apis import Treatment, treatment

TopicName = Callable[[str | bytes], str | None]


class ThingKind(StrEnum):
    """Kinds of things that a request may delete, wholly or in part."""

    TOPIC = "topic"
    GROUP = "group"
    RULES = "access rules"


class Thing(NamedTuple):
    """A thing that may be deleted. An empty name: an unknown one, or all of the kind."""

    kind: ThingKind
    name: str


def refusal_of_deletes(
    api_key: int, values: Values, options: Options, topic: TopicName, made: Collection[Thing]
) -> Reason | None:
    """Why a request may not delete what it names; None if it may, or deletes nothing.

    Args:
        values: the decoded request, in recorded terms.
        topic: the recorded name of a topic, by its name or recorded id (`Names.topic`).
        made: the things that this replay made (`made_by`), by recorded names.
    """
    if treatment(api_key) is not Treatment.DELETES or options.deletes is Deletes.ALL:
        return None
    is_own = options.deletes is Deletes.OWN and (
        options.prefix or all(thing in made for thing in things(api_key, values, topic))
    )
    return None if is_own else Reason.NEEDS_DELETES


def things(api_key: int, values: Values, topic: TopicName) -> Iterator[Thing]:
    """The things that a request deletes, wholly or in part."""
    if api_key == DELETE_TOPICS:
        yield from (Thing(ThingKind.TOPIC, name) for name in values.get("topic_names") or ())
    if api_key in (DELETE_TOPICS, DELETE_RECORDS):
        yield from (Thing(ThingKind.TOPIC, _topic(entry, topic)) for entry in values.get("topics") or ())
    if api_key in (OFFSET_DELETE, DELETE_SHARE_GROUP_OFFSETS):
        yield Thing(ThingKind.GROUP, values["group_id"])
    if api_key == DELETE_GROUPS:
        yield from (Thing(ThingKind.GROUP, name) for name in values["groups_names"])
    if api_key == DELETE_ACLS:
        yield from (Thing(ThingKind.RULES, "") for _ in values["filters"])


def _topic(entry: Values, topic: TopicName) -> str:
    name = entry.get("name")
    return topic(name if name is not None else entry.get("topic_id", b"")) or ""


def made_by(api_key: int, values: Values, answer: Values, recorded: Callable[[str], str]) -> set[Thing]:
    """The things that the target made for a request. `recorded`: the recorded name for one of the target's."""
    if api_key != CREATE_TOPICS or values.get("validate_only"):
        return set()
    return {Thing(ThingKind.TOPIC, recorded(topic["name"])) for topic in answer["topics"] if not topic["error_code"]}
