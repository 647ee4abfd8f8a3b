"""Tests of the rules on groups that keep rebalancing or lag behind, and on members that vanish."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from recorder.analysis.findings.group_rules import GROUP_RULES
from recorder.analysis.findings.judge import judge
from recorder.analysis.findings.tables import with_peers
from recorder.analysis.summary.sections.findings import Finding
from recorder.analysis.tables.group_events import GROUP_EVENTS
from recorder.analysis.tables.lag import LAG
from recorder.analysis.tables.rebalances import REBALANCES
from recorder.facts.topic_partitions import TOPIC_PARTITIONS
from tests.recorder.analysis.by_hand import NOON, Row, each_second, frame, life, table_of

pytestmark = pytest.mark.real
NAMES = (
    "idle_members",
    "never_commits",
    "rebalances",
    "silent_leave",
    "stalled",
    "abandoned",
    "falls_behind",
    "overcommit",
    "slow_consumer",
)
RULES = [rule for rule in GROUP_RULES if rule.name in NAMES]
# twenty windows of 5 s
SECONDS, WINDOWS = 100, 20
FIRST = round(NOON.timestamp()) // 5


def moment(at: float) -> Any:
    return NOON + timedelta(seconds=at)


def rebalance(group: str, at: float, cause: str, *members: str, lost: tuple[str, ...] = ()) -> Row:
    row = {"cluster": "c", "group_id": group, "protocol": "classic", "from_at": moment(at), "cause": cause}
    return row | {"members": [*members], "lost": [*lost], "session": "s", "connection": 1, "exchange": round(at)}


REBALANCES_ = [
    *(rebalance("restless", at, cause, "a", "b") for at, cause in ((10, "lost"), (30, "unknown"), (50, "fenced"))),
    *(rebalance("in time", at, "lost", "a", "b") for at in (0, 48, 96)),
    *(rebalance("come and go", at, "joined", "a", "b") for at in range(10, 50, 6)),
    *(rebalance("grows", at, "joined", *"abcdef"[: at // 6]) for at in range(6, 42, 6)),
    *(rebalance("follows", at, "left", "a") for at in range(10, 50, 6)),
    rebalance("loses", 60, "lost", "a", lost=("gone", "stays open", "static", "left again")),
]


def step(group: str, member: str, connection: int, at: float, step: str = "heartbeat", **facts: Any) -> Row:
    row = {"session": "s", "cluster": "c", "connection": connection, "exchange": round(at), "group_id": group}
    row |= {"protocol": "classic", "step": step, "member_id": member, "at": moment(at), "error_code": 0}
    return row | {"answered_at": moment(at), "last_at": moment(facts.pop("until", at)), "times": 1} | facts


EVENTS = [
    step("loses", "gone", 11, 10, until=20),
    step("loses", "stays open", 12, 10, until=20),
    step("loses", "static", 13, 10, until=20, instance_id="static"),
    *(step(name, "m", 20, 1, until=99) for name in ("stuck", "slow", "moves", "read", "half")),
    step("gone home", "m", 21, 1),
    step("gone home", "m", 21, 5, "leave"),
    *(step(name, "m", 20, 3, "commit", topic="t", counts_from=moment(3)) for name in ("stuck", "slow", "gone home")),
]


def assigned(group: str, member: str, at: float, *partitions: str, **facts: Any) -> Row:
    """What a member gets; it is heard of up to 90 s after noon."""
    own = {"assignment": [*partitions], "client": "10.0.0.1:5", "client_id": group, "until": 90}
    return step(group, member, 22, at, "sync", **own | facts)


EVENTS += [
    assigned("crowded", "a", 2, "t-0"),
    assigned("crowded", "b", 2, "t-1"),
    assigned("crowded", "c", 2),
    # waits for a moment; has left; all wait; members of a share group have no partitions of their own
    assigned("settles", "a", 2, "t-0", "t-1"),
    assigned("settles", "b", 2),
    assigned("settles", "b", 9, "t-1"),
    assigned("gives up", "a", 2, "t-0"),
    assigned("gives up", "b", 2, until=8),
    assigned("no topic", "a", 2),
    assigned("shared", "a", 2, "t-0", protocol="share"),
    assigned("shared", "b", 2, protocol="share"),
    # they read t; the last one's only commit is refused
    *(assigned(name, "m", 2, "t-0") for name in ("commits", "never", "refused", "seldom")),
    step("commits", "m", 22, 3, "commit", topic="t"),
    step("refused", "m", 22, 3, "commit", topic="t", error_code=25),
]
READS = [
    row | {"api": "Fetch", "side": "response", "topic": topic, "partition": 0, "bytes": 100, "records": 3}
    for client, topic, last in (
        ("commits", "t", 90), ("never", "t", 90), ("refused", "t", 90), ("seldom", "t", 30), ("crowded", "u", 90),
    )
    for row in each_second(1, (0, last), client_id=client, cluster="c")
]  # fmt: skip
CONNECTIONS = [*life(11, 1, 24), *life(12, 1, None), *life(13, 1, 24)]


def windows(group: str, lags: Any, commits: Any, partition: int = 0) -> list[Row]:
    """Returns the windows of a partition, by functions of the window's number."""
    rows = []
    for number in range(WINDOWS):
        place = {"cluster": "c", "group_id": group, "topic": "t", "topic_id": "t", "life": "t", "partition": partition}
        made = {"lag": lags(number), "least_lag": lags(number), "committed_offset": commits(number)}
        moved = int(number == 0 or commits(number) != commits(number - 1))
        ends = {"window": FIRST + number, "window_end": moment(5 * number + 5), "commits": moved}
        rows.append(place | made | ends)
    return rows


