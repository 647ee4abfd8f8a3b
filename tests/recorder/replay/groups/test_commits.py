"""Tests of the member ids in commits and fetches of offsets."""

from __future__ import annotations

import pytest

from recorder.replay.plan import Reason, Withheld
from tests.recorder.replay.group_clients import recorded
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
