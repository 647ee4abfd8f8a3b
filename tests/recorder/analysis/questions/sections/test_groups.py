"""Tests of the report's section on groups: members, lag by bin, and causes of rebalances."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from recorder.analysis.questions.sections.groups import GroupTables, groups
from recorder.analysis.summary.bounds import MAX_TOP, Timeline
from recorder.analysis.summary.sections.groups import Group, Rebalance
from recorder.analysis.tables.group_events import GROUP_EVENTS
from recorder.analysis.tables.lag import SECOND_NS, Offsets, Span, lag_windows
from recorder.analysis.tables.rebalances import REBALANCES
from tests.recorder.analysis.by_hand import NOON, Row, frame
from tests.recorder.analysis.tables.test_lag import COMMIT, END, LIVES

pytestmark = pytest.mark.real
NOON_NS = round(NOON.timestamp()) * SECOND_NS
# six bins of 10 s, with the rules' windows of 1 s
LINE = Timeline(NOON_NS, 10 * SECOND_NS, 6)
WITHIN = Span(NOON_NS + 59 * SECOND_NS, SECOND_NS)


def moment(at: float) -> Any:
    return NOON + timedelta(seconds=at)


def event(group: str, at: float, step: str, **facts: Any) -> Row:
    row = {"session": "s", "connection": 1, "exchange": round(at), "cluster": "c", "group_id": group, "step": step}
    times = {"at": moment(at), "answered_at": moment(at), "last_at": moment(facts.pop("last", at)), "times": 1}
    return row | times | {"error_code": 0} | facts


EVENTS = [
    event("busy", 0, "join", protocol="classic", member_id="a", subscription=["t"]),
    event("busy", 5, "heartbeat", protocol="classic", member_id="a", last=58),
    event("busy", 3, "join", protocol="classic", member_id="b", subscription=["t"]),
    event("busy", 30, "leave", protocol="classic", member_id="b"),
    event("busy", 12, "commit", topic="t", counts_from=moment(12)),
    event("busy", 12, "commit", topic="u", counts_from=moment(12)),
    event("busy", 14, "commit", topic="t"),
    event("idle", 1, "fetch_offsets", topic="t", counts_from=moment(1)),
    *(event(f"small {number:02}", 1, "join", protocol="share", member_id="m") for number in range(30)),
]
PLACE = {"cluster": "c", "partition": 0}
TOPIC, OTHER = PLACE | {"topic": "t", "life": "t"}, PLACE | {"topic": "u", "life": "u"}


def offsets(spark: SparkSession) -> Offsets:
    """From 10 s on, t ends at 100 and u at 7. The group has committed 40 of t, and the end of u."""
    commits = [
        TOPIC | {"at": moment(12), "group_id": "busy", "committed_offset": 40, "is_commit": True},
        OTHER | {"at": moment(12), "group_id": "busy", "committed_offset": 7, "is_commit": True},
    ]
    ends = [TOPIC | {"at": moment(at), "end_offset": end, "control_offsets": []} for at, end in ((0, 0), (10, 100))]
    ends.append(OTHER | {"at": moment(1), "end_offset": 7, "control_offsets": []})
    return Offsets(frame(spark, COMMIT, commits), frame(spark, END, ends), frame(spark, LIVES, []))


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> Any:
    rebalance = {"group_id": "busy", "generation": 4, "from_at": moment(3), "to_at": moment(5), "cause": "joined"}
    rebalance |= {"members": ["a", "b"], "reasons": ["one", "two"]}
    overtaken = {"group_id": "busy", "generation": 5, "from_at": moment(31), "cause": "left", "members": ["a"]}
    rebalances = frame(spark, REBALANCES.ddl, [rebalance, overtaken | {"reasons": []}])
    return groups(told(frame(spark, GROUP_EVENTS.ddl, EVENTS), rebalances, offsets(spark)), LINE)


def told(events: DataFrame, rebalances: DataFrame, offsets: Offsets) -> GroupTables:
    lag = lag_windows(offsets, Span(WITHIN.last_ns, LINE.bin_ns))
    return GroupTables(events, rebalances, offsets, lag, WITHIN)


def of(found: Any, name: str) -> Group:
    group: Group = next(one for one in found.groups if one.group == name)
    return group


def test_a_group_has_its_members_topics_and_commits(found: Any) -> None:
    busy, idle = of(found, "busy"), of(found, "idle")
    assert (busy.protocol, busy.members, busy.most_members, busy.topics) == ("classic", 1, 2, ("t", "u"))
    assert (busy.rebalances, busy.commits) == (2, 1)
    assert (idle.protocol, idle.members, idle.rebalances, idle.commits, idle.last_lag) == (None, None, 0, None, None)


def test_lag_is_given_at_the_end_of_each_bin_from_the_first_commit_on(found: Any) -> None:
    busy = of(found, "busy")
    assert busy.lag.values == (None, 60, 60, 60, 60, 60)
    assert (busy.last_lag, busy.most_lag) == (60, 60)


def test_the_age_of_the_lag_is_that_of_its_oldest_partition(found: Any) -> None:
    """The log reached offset 40 at 4 s, and the capture ends at 59 s."""
    assert of(found, "busy").last_lag_ms == 55_000


def test_a_group_that_commits_nothing_more_is_stalled_since_then(found: Any) -> None:
    assert of(found, "busy").stalled_from_ns == LINE.begin_ns(2)


def test_rebalances_are_listed_in_order_with_members_reasons(found: Any) -> None:
    first, last = found.rebalances
    begin = NOON_NS + 3 * SECOND_NS
    assert first == Rebalance("busy", begin, begin + 2 * SECOND_NS, "joined", 2, 4, "one; two")
    assert (last.to_ns, last.cause, last.reason) == (None, "left", None)


def test_only_the_first_groups_stand_on_the_page(found: Any) -> None:
    assert (len(found.groups), found.groups.total) == (MAX_TOP, 32)
    assert next(one.group for one in found.groups) == "busy"


def test_groups_are_not_judged_if_none_of_their_frames_could_be_read(spark: SparkSession) -> None:
    unread = frame(spark, GROUP_EVENTS.ddl, [{"session": "s", "unread": "omitted"}] * 3)
    nothing = Offsets(frame(spark, COMMIT, []), frame(spark, END, []), frame(spark, LIVES, []))
    made = groups(told(unread, frame(spark, REBALANCES.ddl, []), nothing), LINE)
    assert made.not_judged == "none of the 3 requests of groups could be read (omitted)"