LAGS = [
    *windows("stuck", lambda at: 30 + at % 9, lambda at: min(at, 5)),
    *windows("stuck", lambda at: 4, lambda at: 9, partition=1),
    *windows("gone home", lambda at: 4, lambda at: 9),
    *windows("slow", lambda at: 10 + 3 * at, lambda at: at),
    # the lag shrinks once, so it never grows in ten windows in a row
    *windows("moves", lambda at: 10 + at % 9, lambda at: at),
    # nothing new to commit, and no lag
    *windows("read", lambda at: 0, lambda at: 5),
    *windows("half", lambda at: 5 if at < 9 else 0, lambda at: 5),
]


FETCH = {"api_key": 1, "api": "Fetch", "connection": 30}
COMMIT = {"api_key": 8, "api": "OffsetCommit"}
LATE = {"connection": 31, "client_id": "late", "wait": "tail"}
EXCHANGES = [
    *each_second(1, (0, SECONDS)),
    # one answer in ten takes two seconds to be taken; or hardly any does
    *each_second(1, (0, SECONDS), client_id="gulps", transfer_ns=lambda at: 2 * 10**9 if at % 10 == 0 else 9, **FETCH),
    *each_second(5, (0, SECONDS), client_id="sips", transfer_ns=lambda at: 2 * 10**9 if at % 50 == 0 else 9, **FETCH),
    # asks every 40 s: there is always more, or there never is
    *each_second(1 / 40, (0, 280), **FETCH | LATE),
    *each_second(1 / 40, (0, 280), **FETCH | LATE | {"connection": 32, "client_id": "rests", "wait": "empty"}),
    *each_second(12, (0, SECONDS), client_id="careful", **COMMIT),
    *each_second(12, (0, SECONDS), client_id="busy", **COMMIT),
    *each_second(2, (0, SECONDS), client_id="usual", **COMMIT),
]
BATCHES = [
    row | {"side": "response"}
    for client, rate in (("careful", 12), ("busy", 20), ("usual", 1))
    for row in each_second(rate, (0, SECONDS), client_id=client)
]
OF_BATCHES = "session string, cluster string, connection bigint, exchange bigint, at timestamp, client string, "


