"""One connection's requests and responses: takes chunks of either side, returns a step for each.

Knows the wire; never sockets, clocks or settings. The proxy feeds chunks from its sockets; the recorder's compactor
feeds the same bytes from a log and gets the same exchanges.
"""

from __future__ import annotations

import sys
from typing import Any

from proxy.conversation.exchange import TIME_UNKNOWN, Direction, Exchange, OpaqueReason, Unexpected
from proxy.conversation.kafka07 import RequestSide07, ResponseSide07
from proxy.conversation.login import Login
from proxy.conversation.requests import RequestSide
from proxy.conversation.responses import ResponseSide
from proxy.conversation.routes import Routes
from proxy.conversation.shared_state import SharedState
from proxy.conversation.step import Step, Verdict
from proxy.wire.dialects import Dialect
from proxy.wire.framing import FrameLimits
from proxy.wire.keys import SASL_HANDSHAKE

DEFAULT_LIMITS = FrameLimits()
# finished exchanges that are kept for reuse: a connection that was busy once must not keep all that memory
MAX_SPARE = 64
# a broker that reads requests and never answers must not fill the memory; real brokers read only a few ahead
MAX_IN_FLIGHT = 1 << 16
_SIDES: dict[Dialect, tuple[type[RequestSide], type[ResponseSide]]] = {
    Dialect.KAFKA: (RequestSide, ResponseSide),
    Dialect.KAFKA_07: (RequestSide07, ResponseSide07),
}


class Conversation:
    """The state of one connection.

    Args:
        routes: the treatment of each API and version; they also determine the dialect.
        limits: the longest frames that may pass.
        decides: True: the conversation decides which frames are login tokens. False: the caller does, with `follow`.
        max_frames: the allowance of plain frames, after which a step is cut: `Step.rest` has the chunk's other bytes. A
            frame that is not plain counts as several. A run of plain frames is charged at its end, so a step may hold
            almost twice the allowance.
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
        # the dialect of 0.7 has no logins, so no unreadable bytes can be a secret
        self.login.pending = routes.dialect is Dialect.KAFKA
        self._shared = SharedState(routes, limits, self.login, max_frames)
        self.in_flight = self._shared.in_flight
        request_side, response_side = _SIDES[routes.dialect]
        self.requests_side = request_side(self._shared)
        self.responses_side = response_side(self._shared)

    def requests(self, chunk: bytes, at_ns: int) -> Step:
        """Takes a chunk that arrived from the client at `at_ns` (monotonic nanoseconds)."""
        step = self.requests_side.feed(chunk, at_ns)
        if len(self.in_flight) > MAX_IN_FLIGHT and self.dialect is Dialect.KAFKA:
            self._give_up(step)
        return step

    def _give_up(self, step: Step) -> None:
        """Stops expecting responses to opaque requests: those at the head of the queue, and all that arrive later.

        From then on, a response that fits no request in flight passes, because it may be a late one. The dialect of 0.7
        has no correlation ids, so its requests are never given up.
        """
        in_flight = self.in_flight
        while in_flight and in_flight[0].may_go_unanswered:
            self._shared.broker_ignores_opaque = True
            self._shared.given_up.append(in_flight[0].correlation_id)
            step.unanswered.append(in_flight.popleft())

    @property
    def must_await_oldest(self) -> bool:
        """True if the oldest request in flight can't be given up. Needs a request in flight."""
        return not self.in_flight[0].may_go_unanswered or self.dialect is not Dialect.KAFKA

    def responses(self, chunk: bytes, at_ns: int) -> Step:
        """Takes a chunk that arrived from the broker at `at_ns` (monotonic nanoseconds)."""
        return self.responses_side.feed(chunk, at_ns)

    def unexpected(self, step: Step) -> tuple[Unexpected, str]:
        """See `ResponseSide.unexpected`. Needs a step of the broker's that ends with the cause UNEXPECTED_RESPONSE."""
        return self.responses_side.unexpected(step)

    def answer(self, exchange: Exchange, frame: bytes) -> None:
        """Sets the proxy's own answer (`frame`, with length field) to a request in flight; see `own_answers_due`."""
        exchange.own_answer = frame
        self._shared.own_answers_waiting += 1

    def lose(self, direction: Direction, count: int) -> list[Exchange] | None:
        """Passes over `count` bytes of a direction that nobody has seen. Needs bytes that a packet dump lacks.

        Returns the exchanges that end in these bytes: with their response, or with their request if it awaits none.
        None, and nothing changes, if they don't lie within a frame whose end is known: see `resume`.
        """
        side = self.responses_side if direction else self.requests_side
        exchange = side.open_exchange
        # what follows a handshake depends on all of it
        if exchange is None or exchange.api_key == SASL_HANDSHAKE or count > side.bytes_left:
            return None
        ended = side.pass_over(count)
        if ended is None:
            return []
        if direction is Direction.REQUEST:
            ended.request_last_ns = TIME_UNKNOWN
        return [ended] if direction is Direction.RESPONSE or not ended.awaits else []

    def resume(self, offsets: tuple[int | None, int | None], awaited: Exchange | None) -> list[Exchange]:
        """Goes on where frames begin, after bytes that nobody has seen.

        Args:
            offsets: for each direction, the stream offset of a frame; None: the direction has lost nothing.
            awaited: the oldest request in flight whose response is still to come; None: none is.
        Returns the requests that are given up. Nothing is known of a login.
        """
        for side, offset in zip((self.requests_side, self.responses_side), offsets, strict=True):
            if offset is not None:
                side.resume(offset)
        given_up = []
        while self.in_flight and self.in_flight[0] is not awaited:
            given_up.append(self.in_flight.popleft())
            given_up[-1].response_size = 0
        self.login.forget()
        return given_up

    def reuse(self, exchanges: list[Exchange]) -> None:
        """Keeps exchanges of `Step.finished` for reuse; the caller must not use them any more.

        Without reuse, the constructor of `Exchange` takes a third of the time of a small exchange.
        """
        spare = self._shared.spare
        # a broker may answer a request that is still arriving, which must not be reused
        if self.requests_side.open_exchange is None:
            spare += exchanges[: MAX_SPARE - len(spare)]

    def own_answers_due(self, at_ns: int) -> Step:
        """An empty step, whose edits insert the proxy's own answers that are due: those to the oldest requests."""
        return self.responses_side.own_answers_due(at_ns)

    def follow(self, verdict: Verdict) -> None:
        """Applies a verdict on login tokens, which the proxy reached when the bytes arrived."""
        self.login.follow(verdict)

    @property
    def limits(self) -> FrameLimits:
        """The longest frames that may pass."""
        return self._shared.limits

    @property
    def offsets(self) -> tuple[int, int]:
        """The number of bytes that have arrived from the client, and the number from the broker."""
        return self.requests_side.arrived, self.responses_side.arrived

    @property
    def unfinished(self) -> list[Exchange]:
        """The requests without a complete response, oldest first. The last request may still be arriving."""
        arriving = self.responses_side.open_exchange
        return [*self.in_flight] if arriving is None else [arriving, *self.in_flight]

    @property
    def next_request_number(self) -> int:
        """The number of the next request."""
        return self.requests_side.next_number

    @property
    def sequence(self) -> int:
        """The number of complete frames of both directions, which is the number of the next complete frame."""
        requests, responses = self.requests_side, self.responses_side
        begun = requests.next_number + requests.without_exchange + responses.begun + responses.without_exchange
        return begun - bool(requests.bytes_left) - bool(responses.bytes_left)

    def state(self) -> dict[str, Any]:
        """The state as JSON values, with which `from_state` continues the conversation in another process."""
        return {
            "in_flight": [_saved(exchange) for exchange in self.in_flight],
            "requests": self.requests_side.state() | {"next_number": self.requests_side.next_number},
            "request_open": _saved_open(self.requests_side.open_exchange),
            "responses": self.responses_side.state()
            | {"begun": self.responses_side.begun, "previous_last_ns": self.responses_side.previous_last_ns},
            "response_open": _saved_open(self.responses_side.open_exchange),
            "login": self.login.state(),
            "broker_ignores_opaque": self._shared.broker_ignores_opaque,
        }

    def boundary_state(self) -> dict[str, Any] | None:
        """The state at the start of each direction's next frame, with which a recording continues after a gap.

        None while bytes are held back, because their frame is not understood yet. A request that is still arriving gets
        no latency, because its last byte arrives within the gap.
        """
        if self.requests_side.held or self.responses_side.held:
            return None
        state = self.state()
        for side, open_exchange in (("requests", "request_open"), ("responses", "response_open")):
            state[side]["offset"] += state[side]["bytes_left"]
            state[side]["bytes_left"] = 0
            state[open_exchange] = None
        arriving = self.requests_side.open_exchange
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
        conversation._shared.own_answers_waiting = sum(exchange.by_proxy for exchange in conversation.in_flight)
        requests, responses = state["requests"], state["responses"]
        conversation.requests_side.next_number = requests["next_number"]
        conversation.requests_side.restore(requests, conversation._open_request(state["request_open"]))
        conversation.responses_side.begun = responses["begun"]
        conversation.responses_side.previous_last_ns = responses["previous_last_ns"]
        response_open = state["response_open"]
        conversation.responses_side.restore(responses, _restored(routes, response_open) if response_open else None)
        conversation.login.restore(state["login"])
        conversation._shared.broker_ignores_opaque = state["broker_ignores_opaque"]
        return conversation

    def _open_request(self, saved: dict[str, Any] | None) -> Exchange | None:
        """The request that is still arriving: the newest in flight, or a request that awaits no response."""
        if saved is None:
            return None
        if self.in_flight and self.in_flight[-1].number == saved["number"]:
            return self.in_flight[-1]
        return _restored(self._shared.routes, saved)


