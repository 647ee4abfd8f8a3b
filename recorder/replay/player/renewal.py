"""Logs a connection in, and again before the target ends it (KIP-368).

A target with `connections.max.reauth.ms` says in its last answer to a login how long that counts. It ends a connection
that sends anything but a login afterwards. So a write late in that time is held, the login is made again on the same
connection, and the write follows. A connection that writes nothing does not log in again: no target ends it for that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from math import inf

import trio

from proxy.schema.errors import BadSetting
from proxy.wire.errors import WireError
from recorder.replay.engine.channels import Send
from recorder.replay.login.logins import Entry
from recorder.replay.login.sasl import Login
from recorder.replay.plan import CLIENT_ID, OfferedVersions
from recorder.replay.player.sockets import CONNECT_SECONDS, Wire

# The part of its time after which a login is made again: what Kafka's own clients leave for slow networks and clocks.
_PART = 0.85
# seconds within which brokers refuse another login
_SOONEST = 1.0
# Correlation ids of a login that is made again. Those of requests are never negative, so its answers are told apart.
_FIRST_ID = -(1 << 31)
_NEGATIVE = 0x80


class Session:
    """A connection's login. `offered`: the versions that its node offers."""

    def __init__(self, entry: Entry, offered: OfferedVersions) -> None:
        self._entry, self._offered = entry, offered
        # by trio's clock
        self._renew_at = inf

    @property
    def has_end(self) -> bool:
        """True if the target has told how long the login counts."""
        return self._renew_at < inf

    @property
    def is_due(self) -> bool:
        """True if the login is to be made again before anything else is sent."""
        return trio.current_time() >= self._renew_at

    async def log_in(self, ask: Callable[[bytes], Awaitable[bytes]], first_correlation_id: int = 0) -> None:
        """Logs in. `ask`: sends a frame with its length, and returns the next one without.

        Errors: WireError, BadSetting, and those of `ask`.
        """
        # in a thread: the secret's file may be on a disk that hangs
        credentials = await trio.to_thread.run_sync(self._entry.credentials, abandon_on_cancel=True)
        login = Login(credentials, self._offered, client_id=CLIENT_ID, first_correlation_id=first_correlation_id)
        data, asked_at = login.next(None), 0.0
        while data:
            # the target may count from here on, however late its answer arrives
            asked_at = trio.current_time()
            data = login.next(await ask(data))
        lifetime = login.lifetime_ms / 1000
        renew_at = max(asked_at + _PART * lifetime, trio.current_time() + _SOONEST)
        self._renew_at = renew_at if lifetime > 0 else inf


class RenewingWire:
    """A wire whose login is made again in time. Requests wait meanwhile, and leave in order.

    Args:
        received, begun: as those of the wire below, which calls the methods `received` and `begun` instead.

    Attributes:
        wire: the wire below.
    """

    wire: Wire

    def __init__(
        self,
        session: Session,
        channel: int,
        received: Callable[[list[bytes]], None],
        begun: Callable[[int], None],
    ) -> None:
        self._session, self._channel, self._received, self._begun = session, channel, received, begun
        self._held: list[Send] = []
        # set while a login is made
        self._must_log_in = trio.Event()
        self._is_closing = False
        # for each write to the wire below that has not begun to leave: True for a request, False for the login's
        self._unbegun: deque[bool] = deque()
        self._awaits_answer = False
        self._answers_in, self._answers = trio.open_memory_channel[bytes](1)

    async def run(self, running: Awaitable[None]) -> None:
        """Makes logins until the wire below, which `running` runs, has ended."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._log_in_when_due)
            await running
            nursery.cancel_scope.cancel()

    async def _log_in_when_due(self) -> None:
        while True:
            await self._must_log_in.wait()
            try:
                with trio.fail_after(CONNECT_SECONDS):
                    await self._session.log_in(self._ask, _FIRST_ID)
            except (WireError, BadSetting, trio.TooSlowError):
                # the engine dials again, and so hears of a login that fails for good
                self.cut()
                return
            self._must_log_in = trio.Event()
            self._release()

    def _release(self) -> None:
        held, self._held = self._held, []
        if begun := self._write(held, are_requests=True):
            self._begun(begun)
        if self._is_closing:
            self.close()

    async def _ask(self, data: bytes) -> bytes:
        self._awaits_answer = True
        if begun := self._write([Send(self._channel, data)], are_requests=False):
            self._begun(begun)
        return await self._answers.receive()

    def write(self, sends: Sequence[Send]) -> int:
        """Writes requests, or keeps them until the login is made: see `Wire`."""
        if self._session.is_due:
            self._must_log_in.set()
        if self._must_log_in.is_set():
            self._held += sends
            return 0
        return self._write(sends, are_requests=True)

    def _write(self, sends: Sequence[Send], *, are_requests: bool) -> int:
        self._unbegun.extend([are_requests] * len(sends))
        return self._requests_of(self.wire.write(sends))

    def _requests_of(self, begun: int) -> int:
        """How many of the next writes that have begun to leave are requests."""
        return sum(self._unbegun.popleft() for _ in range(begun))

    def begun(self, count: int) -> None:
        """More writes to the wire below have begun to leave."""
        if requests := self._requests_of(count):
            self._begun(requests)

    def received(self, frames: list[bytes]) -> None:
        """Takes the answer that the login waits for out of the frames that have arrived."""
        rest = [frame for frame in frames if not self._is_answer(frame)]
        if rest:
            self._received(rest)

    def _is_answer(self, frame: bytes) -> bool:
        if not (self._awaits_answer and frame and frame[0] & _NEGATIVE):
            return False
        self._awaits_answer = False
        self._answers_in.send_nowait(frame)
        return True

    def close(self) -> None:
        """Ends the connection once everything has left: see `Wire`."""
        self._is_closing = bool(self._held)
        if not self._held:
            self.wire.close()

    def cut(self) -> None:
        """Ends the connection: see `Wire`."""
        self._held.clear()
        self.wire.cut()
