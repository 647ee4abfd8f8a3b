"""State that the two sides of a conversation share: requests in flight, the login, the next frames' offsets."""

from __future__ import annotations

import sys
from collections import deque

from proxy.conversation.exchange import Direction, Exchange
from proxy.conversation.login import Login
from proxy.conversation.routes import Routes
from proxy.conversation.step import Step
from proxy.wire.framing import FrameLimits

# how many correlation ids of requests and responses are remembered, to tell what an unexpected response is
REMEMBERED = 64


class SharedState:
    """State of one connection.

    Attributes:
        in_flight: the requests that await a response, oldest first.
        own_answers_waiting: the number of requests in flight that have the proxy's own answer.
        spare: finished exchanges that may be reused.
        given_up, one_way: correlation ids of the newest requests whose responses are no longer awaited, and of those
            that await none. Only `ResponseSide.unexpected` reads them.
        broker_ignores_opaque: True once too many opaque requests went unanswered: no response to any is expected.
        next_offsets: for each direction, the stream offset at which its next frame starts, as of its last step.
        max_frames: how many plain frames a direction may read before it cuts a step (`Side.frames_allowed`).
    """

    __slots__ = (
        "broker_ignores_opaque",
        "given_up",
        "in_flight",
        "limits",
        "login",
        "max_frames",
        "next_offsets",
        "one_way",
        "own_answers_waiting",
        "routes",
        "spare",
    )

    def __init__(self, routes: Routes, limits: FrameLimits, login: Login, max_frames: int = sys.maxsize) -> None:
        self.routes = routes
        self.limits = limits
        self.max_frames = max_frames
        self.login = login
        self.in_flight: deque[Exchange] = deque()
        self.own_answers_waiting = 0
        self.spare: list[Exchange] = []
        self.given_up: deque[int | None] = deque(maxlen=REMEMBERED)
        self.one_way: deque[int | None] = deque(maxlen=REMEMBERED)
        self.broker_ignores_opaque = False
        self.next_offsets = [0, 0]

    def token_complete(self, direction: Direction, size: int, next_offset: int, step: Step) -> None:
        """Counts a complete bare token of `size` bytes. `next_offset`: where its direction's next frame starts."""
        requests, responses = self.next_offsets
        offsets = (next_offset, responses) if direction is Direction.REQUEST else (requests, next_offset)
        self.login.count_token(direction, size, offsets, step)
