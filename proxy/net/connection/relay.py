"""Passes the bytes of one client's connection in both directions.

`Relay` runs two tasks: one reads the client and writes to the broker, the other reads the broker and writes to the
client. So each direction waits for its own slow peer only, and each socket has one writer. A chunk passes through the
same steps in both directions: parse (`Conversation`), report to the observer, rewrite addresses, send, count.

A chunk that can be sent at once is passed on where it is read, mostly in the reactor, without waking a task
(`_take_request`, `_take_response`). Any other chunk becomes a `PendingChunk`, which the task of its direction finishes.

`ending.py` decides why and when a connection ends.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import trio

from proxy.config import ClusterSettings
from proxy.conversation import Cause, Conversation, Direction, Exchange, Step
from proxy.conversation.conversation import MAX_IN_FLIGHT
from proxy.metrics.traffic import CountedConnection, Traffic
from proxy.net.brokers.discovery import LoopProbe
from proxy.net.brokers.nodes import Nodes
from proxy.net.connection import causes
from proxy.net.connection.causes import Decision
from proxy.net.connection.ending import Ending, Event, State
from proxy.net.connection.exchange_counter import ExchangeCounter
from proxy.net.connection.recording import Recording
from proxy.net.connection.rewriting import NotRewritable, Rewriting, end_before
from proxy.net.connection.unsent import OwedResponses, PendingChunk, Wakeup
from proxy.net.limits.held_bytes import HeldBytes
from proxy.net.limits.recorder_backpressure import RecorderBackpressure
from proxy.net.sockets.streams import RECEIVE_SIZE, PeerLost, Stream
from proxy.observer import Observer
from proxy.rewrite import api_versions

clock = time.monotonic_ns

# the conversation's `max_frames`: after so many frames other connections get a turn. 512 plain frames take a fraction
# of a millisecond, no longer than a chunk of few large frames
FRAMES_PER_TURN = 512
# the most responses of the proxy's own that may wait to be sent. Beyond that no request is read: no broker limits the
# pace of these requests
MAX_OWN_ANSWERS = 64

OPEN, DRAINING, FINISHED, ENDED = State


@dataclass(frozen=True, slots=True)
class ClusterContext:
    """Everything that all connections of a cluster share. `observer`, `backpressure`: None if nothing is recorded."""

    settings: ClusterSettings
    nodes: Nodes
    traffic: Traffic
    held: HeldBytes
    observer: Observer | None
    backpressure: RecorderBackpressure | None
    loop_probe: LoopProbe = field(default_factory=LoopProbe)


class Relay:
    """One client's connection with the broker's connection that was opened for it. `connection`: how it is counted."""

    def __init__(
        self,
        connection: CountedConnection,
        client: Stream,
        broker: Stream,
        conversation: Conversation,
        context: ClusterContext,
    ) -> None:
        self._client = client
        self._broker = broker
        self._conversation = conversation
        self._context = context
        self._discovery_frame = context.loop_probe.frame
        self._recording = Recording(connection.number, context.observer, context.backpressure)
        self._exchange_counter = ExchangeCounter(context.traffic, connection, conversation)
        self._rewriting = Rewriting(context.nodes, context.held, self, context.settings)
        self._owed = OwedResponses(conversation)
        self._ending = Ending()
        # what was seen where the proxy has decided to end the connection, by the cause
        self._decisions: dict[Cause, Decision] = {}
        # by direction: the bytes of the chunk that waits to be passed on
        self._queued = [0, 0]
        # the number of the proxy's own responses that have not been sent
        self._own_answers = 0
        # True once the broker's end of stream was read
        self._broker_has_ended = False
        # True once the broker has sent something that ends the conversation: nothing behind it can be read
        self._broker_is_unreadable = False
        # bytes of the broker that were read behind that
        self._unread_bytes = 0
        self._nursery: trio.Nursery | None = None

    async def run(self) -> Cause:
        """Passes bytes until the connection ends. Returns the cause. Closes neither stream."""
        try:
            async with trio.open_nursery() as self._nursery:
                self._nursery.start_soon(self._requests)
                self._nursery.start_soon(self._responses)
        except* Exception:
            self._ending.on(Event.FAULT, Cause.PROXY_FAULT)
            raise
        finally:
            self._rewriting.end()
            self._exchange_counter.close()
            self._report_put_back()
        return self.cause

    async def hear_out(self, seconds: float) -> None:
        """After `run`: ends the broker's side, and reports the responses that still come, for at most `seconds`.

        Nobody gets them, but they are recorded. Closing with unread responses would reset the connection, and requests
        that the broker has not taken yet (acks=0) would be lost.
        """
        if self._broker_has_ended:
            return
        with trio.move_on_after(seconds), suppress(PeerLost):
            await self._broker.send_eof()
            await self._read_unsent_responses()

    # what the cluster and the limits ask of the connection

    @property
    def cause(self) -> Cause:
        """Why the connection ended. A connection that was cancelled before it ended was cut off by the drain."""
        ending = self._ending
        cause = ending.cause if ending.state is ENDED and ending.cause is not None else Cause.DRAIN_DEADLINE
        is_probe = cause in causes.ENDS_OF_PROBES and not self._conversation.requests_side.arrived
        return Cause.PROBE if is_probe else cause

    @property
    def decision(self) -> Decision:
        """What was seen where the proxy decided to end the connection, if it did."""
        return self._decisions.get(self.cause, Decision())

    @property
    def unread_bytes(self) -> int:
        """Bytes that the broker sent behind what ended the conversation: they were read, and reported to nobody."""
        return self._unread_bytes

    @property
    def queued_bytes(self) -> int:
        """Bytes read from one side that the other has not taken yet, or that wait for the recorder. In any thread."""
        return sum(self._queued)

    @property
    def is_owed_a_response(self) -> bool:
        """True if a response is owed to the client, or is partly sent."""
        return not self._owed.is_settled

    @property
    def may_end_now(self) -> bool:
        """True if the connection can end without a loss: no response is owed, no chunk unsent, no request begun."""
        state = self._ending.state
        no_request_begun = state is FINISHED or (self._client.is_waiting and self._is_between_requests)
        return state is ENDED or (no_request_begun and self._owed.is_settled)

    @property
    def _is_between_requests(self) -> bool:
        """True if no request has arrived in part."""
        return not self._conversation.requests_side.missing

    @property
    def progress(self) -> int | None:
        """A number that grows while bytes move; None while the connection waits for the recorder."""
        moved = sum(self._conversation.offsets) + self._client.sent_slowly + self._broker.sent_slowly
        return None if self._recording.is_waiting else moved

    @property
    def is_quiet(self) -> bool:
        """True if no response is owed or being sent, and the client has not finished. A request may have begun."""
        return self._ending.state in (OPEN, DRAINING) and self._owed.is_settled

    def end_as_stalled(self) -> None:
        """Ends the connection: nothing moves on it, and other connections' frames wait for the bytes that it holds."""
        self._on(Event.CUT, Cause.STALLED)

    def end_as_idle(self) -> None:
        """Ends the connection: no byte has moved on it for as long as the settings allow."""
        if self._is_between_requests:
            self._begin_draining(Cause.IDLE)
        else:
            self._on(Event.CUT, Cause.IDLE)

    def end_as_aged(self) -> None:
        """Ends the connection as `drain` does, because of its age. Does nothing in a login: call it again then."""
        if self._ending.state is OPEN and not self._conversation.login.pending:
            self._begin_draining(Cause.AGED)

    def drain(self) -> None:
        """Ends the connection at the next frame boundary, once the requests in flight are answered."""
        if self._ending.state is OPEN:
            self._begin_draining(Cause.DRAINED)
        elif self.may_end_now:
            self._on(Event.CUT, Cause.DRAINED)

    def _begin_draining(self, cause: Cause) -> None:
        """Leaves the end to the task that reads requests: any other task could lose a request that was just read."""
        self._on(Event.DRAIN, cause)
        self._client.wake()

    # the end of the connection

    def _on(self, event: Event, cause: Cause | None = None) -> None:
        self._ending.on(event, cause)
        self._cancel_if_ended()

    def _cancel_if_ended(self) -> None:
        if self._ending.state is ENDED:
            assert self._nursery is not None
            self._nursery.cancel_scope.cancel()

    def _loss_cause(self, lost: PeerLost) -> Cause:
        if lost.stream is self._client:
            return Cause.CLIENT_LOST if lost.vanished else Cause.CLIENT_RESET
        return Cause.BROKER_LOST if lost.vanished else Cause.BROKER_RESET

    def _note_loss(self, lost: PeerLost) -> None:
        """Notes the loss that a failed send shows. A broken pipe is no loss of the broker, which may close normally."""
        if lost.stream is self._client:
            self._ending.note_loss(Direction.REQUEST, self._loss_cause(lost))
        elif lost.vanished or isinstance(lost.__cause__, ConnectionResetError):
            self._ending.note_loss(Direction.RESPONSE, self._loss_cause(lost))

    def _send_now(self, stream: Stream, pieces: Sequence[bytes | memoryview]) -> Sequence[bytes | memoryview]:
        """Sends what the socket takes now; returns the rest. Notes a loss before the other task can see it."""
        try:
            return stream.send_now(pieces)
        except PeerLost as lost:
            self._note_loss(lost)
            raise

    # requests

    async def _requests(self) -> None:
        try:
            await self._pass_requests()
        except PeerLost as lost:
            # a lost broker's last responses may be unread: `_pass_responses` passes them on, and ends the connection
            self._note_loss(lost)
            if lost.stream is self._client:
                self._on(Event.PEER_GONE, self._loss_cause(lost))

    async def _pass_requests(self) -> None:
        while limit := self._read_limit():
            taken: PendingChunk | Wakeup = await self._client.receive_until(self._take_request, limit)
            if taken is Wakeup.END_OF_STREAM:
                await self._handle_client_end()
                return
            if taken is Wakeup.OWN_QUERY:
                # the broker's address leads back to the proxy; a query that is passed on would come back again
                await self._client.send([self._context.loop_probe.loop_answer])
                self._on(Event.CUT, Cause.LEADS_BACK)
                return
            if taken is not Wakeup.STATE_CHANGED:
                await self._finish_request(taken)
        await self._owed.until_settled()
        self._on(Event.SETTLE)

    def _read_limit(self) -> int:
        """The most bytes to read from the client. While DRAINING: what the begun request lacks; 0: read no more."""
        if self._ending.state is not DRAINING:
            return RECEIVE_SIZE
        return min(self._conversation.requests_side.missing, RECEIVE_SIZE)

    def _take_request(self, chunk: bytes | None) -> PendingChunk | Wakeup | None:
        """Passes on a chunk (None: a wake). Returns None once the chunk is sent, else the work left for the task."""
        if not chunk:
            return Wakeup.END_OF_STREAM if chunk is not None else Wakeup.STATE_CHANGED
        if chunk == self._discovery_frame:
            return Wakeup.OWN_QUERY
        at_ns = clock()
        step = self._conversation.requests(chunk, at_ns)
        if step.rest:
            self._client.put_back(step.rest)
            chunk = chunk[: -len(step.rest)]
        self._exchange_counter.unsent_one_way = step.one_way
        awaits_recorder = self._recording.arrived(Direction.REQUEST, chunk, at_ns, step)
        if step.to_answer:
            self._answer(step.to_answer, at_ns)
        if step.unanswered:
            self._exchange_counter.unanswered(step.unanswered)
            # a response of the proxy's own may have waited behind these exchanges
            self._broker.wake()
        pieces: Sequence[bytes | memoryview] = step.outgoing()
        if not awaits_recorder:
            pieces = self._send_now(self._broker, pieces)
            continues = step.cause is None and not step.rest and self._ending.state is OPEN
            if not pieces and continues and not self._is_owed_too_much():
                self._exchange_counter.request_sent(step, at_ns)
                return None
        return PendingChunk(step, pieces, chunk, at_ns, awaits_recorder)

    async def _finish_request(self, pending: PendingChunk) -> None:
        """Passes on a chunk that `_take_request` could not pass on at once."""
        step = pending.step
        self._queued[Direction.REQUEST] = len(pending.chunk)
        if pending.awaits_recorder:
            await self._recording.until_recorder_ready()
        await self._broker.send(pending.pieces or ())
        self._queued[Direction.REQUEST] = 0
        self._exchange_counter.request_sent(step, pending.at_ns)
        while self._is_owed_too_much():
            await self._owed.until_sent()
        if step.cause is not None:
            is_tls = self._client.is_tls
            self._decisions[step.cause] = causes.of_request(step, self._conversation, is_tls=is_tls)
            await self._refuse(step.cause)

    def _is_owed_too_much(self) -> bool:
        """True if so many responses are owed that the next request must wait until one is sent."""
        if self._own_answers > MAX_OWN_ANSWERS:
            return True
        return len(self._conversation.in_flight) > MAX_IN_FLIGHT and self._conversation.must_await_oldest

    def _answer(self, exchanges: list[Exchange], at_ns: int) -> None:
        """Answers requests in the broker's place. `_pass_responses` sends these responses, each in its turn."""
        for exchange in exchanges:
            correlation_id = exchange.correlation_id
            assert correlation_id is not None, "in the dialect of 0.7 the proxy answers nothing"
            frame = api_versions.unsupported(correlation_id)
            self._conversation.answer(exchange, frame)
            self._recording.answered(exchange, frame, at_ns)
        self._own_answers += len(exchanges)
        self._broker.wake()

    async def _refuse(self, cause: Cause) -> None:
        """Ends the connection at a bad request, as a broker would: once the requests before it are answered."""
        self._on(Event.REFUSE, cause)
        with trio.move_on_after(self._context.settings.half_close_seconds):
            await self._owed.until_settled()
        self._on(Event.SETTLE)

    async def _handle_client_end(self) -> None:
        """Passes the client's end of stream on: over TLS at once, else once no response is owed or a wait times out."""
        self._ending.end_of_stream(Direction.REQUEST)
        self._cancel_if_ended()
        seconds = self._context.settings.half_close_seconds
        self._recording.half_closed(Direction.REQUEST)
        # the incomplete head of a request: the client has sent these bytes, so the broker gets them
        if held := self._conversation.requests_side.held:
            await self._broker.send([held])
        # over TLS the client takes no more responses
        if self._client.supports_half_close:
            with trio.move_on_after(seconds):
                await self._owed.until_settled()
        # the broker now closes its side, which ends both tasks; a broker that hangs has `seconds` for it
        with trio.move_on_after(seconds):
            await self._broker.send_eof()
            await trio.sleep_forever()
        self._on(Event.SETTLE)

    # responses

    async def _responses(self) -> None:
        try:
            await self._pass_responses()
        except PeerLost as lost:
            if lost.stream is self._client and self._ending.state is not FINISHED:
                await self._drop_responses(lost)
            self._on(Event.PEER_GONE, self._loss_cause(lost))

    async def _drop_responses(self, lost: PeerLost) -> None:
        """Reports and drops responses while the other task passes on the lost client's last requests (acks=0)."""
        self._note_loss(lost)
        with trio.move_on_after(self._context.settings.half_close_seconds), suppress(PeerLost):
            await self._read_unsent_responses()

    async def _read_unsent_responses(self) -> None:
        """Reports what the broker sends to a client that is gone, up to the broker's end of stream. Raises PeerLost."""
        while (chunk := await self._broker.receive()) != b"":
            if chunk and self._drop_response(chunk):
                await self._recording.until_recorder_ready()
        self._note_broker_end()

    def _note_broker_end(self) -> None:
        self._broker_has_ended = True
        self._recording.half_closed(Direction.RESPONSE)

    def _drop_response(self, chunk: bytes) -> bool:
        """Reports a chunk that is not passed on. True if the recorder must then be awaited."""
        if self._broker_is_unreadable:
            self._unread_bytes += len(chunk)
            return False
        step, _, awaits_recorder = self._response_arrived(chunk, clock())
        self._exchange_counter.unanswered([*step.finished, *step.unanswered])
        self._owed.note_progress()
        return awaits_recorder

    def _report_put_back(self) -> None:
        """Reports the responses that were read, and waited for their turn when the connection ended."""
        while chunk := self._broker.take_put_back():
            self._drop_response(chunk)

    async def _pass_responses(self) -> None:
        while True:
            taken: PendingChunk | Wakeup = await self._broker.receive_until(self._take_response)
            if not isinstance(taken, PendingChunk):
                break
            await self._finish_response(taken)
        self._note_broker_end()
        if held := self._conversation.responses_side.held:
            await self._client.send([held])
        self._ending.end_of_stream(Direction.RESPONSE)
        self._cancel_if_ended()

    def _take_response(self, chunk: bytes | None) -> PendingChunk | Wakeup | None:
        """As `_take_request`, for responses. A wake sends the proxy's own responses whose turn has come."""
        if chunk == b"":
            return Wakeup.END_OF_STREAM
        at_ns = clock()
        if chunk is None:
            step, awaits_recorder = self._conversation.own_answers_due(at_ns), False
        else:
            step, chunk, awaits_recorder = self._response_arrived(chunk, at_ns)
        self._exchange_counter.unsent_finished = step.finished
        pieces: Sequence[bytes | memoryview] | None = None
        if (not step.marks or self._begin_rewriting(step)) and not awaits_recorder:
            pieces = self._send_now(self._client, step.outgoing())
            if not pieces and step.cause is None and not step.rest:
                self._response_passed(step, at_ns)
                return None
        self._owed.chunk_pending = True
        return PendingChunk(step, pieces, chunk or b"", at_ns, awaits_recorder)

    def _response_arrived(self, chunk: bytes, at_ns: int) -> tuple[Step, bytes, bool]:
        """Reads and reports a chunk. Returns its step, the bytes that were taken, and if the recorder is awaited."""
        step = self._conversation.responses(chunk, at_ns)
        if step.rest:
            self._broker.put_back(step.rest)
            chunk = chunk[: -len(step.rest)]
        self._broker_is_unreadable = step.cause is not None
        return step, chunk, self._recording.arrived(Direction.RESPONSE, chunk, at_ns, step)

    async def _finish_response(self, pending: PendingChunk) -> None:
        """Passes on a chunk that `_take_response` could not pass on at once."""
        step = pending.step
        self._queued[Direction.RESPONSE] = len(pending.chunk)
        if pending.awaits_recorder:
            await self._recording.until_recorder_ready()
        try:
            await self._rewriting.finish()
        except NotRewritable as error:
            self._cut_off(step, error)
        await self._client.send(step.outgoing() if pending.pieces is None else pending.pieces)
        self._queued[Direction.RESPONSE] = 0
        self._owed.chunk_pending = False
        self._response_passed(step, pending.at_ns)
        if step.cause is not None:
            if step.cause is not Cause.NOT_REWRITABLE:
                self._decisions[step.cause] = causes.of_response(step, self._conversation, self._broker.peer)
            self._on(Event.CUT, step.cause)

    def _response_passed(self, step: Step, at_ns: int) -> None:
        if self._rewriting.has_begun and not self._conversation.responses_side.bytes_left:
            self._rewriting.release()
        if self._own_answers:
            self._own_answers -= sum(exchange.by_proxy for exchange in step.finished)
        self._exchange_counter.response_sent(step, at_ns)
        if self._recording.observer is None:
            self._conversation.reuse(step.finished)
        self._owed.note_progress()

    def _begin_rewriting(self, step: Step) -> bool:
        """True if the step's outgoing bytes are final. They end before any response that can't be rewritten."""
        try:
            return self._rewriting.begin(step)
        except NotRewritable as error:
            self._cut_off(step, error)
            return True

    def _cut_off(self, step: Step, error: NotRewritable) -> None:
        """Ends the step, and so the connection, before the response that can't be rewritten."""
        rejected = error.exchange
        self._decisions[Cause.NOT_REWRITABLE] = causes.of_rewriting(error)
        unsent = end_before(step, error)
        # a response that is still arriving is counted when the connection ends
        arrived = [] if rejected is self._conversation.responses_side.open_exchange else [rejected]
        self._exchange_counter.unanswered([*arrived, *unsent])
        self._exchange_counter.unsent_finished = step.finished
