"""Makes the rows of frames, and adds each to the row group of its hour.

Used by `streams`. A busy compactor spends its time in `RowMaker.add_run`, for the common case: frames of exchanges,
nothing masked, no note; or in `RowMaker.add_alike`, where these are alike. `RowMaker.add_frame` takes any frame.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, NamedTuple, Protocol

from proxy.conversation.exchange import Exchange, FrameKind, timings
from proxy.wire import keys
from proxy.wire.apis import api_name
from proxy.wire.framing import LENGTH
from proxy.wire.headers import CLIENT_ID_SIZE_AT
from proxy.wire.kafka07 import RequestType
from recorder.capture import frames as c
from recorder.capture.alike_frames import bodies
from recorder.capture.columns import EventRows, FrameRows, FrameType, SharedDictionaries, Spans
from recorder.capture.connection_state import ConnectionState
from recorder.capture.frame_spans import FrameSpan
from recorder.hashing.batches import Told

# the bit above `api_and_version` (32 bits) that marks responses in the keys of `_frame_types`
_RESPONSE = 1 << 32
# the APIs whose frames hold the records of topics
RECORD_APIS = frozenset(
    filter(
        None,
        (
            *map(api_name, (keys.PRODUCE, keys.FETCH, keys.SHARE_FETCH)),
            *(request.api for request in RequestType if request is not RequestType.OFFSETS),
        ),
    )
)
# the most entries of `_frame_types`: peers may send any API and version
MAX_FRAME_TYPES = 4096


class Hashed(NamedTuple):
    """A frame as it arrived, whose records are hashed: its size, and what its batches were."""

    size: int
    batches: Sequence[Told]


class RowSink(Protocol):
    """The destination of rows: `ranges.RangeFiles`."""

    shared: SharedDictionaries

    def frame_rows(self, at_ns: int, clock_offset_ns: int, size: int, *, carries_records: bool) -> FrameRows:
        """The row group for a frame of this size and wall-clock time. `carries_records`: its API is in RECORD_APIS."""

    def event_rows(self, at_ns: int) -> EventRows:
        """The row group for an event of this wall-clock time."""


class RowMaker:
    """Makes the rows of one range, which is one segment of the log. `frames`, `bytes`: the numbers of them so far.

    `first_response`: called with the cluster, the exchange and the frame of the first response of each API and version.
    """

    def __init__(
        self,
        sink: RowSink,
        clock_offset_ns: int,
        first_response: Callable[[str | None, Exchange, bytes], None] = lambda *_: None,
    ) -> None:
        self.frames = 0
        self.bytes = 0
        self._shared = sink.shared
        self._sink = sink
        self._first_response = first_response
        self._clock_offset_ns = clock_offset_ns
        # the current row groups, by `carries_records`; the monotonic times at which their hour begins and ends
        self._groups: dict[bool, FrameRows] = {}
        self._from = self._until = 0
        # a route's `api_and_version`, plus _RESPONSE for responses -> the index of its FrameType
        self._frame_types: dict[int, int] = {}

    def set_clock(self, clock_offset_ns: int) -> None:
        """Sets wall clock minus monotonic clock for all further rows. They begin new row groups."""
        self._clock_offset_ns = clock_offset_ns
        self._groups.clear()

    def update_shared_values(self, conn: ConnectionState) -> None:
        """Renews the indices of a connection's shared values: at the start of a range, and after a change."""
        conn.connection_index = self._shared.connections.index_of(conn.shared_columns())
        conn.usual_client_id_index = self._shared.client_ids.index_of(conn.usual_client_id)

    def add_run(self, conn: ConnectionState, direction: int, data: bytes, run: list[FrameSpan], mono_ns: int) -> None:
        """Adds rows for the common case: whole frames of exchanges, one after the other in `data`."""
        # the most frequent cases; `groupby` alone would add half the time that a row takes
        if len(run) == 1:
            self._add_part(conn, direction, data, run, mono_ns, _carries_records(run[0]))
            return
        # names are hashed once, routes each time
        apis = {frame[1].route.api for frame in run}  # type: ignore[union-attr]
        carrying = {api in RECORD_APIS for api in apis}
        if len(carrying) == 1:
            self._add_part(conn, direction, data, run, mono_ns, carrying.pop())
            return
        for carries_records, part in groupby(run, _carries_records):
            self._add_part(conn, direction, data, [*part], mono_ns, carries_records)

    def add_alike(
        self, conn: ConnectionState, direction: int, data: bytes, firsts: list[FrameSpan], mono_ns: int
    ) -> None:
        """Adds rows for frames that fill `data`. `firsts`: the first ones; all others are like the last of these."""
        group = self._group(mono_ns, len(data), _carries_records(firsts[0]))
        (self._add_responses if direction else self._add_requests)(conn, data, firsts, mono_ns, group)
        length = firsts[-1].stop - firsts[-1].start
        count = len(data) // length
        if more := count - len(firsts):
            group.repeat_newest(more)
            group.body += bodies(data, length, len(firsts))
            conn.sequence += more
        self.frames += count
        self.bytes += len(data) - LENGTH.size * count

    def _add_part(
        self,
        conn: ConnectionState,
        direction: int,
        data: bytes,
        run: list[FrameSpan],
        mono_ns: int,
        carries_records: bool,
    ) -> None:
        size = run[-1].stop - run[0].start
        group = self._group(mono_ns, size, carries_records)
        (self._add_responses if direction else self._add_requests)(conn, data, run, mono_ns, group)
        self.frames += len(run)
        self.bytes += size - 4 * len(run)

    def _add_requests(
        self, conn: ConnectionState, data: bytes, run: list[FrameSpan], mono_ns: int, group: FrameRows
    ) -> None:
        numbers, body, frame_types, connection = group.numbers, group.body, self._frame_types, conn.connection_index
        sequence, usual, usual_index = conn.sequence, conn.usual_client_id_bytes, conn.usual_client_id_index
        for _, exchange, start, stop in run:
            assert exchange is not None
            frame = data[start + 4 : stop]
            frame_type = frame_types.get(exchange.route.api_and_version)
            if frame.startswith(usual, CLIENT_ID_SIZE_AT):
                client = usual_index
            else:
                client = self._note_client_id(conn, exchange, frame)
                usual_index = conn.usual_client_id_index
                usual = conn.usual_client_id_bytes
            numbers += (
                connection,
                self._frame_type_index(exchange, c.BY_CLIENT) if frame_type is None else frame_type,
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
        conn.sequence = sequence

    def _add_responses(
        self, conn: ConnectionState, data: bytes, run: list[FrameSpan], mono_ns: int, group: FrameRows
    ) -> None:
        numbers, body, frame_types, connection = group.numbers, group.body, self._frame_types, conn.connection_index
        sequence, usual_index = conn.sequence, conn.usual_client_id_index
        for _, exchange, start, stop in run:
            assert exchange is not None
            frame_type = frame_types.get(exchange.route.api_and_version | _RESPONSE)
            latency, queued, transfer = timings(exchange)
            numbers += (
                connection,
                self._new_response(conn, exchange, data[start + 4 : stop]) if frame_type is None else frame_type,
                self._client_id_index(conn, exchange.number) if conn.unusual_client_ids else usual_index,
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
        conn.sequence = sequence

    def add_frame(
        self,
        conn: ConnectionState,
        direction: int,
        kind: FrameKind,
        exchange: Exchange | None,
        frame: bytes,
        mono_ns: int,
        first_ns: int,
        masked: Spans,
        omitted: Spans,
        note: str | None,
        dropped: Spans | None = None,
        hashed: Hashed | None = None,
    ) -> None:
        """Adds a row for any frame.

        Args:
            frame: its bytes, without the length field and without omitted and dropped bytes.
            first_ns: when its first byte arrived; used for frames without an exchange.
            omitted, dropped: the spans of the frame, as it arrived, that `frame` lacks.
            hashed: for a frame with hashed records, what it was as it arrived. All spans are then those of the frame
                as it is kept.
        """
        filled = len(frame) + sum(length for _, length in dropped or ())
        size = filled + sum(length for _, length in omitted)
        group = self._group(mono_ns, filled, exchange is not None and exchange.route.api in RECORD_APIS)
        if exchange is None:
            group.numbers += self._ownerless(conn, direction, kind, size, mono_ns, first_ns)
            group.body += frame
        else:
            # `frame` lacks the length field, so the span begins 4 bytes before it
            alone = [FrameSpan(kind, exchange, -4, size)]
            if direction:
                self._add_responses(conn, frame, alone, mono_ns, group)
                if exchange.own_answer is not None:
                    group.correct_newest("frame_type_index", self._frame_type_index(exchange, c.BY_PROXY))
            elif masked and masked[0][0] <= CLIENT_ID_SIZE_AT:
                # masked bytes are zeros, which read as an empty client id
                self._add_requests(conn, frame[:CLIENT_ID_SIZE_AT], alone, mono_ns, group)
                group.body += memoryview(frame)[CLIENT_ID_SIZE_AT:]
            else:
                self._add_requests(conn, frame, alone, mono_ns, group)
        batches = None
        if hashed is not None:
            size, batches = hashed
            group.correct_newest("size", size)
        group.set_rare_values(len(frame), masked, omitted, note, dropped, batches)
        self.frames += 1
        self.bytes += size

    def _group(self, mono_ns: int, size: int, carries_records: bool) -> FrameRows:
        """The row group for frames of `size` bytes, which is most often the current one."""
        group = self._groups.get(carries_records)
        if group is None or not (self._from <= mono_ns < self._until and group.has_room(size)):
            group = self._find_group(mono_ns, size, carries_records)
        return group

    def _find_group(self, mono_ns: int, size: int, carries_records: bool) -> FrameRows:
        if not self._from <= mono_ns < self._until:
            self._groups.clear()
        at_ns = mono_ns + self._clock_offset_ns
        self._groups[carries_records] = group = self._sink.frame_rows(
            at_ns, self._clock_offset_ns, size, carries_records=carries_records
        )
        self._from = mono_ns - at_ns % c.HOUR_NS
        self._until = self._from + c.HOUR_NS
        return group

    def _ownerless(
        self, conn: ConnectionState, direction: int, kind: FrameKind, size: int, mono_ns: int, first_ns: int
    ) -> tuple[Any, ...]:
        """The numbers of a frame without an exchange."""
        frame_type = self._shared.frame_types.index_of(FrameType(kind.value, _sender(direction), None, None, None))
        nobody = self._shared.client_ids.index_of(None)
        sequence = conn.sequence
        conn.sequence += 1
        return (
            conn.connection_index,
            frame_type,
            nobody,
            sequence,
            None,
            mono_ns,
            first_ns,
            None,
            None,
            size,
            None,
            None,
            None,
            None,
        )

    def _new_response(self, conn: ConnectionState, exchange: Exchange, frame: bytes) -> int:
        self._first_response(conn.opening.get("cluster"), exchange, frame)
        return self._frame_type_index(exchange, c.BY_BROKER)

    def _frame_type_index(self, exchange: Exchange, made_by: str) -> int:
        kind = c.REQUEST if made_by == c.BY_CLIENT else c.RESPONSE
        frame_type = FrameType(kind, made_by, exchange.api_key, exchange.api, exchange.api_version)
        number = self._shared.frame_types.index_of(frame_type)
        if made_by != c.BY_PROXY and len(self._frame_types) < MAX_FRAME_TYPES:
            self._frame_types[exchange.route.api_and_version | (_RESPONSE if made_by == c.BY_BROKER else 0)] = number
        return number

    def _note_client_id(self, conn: ConnectionState, exchange: Exchange, frame: bytes) -> int:
        """Notes a client id that is not the usual one. Returns its index."""
        number = self._shared.client_ids.index_of(conn.note_client_id(exchange, frame))
        conn.usual_client_id_index = self._shared.client_ids.index_of(conn.usual_client_id)
        return number

    def _client_id_index(self, conn: ConnectionState, number: int) -> int:
        if conn.has_usual_client_id(number):
            return conn.usual_client_id_index
        return self._shared.client_ids.index_of(conn.unusual_client_ids[0][1])


def _carries_records(frame: FrameSpan) -> bool:
    exchange = frame.exchange
    assert exchange is not None
    return exchange.route.api in RECORD_APIS


def _sender(direction: int) -> str:
    return c.BY_BROKER if direction else c.BY_CLIENT
