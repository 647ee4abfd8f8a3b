"""The bytes of one client's connection, there and back.

Two tasks: one reads the client and writes the broker, one reads the broker and writes the client; so each direction
waits for its own slow side only, and nobody else ever writes to either socket. For each chunk, in this order: the
conversation says what it is, the observer takes it, rewriting changes what must change, it is sent, it is counted.

How it ends is a state of the client's side:

    OPEN        requests pass
    FINISHED    the client has sent its end of stream, or something to be cut off for; the broker learns of it once
                nothing is in flight any more, because a broker that reads an end of stream drops the answers it owes
    DRAINING    the proxy wants to stop, or nothing has moved for long: no more requests are read once a frame is
                complete

A broker that is gone ends it too, but not before what it had answered has been passed on.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

import trio

from proxy.config import ClusterSettings
from proxy.conversation import Cause, Conversation, Direction, Exchange, Step
from proxy.conversation.conversation import MOST_IN_FLIGHT
from proxy.log import log
from proxy.metrics.arriving import Arriving
from proxy.metrics.traffic import Traffic
from proxy.net.brokers.discovery import DiscoveryQuery
from proxy.net.brokers.nodes import Nodes
from proxy.net.connection.rewriting import NotRewritable, Rewriting
from proxy.net.limits.held_bytes import HeldBytes
from proxy.net.limits.recorder_backpressure import RecorderBackpressure
from proxy.net.log_throttle import LogThrottle
from proxy.net.observer import Observer
from proxy.net.sockets.streams import RECEIVE_SIZE, PeerLost, Stream
from proxy.net.sockets.tls import HANDSHAKE
from proxy.rewrite import api_versions

clock = time.monotonic_ns


# how a connection may end after the client's end of stream, or after something it is cut off for
GOODBYES = (Cause.CLIENT_RESET, Cause.CLIENT_LOST, Cause.BROKER_RESET, Cause.BROKER_LOST, Cause.BROKER_CLOSED)
# plain frames that a connection may have looked at before others have their turn: what they take is a fraction of a
# millisecond, and no longer than a chunk of few large frames takes
TURN = 512
# so many answers of the proxy's own may wait for their turn before no more is read: no broker slows such a client down
MOST_MADE = 64


class ClientSide(Enum):
    """How far a connection's end has come; see above."""

    OPEN = 0
    FINISHED = 1
    DRAINING = 2


@dataclass(frozen=True, slots=True)
class Shared:
    """What all connections of a proxy use together."""

    settings: ClusterSettings
    nodes: Nodes
    traffic: Traffic
    held: HeldBytes
    observer: Observer | None
    room: RecorderBackpressure | None
    news: LogThrottle = field(default_factory=LogThrottle)
    question: DiscoveryQuery = field(default_factory=DiscoveryQuery)


class Passage(NamedTuple):
    """A chunk that could not be passed on at once.

    pieces: what of it is still to be sent; None: it is not known yet what is to be. waits: it has to, for the observer.
    """

    step: Step
    pieces: Sequence[bytes | memoryview] | None
    chunk: bytes
    at_ns: int
    waits: bool


_NO_STEP = Step(b"", 0)
# the end of the stream; nothing but a reason to look at the connection's state again; the proxy's own question
END, WOKEN, OWN = (Passage(_NO_STEP, (), b"", 0, False) for _ in range(3))


