"""Connections to the target, as far as they can be told without sockets: what waits, what is in flight, what was cut.

A channel carries requests of one recorded connection to one node, or the replay's own. Requests wait until it is open
and leave in order; answers are met by correlation id, which counts up from 1 on each channel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from proxy.wire import Malformed, codec_of_response, response_head
from proxy.wire.catalog import must
from proxy.wire.errors import WireError
from proxy.wire.framing import framed
from proxy.wire.headers import write_request_head
from recorder.replay.plan import Values


class Open(NamedTuple):
    """Dial a node and log in. `principal`: whose connection was recorded; None: nobody's."""

    channel: int
    node: int
    host: str
    port: int
    principal: str | None


class Send(NamedTuple):
    """Write bytes. `outs`: how many requests begin in them."""

    channel: int
    data: bytes


class Close(NamedTuple):
    """Hang up once everything is written."""

    channel: int


Action = Open | Send | Close


@dataclass(eq=False, slots=True)
class Out:
    """A request on its way.

    Attributes:
        values: in the target's terms and the shape of `version`.
        answered: told the answer's values, in the shape of `version`, and its bytes; None, None: it will never come.
        leaves: told when its first byte is written.
    """

    api_key: int
    version: int
    values: Values
    client_id: str | None
    awaits: bool
    answered: Callable[[Values | None, bytes | None, int], None]
    leaves: Callable[[int], None] | None = None


@dataclass(eq=False)
class Channel:
    """One connection to the target."""

    number: int
    node: int
    principal: str | None
    is_open: bool = False
    waiting: list[tuple[Out, bytes]] = field(default_factory=list)
    written: list[Out] = field(default_factory=list)
    flying: dict[int, Out] = field(default_factory=dict)
    _last: int = 0

    def send(self, out: Out) -> Send | None:
        """The bytes of a request, if they may leave now. Errors: WireError for values that can't be written."""
        self._last += 1
        head = write_request_head(out.api_key, out.version, self._last, out.client_id)
        data = framed(head + must("request", out.api_key, out.version).encode(out.values))
        if out.awaits:
            self.flying[self._last] = out
        if not self.is_open:
            self.waiting.append((out, data))
            return None
        self.written.append(out)
        return Send(self.number, data)

    def open(self) -> list[Send]:
        """The channel is open: what has waited for it."""
        self.is_open = True
        waiting, self.waiting = self.waiting, []
        self.written += [out for out, _ in waiting]
        return [Send(self.number, data) for _, data in waiting]

    def receive(self, frame: bytes) -> tuple[Out, Values]:
        """The request that a frame answers, and the answer. Errors: WireError for anything but an answer of its own."""
        if len(frame) < 4:
            raise Malformed("an answer without a head")
        out = self.flying.pop(int.from_bytes(frame[:4], "big", signed=True), None)
        if out is None:
            raise Malformed("an answer to no request")
        try:
            found = codec_of_response(frame, out.api_key, out.version)
            if found is None:
                raise Malformed("an answer in an unknown version")
            return out, found.decode(frame, response_head(frame, out.api_key, out.version).body)[0]
        except WireError:
            self.flying[int.from_bytes(frame[:4], "big", signed=True)] = out
            raise

    def cut(self) -> list[Out]:
        """The connection is gone: requests that have left or waited and will have no answer, in their order."""
        lost = [*self.flying.values(), *(out for out, _ in self.waiting if not out.awaits)]
        self.flying, self.waiting, self.is_open = {}, [], False
        return lost
