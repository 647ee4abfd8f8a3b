"""The broker's direction: pairs each response with the oldest request in flight, whose correlation id must be equal.

A broker may leave opaque requests unanswered. A response that is not theirs gives them up:

    in flight          response to    result
    7 (opaque), 8      8              7 is given up, 8 is paired
    7 (opaque), 8      9              7 is given up, and the connection ends
    7 (opaque), 8      9, and the     7 is given up, and the response passes as a late response to an opaque request
                       broker ignores
                       opaque ones

The proxy's own answers are inserted in the order of the requests.
"""

from __future__ import annotations

from collections import deque

from proxy.conversation.exchange import Cause, Direction, Exchange, FrameKind, Unexpected
from proxy.conversation.shared_state import REMEMBERED, SharedState
from proxy.conversation.side import Side
from proxy.conversation.step import Edit, Mark, Step
from proxy.wire.dialects import Dialect
from proxy.wire.framing import RESPONSE_HEAD, SHORTEST_RESPONSE
from proxy.wire.keys import SASL_HANDSHAKE

# the error code in the response to a SaslHandshake, after the length field and the correlation id
HANDSHAKE_ERROR = slice(8, 10)


class ResponseSide(Side):
    """The broker's direction: every response is paired with the request that it answers."""

    direction = Direction.RESPONSE

    __slots__ = ("_answered", "_refused", "begun", "previous_last_ns")

    def __init__(self, shared: SharedState) -> None:
        super().__init__(shared, shared.limits.response)
        # the number of responses so far: the broker's, once their heads have arrived, and the proxy's own
        self.begun = 0
        # the time of the newest complete response's last byte
        self.previous_last_ns = 0
        # True if the newest SaslHandshake was refused
        self._refused = False
        # the correlation id of the last response in each of the newest steps
        self._answered: deque[int | None] = deque(maxlen=REMEMBERED)

    def feed(self, chunk: bytes, at_ns: int) -> Step:
        """The step of a chunk from the broker, with the proxy's own answers that are due."""
        step = super().feed(chunk, at_ns)
        if step.finished:
            self._answered.append(step.finished[-1].correlation_id)
        if self.shared.own_answers_waiting and not self.bytes_left:
            self._insert_own_answers(step, step.stop, at_ns)
        return step

    def own_answers_due(self, at_ns: int) -> Step:
        """A step with the proxy's own answers that are due; none are due while a broker's response is incomplete."""
        step = Step(b"", self.offset)
        if not self.bytes_left:
            self._insert_own_answers(step, 0, at_ns)
        return step

    def _resume_frame(self, step: Step, at_ns: int) -> int:
        exchange = self.open_exchange
        if exchange is not None:
            exchange.response_at = self.open_begin - step.offset
        at = self._take_piece(step)
        if not self.bytes_left:
            self.open_exchange = None
            if exchange is not None:
                self._complete(step, exchange, step.offset + at, at_ns)
            else:
                self._end_without_exchange(step, at)
        return at

    def _complete(self, step: Step, exchange: Exchange, next_offset: int, at_ns: int) -> None:
        exchange.response_last_ns = self.previous_last_ns = at_ns
        step.finished.append(exchange)
        if _is_handshake_v0(exchange):
            self._begin_tokens(next_offset, step)

    def _begin_tokens(self, next_offset: int, step: Step) -> None:
        """Begins the broker's tokens after its response to a SaslHandshake v0; ends the login if that is a refusal."""
        login = self.shared.login
        if not self._refused:
            login.begin(self.direction, next_offset, login.mechanism, step)
        elif login.decides:
            # the compactor decides nothing: it follows the proxy's verdicts
            login.end((self.shared.next_offsets[Direction.REQUEST], next_offset), step)

    def _frames(self, step: Step, at: int, first_ns: int, at_ns: int) -> int:
        data, end = step.data, len(step.data)
        last = end - RESPONSE_HEAD.size
        unpack, in_flight, limit = RESPONSE_HEAD.unpack_from, self.shared.in_flight, self._limit
        finished, previous_last_ns = step.finished, self.previous_last_ns
        begun = 0
        popleft, finish = in_flight.popleft, finished.append
        # a local copy is enough: no own answer is added while this loop runs
        own_answers_waiting = self.shared.own_answers_waiting
        for _ in self._up_to_max_frames:
            if at > last:
                self._check_cut_head(step, at)
                break
            if own_answers_waiting:
                self._insert_own_answers(step, at, at_ns)
            size, correlation_id = unpack(data, at)
            if not SHORTEST_RESPONSE <= size <= limit:
                step.cause = Cause.BAD_LENGTH
                break
            exchange = popleft() if in_flight else None
            if exchange is None or exchange.correlation_id != correlation_id:
                if exchange is not None:
                    in_flight.appendleft(exchange)
                if not self._give_up_until(step, at, correlation_id, at_ns):
                    if self.shared.broker_ignores_opaque:
                        # a late response to an opaque request that was given up
                        at = self._take_without_exchange(step, at, size, FrameKind.BYTES)
                    else:
                        step.cause = Cause.UNEXPECTED_RESPONSE
                    break
                exchange = popleft()
            plain = exchange.route.plain_response
            if not plain and _is_handshake_v0(exchange) and not self._try_read_refusal(data, at, size):
                in_flight.appendleft(exchange)
                break
            exchange.response_size = size
            exchange.response_first_ns = first_ns
            exchange.previous_last_ns = previous_last_ns
            begun += 1
            exchange.response_at = start = at
            at += 4 + size
            first_ns = at_ns
            if not plain:
                self.previous_last_ns = previous_last_ns
                self._take(step, exchange, start, at, at_ns)
                previous_last_ns = self.previous_last_ns
                break
            if at > end:
                self._leave_open(step, start, at, FrameKind.RESPONSE, exchange, marked=False)
            else:
                exchange.response_last_ns = previous_last_ns = at_ns
                finish(exchange)
        self.begun += begun
        if at < end:
            self.frames_allowed -= begun
        self.previous_last_ns = previous_last_ns
        return at

    def _take(self, step: Step, exchange: Exchange, at: int, stop: int, at_ns: int) -> None:
        """Takes a response that is not plain. Marks it if its route marks responses, or if it may hold a secret."""
        self._charge_search(step, exchange, at, stop)
        marked = exchange.route.mark_response or (exchange.opaque is not None and self._must_mark_opaque(exchange))
        if marked:
            self._mark(step, FrameKind.RESPONSE, exchange, at, stop)
        if stop > len(step.data):
            self._leave_open(step, at, stop, FrameKind.RESPONSE, exchange, marked)
        else:
            self._complete(step, exchange, step.offset + stop, at_ns)

    def _is_searched(self, exchange: Exchange) -> bool:
        return exchange.route.search_response

    def _try_read_refusal(self, data: bytes, at: int, size: int) -> bool:
        """Notes whether the broker refused a SaslHandshake. False: more bytes are needed."""
        stop = at + 4 + min(size, HANDSHAKE_ERROR.stop - 4)
        self._refused = any(data[at + HANDSHAKE_ERROR.start : stop])
        return len(data) >= stop

    def _check_cut_head(self, step: Step, at: int) -> None:
        """Ends the connection if the cut head at `data[at]` begins with a length that no response may have."""
        if len(step.data) - at >= 4:
            self._length(step, at, SHORTEST_RESPONSE)

    def _give_up_until(self, step: Step, at: int, correlation_id: int, at_ns: int) -> bool:
        """Gives up opaque requests at the head of the queue until the request with this correlation id is the oldest.

        Returns False, after giving up the opaque requests at the head, if a request that is not opaque stands before
        the wanted one, or no request has the id. Opaque logins are given up, too. Brokers answer logins, but a
        broker that answers a later request has passed over them. Inserts own answers that become due.
        """
        in_flight = self.shared.in_flight
        while in_flight and (in_flight[0].own_answer is not None or in_flight[0].correlation_id != correlation_id):
            if in_flight[0].own_answer is not None:
                self._insert_own_answers(step, at, at_ns)
            elif in_flight[0].opaque is not None:
                self.shared.given_up.append(in_flight[0].correlation_id)
                step.unanswered.append(in_flight.popleft())
            else:
                return False
        return bool(in_flight)

    def unexpected(self, step: Step) -> tuple[Unexpected, str]:
        """What is wrong with the response that ended `step`, and which response it is, in words.

        UNASKED says no more than that the newest requests (REMEMBERED) are not the ones that it answers.
        """
        if self.shared.routes.dialect is not Dialect.KAFKA:
            return Unexpected.UNASKED, "answered when no request was in flight"
        _, number = RESPONSE_HEAD.unpack_from(step.data, step.stop)
        in_flight = [exchange.correlation_id for exchange in self.shared.in_flight]
        answered = (*self._answered, *(exchange.correlation_id for exchange in step.finished))
        if number in in_flight:
            return Unexpected.OUT_OF_ORDER, f"answered {number} before {in_flight[0]}"
        if number in answered:
            return Unexpected.TWICE, f"answered {number} again"
        if number in self.shared.one_way:
            return Unexpected.NOT_WANTED, f"answered {number}, a Produce with acks=0"
        if number in self.shared.given_up:
            return Unexpected.LATE, f"answered {number} after a later request"
        awaited = f" instead of {in_flight[0]}" if in_flight else " when no request was in flight"
        return Unexpected.UNASKED, f"answered {number}{awaited}"

    def _may_hold_secret(self, kind: FrameKind) -> bool:
        """True also for a late response (BYTES), because its request is unknown."""
        return kind is FrameKind.BYTES or super()._may_hold_secret(kind)

    def _insert_own_answers(self, step: Step, at: int, at_ns: int) -> None:
        """Inserts, before `data[at]`, the proxy's own answers to the requests that are now the oldest."""
        in_flight = self.shared.in_flight
        while in_flight and (answer := in_flight[0].own_answer) is not None:
            exchange = in_flight.popleft()
            self.shared.own_answers_waiting -= 1
            self.begun += 1
            exchange.response_size = len(answer) - 4
            exchange.response_first_ns = exchange.response_last_ns = at_ns
            here = step.offset + at
            step.edits.append(Edit(at, at, answer))
            step.finished.append(exchange)
            step.marks.append(Mark(FrameKind.RESPONSE, exchange, here, here, here, here, False))

    def _token(self, step: Step, at: int, first_ns: int, at_ns: int) -> int:
        size = self._length(step, at)
        return at if size < 0 else self._take_token(step, at, size)


def _is_handshake_v0(exchange: Exchange) -> bool:
    """True for a SaslHandshake v0: bare tokens follow its response, unless the broker refuses it."""
    return exchange.api_key == SASL_HANDSHAKE and exchange.api_version == 0
