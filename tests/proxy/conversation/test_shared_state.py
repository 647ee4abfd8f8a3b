"""Tests of the state that both directions of a connection share, and of a whole token's effect on it."""

from __future__ import annotations

import pytest

from proxy.conversation import Direction, Routes, Step
from proxy.conversation.login import Login
from proxy.conversation.shared_state import SharedState
from proxy.wire.framing import FrameLimits

CLIENT, BROKER = Direction.REQUEST, Direction.RESPONSE


def within_login(mechanism: str) -> SharedState:
    """A connection within a login of this mechanism, whose next frames begin at 50 and 30."""
    state = SharedState(Routes.everything(), FrameLimits(), Login(decides=True))
    for direction in (CLIENT, BROKER):
        state.login.begin(direction, 0, mechanism, Step(b"", 0))
    state.next_offsets = [50, 30]
    return state


def test_at_first_nothing_is_in_flight_and_both_directions_are_at_their_start() -> None:
    state = SharedState(Routes.everything(), FrameLimits(), Login(decides=True))
    assert (list(state.in_flight), state.own_answers_waiting, state.next_offsets) == ([], 0, [0, 0])


def test_the_servers_last_token_ends_the_login_where_each_direction_continues() -> None:
    state, step = within_login("PLAIN"), Step(b"", 0)
    state.token_complete(CLIENT, 9, 63, step)
    assert step.verdicts == []
    state.token_complete(BROKER, 0, 34, step)
    assert [(verdict.direction, verdict.offset, verdict.token) for verdict in step.verdicts] == [
        (CLIENT, 50, False),
        (BROKER, 34, False),
    ]
    assert not state.login.is_token(CLIENT, 50)
    assert not state.login.is_token(BROKER, 34)


@pytest.mark.parametrize("direction", [CLIENT, BROKER])
def test_a_token_of_an_unknown_mechanism_ends_nothing(direction: Direction) -> None:
    state, step = within_login("X-UNKNOWN"), Step(b"", 0)
    state.token_complete(direction, 5, 99, step)
    assert step.verdicts == []
    assert state.login.is_token(direction, 99)
