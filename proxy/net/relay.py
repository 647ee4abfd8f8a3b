"""The bytes of one client's connection, there and back.

Two tasks: one reads the client and writes the broker, one reads the broker and writes the client; so each direction
waits for its own slow side only, and nobody else ever writes to either socket. For each chunk, in this order: the
conversation says what it is, the observer takes it, rewriting changes what must change, it is sent, it is counted.

How it ends is a state of the client's side:

    OPEN        requests pass
    FINISHED    the client has sent its end of stream, or something to be cut off for; the broker learns of it once
                nothing is in flight any more, because a broker that reads an end of stream drops the answers it owes
    DRAINING    the proxy is to stop: no more requests are read once a frame is complete
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import Enum
from logging import ERROR, INFO

import trio

from proxy.config import ProxySettings
from proxy.conversation import Cause, Conversation, Direction, Edit, Exchange, FrameKind, Mark, Step
from proxy.log import log
from proxy.metrics.traffic import Traffic
from proxy.net.held import HeldBytes
from proxy.net.nodes import Nodes
from proxy.net.observer import Observer
from proxy.net.rewriting import FrameRewriter, TooLarge, is_rewritten, rewriter
from proxy.net.room import Room
from proxy.net.streams import PeerLost, Stream
from proxy.rewrite import api_versions
from proxy.wire.errors import WireError

clock = time.monotonic_ns


# how a connection may end after the client's end of stream
GOODBYES = (Cause.CLIENT_RESET, Cause.BROKER_RESET, Cause.BROKER_CLOSED)


class ClientSide(Enum):
    OPEN = 0
    FINISHED = 1
    DRAINING = 2


@dataclass(frozen=True, slots=True)
class Shared:
    """What all connections of a proxy use together."""

    settings: ProxySettings
    nodes: Nodes
    traffic: Traffic
    held: HeldBytes
    observer: Observer | None
    room: Room | None


class Relay:
    """One client connection and the broker connection opened for it."""

    def __init__(self, connection: int, client: Stream, broker: Stream, talk: Conversation, shared: Shared) -> None:
        self.connection = connection
        self._client = client
        self._broker = broker
        self._talk = talk
        self._shared = shared
        self._state = ClientSide.OPEN
        self._settled = trio.Event()
        self._rewriter: FrameRewriter | None = None
        self._cause: Cause | None = None
        self._nursery: trio.Nursery | None = None

    async def run(self) -> Cause:
        """Passes bytes until one side ends; returns why. Closes neither stream."""
        try:
            async with trio.open_nursery() as self._nursery:
                self._nursery.start_soon(self._requests)
                self._nursery.start_soon(self._responses)
        finally:
            self._release()
        return self._cause or Cause.DRAIN_DEADLINE

    def drain(self) -> None:
        """Stop at the next frame boundary, once what is in flight is answered."""
        if self._state is ClientSide.OPEN:
            self._state = ClientSide.DRAINING
            self._client.wake()

    def _end(self, cause: Cause) -> None:
        """Ends both tasks; the first cause counts. After a client's goodbye, nothing else is one."""
        said_goodbye = self._state is ClientSide.FINISHED and cause in GOODBYES
        self._cause = self._cause or (Cause.CLIENT_CLOSED if said_goodbye else cause)
        assert self._nursery is not None
        self._nursery.cancel_scope.cancel()

    async def _requests(self) -> None:
        try:
            await self._pass_requests()
        except PeerLost as lost:
            # a broker that is gone may have left answers behind: the other task reads them, and ends when it must
            if lost.stream is self._client:
                self._end(Cause.CLIENT_RESET)

    async def _pass_requests(self) -> None:
        while not (self._state is ClientSide.DRAINING and self._at_boundary()):
            chunk = await self._client.receive()
            if chunk:
                await self._pass_request(chunk)
            elif chunk is not None:
                await self._client_finished()
                return
        await self._until_settled()
        self._end(Cause.DRAINED)

    def _at_boundary(self) -> bool:
        side = self._talk.requests_side
        return not side.left and not side.held

    async def _pass_request(self, chunk: bytes) -> None:
        talk, shared = self._talk, self._shared
        at_ns = clock()
        step = talk.requests(chunk, at_ns)
        if shared.observer is not None:
            shared.observer.arrived(self.connection, Direction.REQUEST, chunk, at_ns, step)
            if shared.observer.full and shared.room is not None:
                await shared.room.wait()
        if step.answered:
            self._answer(step.answered, at_ns)
        await self._broker.send(step.outgoing())
        shared.traffic.proxied(Direction.REQUEST, clock() - at_ns)
        if step.one_way:
            shared.traffic.one_way(step.one_way)
        if step.opaque:
            shared.traffic.opaque(step.opaque)
        if step.cause is not None:
            await self._refuse(step.cause)

    async def _refuse(self, cause: Cause) -> None:
        """Ends the connection as a broker would: what came before the bad frame is answered first."""
        self._state = ClientSide.FINISHED
        with trio.move_on_after(self._shared.settings.half_close_seconds):
            await self._until_settled()
        self._end(cause)

    def _answer(self, exchanges: list[Exchange], at_ns: int) -> None:
        """Has the other task send the proxy's own answers, each in its turn."""
        for exchange in exchanges:
            frame = api_versions.unsupported(exchange.correlation_id)
            self._talk.made(exchange.correlation_id, frame)
            if self._shared.observer is not None:
                self._shared.observer.made(self.connection, exchange.correlation_id, frame, at_ns)
        self._broker.wake()

    async def _client_finished(self) -> None:
        """The client sends no more: its end of stream is kept back until it has all its answers, or for so long."""
        self._state = ClientSide.FINISHED
        if self._shared.observer is not None:
            self._shared.observer.half_closed(self.connection, Direction.REQUEST, clock())
        with trio.move_on_after(self._shared.settings.half_close_seconds):
            await self._until_settled()
        self._broker.send_eof()

    async def _until_settled(self) -> None:
        while self._talk.in_flight or self._talk.responses_side.left:
            self._settled = trio.Event()
            await self._settled.wait()

    async def _responses(self) -> None:
        try:
            await self._pass_responses()
        except PeerLost as lost:
            self._end(Cause.CLIENT_RESET if lost.stream is self._client else Cause.BROKER_RESET)
        except (WireError, TooLarge) as error:
            log(INFO, "response can't be rewritten", connection=self.connection, reason=error)
            self._end(Cause.NOT_REWRITABLE)
        except OSError as error:
            log(ERROR, "no listener for a node can be had", connection=self.connection, reason=error.strerror)
            self._end(Cause.NOT_REWRITABLE)

    async def _pass_responses(self) -> None:
        while (chunk := await self._broker.receive()) != b"":
            await self._pass_response(chunk)
        if self._shared.observer is not None:
            self._shared.observer.half_closed(self.connection, Direction.RESPONSE, clock())
        self._end(Cause.BROKER_CLOSED)

    async def _pass_response(self, chunk: bytes | None) -> None:
        talk, shared = self._talk, self._shared
        at_ns = clock()
        if chunk is None:
            step = talk.due(at_ns)
        else:
            step = talk.responses(chunk, at_ns)
            if shared.observer is not None:
                shared.observer.arrived(self.connection, Direction.RESPONSE, chunk, at_ns, step)
                if shared.observer.full and shared.room is not None:
                    await shared.room.wait()
        if step.marks:
            await self._rewrite(step)
        await self._client.send(step.outgoing())
        sent_ns = clock()
        if self._rewriter is None or not talk.responses_side.left:
            self._release()
        shared.traffic.proxied(Direction.RESPONSE, sent_ns - at_ns)
        shared.traffic.finished(step.finished, sent_ns)
        if step.cause is not None:
            self._end(step.cause)
        elif self._state is not ClientSide.OPEN:
            self._settled.set()

    async def _rewrite(self, step: Step) -> None:
        """Adds the edits of the marked responses that name brokers. What comes before a bad one still leaves."""
        for mark in step.marks:
            if not _is_for_rewriting(mark):
                continue
            start, stop = mark.start - step.offset, mark.stop - step.offset
            try:
                out = await self._rewritten(mark, memoryview(step.data)[start:stop])
            except (WireError, TooLarge):
                step.stop = start
                await self._client.send(step.outgoing())
                raise
            step.edits.append(Edit(start, stop, out))

    async def _rewritten(self, mark: Mark, piece: memoryview) -> bytes:
        if mark.first:
            self._release()
            assert mark.exchange is not None
            shared = self._shared
            self._rewriter = rewriter(mark.exchange, shared.nodes, shared.held, shared.settings.hold_limit)
        assert self._rewriter is not None
        return await self._rewriter.feed(piece, last=mark.last)

    def _release(self) -> None:
        if self._rewriter is not None:
            self._rewriter.release()
            self._rewriter = None


def _is_for_rewriting(mark: Mark) -> bool:
    exchange = mark.exchange
    return (
        mark.kind is FrameKind.RESPONSE
        and exchange is not None
        and not exchange.by_proxy
        and is_rewritten(exchange.api_key, exchange.api_version)
    )
