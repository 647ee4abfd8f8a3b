"""Tests of assignments with the target's member ids."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proxy.wire import embedded
from recorder.replay.groups.assignments import mapped, with_leader

VALUES = {
    "error": 0,
    "leader": "r",
    "leader_url": "http://w",
    "config_offset": 4,
    "assignment": [],
    "revoked": None,
    "delay": 0,
}


def test_the_leader_within_a_connect_assignment_is_the_targets():
    blob = embedded.encode_blob("ConnectAssignment", 1, VALUES)
    found = embedded.decode_blob("ConnectAssignment", with_leader(blob, {"r": "target"}.get))
    assert isinstance(found, embedded.Embedded)
    assert found.values == VALUES | {"leader": "target"}


def test_bytes_after_a_newer_connect_assignment_and_its_version_stay():
    blob = b"\0\x09" + embedded.encode_blob("ConnectAssignment", 2, VALUES)[2:] + b"newer"
    changed = with_leader(blob, {"r": "target"}.get)
    assert (changed[:2], changed[-5:]) == (b"\0\x09", b"newer")


@given(st.binary(max_size=80))
def test_any_bytes_stay_as_they_are_where_no_leader_can_be_read(blob):
    assert with_leader(blob, lambda _: None) == blob


def test_members_that_the_target_lacks_are_assigned_nothing():
    entries = [{"member_id": one, "assignment": b"a"} for one in ("r", "gone")]
    assert mapped(entries, "consumer", {"r": "t"}.get) == [{"member_id": "t", "assignment": b"a"}]