@pytest.fixture(scope="module")
def found(tables: Any, spark: SparkSession) -> dict[str, list[Finding]]:
    others = {
        "group_events": frame(spark, GROUP_EVENTS.ddl, EVENTS),
        "rebalances": frame(spark, REBALANCES.ddl, REBALANCES_),
        "partitions": table_of(spark, TOPIC_PARTITIONS.table, READS),
        "lag": frame(spark, f"{LAG.ddl}, window bigint, life string", LAGS),
    }
    made = tables(EXCHANGES, CONNECTIONS, **others)
    batches = frame(spark, OF_BATCHES + "client_id string, side string", BATCHES)
    made.batches = made.windows.put(with_peers(batches))
    judged = judge(made, RULES)
    assert not judged.unjudged.rows
    return {name: [one for one in judged.every if one.rule == name] for name in NAMES}


def subjects(findings: list[Finding]) -> set[str]:
    return {one.subject for one in findings}


def test_three_unwanted_rebalances_within_ten_windows_are_found(found: Any) -> None:
    assert subjects(found["rebalances"]) == {"restless", "come and go"}
    (one,) = [one for one in found["rebalances"] if one.subject == "restless"]
    assert (one.measure, "(fenced, lost, unknown)" in one.sentence) == (3, True)
    assert {piece.exchange for piece in one.evidence} == {50}


def test_a_member_whose_connection_closed_before_it_was_lost_is_found_unless_it_is_static(found: Any) -> None:
    (one,) = found["silent_leave"]
    assert one.sentence.startswith("Group loses has lost members that ended without leaving it")
    assert one.sentence.endswith("(members: 1)")
    assert [piece.connection for piece in one.evidence] == [11]


def test_members_without_a_partition_are_found_and_those_that_wait_for_a_moment_are_not(found: Any) -> None:
    (one,) = found["idle_members"]
    told = "Group crowded has members that get nothing to read: 1 (members: 3, partitions: 2) (at worst: "
    assert one.sentence.startswith(told)
    assert [piece.connection for piece in one.evidence] == [22]


def test_groups_that_read_for_ten_windows_and_commit_nothing_are_found(found: Any) -> None:
    said = {one.subject: one.sentence for one in found["never_commits"]}
    assert sorted(said) == ["never", "refused"]
    assert said["never"] == "Group never reads t and has committed nothing (records: 270)"


def test_a_commit_that_stands_still_for_ten_windows_is_found(found: Any) -> None:
    (one,) = found["stalled"]
    assert (one.subject, one.measure) == ("stuck on t", 38 + 4)
    assert "(0, 1)" in one.sentence
    # the second partition's commit has stood still from the first window on
    assert one.from_ns == round(moment(50).timestamp()) * 10**9


def test_a_lagging_group_without_members_is_an_abandoned_one(found: Any) -> None:
    (one,) = found["abandoned"]
    assert (one.subject, one.measure) == ("gone home on t", 4)


def test_a_lag_that_grows_for_ten_windows_is_found(found: Any) -> None:
    (one,) = found["falls_behind"]
    assert (one.subject, one.measure) == ("slow on t", 30)
    assert one.sentence.startswith("Group slow falls behind on t: by 30 records in ten windows, to 40 (at worst: ")
    assert [piece.exchange for piece in one.evidence] == [3]


def test_a_consumer_that_commits_after_each_batch_is_found_and_a_moderate_one_is_not(found: Any) -> None:
    (one,) = found["overcommit"]
    assert one.sentence.startswith("careful at 10.0.0.1 commits its offsets 12/s")


def test_a_consumer_slow_over_its_fetches_is_found_by_slow_answers_and_by_pauses(found: Any) -> None:
    sentences = {one.subject: one.sentence for one in found["slow_consumer"]}
    assert sentences == {
        "gulps at 10.0.0.1": "gulps at 10.0.0.1 lingers over 10 % of its Fetches, up to 2.0 s",
        "late at 10.0.0.1": "late at 10.0.0.1 lingers over 85.71 % of its Fetches, up to 40.0 s",
    }


def test_ten_windows_are_needed_to_judge_what_stands_still(tables: Any) -> None:
    judged = judge(tables(each_second(1, (0, 40))), [rule for rule in RULES if rule.name == "stalled"])
    (one,) = judged.unjudged
    assert one.reason == "too short: 6 whole windows of 5 s; 10 are needed"
