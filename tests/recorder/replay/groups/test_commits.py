"""Tests of the member ids in commits and fetches of offsets."""

from __future__ import annotations

import pytest

from proxy.wire.keys import LEAVE_GROUP
from recorder.replay.plan import Hold, Reason, Withheld
from tests.recorder.replay.group_clients import answer_to, recorded
from tests.recorder.replay.group_script import GROUP, Script

COMMIT = {
    "group_id": GROUP,
    "member_id": "r",
    "generation_id_or_member_epoch": 1,
    "group_instance_id": None,
    "topics": [],
}
TXN = COMMIT | {"transactional_id": "x", "producer_id": 1, "producer_epoch": 0}
FETCH = {"groups": [{"group_id": GROUP, "member_id": "r", "member_epoch": 1, "topics": []}], "require_stable": False}


@pytest.mark.parametrize(
    ("api_key", "version", "values"), [(8, 7, COMMIT), (28, 3, TXN)], ids=["commit", "transaction"]
)
def test_a_known_member_commits_as_the_target_knows_it(api_key, version, values):
    script = Script()
    script.join("r", "t")
    _, sent = script.asked(recorded(api_key, version, values))
    assert (sent["member_id"], sent["generation_id_or_member_epoch"]) == ("t", 7)


def test_an_unknown_member_commits_without_an_id_while_the_group_is_empty():
    refusal, sent = Script().asked(recorded(8, 7, COMMIT | {"group_instance_id": "i"}))
    assert refusal is None
    assert (sent["member_id"], sent["generation_id_or_member_epoch"], sent["group_instance_id"]) == ("", -1, None)


def test_an_unknown_members_commit_is_withheld_while_the_group_has_members():
    script = Script()
    script.join("other", "t")
    assert script.asked(recorded(8, 7, COMMIT))[0] == Withheld(Reason.NO_MEMBER, "r")


def committed(error: int) -> dict[str, object]:
    return {"topics": [{"name": "a", "partitions": [{"partition_index": 0, "error_code": error}]}]}


@pytest.mark.parametrize("error", [22, 25, 27])
@pytest.mark.parametrize(
    ("api_key", "version", "values"), [(8, 7, COMMIT), (28, 3, TXN)], ids=["commit", "transaction"]
)
def test_what_the_recorded_cluster_refused_an_unknown_member_is_not_sent_as_of_none(api_key, version, values, error):
    """The target would take it."""
    refused = answer_to(recorded(api_key, version, values), committed(error))
    assert Script().asked(refused)[0] == Withheld(Reason.NO_MEMBER, "r")


def test_a_member_that_the_recorded_cluster_had_lost_by_its_commit_leaves_before_it():
    script = Script()
    script.join("r", "t")
    commit = answer_to(recorded(8, 7, COMMIT), committed(25))
    assert script.asked(commit)[0] == Hold(Reason.NO_GENERATION)
    (made,) = script.made()
    assert (made.api_key, made.values["member_id"]) == (LEAVE_GROUP, "t")
    made.done({"error_code": 0, "members": []})
    refusal, sent = script.asked(commit)
    assert (refusal, sent["member_id"]) == (None, "t")


def test_offsets_are_fetched_without_an_unknown_member():
    refusal, sent = Script().asked(recorded(9, 9, FETCH))
    assert refusal is None
    assert (sent["groups"][0]["member_id"], sent["groups"][0]["member_epoch"]) == (None, -1)


def test_transactions_commit_offsets_without_an_unknown_member():
    script = Script()
    script.join("other", "t")
    refusal, sent = script.asked(recorded(28, 3, TXN))
    assert refusal is None
    assert (sent["member_id"], sent["generation_id_or_member_epoch"]) == ("", -1)
