"""Where the frames lie in a chunk, and the exchange of each frame.

The compactor and the sieve need every frame. Marks for all of them would be the obvious way, but then each frame would
take the conversation's slow path. So the conversation is fed as a busy proxy feeds it, and the frames are laid out from
its results: the exchanges that began or ended with the chunk, in their order, each with its size. Only bare tokens and
unreadable frames, which no exchange owns, come as marks.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from proxy.conversation.conversation import Conversation
from proxy.conversation.exchange import Exchange, FrameKind
from proxy.conversation.step import Step
from proxy.wire.framing import LENGTH


class FrameSpan(NamedTuple):
    """A frame at `data[start:stop]`, its length included.

    The frame began earlier if `start` is below 0, and is still arriving if `stop` is behind the data. An answer that
    the proxy made has no bytes in the stream: `start` is `stop`.
    """

    kind: FrameKind
    exchange: Exchange | None
    start: int
    stop: int


class ArrivingFrame(NamedTuple):
    """One direction between two steps: the frame that is arriving, if any.

    `begin`: its stream offset. `left`: its bytes to come; 0: no frame is arriving. `number`: the next request's.
    """

    kind: FrameKind
    exchange: Exchange | None
    begin: int
    left: int
    number: int

    @classmethod
    def now(cls, conversation: Conversation, direction: int, kind: FrameKind) -> ArrivingFrame:
        """The state between two steps. `kind`: of the frame that is half there, if any."""
        side = conversation.responses_side if direction else conversation.requests_side
        return cls(kind, side.open_exchange, side.open_begin, side.bytes_left, conversation.next_exchange)

    def found(self, step: Step) -> list[FrameSpan]:
        """The span, in the next step, of the frame that is arriving, if any."""
        return [FrameSpan(self.kind, self.exchange, self.begin - step.offset, self.left)] if self.left else []


def cut(
    conversation: Conversation, direction: int, chunk: bytes, at_ns: int, arriving: FrameKind
) -> tuple[Step, list[FrameSpan]]:
    """The frames that a chunk touches, and the proxy's own answers that went out with a chunk from the broker.

    `arriving`: the kind of the frame that is half there, if any.
    """
    before = ArrivingFrame.now(conversation, direction, arriving)
    if direction:
        step = conversation.responses(chunk, at_ns)
        return step, responses_in(conversation, step, before)
    step = conversation.requests(chunk, at_ns)
    return step, requests_in(conversation, step, before)


def requests_in(conversation: Conversation, step: Step, before: ArrivingFrame) -> list[FrameSpan]:
    """The frames that a step from the client touches."""
    left, found = before.left, before.found(step)
    owners = _begun(conversation, step, before.number)
    ownerless = _ownerless(step)
    at, index, stop = left, 0, step.stop
    while at < stop:
        start = at
        if ownerless and start in ownerless:
            at += 4 + LENGTH.unpack_from(step.data, start)[0]
            found.append(FrameSpan(ownerless[start], None, start, at))
        else:
            exchange = owners[index]
            index += 1
            at += 4 + exchange.request_size
            found.append(FrameSpan(FrameKind.REQUEST, exchange, start, at))
    return found


def responses_in(conversation: Conversation, step: Step, before: ArrivingFrame) -> list[FrameSpan]:
    """The frames that a step from the broker touches, and the proxy's own answers in it."""
    side, left, exchange, found = conversation.responses_side, before.left, before.exchange, before.found(step)
    finished, ownerless = step.finished, _ownerless(step)
    at, stop = left, step.stop
    # a response that was arriving and ends in this step is finished[0]; `found` has its span already
    index = int(left <= len(step.data) and exchange is not None and left > 0)
    while True:
        while index < len(finished) and finished[index].own_answer is not None:
            found.append(FrameSpan(FrameKind.RESPONSE, finished[index], at, at))
            index += 1
        if at >= stop:
            return found
        start = at
        if ownerless and start in ownerless:
            at += 4 + LENGTH.unpack_from(step.data, start)[0]
            found.append(FrameSpan(ownerless[start], None, start, at))
            continue
        exchange = finished[index] if index < len(finished) else side.open_exchange
        assert exchange is not None
        index += 1
        at += 4 + exchange.response_size
        found.append(FrameSpan(FrameKind.RESPONSE, exchange, start, at))


def _begun(conversation: Conversation, step: Step, first: int) -> list[Exchange]:
    """The exchanges whose requests began in a step, in their order; `first`: the number of the first of them."""
    begun = []
    for exchange in reversed(conversation.in_flight):
        if exchange.number < first:
            break
        begun.append(exchange)
    begun.reverse()
    # not in flight: one-way requests, the last of which may still be arriving, and requests given up in this step
    last = conversation.requests_side.open_exchange
    not_in_flight = [*step.one_way, *step.unanswered]
    if last is not None and not last.awaits:
        not_in_flight.append(last)
    if not_in_flight:
        begun += [exchange for exchange in not_in_flight if exchange.number >= first]
        begun.sort(key=lambda exchange: exchange.number)
    return begun


def _ownerless(step: Step) -> dict[int, FrameKind]:
    """The places in the data where frames begin that no exchange owns, each with its kind."""
    return {mark.begin - step.offset: mark.kind for mark in step.marks if mark.exchange is None}


def take_number(numbers: deque[int], number: int) -> bool:
    """Removes the numbers up to `number`: earlier exchanges were never answered. True if `number` was among them."""
    while numbers and numbers[0] < number:
        numbers.popleft()
    is_there = bool(numbers) and numbers[0] == number
    if is_there:
        numbers.popleft()
    return is_there
