"""Makes rows of frames: the numbers of each frame, in the row group of its hour.

`run` is the common case (frames of exchanges, nothing masked, no note), in which a busy compactor spends its time;
`add` takes any frame.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any, Protocol

from proxy.conversation.exchange import Exchange, FrameKind, timings
from proxy.wire import keys
from proxy.wire.apis import api_name
from proxy.wire.headers import CLIENT_ID_SIZE_AT
from proxy.wire.kafka07 import RequestType
from recorder.capture import frames as c
from recorder.capture.columns import EventRows, FrameRows, Shape, SharedTables, Spans
from recorder.capture.connection_state import ConnectionState
from recorder.capture.cutting import FrameSpan

# added to a route's `api_and_version` (32 bits): tells the response's shape from the request's
_RESPONSE = 1 << 32
# the APIs whose frames hold the records of topics
DATA = frozenset(
    filter(
        None,
        (
            *map(api_name, (keys.PRODUCE, keys.FETCH, keys.SHARE_FETCH)),
            *(asked.api for asked in RequestType if asked is not RequestType.OFFSETS),
        ),
    )
)
# peers may send any api and version; the shapes of so many routes are remembered
MAX_SHAPES = 4096


class RowSink(Protocol):
    """The destination of rows: the files of a range."""

    shared: SharedTables

    def frames(self, at_ns: int, clock_ns: int, size: int, *, is_data: bool) -> FrameRows:
        """The row group for a frame of this size and time (wall clock); `is_data`: its API is one of DATA."""

    def events(self, at_ns: int) -> EventRows:
        """The rows of the hour of this time (wall clock)."""


class RowMaker:
    """Makes rows for one range. `frames` and `bytes` count them."""

    def __init__(self, sink: RowSink, clock_ns: int) -> None:
        self.frames = 0
        self.bytes = 0
        self._shared = sink.shared
        self._sink = sink
        self._clock_ns = clock_ns
        # the current row groups by `is_data`, and the monotonic times of their hour
        self._groups: dict[bool, FrameRows] = {}
        self._from = self._until = 0
        # a route's `api_and_version`, with _RESPONSE for responses -> index of the Shape
        self._shapes: dict[int, int] = {}

    def set_clock(self, clock_ns: int) -> None:
        """Sets wall clock minus monotonic clock for all further rows; a row group has one such offset."""
        self._clock_ns = clock_ns
        self._groups.clear()

    def describe(self, track: ConnectionState) -> None:
        """Enters the shared values of a connection's frames: at the start of a range, and after a change."""
        track.peers = self._shared.peers.number(track.described())
        track.usual_client_number = self._shared.client_ids.number(track.usual_client_id)

    def run(self, track: ConnectionState, direction: int, data: bytes, run: list[FrameSpan], mono_ns: int) -> None:
        """Adds rows for the common case: whole frames of exchanges at their places in `data`."""
        if len(run) == 1:  # as most have, and `groupby` takes half as long as the row
            self._part(track, direction, data, run, mono_ns, _is_data(run[0]))
            return
        for is_data, part in groupby(run, _is_data):
            self._part(track, direction, data, [*part], mono_ns, is_data)

    def _part(
        self, track: ConnectionState, direction: int, data: bytes, run: list[FrameSpan], mono_ns: int, is_data: bool
    ) -> None:
        size = run[-1].stop - run[0].start
        group = self._groups.get(is_data)
        if group is None or not (self._from <= mono_ns < self._until and group.has_room(size)):
            group = self._find_group(mono_ns, size, is_data)
        (self._responses if direction else self._requests)(track, data, run, mono_ns, group)
        self.frames += len(run)
        self.bytes += size - 4 * len(run)

    def _requests(
        self, track: ConnectionState, data: bytes, run: list[FrameSpan], mono_ns: int, group: FrameRows
    ) -> None:
        numbers, body, shapes = group.numbers, group.body, self._shapes
        sequence, usual = track.sequence, track.usual_client
        for _, exchange, start, stop in run:
            assert exchange is not None
            frame = data[start + 4 : stop]
            shape = shapes.get(exchange.route.api_and_version)
            if frame.startswith(usual, CLIENT_ID_SIZE_AT):
                client = track.usual_client_number
            else:
                client = self._unusual_client(track, exchange, frame)
                usual = track.usual_client
            numbers += (
                track.peers,
                self._shape(exchange, c.BY_CLIENT) if shape is None else shape,
                client,
                sequence,
                exchange.number,
                mono_ns,
                exchange.request_first_ns,
                exchange.awaits,
                exchange.correlation_id,
                stop - start - 4,
                None,
                None,
                None,
                None,
            )
            body += frame
            sequence += 1
        track.sequence = sequence

    def _responses(
        self, track: ConnectionState, data: bytes, run: list[FrameSpan], mono_ns: int, group: FrameRows
    ) -> None:
        numbers, body, shapes = group.numbers, group.body, self._shapes
        sequence = track.sequence
        for _, exchange, start, stop in run:
            assert exchange is not None
            shape = shapes.get(exchange.route.api_and_version | _RESPONSE)
            latency, queued, transfer = timings(exchange)
            numbers += (
                track.peers,
                self._shape(exchange, c.BY_BROKER) if shape is None else shape,
                self._client_of(track, exchange.number) if track.clients else track.usual_client_number,
                sequence,
                exchange.number,
                mono_ns,
                exchange.response_first_ns,
                None,
                exchange.correlation_id,
                stop - start - 4,
                exchange.request_size,
                latency,
                queued,
                transfer,
            )
            body += data[start + 4 : stop]
            sequence += 1
        track.sequence = sequence

    def add(
        self,
        track: ConnectionState,
        direction: int,
        kind: FrameKind,
        exchange: Exchange | None,
        frame: bytes,
        mono_ns: int,
        first_ns: int,
        masked: Spans,
        omitted: Spans,
        note: str | None,
    ) -> None:
        """Adds a row for any frame. `first_ns`: when the first byte came, for frames without an exchange.

        `omitted`: spans of the frame as it arrived that `frame` lacks.
        """
        size = len(frame) + sum(length for _, length in omitted)
        group = self._find_group(mono_ns, len(frame), exchange is not None and exchange.api in DATA)
        if exchange is None:
            group.numbers += self._ownerless(track, direction, kind, size, mono_ns, first_ns)
            group.body += frame
        else:
            # as it would stand in a stream: behind its length
            alone = [FrameSpan(kind, exchange, -4, size)]
            (self._responses if direction else self._requests)(track, frame, alone, mono_ns, group)
            self._correct(track, direction, exchange, masked, group)
        group.note(len(frame), masked, omitted, note)
        self.frames += 1
        self.bytes += size

    def _correct(
        self, track: ConnectionState, direction: int, exchange: Exchange, masked: Spans, group: FrameRows
    ) -> None:
        """Corrects the newest row where the assumptions of the common case don't hold."""
        if direction and exchange.own_answer is not None:
            group.correct("shape", self._shape(exchange, c.BY_PROXY))
        if not direction and masked and masked[0][0] <= CLIENT_ID_SIZE_AT:
            # masked bytes are zeros, which read as an empty client id
            track.hide_client(exchange)
            group.correct("client_id", self._shared.client_ids.number(None))

    def _find_group(self, mono_ns: int, size: int, is_data: bool) -> FrameRows:
        if not self._from <= mono_ns < self._until:
            self._groups.clear()
        at_ns = mono_ns + self._clock_ns
        self._groups[is_data] = group = self._sink.frames(at_ns, self._clock_ns, size, is_data=is_data)
        self._from = mono_ns - at_ns % c.HOUR_NS
        self._until = self._from + c.HOUR_NS
        return group

    def _ownerless(
        self, track: ConnectionState, direction: int, kind: FrameKind, size: int, mono_ns: int, first_ns: int
    ) -> tuple[Any, ...]:
        """The numbers of a frame without an exchange."""
        shape = self._shared.shapes.number(Shape(kind.value, _sender(direction), None, None, None))
        nobody = self._shared.client_ids.number(None)
        sequence = track.sequence
        track.sequence += 1
        return (track.peers, shape, nobody, sequence, None, mono_ns, first_ns, None, None, size, None, None, None, None)

    def _shape(self, exchange: Exchange, made_by: str) -> int:
        kind = c.REQUEST if made_by == c.BY_CLIENT else c.RESPONSE
        shape = Shape(kind, made_by, exchange.api_key, exchange.api, exchange.api_version)
        number = self._shared.shapes.number(shape)
        if made_by != c.BY_PROXY and len(self._shapes) < MAX_SHAPES:
            self._shapes[exchange.route.api_and_version | (_RESPONSE if made_by == c.BY_BROKER else 0)] = number
        return number

    def _unusual_client(self, track: ConnectionState, exchange: Exchange, frame: bytes) -> int:
        number = self._shared.client_ids.number(track.note_client(exchange, frame))
        track.usual_client_number = self._shared.client_ids.number(track.usual_client_id)
        return number

    def _client_of(self, track: ConnectionState, number: int) -> int:
        if track.has_usual_client(number):
            return track.usual_client_number
        return self._shared.client_ids.number(track.clients[0][1])


def _is_data(frame: FrameSpan) -> bool:
    exchange = frame.exchange
    assert exchange is not None
    return exchange.route.api in DATA


def _sender(direction: int) -> str:
    return c.BY_BROKER if direction else c.BY_CLIENT
