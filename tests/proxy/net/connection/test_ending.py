"""Tests of the table of how connections end: each cell, and random histories against a slow, obvious twin."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.conversation import Cause, Direction
from proxy.net.connection.ending import TRANSITIONS, Ending, Event, State
from tests.tables import each_row

OPEN, DRAINING, FINISHED, ENDED = State
CLIENT, BROKER = Direction
PAIRS = [*itertools.product(State, Event)]
# a way into each state, and the cause that the state then holds
WAYS: dict[State, list[tuple[Event, Cause]]] = {
    OPEN: [],
    DRAINING: [(Event.DRAIN, Cause.IDLE)],
    FINISHED: [(Event.FINISH, Cause.CLIENT_CLOSED)],
    ENDED: [(Event.CUT, Cause.STALLED)],
}
CAUSES: dict[Event, list[Cause | None]] = {
    Event.DRAIN: [Cause.DRAINED, Cause.IDLE, Cause.AGED],
    Event.FINISH: [Cause.CLIENT_CLOSED],
    Event.REFUSE: [Cause.BAD_LENGTH, Cause.UNSUPPORTED_VERSION],
    Event.SETTLE: [None],
    Event.PEER_GONE: [
        Cause.CLIENT_RESET,
        Cause.CLIENT_LOST,
        Cause.BROKER_RESET,
        Cause.BROKER_LOST,
        Cause.BROKER_CLOSED,
    ],
    Event.CUT: [Cause.STALLED, Cause.DRAINED, Cause.IDLE, Cause.LEADS_BACK, Cause.UNEXPECTED_RESPONSE],
    Event.FAULT: [Cause.PROXY_FAULT],
}
HAPPENINGS = st.sampled_from([(event, cause) for event, causes in CAUSES.items() for cause in causes])


def brought_to(state: State) -> Ending:
    ending = Ending()
    for event, cause in WAYS[state]:
        ending.on(event, cause)
    assert ending.state is state
    return ending


class Twin:
    """A twin that keeps three facts: whether the connection is over, who wanted its end, and why."""

    def __init__(self) -> None:
        self.over = False
        self.proxy_wants_end = False
        self.client_wants_end = False
        self.why: Cause | None = None

    def on(self, event: Event, cause: Cause | None) -> None:
        if event is Event.FAULT:
            self.over, self.why = True, cause
        elif not self.over:
            getattr(self, f"_{event.name.lower()}")(cause)

    def _drain(self, cause: Cause) -> None:
        if not (self.proxy_wants_end or self.client_wants_end):
            self.proxy_wants_end, self.why = True, cause

    def _finish(self, cause: Cause) -> None:
        if not self.client_wants_end:
            self.client_wants_end, self.why = True, cause

    _refuse = _finish

    def _settle(self, cause: None) -> None:
        self.over = self.proxy_wants_end or self.client_wants_end

    def _peer_gone(self, cause: Cause) -> None:
        self.over = True
        if not self.client_wants_end:
            self.why = cause

    def _cut(self, cause: Cause) -> None:
        self.over, self.why = True, cause

    @property
    def state(self) -> State:
        if self.over:
            return ENDED
        return FINISHED if self.client_wants_end else DRAINING if self.proxy_wants_end else OPEN


def test_every_event_has_a_row_and_every_row_a_cell_for_each_state():
    assert set(TRANSITIONS) == set(Event)
    assert {len(row) for row in TRANSITIONS.values()} == {len(State)}


@each_row(("state", "event"), PAIRS, ids=[f"{state.name}-{event.name}" for state, event in PAIRS])
def test_each_pair_leads_where_the_twin_goes(state, event):
    for cause in CAUSES[event]:
        ending, twin = brought_to(state), Twin()
        for before in WAYS[state]:
            twin.on(*before)
        ending.on(event, cause)
        twin.on(event, cause)
        assert (ending.state, ending.cause) == (twin.state, twin.why)


@given(st.lists(HAPPENINGS, max_size=12))
def test_any_story_ends_as_the_twins_does(story):
    ending, twin = Ending(), Twin()
    for event, cause in story:
        ending.on(event, cause)
        twin.on(event, cause)
        assert (ending.state, ending.cause) == (twin.state, twin.why)


@given(st.lists(HAPPENINGS, max_size=12))
def test_a_state_is_never_taken_back_and_what_has_ended_has_a_cause(story):
    ending, reached = Ending(), OPEN
    for event, cause in story:
        ending.on(event, cause)
        assert ending.state.value >= reached.value
        reached = ending.state
        assert (ending.cause is None) == (reached is OPEN)


@given(st.lists(HAPPENINGS, max_size=12))
def test_only_a_fault_of_the_proxys_own_replaces_a_cause(story):
    ending = brought_to(ENDED)
    for event, cause in story:
        ending.on(event, cause)
    is_faulty = any(event is Event.FAULT for event, _ in story)
    assert ending.cause is (Cause.PROXY_FAULT if is_faulty else Cause.STALLED)


def test_a_clients_end_of_stream_finishes_and_a_brokers_ends():
    client, broker = Ending(), Ending()
    client.end_of_stream(CLIENT)
    broker.end_of_stream(BROKER)
    assert (client.state, client.cause) == (FINISHED, Cause.CLIENT_CLOSED)
    assert (broker.state, broker.cause) == (ENDED, Cause.BROKER_CLOSED)


@pytest.mark.parametrize("state", [OPEN, DRAINING], ids=["open", "draining"])
@pytest.mark.parametrize(
    ("peer", "loss"), [(CLIENT, Cause.CLIENT_RESET), (BROKER, Cause.BROKER_LOST)], ids=["client", "broker"]
)
def test_a_failed_send_ends_nothing_until_the_peers_end_of_stream_is_read(state, peer, loss):
    ending = brought_to(state)
    ending.note_loss(peer, loss)
    assert ending.state is state
    ending.end_of_stream(peer)
    assert (ending.state, ending.cause) == (ENDED, loss)


def test_the_loss_of_one_peer_says_nothing_of_the_other():
    ending = Ending()
    ending.note_loss(BROKER, Cause.BROKER_RESET)
    ending.end_of_stream(CLIENT)
    assert (ending.state, ending.cause) == (FINISHED, Cause.CLIENT_CLOSED)


def test_the_first_loss_of_a_peer_counts():
    ending = Ending()
    ending.note_loss(BROKER, Cause.BROKER_LOST)
    ending.note_loss(BROKER, Cause.BROKER_RESET)
    ending.end_of_stream(BROKER)
    assert ending.cause is Cause.BROKER_LOST


@each_row("cause", CAUSES[Event.PEER_GONE])
def test_a_client_that_has_finished_has_closed_however_the_peers_go_then(cause):
    ending = brought_to(FINISHED)
    ending.on(Event.PEER_GONE, cause)
    assert (ending.state, ending.cause) == (ENDED, Cause.CLIENT_CLOSED)
