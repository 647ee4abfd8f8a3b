"""Where the frames lie in a chunk, and the exchange of each frame.

Used by `frame_filter`, which needs every frame, and by the compactor's `streams`, for chunks whose frames are not all
alike. The conversation could mark every frame, but marked frames take its slow path. So the places of the frames are
computed from its results: the exchanges that began or ended with the chunk, in their order, each with its size. Marks
are read only for frames without an exchange (bare tokens, unreadable frames).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import islice, takewhile
from typing import NamedTuple

from proxy.conversation.conversation import Conversation
from proxy.conversation.exchange import Exchange, FrameKind
from proxy.conversation.step import Step
from proxy.wire.framing import LENGTH


class FrameSpan(NamedTuple):
    """A frame at `data[start:stop]`, its length included.

    The frame began in an earlier step if `start` is below 0, and is still arriving if `stop` is after the data. The
    proxy's own answer has no bytes in the stream, so its `start` is its `stop`.
    """

    kind: FrameKind
    exchange: Exchange | None
    start: int
    stop: int


# a named tuple's own constructor is a Python function that takes twice the time
new_span: Callable[[type[FrameSpan], tuple[FrameKind, Exchange, int, int]], FrameSpan] = tuple.__new__


class ArrivingFrame(NamedTuple):
    """The frame that is arriving in one direction, between two steps.

    `begin`: its stream offset. `left`: its bytes to come.
    """

    kind: FrameKind
    exchange: Exchange | None
    begin: int
    left: int

    @classmethod
    def between_steps(cls, conversation: Conversation, direction: int, kind: FrameKind) -> ArrivingFrame | None:
        """The arriving frame of a direction; None if none is. `kind`: its kind, which the conversation doesn't tell."""
        side = conversation.responses_side if direction else conversation.requests_side
        return cls(kind, side.open_exchange, side.open_begin, side.bytes_left) if side.bytes_left else None

    def span_in(self, step: Step) -> FrameSpan:
        """The span of the arriving frame in the next step."""
        return FrameSpan(self.kind, self.exchange, self.begin - step.offset, self.left)


def request_spans(
    conversation: Conversation, step: Step, arriving: ArrivingFrame | None, first: int
) -> list[FrameSpan]:
    """The spans of the frames in a step from the client.

    Args:
        arriving: the frame that was arriving when the step began.
        first: the number of the first request that may begin in the step.
    """
    left, spans = (0, []) if arriving is None else (arriving.left, [arriving.span_in(step)])
    owners = begun_in(conversation, step, first)
    ownerless = _ownerless(step)
    at, index, stop = left, 0, step.stop
    while at < stop:
        start = at
        if ownerless and start in ownerless:
            at += 4 + LENGTH.unpack_from(step.data, start)[0]
            spans.append(FrameSpan(ownerless[start], None, start, at))
        else:
            exchange = owners[index]
            index += 1
            at += 4 + exchange.request_size
            spans.append(new_span(FrameSpan, (FrameKind.REQUEST, exchange, start, at)))
    return spans


def response_spans(conversation: Conversation, step: Step, arriving: ArrivingFrame | None) -> list[FrameSpan]:
    """The spans of the frames that a step from the broker touches, and of the proxy's own answers in it.

    `arriving`: the frame that was arriving when the step began.
    """
    left, spans = (0, []) if arriving is None else (arriving.left, [arriving.span_in(step)])
    side, finished, ownerless = conversation.responses_side, step.finished, _ownerless(step)
    at, stop = left, step.stop
    # a response that was arriving and ends in this step is finished[0]; its span is in `spans` already
    index = int(arriving is not None and arriving.exchange is not None and left <= len(step.data))
    while True:
        while index < len(finished) and finished[index].own_answer is not None:
            spans.append(FrameSpan(FrameKind.RESPONSE, finished[index], at, at))
            index += 1
        if at >= stop:
            return spans
        start = at
        if ownerless and start in ownerless:
            at += 4 + LENGTH.unpack_from(step.data, start)[0]
            spans.append(FrameSpan(ownerless[start], None, start, at))
            continue
        exchange = finished[index] if index < len(finished) else side.open_exchange
        assert exchange is not None
        index += 1
        at += 4 + exchange.response_size
        spans.append(new_span(FrameSpan, (FrameKind.RESPONSE, exchange, start, at)))


def begun_in(conversation: Conversation, step: Step, first: int) -> list[Exchange]:
    """The exchanges whose requests began in a step, in their order. `first`: the number of the first of them."""
    last = conversation.requests_side.open_exchange
    if not (step.one_way or step.unanswered or (last is not None and not last.awaits)):
        # all of them are in flight
        count = conversation.next_request_number - first
        if count == 1:
            return [conversation.in_flight[-1]]
        begun = [*islice(reversed(conversation.in_flight), count)]
        begun.reverse()
        return begun
    begun = [*takewhile(lambda exchange: exchange.number >= first, reversed(conversation.in_flight))]
    begun.reverse()
    # requests that are not in flight: complete one-way requests, and those whose responses are no longer expected
    not_in_flight = [*step.one_way, *step.unanswered]
    # a one-way request that is still arriving
    if last is not None and not last.awaits:
        not_in_flight.append(last)
    begun += [exchange for exchange in not_in_flight if exchange.number >= first]
    begun.sort(key=lambda exchange: exchange.number)
    return begun


def _ownerless(step: Step) -> dict[int, FrameKind]:
    """The offsets in the data at which frames without an exchange begin, each with the frame's kind."""
    return {mark.begin - step.offset: mark.kind for mark in step.marks if mark.exchange is None}


def take_number(numbers: deque[int], number: int) -> bool:
    """Removes all exchange numbers up to `number`; returns True if `number` was among them.

    Earlier exchanges that are still there were never answered.
    """
    while numbers and numbers[0] < number:
        numbers.popleft()
    is_there = bool(numbers) and numbers[0] == number
    if is_there:
        numbers.popleft()
    return is_there
