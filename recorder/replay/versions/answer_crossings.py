"""Changes of version that mean more for an answer than its fields: a table of boundaries, as `crossings` for requests.

The target's answer is given the recorded version's form. If one request became several, their answers become one, which
takes from the request what the older version's answers don't repeat. A missing element reads as an error and never
raises one: answers are only compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from proxy.wire.keys import DESCRIBE_CONFIGS, FIND_COORDINATOR, LEAVE_GROUP, LIST_OFFSETS, OFFSET_FETCH
from recorder.replay.plan import Values

# the answers to the parts, and the request in the recorded version's form -> one answer
Join = Callable[[Sequence[Values], Mapping[str, Any]], Values]
UNKNOWN_SERVER_ERROR = -1
# errors of a member in a newer LeaveGroup: none, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID; all others are the group's
OF_A_MEMBER = (0, 25, 82)
# DescribeConfigs: types of resources, and sources of values
BROKER, TOPIC = 4, 2
TOPIC_CONFIG, STATIC_BROKER_CONFIG, DEFAULT_CONFIG = 1, 4, 5


class AnswerBoundary(NamedTuple):
    """The steps of answers over a boundary."""

    up: Join
    down: Callable[[Values], Values]


def _throttle(answers: Sequence[Values]) -> int:
    return max((one.get("throttle_time_ms", 0) for one in answers), default=0)


def _coordinators(answers: Sequence[Values], asked: Mapping[str, Any]) -> Values:
    names = ("error_code", "error_message", "node_id", "host", "port")
    found = [
        {"key": key, **{name: one[name] for name in names if name in one}}
        for key, one in zip(asked.get("coordinator_keys", ()), answers, strict=False)
    ]
    return {"throttle_time_ms": _throttle(answers), "coordinators": found}


def _coordinator(answer: Values) -> Values:
    found = _first(answer, "coordinators")
    return {**found, "throttle_time_ms": _throttle([answer])}


def _groups(answers: Sequence[Values], asked: Mapping[str, Any]) -> Values:
    found = [
        {"group_id": group.get("group_id", ""), "topics": one.get("topics", []), "error_code": one.get("error_code", 0)}
        for group, one in zip(asked.get("groups", ()), answers, strict=False)
    ]
    return {"throttle_time_ms": _throttle(answers), "groups": found}


def _group(answer: Values) -> Values:
    found = _first(answer, "groups")
    return {"topics": [], **found, "throttle_time_ms": _throttle([answer])}


def _first(answer: Values, name: str) -> Values:
    """The only element of an answer to a request for one thing; if it is missing, an error, as in Kafka's clients."""
    found = answer.get(name) or [{"error_code": UNKNOWN_SERVER_ERROR}]
    return dict(found[0])


def _members(answers: Sequence[Values], asked: Mapping[str, Any]) -> Values:
    codes = [one.get("error_code", 0) for one in answers]
    of_group = next((code for code in codes if code not in OF_A_MEMBER), 0)
    members = [
        {"member_id": one.get("member_id", ""), "group_instance_id": one.get("group_instance_id"), "error_code": code}
        for one, code in zip(asked.get("members", ()), codes, strict=False)
    ]
    return {
        "throttle_time_ms": _throttle(answers),
        "error_code": of_group,
        "members": [] if of_group else members,
    }


def _member(answer: Values) -> Values:
    members = answer.get("members") or [{}]
    code = answer.get("error_code", 0) or members[0].get("error_code", 0)
    return {"throttle_time_ms": _throttle([answer]), "error_code": code}


def _offsets(answers: Sequence[Values], _asked: Mapping[str, Any]) -> Values:
    """Version 0 has a list of offsets. Its first one is the only one of later versions."""
    return _each_partition(answers[0], lambda one: {"offset": next(iter(one.get("old_style_offsets", ())), -1)})


def _old_style_offsets(answer: Values) -> Values:
    return _each_partition(
        answer, lambda one: {"old_style_offsets": [one["offset"]] if one.get("offset", -1) != -1 else []}
    )


def _each_partition(answer: Values, change: Callable[[Values], Values]) -> Values:
    topics = [
        {**topic, "partitions": [{**one, **change(one)} for one in topic.get("partitions", ())]}
        for topic in answer.get("topics", ())
    ]
    return {**answer, "topics": topics}


def _sources(answers: Sequence[Values], _asked: Mapping[str, Any]) -> Values:
    """Version 0 says only which values are defaults. Kafka's clients take all others for the resource's own."""

    def source(result: Values, config: Values) -> Values:
        own = {BROKER: STATIC_BROKER_CONFIG, TOPIC: TOPIC_CONFIG}.get(result.get("resource_type", 0), 0)
        return {**config, "config_source": DEFAULT_CONFIG if config.get("is_default") else own}

    return _each_config(answers[0], source)


def _are_defaults(answer: Values) -> Values:
    return _each_config(
        answer, lambda _, config: {**config, "is_default": config.get("config_source") == DEFAULT_CONFIG}
    )


def _each_config(answer: Values, change: Callable[[Values, Values], Values]) -> Values:
    results = [
        {**result, "configs": [change(result, one) for one in result.get("configs", ())]}
        for result in answer.get("results", ())
    ]
    return {**answer, "results": results}


ANSWERS: Mapping[tuple[int, int], AnswerBoundary] = {
    (LIST_OFFSETS, 0): AnswerBoundary(up=_offsets, down=_old_style_offsets),
    (OFFSET_FETCH, 7): AnswerBoundary(up=_groups, down=_group),
    (FIND_COORDINATOR, 3): AnswerBoundary(up=_coordinators, down=_coordinator),
    (LEAVE_GROUP, 2): AnswerBoundary(up=_members, down=_member),
    (DESCRIBE_CONFIGS, 0): AnswerBoundary(up=_sources, down=_are_defaults),
}
