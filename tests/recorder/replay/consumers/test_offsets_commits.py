"""Tests of mapping committed offsets, those of transactions too."""

from __future__ import annotations

import pytest

from proxy.wire.keys import OFFSET_COMMIT, OFFSET_FETCH, PRODUCE, TXN_OFFSET_COMMIT
from recorder.replay.consumers.pending import MOST_TRIES
from recorder.replay.plan import Resend
from tests.recorder.replay.consumers.offset_exchanges import (
    A0,
    TWO,
    asked,
    at_target,
    batch,
    commit,
    committed,
    committed_by_transaction,
    fetch,
    offset_fetch,
    offsets,
    play,
    produce_values,
    produced,
)
from tests.recorder.replay.simulated import exchange


@pytest.mark.parametrize("api_key", [OFFSET_COMMIT, TXN_OFFSET_COMMIT])
def test_a_committed_offset_is_mapped_and_expected_as_committed(api_key: int) -> None:
    found = offsets()
    produced(found, 1, 500, 600)
    each = commit(2, 510, api_key)
    values = each.decoded()
    found.request(each, values, 0)
    assert values["topics"][0]["partitions"][0]["committed_offset"] == 610
    found.answered(each, values, committed(0, "p-a"), 0)
    produced(found, 3, 510, 700)
    assert found.committed("g", "a", 0, 510) == 610
    assert found.committed("h", "a", 0, 510) == 700
    assert found.committed("g", "a", 0, -1) == -1


@pytest.mark.parametrize("api_key", [OFFSET_COMMIT, TXN_OFFSET_COMMIT], ids=["alone", "in a transaction"])
def test_an_offset_after_records_that_are_still_on_their_way_is_committed_as_it_is(api_key: int) -> None:
    on_its_way, elsewhere = offsets(end=0, first={A0: 0}), offsets(end=0)
    for found, wanted in ((on_its_way, 10), (elsewhere, 0)):
        values = commit(1, 10, api_key).decoded()
        assert found.request(commit(1, 10, api_key), values, 0) is None
        assert values["topics"][0]["partitions"][0]["committed_offset"] == wanted
    written = offsets(end=0)
    produces = exchange(1, PRODUCE, 7, produce_values(batch(0, 10)) | {"acks": 0}, None, awaits=False)
    assert written.request(produces, produces.decoded(), 0) is None
    values = commit(2, 10, api_key).decoded()
    assert written.request(commit(2, 10, api_key), values, 0) is None
    assert values["topics"][0]["partitions"][0]["committed_offset"] == 10


@pytest.mark.parametrize(("transaction", "expected"), [("t", 500), (None, 501)])
def test_a_commit_or_a_fetch_behind_a_marker_leaves_out_no_record_where_the_target_has_the_marker_before(
    transaction: str | None, expected: int
) -> None:
    found = offsets(end=0)
    # the marker is behind both on the recorded cluster, and between them on the target
    produced(found, 1, 10, 497, transaction=transaction)
    produced(found, 2, 11, 499)
    values = commit(3, 13, OFFSET_COMMIT).decoded()
    found.request(commit(3, 13, OFFSET_COMMIT), values, 0)
    assert values["topics"][0]["partitions"][0]["committed_offset"] == expected
    # another record is on its way, and the target has it already
    play(found, fetch(4, 10, peer=TWO), at_target(None, high=501))
    assert asked(found, fetch(5, 13)) == expected


@pytest.mark.parametrize("version", [3, 8], ids=["one group", "groups"])
def test_offsets_of_a_transaction_are_requested_again_until_the_target_shows_them(version: int) -> None:
    found = offsets()
    committed_by_transaction(found, 1, 10)
    asks = {"groups": [{"group_id": "g", "topics": None}]} if version >= 8 else {"group_id": "g", "topics": None}
    each = exchange(2, OFFSET_FETCH, version, asks, offset_fetch(version, 10))
    early, shown = (offset_fetch(version, at, topic="p-a", group="p-g") for at in (-1, 10))
    assert isinstance(found.answered(each, each.decoded(), early, 0), Resend)
    assert found.answered(each, each.decoded(), shown, 0) is None
    assert found.answered(each, each.decoded(), early, 0) is None


def test_a_target_that_never_shows_the_offsets_of_a_transaction_is_compared_as_it_is() -> None:
    found = offsets()
    committed_by_transaction(found, 1, 10)
    each = exchange(2, OFFSET_FETCH, 3, {"group_id": "g", "topics": None}, offset_fetch(3, 10))
    early = offset_fetch(3, -1, topic="p-a")
    answers = [found.answered(each, each.decoded(), early, 0) for _ in range(MOST_TRIES + 1)]
    assert answers == [Resend()] * MOST_TRIES + [None]
    before = exchange(3, OFFSET_FETCH, 3, {"group_id": "g", "topics": None}, offset_fetch(3, -1))
    assert found.answered(before, before.decoded(), early, 0) is None


def test_a_target_may_show_the_offsets_of_a_transaction_before_the_recorded_cluster_did() -> None:
    found = offsets()
    committed_by_transaction(found, 1, 10)
    each = exchange(2, OFFSET_FETCH, 3, {"group_id": "g", "topics": None}, offset_fetch(3, 7))
    assert found.committed("g", "a", 0, 7) == 7
    assert found.answered(each, each.decoded(), offset_fetch(3, 10, topic="p-a"), 0) is None
    assert found.committed("g", "a", 0, 7) == 10
    # any other offset is the group's own, and so is another group's
    assert [found.committed(group, "a", 0, recorded) for group, recorded in (("g", 6), ("h", 7))] == [6, 7]
