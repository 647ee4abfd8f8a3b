"""Tests of logins that are made again: what waits for them, what leaves in which order, what their answers are."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
import trio
import trio.testing

from proxy.wire import decode_request, encode_request, encode_response
from proxy.wire.framing import framed
from proxy.wire.keys import HEARTBEAT, SASL_AUTHENTICATE, SASL_HANDSHAKE
from recorder.replay.engine.channels import Send
from recorder.replay.login.logins import Entry
from recorder.replay.player.dial import Connection
from recorder.replay.player.frames import Frames
from recorder.replay.player.renewal import RenewingWire, Session
from recorder.replay.player.sockets import CONNECT_SECONDS, PlainWire, Sockets

# seconds that the target's first login counts
LIFETIME = 100
OFFERED = {SASL_HANDSHAKE: range(2), SASL_AUTHENTICATE: range(3)}
ENTRY = Entry("*", "PLAIN", "bob", "secret")
both_wires = pytest.mark.parametrize("plain", [True, False], ids=["plain", "streamed"])


def request(number: int) -> Send:
    return Send(1, framed(encode_request(HEARTBEAT, 0, number, "c", {"group_id": "g"})))


def answer(number: int) -> bytes:
    return encode_response(HEARTBEAT, 0, number, {})


@dataclass
class Scripted:
    """The target's side of a connection, which the test plays, and what the replay's side has heard."""

    stream: trio.SocketStream
    wire: RenewingWire
    begun: list[int] = field(default_factory=list)
    received: list[bytes] = field(default_factory=list)
    frames: Frames = field(default_factory=Frames)
    asked: list[bytes] = field(default_factory=list)
    ended: trio.Event = field(default_factory=trio.Event)

    async def next(self) -> tuple[int, int]:
        """API key and correlation id of the next request."""
        while not self.asked:
            data = await self.stream.receive_some(1 << 16)
            assert data, "the replay has ended the connection"
            self.asked += self.frames.feed(bytes(data))
        decoded = decode_request(self.asked.pop(0))
        assert isinstance(decoded, tuple)
        return decoded[0].api_key, decoded[0].correlation_id

    async def answers(self, *frames: bytes) -> None:
        await self.stream.send_all(b"".join(map(framed, frames)))

    async def takes_the_login(self, lifetime: float, *before: bytes) -> None:
        """Answers the next login. `before`: answers that arrive with that to its first request."""
        key, number = await self.next()
        assert key == SASL_HANDSHAKE
        await self.answers(*before, encode_response(SASL_HANDSHAKE, 1, number, {}))
        key, number = await self.next()
        assert key == SASL_AUTHENTICATE
        told = {"session_lifetime_ms": int(1000 * lifetime)}
        await self.answers(encode_response(SASL_AUTHENTICATE, 2, number, told))


async def logged_in(lifetime: float, answered: Callable[[], None] = lambda: None) -> Session:
    """A login that was made when the connection was dialled. `answered`: called before each of its answers arrives."""

    async def ask(data: bytes) -> bytes:
        answered()
        decoded = decode_request(data[4:])
        assert isinstance(decoded, tuple)
        head = decoded[0]
        told = {"session_lifetime_ms": int(1000 * lifetime)} if head.api_key == SASL_AUTHENTICATE else {}
        return encode_response(head.api_key, head.api_version, head.correlation_id, told)

    session = Session(ENTRY, OFFERED)
    await session.log_in(ask)
    return session


@asynccontextmanager
async def scripted(plain: bool, lifetime: float = LIFETIME) -> AsyncIterator[Scripted]:
    session = await logged_in(lifetime)
    begun: list[int] = []
    received: list[bytes] = []
    near, far = socket.socketpair()
    near.setblocking(False)
    wire = RenewingWire(session, 1, received.extend, begun.append)
    async with trio.open_nursery() as nursery:
        if plain:
            sockets = Sockets(lambda: None)
            nursery.start_soon(sockets.run)
            wire.wire = below = PlainWire(sockets, near, Frames(), wire.received, wire.begun)
            running = below.run()
        else:
            stream = trio.SocketStream(trio.socket.from_stdlib_socket(near))
            wire.wire = connection = Connection(stream, ("127.0.0.1", 1), None, None)
            running = connection.run(wire.received, wire.begun)
        found = Scripted(trio.SocketStream(trio.socket.from_stdlib_socket(far)), wire, begun, received)

        async def run() -> None:
            await wire.run(running)
            found.ended.set()
            near.close()

        nursery.start_soon(run)
        yield found
        nursery.cancel_scope.cancel()
    near.close()
    far.close()


def writes(target: Scripted, *numbers: int) -> None:
    """The engine writes requests."""
    target.begun.append(target.wire.write([request(number) for number in numbers]))


@both_wires
async def test_writes_wait_for_a_login_that_is_due_and_leave_in_order(
    mock_clock: trio.testing.MockClock, plain: bool
) -> None:
    async with scripted(plain) as target:
        writes(target, 1)
        mock_clock.jump(0.84 * LIFETIME)
        writes(target, 2)
        assert [await target.next() for _ in range(2)] == [(HEARTBEAT, 1), (HEARTBEAT, 2)]
        mock_clock.jump(0.02 * LIFETIME)
        writes(target, 3, 4)
        writes(target, 5)
        assert sum(target.begun) == 2
        # the login's first request has left behind requests that are still to be answered
        await target.takes_the_login(LIFETIME, answer(1), answer(2))
        assert [await target.next() for _ in range(3)] == [(HEARTBEAT, number) for number in (3, 4, 5)]
        assert target.received == [answer(1), answer(2)]
        assert sum(target.begun) == 5
        # the new login counts from its own beginning
        mock_clock.jump(0.84 * LIFETIME)
        writes(target, 6)
        assert await target.next() == (HEARTBEAT, 6)
        mock_clock.jump(0.02 * LIFETIME)
        writes(target, 7)
        await target.takes_the_login(LIFETIME)
        assert await target.next() == (HEARTBEAT, 7)


@both_wires
async def test_a_connection_that_writes_nothing_makes_no_login(mock_clock: trio.testing.MockClock, plain: bool) -> None:
    async with scripted(plain) as target:
        mock_clock.jump(10 * LIFETIME)
        await trio.testing.wait_all_tasks_blocked()
        writes(target, 1)
        await target.takes_the_login(0)
        assert await target.next() == (HEARTBEAT, 1)
        # the target has told no end any more
        mock_clock.jump(10 * LIFETIME)
        writes(target, 2)
        assert await target.next() == (HEARTBEAT, 2)


@both_wires
async def test_a_short_lifetime_lets_brokers_have_their_second_between_logins(
    mock_clock: trio.testing.MockClock, plain: bool
) -> None:
    async with scripted(plain, lifetime=1.1) as target:
        mock_clock.jump(0.99)
        writes(target, 1)
        assert await target.next() == (HEARTBEAT, 1)
        mock_clock.jump(0.02)
        writes(target, 2)
        await target.takes_the_login(0)


async def test_a_login_counts_from_when_it_was_asked_for(mock_clock: trio.testing.MockClock) -> None:
    """The target counted before its answer was under way."""
    session = await logged_in(LIFETIME, answered=lambda: mock_clock.jump(0.5 * LIFETIME))
    mock_clock.jump(0.34 * LIFETIME)
    assert not session.is_due
    mock_clock.jump(0.02 * LIFETIME)
    assert session.is_due


@both_wires
async def test_a_login_that_is_refused_later_ends_the_connection(
    mock_clock: trio.testing.MockClock, plain: bool
) -> None:
    async with scripted(plain) as target:
        mock_clock.jump(LIFETIME)
        writes(target, 1)
        key, number = await target.next()
        await target.answers(encode_response(key, 1, number, {"error_code": 33}))
        await target.ended.wait()
        assert sum(target.begun) == 0


@both_wires
async def test_a_later_login_that_is_never_answered_ends_the_connection(
    mock_clock: trio.testing.MockClock, plain: bool
) -> None:
    async with scripted(plain) as target:
        mock_clock.jump(LIFETIME)
        writes(target, 1)
        assert (await target.next())[0] == SASL_HANDSHAKE
        mock_clock.jump(CONNECT_SECONDS - 1)
        await trio.testing.wait_all_tasks_blocked()
        assert not target.ended.is_set()
        mock_clock.jump(2)
        await trio.testing.wait_all_tasks_blocked()
        assert target.ended.is_set()
        assert sum(target.begun) == 0


@both_wires
async def test_a_connection_that_is_to_end_sends_first_what_waits_for_the_login(
    mock_clock: trio.testing.MockClock, plain: bool
) -> None:
    async with scripted(plain) as target:
        mock_clock.jump(LIFETIME)
        writes(target, 1)
        target.wire.close()
        await target.takes_the_login(LIFETIME)
        assert await target.next() == (HEARTBEAT, 1)
        assert not await target.stream.receive_some(1)


@both_wires
async def test_frames_that_answer_no_login_are_for_the_engine(mock_clock: trio.testing.MockClock, plain: bool) -> None:
    """A target says what it likes: an id that only logins have is the engine's to refuse."""
    async with scripted(plain) as target:
        writes(target, 1)
        await target.next()
        odd = encode_response(SASL_HANDSHAKE, 1, -(1 << 31), {})
        await target.answers(odd, answer(1))
        while len(target.received) < 2:
            await trio.lowlevel.checkpoint()
        assert target.received == [odd, answer(1)]
