"""Tests of the consequences of a commit that only one of the clusters accepted."""

from __future__ import annotations

import pytest

from proxy.wire.keys import OFFSET_COMMIT, OFFSET_FETCH, TXN_OFFSET_COMMIT
from recorder.replay.comparison.compare import DifferenceKind, answer_verdict
from recorder.replay.comparison.one_sided import OneSidedCommits
from recorder.replay.plan import Exchange, Values
from tests.recorder.replay.comparison.counterparts import NoCounterparts
from tests.recorder.replay.simulated import TARGET_IDS, TOPIC_IDS, exchange, names
from tests.tables import each_row

# COORDINATOR_LOAD_IN_PROGRESS, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS
LOADING, ILLEGAL, UNKNOWN, REBALANCING = 14, 22, 25, 27
COMMIT_VERSION = 2
# versions of OffsetFetch whose responses name no group, name groups, and name topics by their ids
VERSIONS = (5, 8, 10)
RECORDED, TARGET = "", "p-"


def commits(code: int | None, api_key: int = OFFSET_COMMIT, group: str = "g", index: int = 0) -> Exchange:
    """A recorded commit of a partition of "a"; None: its response is not in the capture."""
    entry = {"partition_index": index, "committed_offset": 5, "committed_metadata": None}
    values: Values = {"group_id": group, "topics": [{"name": "a", "partitions": [entry]}]}
    if api_key == TXN_OFFSET_COMMIT:
        values |= {"transactional_id": "t", "producer_id": 1, "producer_epoch": 0}
    else:
        values |= {"generation_id_or_member_epoch": 1, "member_id": "m", "retention_time_ms": -1}
    return exchange(1, api_key, COMMIT_VERSION, values, None if code is None else taken(code, RECORDED, index))


def taken(code: int, prefix: str, index: int = 0) -> Values:
    """The response to a commit."""
    partitions = [{"partition_index": index, "error_code": code}]
    return {"throttle_time_ms": 0, "topics": [{"name": f"{prefix}a", "partitions": partitions}]}


def played(*codes: tuple[int | None, int | None], api_key: int = OFFSET_COMMIT) -> OneSidedCommits:
    """Commits of partition 0 of "a" by group "g", with the recorded error and the target's; None: no response."""
    room = OneSidedCommits(names(TARGET))
    for recorded, target in codes:
        one = commits(recorded, api_key)
        if target is None:
            room.lost(one, None)
        else:
            room.answered(one, one.decoded(), taken(target, TARGET), 0)
    return room


def offsets(version: int, prefix: str, found: dict[int, int], code: int = 0, group: str = "g") -> Values:
    """A response to OffsetFetch: offsets of partitions of "a"."""
    partitions = [
        {
            "partition_index": index,
            "committed_offset": offset,
            "metadata": None if offset < 0 else "",
            "error_code": code,
        }
        for index, offset in found.items()
    ]
    named = {"topic_id": (TARGET_IDS if prefix else TOPIC_IDS)["a"]} if version >= 10 else {"name": f"{prefix}a"}
    topics = [named | {"partitions": partitions}] if found else []
    if version < 8:
        return {"throttle_time_ms": 0, "topics": topics, "error_code": 0}
    return {"throttle_time_ms": 0, "groups": [{"group_id": f"{prefix}{group}", "topics": topics, "error_code": 0}]}


class Named(NoCounterparts):
    """A mapping that adds the target's prefix to names, and knows nothing else."""

    def expected(self, what, scope, recorded):
        if isinstance(recorded, bytes):
            return next((TARGET_IDS[name] for name, one in TOPIC_IDS.items() if one == recorded), None)
        return TARGET + recorded if isinstance(recorded, str) else None


def fetched(
    room: OneSidedCommits,
    version: int,
    recorded: dict[int, int],
    target: dict[int, int],
    code: int = 0,
    group: str = "g",
) -> DifferenceKind:
    """Returns the verdict on an OffsetFetch that returned these offsets. `code`: the target's error."""
    asked: Values = {"group_id": group, "topics": None}
    values: Values = asked if version < 8 else {"groups": [asked | {"member_id": None, "member_epoch": -1}]}
    if version >= 7:
        values["require_stable"] = False
    asks = exchange(2, OFFSET_FETCH, version, values, offsets(version, RECORDED, recorded, group=group))
    answer = offsets(version, TARGET, target, code, group)
    consequences = room.consequences(asks, answer)
    return answer_verdict(OFFSET_FETCH, version, asks.answer, answer, Named(), consequences=consequences).kind