def _saved_open(exchange: Exchange | None) -> dict[str, Any] | None:
    return None if exchange is None else _saved(exchange)


def _saved(exchange: Exchange) -> dict[str, Any]:
    return {
        "number": exchange.number,
        "api_and_version": exchange.route.api_and_version,
        "correlation_id": exchange.correlation_id,
        "size": exchange.request_size,
        "first_ns": exchange.request_first_ns,
        "last_ns": exchange.request_last_ns,
        "awaits": exchange.awaits,
        "opaque": exchange.opaque.value if exchange.opaque else None,
        "own_answer": exchange.own_answer.hex() if exchange.own_answer is not None else None,
        "response_size": exchange.response_size,
        "response_first_ns": exchange.response_first_ns,
        "previous_last_ns": exchange.previous_last_ns,
    }


def _restored(routes: Routes, saved: dict[str, Any]) -> Exchange:
    exchange = Exchange(
        saved["number"],
        routes.of(saved["api_and_version"]),
        saved["correlation_id"],
        saved["size"],
        saved["first_ns"],
        saved["last_ns"],
    )
    exchange.awaits = saved["awaits"]
    exchange.opaque = OpaqueReason(saved["opaque"]) if saved["opaque"] else None
    exchange.own_answer = bytes.fromhex(saved["own_answer"]) if saved["own_answer"] is not None else None
    exchange.response_size = saved["response_size"]
    exchange.response_first_ns = saved["response_first_ns"]
    exchange.previous_last_ns = saved["previous_last_ns"]
    return exchange