class Relay:
    """One client connection and the broker connection opened for it."""

    def __init__(self, connection: int, client: Stream, broker: Stream, talk: Conversation, shared: Shared) -> None:
        self.connection = connection
        self._client = client
        self._broker = broker
        self._talk = talk
        self._shared = shared
        self._state = ClientSide.OPEN
        # why the client's side is no longer OPEN
        self._goodbye = Cause.CLIENT_CLOSED
        # what it means when the broker sends no more
        self._broker_end = Cause.BROKER_CLOSED
        # nobody takes answers any more, for this cause
        self._gone: Cause | None = None
        # a chunk of the broker has been read and not yet been sent; who waits for it to be
        self._passing = False
        self._passed: trio.Event | None = None
        # while it waits for the recorder, no peer is to blame
        self._waits_for_room = False
        # answers of the proxy's own that have not been sent
        self._made = 0
        # exchanges of a chunk that has not been sent yet: answered in it; one-way
        self._answered: Sequence[Exchange] = ()
        self._one_way: Sequence[Exchange] = ()
        self._rewriting = Rewriting(shared.nodes, shared.held, self, shared.settings)
        self._arriving = Arriving(talk.responses_side)
        self._cause: Cause | None = None
        self._nursery: trio.Nursery | None = None

    async def run(self) -> Cause:
        """Passes bytes until one side ends; returns why. Closes neither stream."""
        try:
            async with trio.open_nursery() as self._nursery:
                self._nursery.start_soon(self._requests)
                self._nursery.start_soon(self._responses)
        except* Exception:
            self._cause = Cause.PROXY_FAULT
            raise
        finally:
            self._rewriting.end()
            # they have come, and the other side has not got them
            self._shared.traffic.unanswered(self._answered)
            self._shared.traffic.one_way(self._one_way)
        return self.cause

    @property
    def cause(self) -> Cause:
        """Why it ended. What ends for no reason of its own was cut off."""
        return self._cause or Cause.DRAIN_DEADLINE

    @property
    def is_idle(self) -> bool:
        """Whether nothing is lost if it ends now: no answer owed, no bytes in hand, no frame begun."""
        waits = self._state is ClientSide.FINISHED or (self._client.is_waiting and self._at_boundary())
        return self._cause is not None or (waits and self._is_settled())

    @property
    def progress(self) -> int | None:
        """See `Holder`."""
        return None if self._waits_for_room else sum(self._talk.offsets) + self._client.taken + self._broker.taken

    @property
    def is_quiet(self) -> bool:
        """Whether nobody waits for an answer, or takes one; a request may have begun."""
        return self._state is ClientSide.OPEN and self._is_settled()

    def stall(self) -> None:
        """Others wait for what it holds, and it does not move."""
        self._end(Cause.STALLED)

    def idle(self) -> None:
        """Nothing has moved for as long as it may."""
        if self._at_boundary():
            self._leave(Cause.IDLE)
        else:
            self._end(Cause.IDLE)

    def drain(self) -> None:
        """Stop at the next frame boundary, once what is in flight is answered."""
        if self._state is ClientSide.OPEN:
            self._leave(Cause.DRAINED)
        elif self.is_idle:
            self._end(Cause.DRAINED)

    def _leave(self, cause: Cause) -> None:
        """Has the task that reads requests end it. Nobody else may: a request may be about to be read, and is not lost
        if it is answered, or never read.
        """
        self._state, self._goodbye = ClientSide.DRAINING, cause
        self._client.wake()

    def _end(self, cause: Cause) -> None:
        """Ends both tasks; the first cause counts. After a goodbye, how the two sides go is no cause."""
        said_goodbye = self._state is ClientSide.FINISHED and cause in GOODBYES
        self._cause = self._cause or (self._goodbye if said_goodbye else cause)
        assert self._nursery is not None
        self._nursery.cancel_scope.cancel()

    async def _requests(self) -> None:
        try:
            await self._pass_requests()
        except PeerLost as lost:
            # a broker that is gone may have left answers behind: the other task reads them, and ends when it must
            self._note(lost)
            if lost.stream is self._client:
                self._end(self._loss(lost))

    async def _pass_requests(self) -> None:
        while most := self._may_read():
            passage = await self._client.until(self._take_request, most)
            if passage is END:
                await self._client_finished()
                return
            if passage is OWN:
                # it has come back, by way of others: it must not go round again
                await self._client.send([self._shared.question.came_back])
                self._end(Cause.LEADS_BACK)
                return
            if passage is not WOKEN:
                await self._pass_request(passage)
        await self._until_settled()
        self._end(self._goodbye)

    def _may_read(self) -> int:
        """Bytes to be read from the client at most: once the proxy is to stop, those of the frame that has begun."""
        if self._state is not ClientSide.DRAINING:
            return RECEIVE_SIZE
        return min(self._talk.requests_side.missing, RECEIVE_SIZE)

    def _at_boundary(self) -> bool:
        return not self._talk.requests_side.missing

    def _take_request(self, chunk: bytes | None) -> Passage | None:
        """Passes a chunk on if that needs no waiting; else it is for the task to finish."""
        if not chunk:
            return END if chunk is not None else WOKEN
        if chunk == self._shared.question.frame:
            return OWN
        at_ns = clock()
        step = self._talk.requests(chunk, at_ns)
        if step.rest:
            chunk = _put_back(self._client, chunk, step.rest)
        self._one_way = step.one_way
        waits = self._observe(Direction.REQUEST, chunk, at_ns, step)
        if step.answered:
            self._answer(step.answered, at_ns)
        if step.unanswered:
            self._shared.traffic.unanswered(step.unanswered)
            # an answer of the proxy's own may have its turn now
            self._broker.wake()
        pieces: Sequence[bytes | memoryview] = step.outgoing()
        if not waits:
            pieces = self._send_now(self._broker, pieces)
            goes_on = step.cause is None and not step.rest and self._state is ClientSide.OPEN
            if not pieces and goes_on and not self._is_owed_too_much():
                self._request_passed(step, at_ns)
                return None
        return Passage(step, pieces, chunk, at_ns, waits)

    async def _pass_request(self, passage: Passage) -> None:
        """Finishes what `_take_request` has begun."""
        step = passage.step
        if passage.waits:
            await self._until_room()
        await self._broker.send(passage.pieces or ())
        self._request_passed(step, passage.at_ns)
        while self._is_owed_too_much():
            await self._until_passed()
        if step.cause is not None:
            if step.cause is Cause.BAD_LENGTH and passage.chunk.startswith(HANDSHAKE) and not self._client.is_tls:
                told = "client speaks TLS, and this port is for plaintext"
                log(self._shared.news.level(told), told, client=self._client.peer)
            await self._refuse(step.cause)

    def _send_now(self, stream: Stream, pieces: Sequence[bytes | memoryview]) -> Sequence[bytes | memoryview]:
        """See `Stream.send_now`. A loss is said once: who reads may find an end of stream before this task runs."""
        try:
            return stream.send_now(pieces)
        except PeerLost as lost:
            self._note(lost)
            raise

    def _note(self, lost: PeerLost) -> None:
        if lost.stream is self._client:
            self._gone = self._gone or self._loss(lost)
        elif lost.vanished or isinstance(lost.__cause__, ConnectionResetError):
            self._broker_end = self._loss(lost)

    def _request_passed(self, step: Step, at_ns: int) -> None:
        traffic = self._shared.traffic
        traffic.proxied(Direction.REQUEST, clock() - at_ns)
        if step.one_way:
            traffic.one_way(step.one_way)
            self._one_way = ()
        if step.opaque:
            traffic.opaque(step.opaque)

    def _is_owed_too_much(self) -> bool:
        """Whether no more is to be asked before something is answered."""
        return self._made > MOST_MADE or (len(self._talk.in_flight) > MOST_IN_FLIGHT and self._talk.waits)

    def _observe(self, direction: Direction, chunk: bytes, at_ns: int, step: Step) -> bool:
        """Has the observer take a chunk before it is sent on. Whether the chunk then waits, for a slow disk."""
        observer = self._shared.observer
        if observer is None:
            return False
        observer.arrived(self.connection, direction, chunk, at_ns, step)
        return observer.full and self._shared.room is not None

    async def _until_room(self) -> None:
        """This is where a socket waits for a slow disk."""
        assert self._shared.room is not None
        self._waits_for_room = True
        await self._shared.room.wait()
        self._waits_for_room = False

    async def _refuse(self, cause: Cause) -> None:
        """Ends the connection as a broker would: what came before the bad frame is answered first."""
        self._finish(cause)
        with trio.move_on_after(self._shared.settings.half_close_seconds):
            await self._until_settled()
        self._end(cause)

    def _finish(self, goodbye: Cause) -> None:
        self._state, self._goodbye = ClientSide.FINISHED, goodbye

    def _answer(self, exchanges: list[Exchange], at_ns: int) -> None:
        """Has the other task send the proxy's own answers, each in its turn."""
        for exchange in exchanges:
            number = exchange.correlation_id
            assert number is not None, "in the dialect of 0.7 the proxy answers nothing"
            frame = api_versions.unsupported(number)
            self._talk.made(exchange, frame)
            if self._shared.observer is not None:
                self._shared.observer.made(self.connection, number, frame, at_ns)
        self._made += len(exchanges)
        self._broker.wake()

    async def _client_finished(self) -> None:
        """The client sends no more: its end of stream is kept back until it has all its answers, or for so long."""
        if self._gone is not None:
            self._end(self._gone)
        self._finish(Cause.CLIENT_CLOSED)
        shared = self._shared
        if shared.observer is not None:
            shared.observer.half_closed(self.connection, Direction.REQUEST, clock())
        # the beginning of a head: nobody can tell what it was to be, but the client has sent it
        if held := self._talk.requests_side.held:
            await self._broker.send([held])
        if self._client.half_closes:
            with trio.move_on_after(shared.settings.half_close_seconds):
                await self._until_settled()
        # a broker closes its side now; one that is stuck must not keep the connection for ever
        with trio.move_on_after(shared.settings.half_close_seconds):
            await self._broker.send_eof()
            await trio.sleep_forever()
        self._end(Cause.CLIENT_CLOSED)

    def _is_settled(self) -> bool:
        """Whether no answer is owed or half passed on. A request that the client left incomplete will get none."""
        talk = self._talk
        if self._passing or talk.responses_side.left or talk.login.owed:
            return False
        owed = talk.in_flight
        return not owed or (len(owed) == 1 and owed[0] is talk.requests_side.open)

    async def _until_settled(self) -> None:
        while not self._is_settled():
            await self._until_passed()

    async def _until_passed(self) -> None:
        """Waits until something more has been sent to the client."""
        self._passed = trio.Event()
        await self._passed.wait()

    async def _responses(self) -> None:
        try:
            await self._pass_responses()
        except PeerLost as lost:
            if lost.stream is self._client and self._state is not ClientSide.FINISHED:
                await self._client_gone(self._loss(lost))
            self._end(self._loss(lost))

    async def _client_gone(self, cause: Cause) -> None:
        """Answers are dropped while the other task passes on what the client had sent before it went (acks=0)."""
        self._gone = cause
        with trio.move_on_after(self._shared.settings.half_close_seconds), suppress(PeerLost):
            while await self._broker.receive() != b"":
                pass

    def _loss(self, lost: PeerLost) -> Cause:
        if lost.stream is self._client:
            return Cause.CLIENT_LOST if lost.vanished else Cause.CLIENT_RESET
        return Cause.BROKER_LOST if lost.vanished else Cause.BROKER_RESET

    async def _pass_responses(self) -> None:
        while (passage := await self._broker.until(self._take_response)) is not END:
            await self._pass_response(passage)
        if self._shared.observer is not None:
            self._shared.observer.half_closed(self.connection, Direction.RESPONSE, clock())
        if held := self._talk.responses_side.held:
            await self._client.send([held])
        self._end(self._broker_end)

    def _take_response(self, chunk: bytes | None) -> Passage | None:
        """As `_take_request`. None: the proxy itself has something to say."""
        if chunk == b"":
            return END
        at_ns = clock()
        if chunk is None:
            step, waits = self._talk.due(at_ns), False
        else:
            step = self._talk.responses(chunk, at_ns)
            if step.rest:
                chunk = _put_back(self._broker, chunk, step.rest)
            waits = self._observe(Direction.RESPONSE, chunk, at_ns, step)
        self._answered = step.finished
        pieces: Sequence[bytes | memoryview] | None = None
        if self._begin_rewriting(step) and not waits:
            pieces = self._send_now(self._client, step.outgoing())
            if not pieces and step.cause is None and not step.rest:
                self._response_passed(step, at_ns)
                return None
        self._passing = True
        return Passage(step, pieces, chunk or b"", at_ns, waits)

    async def _pass_response(self, passage: Passage) -> None:
        """Finishes what `_take_response` has begun."""
        step = passage.step
        if passage.waits:
            await self._until_room()
        await self._finish_rewriting(step)
        await self._client.send(step.outgoing() if passage.pieces is None else passage.pieces)
        self._passing = False
        self._response_passed(step, passage.at_ns)
        if step.cause is not None:
            self._end(step.cause)

    def _response_passed(self, step: Step, at_ns: int) -> None:
        talk, traffic = self._talk, self._shared.traffic
        sent_ns = clock()
        if self._rewriting.has_begun and not talk.responses_side.left:
            self._rewriting.release()
        if self._made:
            self._made -= sum(exchange.by_proxy for exchange in step.finished)
        traffic.proxied(Direction.RESPONSE, sent_ns - at_ns)
        traffic.finished(step.finished, sent_ns, step.data, self._arriving.follow(step))
        self._answered = ()
        if self._shared.observer is None:
            talk.reuse(step.finished)
        if step.unanswered:
            traffic.unanswered(step.unanswered)
        if self._passed is not None:
            self._passed.set()

    def _begin_rewriting(self, step: Step) -> bool:
        """Whether it is known what leaves. From a response that can't be rewritten on, nothing does."""
        try:
            return not step.marks or self._rewriting.begin(step)
        except NotRewritable as error:
            self._cut_off(step, error)
            return True

    async def _finish_rewriting(self, step: Step) -> None:
        try:
            await self._rewriting.finish()
        except NotRewritable as error:
            self._cut_off(step, error)

    def _cut_off(self, step: Step, error: NotRewritable) -> None:
        """Ends the step before the response that can't be rewritten, and with it the connection."""
        bad = error.exchange
        level = self._shared.news.level(f"{bad.api} {error}")
        log(level, "response can't be rewritten", connection=self.connection, api=bad.api, reason=error)
        step.stop = error.start - step.offset
        step.edits = [edit for edit in step.edits if edit.stop <= step.stop]
        # one that is still arriving is counted when the connection ends
        whole = [] if bad is self._talk.responses_side.open else [bad]
        self._shared.traffic.unanswered([*whole, *(one for one in step.finished if one.number > bad.number)])
        self._answered = step.finished = [one for one in step.finished if one.number < bad.number]
        step.cause = Cause.NOT_REWRITABLE


def _put_back(stream: Stream, chunk: bytes, rest: bytes) -> bytes:
    """Leaves the end of a chunk to a later turn; returns the others of its bytes."""
    stream.put_back(rest)
    return chunk[: -len(rest)]
