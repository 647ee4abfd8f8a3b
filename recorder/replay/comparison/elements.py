"""Matches the elements of arrays of structs by their names, never by their places.

Brokers answer in any order, and a request that was split is answered in parts. So a table tells which fields name an
array's elements. There are several ways where versions differ: topics by name, later by id. An element is named by the
first way whose fields it has and whose first value isn't null. Elements without names come in the request's order, and
are matched by place.

Topics, partitions, groups and transactions are known from the catalog's marks (`proxy.wire.places`). All other arrays
have a row here, under the last name of their path; `OF_API` has those that differ in one API.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

from proxy.wire.places import KEYED, Level, at
from recorder.replay.plan import Values

Name = tuple[Hashable, ...]
# fields that name an element together
Fields = tuple[str, ...]
Ways = tuple[Fields, ...]

RESOURCE: Ways = (("resource_type", "resource_name"), ("resource_name",))
MEMBER: Ways = (("member_id",),)
NAME: Ways = (("name",),)
KEY: Ways = (("key",),)
NODE: Ways = (("node_id",), ("broker_id",), ("replica_id",))
TASK: Ways = (("subtopology_id", "partition"), ("subtopology_id",))
ACL = ("principal", "host", "operation", "permission_type")
ACL_OF_RESOURCE: Ways = (
    ("resource_type", "resource_name", "pattern_type", *ACL),
    ("resource_type", "resource_name", *ACL),
)
# elements without names: answers come in the order of the request
BY_PLACE: Ways = ()

_ROWS: tuple[tuple[Ways, str], ...] = (
    # named by   arrays
    (MEMBER, "members"),
    (RESOURCE, "resources config_resources"),
    (NAME, "configs protocols listeners nodes supported_features finalized_features users"),
    (KEY, "coordinators values ops topic_configs client_tags"),
    (NODE, "brokers node_endpoints current_voters observers"),
    (TASK, "subtopologies active_tasks standby_tasks warmup_tasks task_offsets task_end_offsets"),
    ((ACL,), "acls"),
    (ACL_OF_RESOURCE, "matching_acls"),
    ((("api_key",),), "api_keys"),
    ((("name", "source"),), "synonyms"),
    ((("entity_type",),), "entity components"),
    ((("entity",),), "entries"),
    ((("mechanism",),), "credential_infos"),
    ((("batch_index",),), "record_errors"),
    ((("producer_id",),), "active_producers"),
    ((("producer_id", "first_offset"),), "aborted_transactions"),
    ((("status_code",),), "status"),
    ((("user_endpoint",),), "partitions_by_user_endpoint"),
    ((("source",),), "global_stores"),
    ((("first_offset",),), "acknowledgement_batches acquired_records"),
    (BY_PLACE, "filter_results filters creations copartition_groups"),
)
OF_ARRAY: dict[str, Ways] = {array: ways for ways, arrays in _ROWS for array in arrays.split()}

# (api key, array) -> the row of an array that differs in this API
OF_API: dict[tuple[int, str], Ways] = {
    (13, "members"): (("member_id", "group_instance_id"),),
    (14, "assignments"): MEMBER,
    (29, "resources"): (("resource_type", "resource_name", "pattern_type"), ("resource_type", "resource_name")),
    (30, "results"): BY_PLACE,
    (32, "results"): RESOURCE,
    (33, "responses"): RESOURCE,
    (35, "results"): (("log_dir",),),
    (37, "assignments"): BY_PLACE,
    (44, "responses"): RESOURCE,
    (50, "results"): (("user",),),
    (55, "nodes"): NODE,
}


class Matched(NamedTuple):
    """The elements of both sides: matched pairs, and those on one side only.

    `unknown`: recorded elements whose names have no known counterpart, so that they may match any.
    """

    pairs: list[tuple[Values, Values]]
    only_recorded: list[Values]
    only_target: list[Values]
    unknown: list[Values]


def same_name(element: Values, fields: Fields, name: Name) -> Name | None:
    """The target's name of an element with the same name on both sides."""
    return name


def level(api_key: int, path: str) -> Level:
    """What the elements of the array at a path ("topics.partitions") stand for; OTHER if they have a row here."""
    return Level.OTHER if _row(api_key, path) is not None else _marked(api_key, path)[0]


def ways(api_key: int, path: str) -> Ways:
    """The ways to name the elements of the array at a path; none if it has neither a row nor marks."""
    row = _row(api_key, path)
    return _marked(api_key, path)[1] if row is None else row


def _row(api_key: int, path: str) -> Ways | None:
    array = path.rpartition(".")[2]
    return OF_API.get((api_key, array), OF_ARRAY.get(array))


@cache
def _marked(api_key: int, path: str) -> tuple[Level, Ways]:
    found = at("response", api_key, path) or at("request", api_key, path)
    if found is None or found.level not in KEYED:
        return Level.OTHER, BY_PLACE
    return found.level, tuple((name,) for name in found.names)


def matched(
    api_key: int,
    path: str,
    recorded: Sequence[Values],
    target: Sequence[Values],
    named: Callable[[Values, Fields, Name], Name | None] = same_name,
) -> Matched:
    """The matched elements of the array at `path` ("topics.partitions"), in recorded order.

    Elements with the same name are matched in order.

    Args:
        named: a recorded element, the fields that name it and their values -> the target's values; None: unknown.
    """
    found = Matched([], [], [], [])
    row = ways(api_key, path)
    if not row:
        return _by_place(recorded, target)
    waiting = _by_name(row, target)
    for element in recorded:
        name = _mapped(row, element, named)
        if name is None:
            found.unknown.append(element)
        elif waiting[name]:
            found.pairs.append((element, waiting[name].popleft()))
        else:
            found.only_recorded.append(element)
    found.only_target.extend(element for queue in waiting.values() for element in queue)
    return found


def named_by(row: Ways, element: Values) -> Name | None:
    """The values that name an element; None if no way does."""
    fields = _fields(row, element)
    return None if fields is None else _values(element, fields)


def _fields(row: Ways, element: Values) -> Fields | None:
    """The first way that names an element."""
    for way in row:
        if element.get(way[0]) is not None and (len(way) == 1 or all(one in element for one in way)):
            return way
    return None


def _values(element: Values, fields: Fields) -> Name:
    return tuple(frozen(element[field]) for field in fields)


def _mapped(row: Ways, element: Values, named: Callable[[Values, Fields, Name], Name | None]) -> Name | None:
    fields = _fields(row, element)
    # all elements without a name are alike
    return () if fields is None else named(element, fields, _values(element, fields))


def _by_name(row: Ways, elements: Iterable[Values]) -> defaultdict[Name, deque[Values]]:
    named: defaultdict[Name, deque[Values]] = defaultdict(deque)
    for element in elements:
        named[_mapped(row, element, same_name) or ()].append(element)
    return named


def _by_place(recorded: Sequence[Values], target: Sequence[Values]) -> Matched:
    common = min(len(recorded), len(target))
    return Matched(list(zip(recorded, target, strict=False)), list(recorded[common:]), list(target[common:]), [])


def frozen(value: Any) -> Hashable:
    """A value that may be a key: structs and arrays in it become sorted tuples."""
    if isinstance(value, dict):
        return tuple(sorted(((name, frozen(inner)) for name, inner in value.items()), key=repr))
    if isinstance(value, list):
        return tuple(sorted((frozen(inner) for inner in value), key=repr))
    # NaN differs from itself
    hashable: Hashable = value if value == value else "NaN"
    return hashable
