"""One connection's requests and responses: takes chunks of either side, returns a step for each.

Knows the wire; never sockets, clocks or settings. The proxy feeds chunks from its sockets; the recorder's compactor
feeds the same bytes from a log and gets the same exchanges.
"""

from __future__ import annotations

import sys
from typing import Any

from proxy.conversation.common import Common
from proxy.conversation.exchange import TIME_UNKNOWN, Exchange, OpaqueReason
from proxy.conversation.kafka07 import RequestSide07, ResponseSide07
from proxy.conversation.login import Login
from proxy.conversation.requests import RequestSide
from proxy.conversation.responses import ResponseSide
from proxy.conversation.routes import Routes
from proxy.conversation.step import Step, Verdict
from proxy.wire.dialects import Dialect
from proxy.wire.framing import FrameLimits

DEFAULT_LIMITS = FrameLimits()
# the most exchanges that are kept for reuse: a connection that was busy once must not keep its memory
MAX_SPARE = 64
# a broker reads few requests before it answers; one that reads all and never answers must not fill the memory
MAX_IN_FLIGHT = 1 << 16
_SIDES: dict[Dialect, tuple[type[RequestSide], type[ResponseSide]]] = {
    Dialect.KAFKA: (RequestSide, ResponseSide),
    Dialect.KAFKA_07: (RequestSide07, ResponseSide07),
}


class Conversation:
    """The state of one connection.

    Args:
        routes: the treatment of each API; also decides the dialect.
        limits: the longest frames that may pass.
        decides: True if it finds login tokens itself; otherwise `follow` gives the verdicts.
        max_frames: the number of a chunk's frames that one step handles; a frame that is not plain counts as several.
            The bytes behind them are the step's `rest`.
    """

    def __init__(
        self,
        routes: Routes,
        limits: FrameLimits = DEFAULT_LIMITS,
        *,
        decides: bool = True,
        max_frames: int = sys.maxsize,
    ) -> None:
        self.dialect = routes.dialect
        self.login = Login(decides=decides)
        # without logins, no unreadable bytes can be a secret
        self.login.pending = routes.dialect is Dialect.KAFKA
        self._common = Common(routes, limits, self.login, max_frames)
        self.in_flight = self._common.in_flight
        asking, answering = _SIDES[routes.dialect]
        self.requests_side = asking(self._common)
        self.responses_side = answering(self._common)

    def requests(self, chunk: bytes, at_ns: int) -> Step:
        """A chunk that arrived from the client at `at_ns` (monotonic nanoseconds)."""
        step = self.requests_side.feed(chunk, at_ns)
        if len(self.in_flight) > MAX_IN_FLIGHT and self.dialect is Dialect.KAFKA:
            self._give_up(step)
        return step

    def _give_up(self, step: Step) -> None:
        """Stops expecting responses to opaque requests: to those at the head of the queue, and to all later ones.

        A late response still passes (`ResponseSide`), thanks to its correlation id; so this is not for the dialect of
        0.7.
        """
        in_flight = self.in_flight
        while in_flight and in_flight[0].may_go_unanswered:
            self._common.opaque_one_way = True
            step.unanswered.append(in_flight.popleft())

    @property
    def waits(self) -> bool:
        """True if the oldest request in flight is never given up: its response comes, or the connection ends."""
        return not self.in_flight[0].may_go_unanswered or self.dialect is not Dialect.KAFKA

    def responses(self, chunk: bytes, at_ns: int) -> Step:
        """A chunk that arrived from the broker."""
        return self.responses_side.feed(chunk, at_ns)

    def made(self, exchange: Exchange, frame: bytes) -> None:
        """The proxy's own answer, with its length, to a request in flight; it waits for its turn (`due`)."""
        exchange.made = frame
        self._common.made_waiting += 1

    def reuse(self, exchanges: list[Exchange]) -> None:
        """Keeps exchanges of a step's `finished` for reuse; the caller must not use them any more.

        Making an exchange is a third of what a small one costs.
        """
        spare = self._common.spare
        # an exchange that was answered before its request was complete is still open
        if self.requests_side.open is None:
            spare += exchanges[: MAX_SPARE - len(spare)]

    def due(self, at_ns: int) -> Step:
        """The proxy's answers that may be sent now, as the edits of an empty step."""
        return self.responses_side.due(at_ns)

    def follow(self, verdict: Verdict) -> None:
        """Applies a verdict on login tokens that was reached when the bytes arrived."""
        self.login.follow(verdict)

    @property
    def limits(self) -> FrameLimits:
        """The longest frames that may pass."""
        return self._common.limits

    @property
    def offsets(self) -> tuple[int, int]:
        """The numbers of bytes that have arrived from the client and from the broker."""
        return self.requests_side.arrived, self.responses_side.arrived

    @property
    def unfinished(self) -> list[Exchange]:
        """The requests without a complete response, oldest first; the last may still be arriving."""
        arriving = self.responses_side.open
        return [*self.in_flight] if arriving is None else [arriving, *self.in_flight]

    @property
    def next_exchange(self) -> int:
        """The number that the next request gets."""
        return self.requests_side.number

    @property
    def sequence(self) -> int:
        """The number of the next frame to be complete, counted over both directions."""
        asked, answered = self.requests_side, self.responses_side
        begun = asked.number + asked.others + answered.begun + answered.others
        return begun - bool(asked.left) - bool(answered.left)

    def state(self) -> dict[str, Any]:
        """The state as JSON values, with which another process can go on from here."""
        return {
            "in_flight": [_saved(exchange) for exchange in self.in_flight],
            "requests": self.requests_side.state() | {"number": self.requests_side.number},
            "request_open": _saved_open(self.requests_side.open),
            "responses": self.responses_side.state()
            | {"begun": self.responses_side.begun, "previous_last_ns": self.responses_side.previous_last_ns},
            "response_open": _saved_open(self.responses_side.open),
            "login": self.login.state(),
            "opaque_one_way": self._common.opaque_one_way,
        }

    def boundary_state(self) -> dict[str, Any] | None:
        """The state at the start of each direction's next frame, to go on there after a gap.

        None while the end of a frame that has begun is unknown. An open request's latency stays unknown, because the
        time of its last byte is not known.
        """
        if self.requests_side.held or self.responses_side.held:
            return None
        state = self.state()
        for side, opened in (("requests", "request_open"), ("responses", "response_open")):
            state[side]["offset"] += state[side]["left"]
            state[side]["left"] = 0
            state[opened] = None
        arriving = self.requests_side.open
        if arriving is not None and self.in_flight and self.in_flight[-1] is arriving:
            state["in_flight"][-1]["last_ns"] = TIME_UNKNOWN
        return state

    @classmethod
    def from_state(
        cls, routes: Routes, state: dict[str, Any], limits: FrameLimits = DEFAULT_LIMITS, *, decides: bool = False
    ) -> Conversation:
        """The conversation that `state` or `boundary_state` describes."""
        conversation = cls(routes, limits, decides=decides)
        conversation.in_flight.extend(_restored(routes, saved) for saved in state["in_flight"])
        conversation._common.made_waiting = sum(exchange.made is not None for exchange in conversation.in_flight)
        asked, answered = state["requests"], state["responses"]
        conversation.requests_side.number = asked["number"]
        conversation.requests_side.restore(asked, conversation._open_request(state["request_open"]))
        conversation.responses_side.begun = answered["begun"]
        conversation.responses_side.previous_last_ns = answered["previous_last_ns"]
        response_open = state["response_open"]
        conversation.responses_side.restore(answered, _restored(routes, response_open) if response_open else None)
        conversation.login.restore(state["login"])
        # states of earlier versions lack this key
        conversation._common.opaque_one_way = state.get("opaque_one_way", False)
        return conversation

    def _open_request(self, saved: dict[str, Any] | None) -> Exchange | None:
        """The request that is still arriving: one in flight, or one without a response."""
        if saved is None:
            return None
        if self.in_flight and self.in_flight[-1].number == saved["number"]:
            return self.in_flight[-1]
        return _restored(self._common.routes, saved)