@each_row("version", VERSIONS)
@each_row("api_key", [OFFSET_COMMIT, TXN_OFFSET_COMMIT])
@each_row("refusal", [ILLEGAL, UNKNOWN, REBALANCING])
def test_offsets_after_a_commit_that_the_target_alone_has_taken_are_no_difference_of_their_own(
    refusal: int, api_key: int, version: int
) -> None:
    assert fetched(played(api_key=api_key), version, {0: -1}, {0: 5}) is DifferenceKind.STRUCTURE
    assert fetched(played((refusal, 0), api_key=api_key), version, {0: -1}, {0: 5}) is DifferenceKind.SAME


@pytest.mark.parametrize("refusal", [LOADING, ILLEGAL, UNKNOWN, REBALANCING])
def test_offsets_after_a_commit_that_the_target_alone_has_refused_are_none_either(refusal: int) -> None:
    assert fetched(played((0, refusal)), 5, {0: 5}, {0: -1}) is DifferenceKind.SAME


@each_row("version", VERSIONS)
@each_row(("recorded", "target"), [({0: 5}, {}), ({}, {0: 5}), ({0: 5, 1: 6}, {1: 6}), ({1: 6}, {0: 5, 1: 6})])
def test_an_answer_may_name_such_partitions_on_one_side_alone(
    version: int, recorded: dict[int, int], target: dict[int, int]
) -> None:
    assert fetched(played(), version, recorded, target) is DifferenceKind.STRUCTURE
    assert fetched(played((ILLEGAL, 0)), version, recorded, target) is DifferenceKind.SAME


def test_the_next_commit_that_both_clusters_take_ends_it() -> None:
    room = played((ILLEGAL, 0), (ILLEGAL, ILLEGAL))
    assert fetched(room, 5, {0: -1}, {0: 5}) is DifferenceKind.SAME
    assert fetched(played((ILLEGAL, 0), (0, 0)), 5, {0: -1}, {0: 5}) is DifferenceKind.STRUCTURE


@pytest.mark.parametrize("version", VERSIONS)
def test_other_partitions_and_groups_stay_what_they_are(version: int) -> None:
    room = played((ILLEGAL, 0))
    assert fetched(room, version, {0: -1, 1: -1}, {0: 5, 1: 5}) is DifferenceKind.STRUCTURE
    assert fetched(room, version, {}, {0: 5, 1: 5}) is DifferenceKind.STRUCTURE
    assert fetched(room, version, {0: -1}, {0: 5}, group="h") is DifferenceKind.STRUCTURE


def test_errors_of_partitions_with_one_sided_commits_are_compared() -> None:
    assert fetched(played((ILLEGAL, 0)), 5, {0: 5}, {0: 5}, code=LOADING) is DifferenceKind.ERROR


@pytest.mark.parametrize("codes", [(LOADING, 0), (None, 0), (ILLEGAL, ILLEGAL), (ILLEGAL, UNKNOWN)])
def test_nothing_follows_from_a_commit_whose_answers_tell_no_difference_of_offsets(
    codes: tuple[int | None, int],
) -> None:
    assert fetched(played(codes), 5, {0: -1}, {0: 5}) is DifferenceKind.STRUCTURE


@pytest.mark.parametrize(
    ("recorded", "kind"), [(0, DifferenceKind.SAME), (None, DifferenceKind.SAME), (ILLEGAL, DifferenceKind.STRUCTURE)]
)
def test_a_commit_that_the_target_never_got_has_the_same_consequences_unless_the_recorded_cluster_refused_it(
    recorded: int | None, kind: DifferenceKind
) -> None:
    assert fetched(played((recorded, None)), 5, {0: 5}, {0: -1}) is kind


@pytest.mark.parametrize("refusal", [ILLEGAL, UNKNOWN, REBALANCING])
def test_the_commit_itself_is_a_difference(refusal: int) -> None:
    for one, other in ((refusal, 0), (0, refusal)):
        found = answer_verdict(OFFSET_COMMIT, COMMIT_VERSION, taken(one, RECORDED), taken(other, TARGET), Named())
        assert found.kind is DifferenceKind.ERROR


def test_an_unreadable_commit_is_dropped_silently() -> None:
    cut = commits(0)
    cut.frame = b""
    OneSidedCommits(names(TARGET)).lost(cut, None)
