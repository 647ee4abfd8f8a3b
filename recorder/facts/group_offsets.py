"""Reads what happens to groups' offsets: commits (also in transactions), OffsetFetch, deletions.

A commit has a row for each partition, in the request and in the answer. OffsetFetch answers also show offsets whose
commits were not recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from proxy.wire import keys
from proxy.wire.budget import Budget
from proxy.wire.places import Partition
from recorder.facts.frame import REQUEST, RESPONSE, Frame, Values, none_if_negative, opened
from recorder.facts.group_rows import (
    COLUMNS,
    COMMIT,
    DELETE,
    END_TXN,
    FETCH_OFFSETS,
    JOINING,
    GroupRow,
    text,
)
from recorder.facts.memberships import CLASSIC_STEPS, HEARTBEATS
from recorder.facts.memberships import read as read_membership
from recorder.facts.rows import Decoder, FrameSelector, Group
from recorder.facts.topics import by_topic, named

Rows = Iterator[GroupRow]


def _placed(frame: Frame, values: Values) -> Iterator[tuple[dict[str, Any], Partition]]:
    """Each partition, behind its topic and number as columns."""
    for topic, found in by_topic(frame, values):
        name, topic_id = named(topic)
        for one in found:
            part = f"{name or topic_id}/{one.partition}"
            yield {"topic": name, "topic_id": topic_id, "partition": one.partition, "part": part}, one


def _commits(frame: Frame, values: Values) -> Rows:
    commit = {
        "step": COMMIT,
        "group_id": values["group_id"],
        "member_id": text(values.get("member_id")),
        "instance_id": values.get("group_instance_id"),
        "generation": none_if_negative(values.get("generation_id_or_member_epoch")),
        "transactional_id": values.get("transactional_id"),
    }
    for place, one in _placed(frame, values):
        yield GroupRow(**place, **commit, committed_offset=none_if_negative(one.values["committed_offset"]))


def _committed(frame: Frame, values: Values) -> Rows:
    overall = values.get("error_code", 0)
    for place, one in _placed(frame, values):
        yield GroupRow(part=place["part"], error_code=overall or one.code)


def _asks_for_offsets(_: Frame, values: Values) -> Rows:
    """A row for each group: from version 8 on, a request may name several."""
    for one in values.get("groups") or ():
        yield GroupRow(part=one["group_id"], step=FETCH_OFFSETS, group_id=one["group_id"])
    if "groups" not in values:
        yield GroupRow(step=FETCH_OFFSETS, group_id=values["group_id"])


def _told_offsets(frame: Frame, values: Values) -> Rows:
    for place, one in _placed(frame, values):
        # before version 8 the body is the group
        group = one.around.around[-1]
        described = place | {
            "part": group.get("group_id", ""),
            "committed_offset": none_if_negative(one.values["committed_offset"]),
        }
        yield GroupRow(**described, error_code=group.get("error_code", 0) or one.code)


def _deletes_offsets(frame: Frame, values: Values) -> Rows:
    for place, _ in _placed(frame, values):
        yield GroupRow(**place, step=DELETE, group_id=values["group_id"])


def _deletes_groups(_: Frame, values: Values) -> Rows:
    for name in values["groups_names"]:
        yield GroupRow(part=name, step=DELETE, group_id=name)


def _deleted_groups(_: Frame, values: Values) -> Rows:
    for one in values["results"]:
        yield GroupRow(part=one["group_id"], error_code=one["error_code"])


def _ends(_: Frame, values: Values) -> Rows:
    yield GroupRow(step=END_TXN, transactional_id=values["transactional_id"], is_news=values["committed"])


def _ended(_: Frame, values: Values) -> Rows:
    yield GroupRow(error_code=values["error_code"])


_READERS: Mapping[tuple[str, int], Callable[[Frame, Values], Rows]] = {
    (REQUEST, keys.OFFSET_COMMIT): _commits,
    (RESPONSE, keys.OFFSET_COMMIT): _committed,
    (REQUEST, keys.TXN_OFFSET_COMMIT): _commits,
    (RESPONSE, keys.TXN_OFFSET_COMMIT): _committed,
    (REQUEST, keys.OFFSET_FETCH): _asks_for_offsets,
    (RESPONSE, keys.OFFSET_FETCH): _told_offsets,
    (REQUEST, keys.OFFSET_DELETE): _deletes_offsets,
    (RESPONSE, keys.OFFSET_DELETE): _committed,
    (REQUEST, keys.DELETE_GROUPS): _deletes_groups,
    (RESPONSE, keys.DELETE_GROUPS): _deleted_groups,
    (REQUEST, keys.END_TXN): _ends,
    (RESPONSE, keys.END_TXN): _ended,
}
OFFSET_APIS = tuple(dict.fromkeys(key for _, key in _READERS))
_KEYS = (*CLASSIC_STEPS, *OFFSET_APIS)


def read(frame: Frame, budget: Budget) -> Iterator[Group]:
    """What the frame says of a group's members or offsets. Errors: Unreadable."""
    found = _READERS.get((frame.side, frame.api_key))
    if found is None:
        yield from read_membership(frame, budget)
    else:
        yield Group((), [*found(frame, opened(frame, budget))])


_WITH_HEARTBEATS = (*_KEYS, *HEARTBEATS)
GROUP_FACTS = Decoder(
    "group_steps",
    'a side of a group\'s step, or of a heartbeat; an answer that only says "go on" has none',
    (FrameSelector(REQUEST, _WITH_HEARTBEATS), FrameSelector(RESPONSE, _WITH_HEARTBEATS)),
    (),
    (*COLUMNS, *JOINING),
    read,
)
GROUP_STEPS = Decoder(
    "group_steps",
    "a side of a group's step, heartbeats left out",
    (FrameSelector(REQUEST, _KEYS), FrameSelector(RESPONSE, _KEYS)),
    (),
    COLUMNS,
    read,
)
