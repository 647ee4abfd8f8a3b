"""Tests of the table of how members stand: each cell, and random stories against a slow, obvious twin."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.replay.groups.member_states import TRANSITIONS, Event, Made, MemberState

PAIRS = [*itertools.product(MemberState, Event)]
# a way into each state
WAYS: dict[MemberState, list[Event]] = {
    MemberState.ABSENT: [],
    MemberState.DROPPED: [Event.UNKNOWN],
    MemberState.STABLE: [Event.JOINED],
    MemberState.TOLD: [Event.JOINED, Event.TOLD],
    MemberState.TOLD_EARLY: [Event.JOINED, Event.TOLD_EARLY],
    MemberState.STALE: [Event.JOINED, Event.MUST_JOIN],
    MemberState.UNSYNCED: [Event.JOINED, Event.UNASSIGNED],
    MemberState.UNSURE: [Event.JOINED, Event.EPOCH_LOST],
    MemberState.LEAVING: [Event.JOINED, Event.EXPELLED],
}
CLASSIC_ALONE = {Event.UNASSIGNED, Event.SYNCED, Event.TOLD, Event.TOLD_EARLY, Event.JOIN_LOST}
MODERN_ALONE = {Event.EPOCH_LOST, Event.STILL_THERE}
STORIES = {
    True: st.lists(st.sampled_from([event for event in Event if event not in MODERN_ALONE]), max_size=12),
    False: st.lists(st.sampled_from([event for event in Event if event not in CLASSIC_ALONE]), max_size=12),
}
ANY_STORY = st.lists(st.sampled_from(Event), max_size=12)
# what the target's answer to a made request does to the member, if nothing goes wrong
SUCCESS = {
    Made.LEAVE: Event.GONE,
    Made.JOIN: Event.JOINED,
    Made.JOIN_ALONG: Event.JOINED,
    Made.SYNC: Event.SYNCED,
    # a modern group's coordinator answers with the epoch
    Made.HEARTBEAT: Event.JOINED,
}
# classic -> the states that members of such groups never have
FOREIGN = {True: {MemberState.UNSURE}, False: {MemberState.UNSYNCED, MemberState.TOLD, MemberState.TOLD_EARLY}}


def brought_to(state: MemberState) -> MemberState:
    found = MemberState.ABSENT
    for event in WAYS[state]:
        found = found.after(event)
    assert found is state
    return found


class Twin:
    """A twin that keeps one fact for each thing that the replay may have to mend."""

    def __init__(self) -> None:
        self.is_in_group = self.must_join = self.leaves = False
        self.lacks_assignment = self.lacks_epoch = False
        self.told = 0

    def on(self, event: Event) -> None:
        getattr(self, f"_{event.name.lower()}")()
        if not self.is_in_group:
            self.leaves = False
        if not self.is_in_group or self.must_join or self.leaves:
            # nothing of its generation matters any more
            self.lacks_assignment = self.lacks_epoch = False
            self.told = 0
        if self.told and self.lacks_assignment:
            # a rebalance has begun, which ends the generation before the member has its assignment
            self.told, self.lacks_assignment, self.must_join = 0, False, True

    def _joined(self) -> None:
        self.__init__()  # type: ignore[misc]
        self.is_in_group = True

    def _unassigned(self) -> None:
        self.lacks_assignment = not self.lacks_epoch

    def _synced(self) -> None:
        self.lacks_assignment = False

    def _told(self) -> None:
        # nobody tells members of modern groups
        self.told = 0 if self.lacks_epoch else max(self.told, 1)

    def _told_early(self) -> None:
        self.told = 0 if self.lacks_epoch else 2

    def _must_join(self) -> None:
        self.must_join = not self.leaves

    def _join_lost(self) -> None:
        # a target that did not have the member may have it now, or not: its next recorded request tells
        if self.is_in_group:
            self._must_join()

    def _unknown(self) -> None:
        # a member that was to leave is gone
        self.is_in_group, self.must_join = False, not self.leaves

    def _epoch_lost(self) -> None:
        if not self.lacks_assignment:
            self.lacks_epoch, self.told = True, 0

    def _expelled(self) -> None:
        self.leaves, self.must_join = self.is_in_group, False

    def _still_there(self) -> None:
        self.is_in_group = True
        self._expelled()

    def _gone(self) -> None:
        self.is_in_group = False

    def _silent(self) -> None:
        self.must_join = self.lacks_assignment = self.lacks_epoch = False

    def _left(self) -> None:
        self.__init__()  # type: ignore[misc]

    @property
    def state(self) -> MemberState:
        if self.must_join:
            return MemberState.STALE if self.is_in_group else MemberState.DROPPED
        if not self.is_in_group:
            return MemberState.ABSENT
        mends = {
            MemberState.LEAVING: self.leaves,
            MemberState.UNSYNCED: self.lacks_assignment,
            MemberState.UNSURE: self.lacks_epoch,
        }
        found = [state for state, applies in mends.items() if applies]
        assert len(found) <= 1
        return found[0] if found else (MemberState.STABLE, MemberState.TOLD, MemberState.TOLD_EARLY)[self.told]

    def made(self, *, classic: bool) -> Made | None:
        if self.leaves or (self.must_join and self.is_in_group and not classic):
            # a modern group's coordinator fences a member that joins while it has an epoch of it
            return Made.LEAVE
        if self.must_join:
            return Made.JOIN
        if not self.is_in_group:
            return None
        return Made.SYNC if self.lacks_assignment else Made.JOIN_ALONG if self.told else Made.HEARTBEAT


def test_every_event_has_a_row_and_every_row_a_cell_for_each_state():
    assert set(TRANSITIONS) == set(Event)
    assert {len(row) for row in TRANSITIONS.values()} == {len(MemberState)}


@pytest.mark.parametrize(("state", "event"), PAIRS, ids=[f"{state.name}-{event.name}" for state, event in PAIRS])
def test_each_pair_leads_where_the_twin_goes(state, event):
    twin = Twin()
    for before in WAYS[state]:
        twin.on(before)
    twin.on(event)
    assert brought_to(state).after(event) is twin.state


@given(ANY_STORY)
def test_any_story_ends_as_the_twins_does(story):
    state, twin = MemberState.ABSENT, Twin()
    for event in story:
        state = state.after(event)
        twin.on(event)
        assert state is twin.state


@pytest.mark.parametrize("classic", [True, False], ids=["classic", "modern"])
@pytest.mark.parametrize("state", MemberState)
def test_what_is_made_for_a_member_mends_what_the_twin_lacks(state, classic):
    if state in FOREIGN[classic]:
        return
    twin = Twin()
    for event in WAYS[state]:
        twin.on(event)
    assert state.made(classic=classic) is twin.made(classic=classic)


@pytest.mark.parametrize("classic", [True, False], ids=["classic", "modern"])
@given(st.data())
def test_no_event_brings_a_member_into_a_state_of_the_other_kind_of_group(classic, data):
    state = MemberState.ABSENT
    for event in data.draw(STORIES[classic]):
        state = state.after(event)
        assert state not in FOREIGN[classic]


@pytest.mark.parametrize("classic", [True, False], ids=["classic", "modern"])
@pytest.mark.parametrize("state", MemberState)
def test_made_requests_that_succeed_settle_any_member_in_two_steps(state, classic):
    for _ in range(2):
        if not state.settled:
            made = state.made(classic=classic)
            assert made is not None
            state = state.after(SUCCESS[made])
    assert state.settled


@pytest.mark.parametrize("state", MemberState)
def test_a_member_is_in_the_group_after_a_join_and_not_after_it_has_left(state):
    assert state.after(Event.JOINED).present
    assert state.after(Event.JOINED).settled
    assert not state.after(Event.GONE).present
    assert state.after(Event.LEFT) is MemberState.ABSENT
    assert not state.after(Event.UNKNOWN).present


@given(ANY_STORY)
def test_of_a_member_whose_connection_has_ended_nothing_is_mended_but_its_departure(story):
    state = MemberState.ABSENT
    for event in story:
        state = state.after(event)
    silent = state.after(Event.SILENT)
    assert silent.settled == (state is not MemberState.LEAVING)