def _saved_open(exchange: Exchange | None) -> dict[str, Any] | None:
    return None if exchange is None else _saved(exchange)


def _saved(exchange: Exchange) -> dict[str, Any]:
    return {
        "number": exchange.number,
        "word": exchange.route.word,
        "correlation_id": exchange.correlation_id,
        "size": exchange.request_size,
        "first_ns": exchange.request_first_ns,
        "last_ns": exchange.request_last_ns,
        "awaits": exchange.awaits,
        "opaque": exchange.opaque.value if exchange.opaque else None,
        "made": exchange.made.hex() if exchange.made is not None else None,
        "response_size": exchange.response_size,
        "response_first_ns": exchange.response_first_ns,
        "previous_last_ns": exchange.previous_last_ns,
    }


def _restored(routes: Routes, saved: dict[str, Any]) -> Exchange:
    exchange = Exchange(
        saved["number"],
        routes.of(saved["word"]),
        saved["correlation_id"],
        saved["size"],
        saved["first_ns"],
        saved["last_ns"],
    )
    exchange.awaits = saved["awaits"]
    exchange.opaque = OpaqueReason(saved["opaque"]) if saved["opaque"] else None
    exchange.made = bytes.fromhex(saved["made"]) if saved["made"] is not None else None
    exchange.response_size = saved["response_size"]
    exchange.response_first_ns = saved["response_first_ns"]
    exchange.previous_last_ns = saved["previous_last_ns"]
    return exchange
