"""Connections to the target, without sockets: requests that wait for one, requests in flight, the end of a connection.

A channel carries requests of one recorded connection to one node, or the replay's own. Requests wait until the channel
is open and leave in order. Answers find their requests by correlation id. Each channel counts its own up
from 1, and from 0 again behind the largest int32.
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
from recorder.replay.messages import RememberedRequest, answer_values
from recorder.replay.plan import FramePlace, Origin, Values


class Open(NamedTuple):
    """Dial a node and log in. `principal`: of the recorded connection; None for the replay's own."""

    channel: int
    node: int
    host: str
    port: int
    principal: str | None


class Send(NamedTuple):
    """Write a request. `origin`: the exchange that it replays; None for the replay's own."""

    channel: int
    data: bytes | Pieces
    origin: Origin | None = None


class Close(NamedTuple):
    """Hang up once everything is written."""

    channel: int


class Load(NamedTuple):
    """Read an exchange's frames from the capture again, as it may leave now. `Engine.loaded` takes them."""

    origin: Origin
    place: FramePlace
    answer_place: FramePlace | None


Action = Open | Send | Close | Load


class Sender(Protocol):
    """The sender of a request, which hears what becomes of it."""

    def answered(self, answer: Values | None, frame: bytes | None, now: int) -> None:
        """The answer's values, in the shape of the request's version, and its bytes.

        None, None: no answer will come.
        """

    def left(self, given: int, began: int) -> None:
        """The request's first byte was written at `began`. `given`: since when it could be written."""

    def unsent(self, now: int) -> None:
        """The connection broke before any byte of the request was written."""


@dataclass(eq=False, slots=True)
class OutgoingRequest:
    """A request that waits on a channel or is in flight.

    Attributes:
        values: in the target's terms and the shape of `version`.
        origin: the recorded exchange; None for the replay's own request.
        remembered: the recorded request, if it may come again: its body is not written anew for equal values.
        given_at: since when it could be written.
    """

    api_key: int
    version: int
    values: Values
    client_id: str | None
    awaits: bool
    sender: Sender
    origin: Origin | None = None
    remembered: RememberedRequest | None = None
    given_at: int = 0

    def body(self) -> bytes | Pieces:
        """The bytes behind the head. Errors: WireError for values that can't be written."""
        version, values, remembered = self.version, self.values, self.remembered
        if remembered is None:
            return must("request", self.api_key, version).encode_pieces(values)
        last = remembered.written
        if last is not None and last[0] == version and last[1] == values:
            return last[2]
        body = must("request", self.api_key, version).encode_pieces(values)
        remembered.written = version, values, body
        return body


# Correlation ids that are remembered of requests that need no answer: some brokers answer them all the same.
MAX_SILENT = 10_000


# the correlation id is an int32, behind the API's key and version
_ID_BYTES, _ID_AT = 4, 4
_LARGEST_ID = 2**31 - 1
# Request heads that are remembered: 64 MB if each client id is as long as it may be.
_MOST_HEADS = 1024


@lru_cache(_MOST_HEADS)
def _head(api_key: int, version: int, client_id: str | None) -> tuple[bytes, bytes]:
    """The bytes of a request's head before and behind its correlation id. Errors: Malformed."""
    head = write_request_head(api_key, version, 0, client_id)
    return head[:_ID_AT], head[_ID_AT + _ID_BYTES :]


def _behind(head: bytes, body: Pieces) -> bytes | Pieces:
    """A request of a head and a body, in one piece if that is small."""
    whole = Pieces((head, *body.buffers))
    only = whole.buffers[0]
    return only if len(whole.buffers) == 1 and isinstance(only, bytes) else whole


@dataclass(eq=False)
class Channel:
    """One connection to the target.

    Attributes:
        waiting: requests that wait until the channel is open.
        written: requests given to the socket whose first byte has not left yet.
        in_flight: requests that need an answer and have none yet, by correlation id.
        unanswered_ids: correlation ids of requests that need no answer.
    """

    number: int
    node: int
    principal: str | None
    is_open: bool = False
    waiting: list[tuple[OutgoingRequest, bytes | Pieces]] = field(default_factory=list)
    written: list[OutgoingRequest] = field(default_factory=list)
    in_flight: dict[int, OutgoingRequest] = field(default_factory=dict)
    unanswered_ids: deque[int] = field(default_factory=lambda: deque(maxlen=MAX_SILENT))
    _last: int = 0

    def send(self, out: OutgoingRequest, now: int) -> Send | None:
        """Writes a request now, or once the channel is open (None).

        Errors: WireError for values that can't be written.
        """
        self._last = self._last + 1 if self._last < _LARGEST_ID else 0
        before, behind = _head(out.api_key, out.version, out.client_id)
        body = out.body()
        length = LENGTH.pack(len(before) + _ID_BYTES + len(behind) + len(body))
        head = length + before + self._last.to_bytes(_ID_BYTES, "big", signed=True) + behind
        data = head + body if isinstance(body, bytes) else _behind(head, body)
        if out.awaits:
            self.in_flight[self._last] = out
        else:
            self.unanswered_ids.append(self._last)
        if not self.is_open:
            self.waiting.append((out, data))
            return None
        out.given_at = now
        self.written.append(out)
        return Send(self.number, data, out.origin)

    def open(self, now: int) -> list[Send]:
        """The channel is open. Returns the requests that have waited for it."""
        self.is_open = True
        waiting, self.waiting = self.waiting, []
        for out, _ in waiting:
            out.given_at = now
            self.written.append(out)
        return [Send(self.number, data, out.origin) for out, data in waiting]

    def receive(self, frame: bytes) -> tuple[OutgoingRequest, Values] | None:
        """The request that a frame answers, and the answer. None: an answer to a request that needs none.

        Errors: WireError for a frame that answers no request of the channel, or can't be read.
        """
        if len(frame) < 4:
            raise Malformed("an answer without a head")
        number = int.from_bytes(frame[:4], "big", signed=True)
        out = self.in_flight.pop(number, None)
        if out is None:
            if number in self.unanswered_ids:
                return None
            raise Malformed("an answer to no request")
        try:
            return out, answer_values(out.api_key, out.version, frame)
        except WireError:
            self.in_flight[number] = out
            raise

    def cut(self) -> tuple[list[OutgoingRequest], list[OutgoingRequest]]:
        """The connection is gone.

        Returns the requests that will have no answer, and those that never left, in order.
        """
        unsent = [out for out, _ in self.waiting]
        # a request that needs no answer is lost unless its first byte has left
        silent = [out for out in self.written if not out.awaits]
        waited = set(unsent)
        lost = [out for out in (*self.in_flight.values(), *silent) if out not in waited]
        self.in_flight, self.waiting, self.written, self.is_open = {}, [], [], False
        return lost, unsent
