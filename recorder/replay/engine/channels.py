"""Connections to the target, as far as they can be told without sockets: what waits, what is in flight, what was cut.

A channel carries requests of one recorded connection to one node, or the replay's own. Requests wait until it is open
and leave in order; answers are met by correlation id, which counts up from 1 on each channel.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, Protocol

from proxy.wire import Malformed
from proxy.wire.catalog import must
from proxy.wire.errors import WireError
from proxy.wire.framing import LENGTH
from proxy.wire.headers import write_request_head
from proxy.wire.pieces import Pieces
from recorder.replay.messages import answer_values
from recorder.replay.plan import Origin, Place, Values


class Open(NamedTuple):
    """Dial a node and log in. `principal`: whose connection was recorded; None: nobody's."""

    channel: int
    node: int
    host: str
    port: int
    principal: str | None


class Send(NamedTuple):
    """Write a request. `origin`: the exchange that it replays; None: the replay's own."""

    channel: int
    data: Pieces
    origin: Origin | None = None


class Close(NamedTuple):
    """Hang up once everything is written."""

    channel: int


class Load(NamedTuple):
    """Read frames from the capture again, for an exchange that may leave now: see `Engine.loaded`."""

    origin: Origin
    place: Place
    answer_place: Place | None


Action = Open | Send | Close | Load


class Sender(Protocol):
    """Is told what becomes of a request."""

    def answered(self, answer: Values | None, frame: bytes | None, now: int) -> None:
        """The answer's values, in the shape of the request's version, and its bytes; None, None: it will never come."""

    def left(self, given: int, began: int) -> None:
        """It is on its way. `given`: since when it could be written; `began`: when its first byte was."""

    def unsent(self, now: int) -> None:
        """The connection is gone before any of it was written."""


@dataclass(eq=False, slots=True)
class Out:
    """A request on its way.

    Attributes:
        values: in the target's terms and the shape of `version`.
        origin: the recorded exchange; None: the replay's own request.
        given_at: since when it could be written.
    """

    api_key: int
    version: int
    values: Values
    client_id: str | None
    awaits: bool
    sender: Sender
    origin: Origin | None = None
    given_at: int = 0


# Requests without an answer whose correlation ids are remembered: some brokers answer them all the same.
MAX_SILENT = 10_000


# the correlation id is an int32, behind the API's key and version
_ID_BYTES, _ID_AT = 4, 4
# Heads that are remembered: 64 MB where each client id is as long as it may be.
_MOST_HEADS = 1024


@lru_cache(_MOST_HEADS)
def _head(api_key: int, version: int, client_id: str | None) -> tuple[bytes, bytes]:
    """A request's head before and behind its correlation id. Errors: Malformed."""
    head = write_request_head(api_key, version, 0, client_id)
    return head[:_ID_AT], head[_ID_AT + _ID_BYTES :]


@dataclass(eq=False)
class Channel:
    """One connection to the target."""

    number: int
    node: int
    principal: str | None
    is_open: bool = False
    waiting: list[tuple[Out, Pieces]] = field(default_factory=list)
    written: list[Out] = field(default_factory=list)
    flying: dict[int, Out] = field(default_factory=dict)
    silent: deque[int] = field(default_factory=lambda: deque(maxlen=MAX_SILENT))
    _last: int = 0

    def send(self, out: Out, now: int) -> Send | None:
        """The bytes of a request, if they may leave now. Errors: WireError for values that can't be written."""
        self._last += 1
        before, behind = _head(out.api_key, out.version, out.client_id)
        body = must("request", out.api_key, out.version).encode_pieces(out.values)
        length = LENGTH.pack(len(before) + _ID_BYTES + len(behind) + len(body))
        head = length + before + self._last.to_bytes(_ID_BYTES, "big") + behind
        data = Pieces((head + body,) if isinstance(body, bytes) else (head, body))
        if out.awaits:
            self.flying[self._last] = out
        else:
            self.silent.append(self._last)
        if not self.is_open:
            self.waiting.append((out, data))
            return None
        out.given_at = now
        self.written.append(out)
        return Send(self.number, data, out.origin)

    def open(self, now: int) -> list[Send]:
        """The channel is open: what has waited for it."""
        self.is_open = True
        waiting, self.waiting = self.waiting, []
        for out, _ in waiting:
            out.given_at = now
            self.written.append(out)
        return [Send(self.number, data, out.origin) for out, data in waiting]

    def receive(self, frame: bytes) -> tuple[Out, Values] | None:
        """The request that a frame answers, and the answer; None: to one that awaits none.

        Errors: WireError for anything but an answer of its own.
        """
        if len(frame) < 4:
            raise Malformed("an answer without a head")
        number = int.from_bytes(frame[:4], "big", signed=True)
        out = self.flying.pop(number, None)
        if out is None:
            if number in self.silent:
                return None
            raise Malformed("an answer to no request")
        try:
            return out, answer_values(out.api_key, out.version, frame)
        except WireError:
            self.flying[number] = out
            raise

    def cut(self) -> tuple[list[Out], list[Out]]:
        """The connection is gone: requests that will have no answer, and those that never left, in their order."""
        unsent = [out for out, _ in self.waiting]
        # what awaits no answer is lost until it is known to have left
        silent = [out for out in self.written if not out.awaits]
        waited = set(unsent)
        lost = [out for out in (*self.flying.values(), *silent) if out not in waited]
        self.flying, self.waiting, self.written, self.is_open = {}, [], [], False
        return lost, unsent
