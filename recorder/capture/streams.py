"""Makes frames of the bytes in log entries, and rows of the frames.

Used by `assembly`. Bytes that the log holds a second time are skipped. If bytes are missing, the connection's record
breaks off. The log has only the number of the bytes that a setting left out: the conversation gets a few zeros in
their place, so left-out bytes take no memory. In place of the few bytes that a rule for records left out of a busy
chunk stand as many zeros: the chunk's frames are then read at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proxy.conversation.conversation import Conversation
from proxy.conversation.exchange import Direction, Exchange, FrameKind
from proxy.conversation.side import Side
from proxy.conversation.step import Step
from proxy.wire import records
from proxy.wire.errors import in_bytes
from recorder.capture import frames as c
from recorder.capture.alike_frames import FEW, alike_requests, alike_responses, lone_frame
from recorder.capture.connection_state import ConnectionState
from recorder.capture.entry_json import InvalidEntryError
from recorder.capture.frame_spans import ArrivingFrame, FrameSpan, request_spans, response_spans
from recorder.capture.record_hashing import RecordHashing
from recorder.capture.rows import Hashed, RowMaker
from recorder.capture.spool import Entry, EntryKind, Stretch, within, without

# the most bytes of a frame that the conversation reads. Of left-out bytes it gets this many zeros, and skips the rest
_HEAD = 16
# partitions that a note names
_MOST_NOTED = 50


# the note of a frame whose head never came whole
CUT_IN_HEAD = "cut in its head"


class Streams:
    """Takes the bytes of all connections. `rows`: takes the rows of frames. `hashing`: None if no rule hashes records.

    `damaged_since_ns`: the time of the last entry before the newest loss of entries. Gaps by damage begin then.
    """

    def __init__(self, hashing: RecordHashing | None = None) -> None:
        self.rows: RowMaker
        self._hashing = hashing
        self.damaged_since_ns = 0

    def arrived(self, conn: ConnectionState, entry: Entry, absent: Sequence[Stretch] = ()) -> None:
        """Takes a BYTES entry, or a part of a CUT entry. `absent`: what a rule left out of it; zeros stand there."""
        direction, data = entry.direction, entry.data
        conversation = conn.conversation
        if conversation is None:
            conn.reach(direction, entry.offset + len(data))
            return
        if conn.unreadable[direction]:
            kept = _kept(data, 0, len(data), absent)
            self.unframed(conn, entry._replace(data=kept), "behind what could not be read")
            return
        seen = self._bytes_seen(conn, _side(conversation, direction), entry, len(data))
        if seen is None:
            return
        for start, length in entry.spans:
            if start + length > seen:
                conn.masks[direction].append((entry.offset + max(start, seen), entry.offset + start + length))
        for start, stop in absent:
            if stop > seen:
                conn.dropped[direction].append((entry.offset + max(start, seen), entry.offset + stop))
        self._take(conn, conversation, direction, data[seen:] if seen else data, entry.mono_ns)

    def omitted(
        self,
        conn: ConnectionState,
        entry: Entry,
        length: int,
        *,
        begins_left_out_frame: bool = False,
        are_records: bool = False,
        counted: Sequence[Sequence[Any]] = (),
    ) -> None:
        """Takes an OMITTED entry, or a part of a CUT entry: `length` bytes are left out.

        Args:
            begins_left_out_frame: their frame gets no row.
            are_records: a rule for records left them out.
            counted: of the frame that begins at the entry's offset, what was only counted of its batches.
        """
        direction, conversation = entry.direction, conn.conversation
        if conversation is None:
            conn.reach(direction, entry.offset + length)
            return
        side = _side(conversation, direction)
        if conn.unreadable[direction]:
            return
        if begins_left_out_frame and entry.offset >= side.offset:
            conn.left_out[direction].add(entry.offset)
        if counted:
            conn.notes[direction].append((entry.offset, counted_note(counted)))
        seen = self._bytes_seen(conn, side, entry, length) if length else None
        if seen is not None:
            if length - seen > side.missing:
                raise InvalidEntryError("left-out bytes of more than a single frame")
            stretches = conn.dropped if are_records else conn.omissions
            stretches[direction].append((entry.offset + seen, entry.offset + length))
            self._pass_omitted(conn, conversation, side, length - seen, entry.mono_ns)

    def own_answers_due(self, conn: ConnectionState, conversation: Conversation, mono_ns: int) -> None:
        """Adds rows for the proxy's own answers whose turn has come."""
        step = conversation.own_answers_due(mono_ns)
        spans = [FrameSpan(FrameKind.RESPONSE, exchange, 0, 0) for exchange in step.finished]
        self._add_frames(conn, Direction.RESPONSE, step, spans, mono_ns, ())

    def unframed(self, conn: ConnectionState, entry: Entry, note: str) -> None:
        """Adds a row for an entry's bytes, which are no frame."""
        if entry.data:
            masked = list(entry.spans)
            kind, at_ns = FrameKind.BYTES, entry.mono_ns
            self.rows.add_frame(conn, entry.direction, kind, None, entry.data, at_ns, at_ns, masked, [], note)

    def add_incomplete_frames(self, conn: ConnectionState, conversation: Conversation, mono_ns: int) -> None:
        """Adds rows for frames that are incomplete at the end of their connection."""
        for side in (conversation.requests_side, conversation.responses_side):
            direction = int(side.direction)
            part = conn.parts[direction]
            if part is not None:
                exchange = side.open_exchange
                if exchange is not None and direction:
                    exchange.response_last_ns = mono_ns
                stop = side.offset + side.bytes_left
                span = FrameSpan(conn.kinds[direction], exchange, side.open_begin, stop)
                note = f"{c.CUT}{in_bytes(side.bytes_left)} never came"
                first_ns = conn.first_ns[direction]
                self._add_row(conn, direction, span, _without_length(part), 0, mono_ns, first_ns, note)
            elif side.held and not conn.unreadable[direction]:
                entry = Entry(EntryKind.UNFRAMED, direction, conn.connection, side.offset, mono_ns, side.held)
                self.unframed(conn, entry, CUT_IN_HEAD)

    # one connection's bytes

    def _bytes_seen(self, conn: ConnectionState, side: Side, entry: Entry, length: int) -> int | None:
        """The number of an entry's first bytes that were taken before. None: take none of its bytes.

        None if all of them were taken before, or if bytes before the entry are missing, which breaks off the record.
        """
        here = side.offset + len(side.held)
        if entry.offset == here:
            return 0
        if entry.offset > here:
            conn.break_off(c.GAP_DAMAGE, self.damaged_since_ns)
            conn.reach(entry.direction, entry.offset + length)
            return None
        seen = here - entry.offset
        if seen <= length:
            # if the record has resumed within a frame, the entry holds that frame's last byte
            conn.count_lost_frame(entry.direction)
        return seen if seen < length else None

    def _pass_omitted(
        self, conn: ConnectionState, conversation: Conversation, side: Side, length: int, mono_ns: int
    ) -> None:
        """Feeds `length` left-out bytes of one frame to the conversation; they may complete its head or end it."""
        direction = int(side.direction)
        head = min(length, _HEAD)
        self._take(conn, conversation, direction, bytes(head), mono_ns)
        rest = length - head
        if rest and side.bytes_left >= rest:
            side.skip(rest - 1)
            self._take(conn, conversation, direction, b"\0", mono_ns)

    def _take(
        self, conn: ConnectionState, conversation: Conversation, direction: int, data: bytes, mono_ns: int
    ) -> None:
        """Takes bytes of one direction, with zeros in place of those that were left out."""
        arriving = ArrivingFrame.between_steps(conversation, direction, conn.kinds[direction])
        first = conversation.next_request_number
        step = conversation.responses(data, mono_ns) if direction else conversation.requests(data, mono_ns)
        may_be_special = arriving is not None or self._hashing is not None or conn.may_have_special_frames(direction)
        if not may_be_special and (alike := self._alike(conn, conversation, direction, step, first)):
            self.rows.add_alike(conn, direction, step.data, alike, mono_ns)
            return
        absent = conn.absent_since(direction, step.offset)
        if direction:
            spans = response_spans(conversation, step, arriving)
        else:
            spans = request_spans(conversation, step, arriving, first)
        self._add_frames(conn, direction, step, spans, mono_ns, absent)
        if step.cause is not None:
            conn.unreadable[direction] = True
            rest = _kept(step.data, step.stop, len(step.data), absent)
            entry = Entry(EntryKind.BYTES, direction, conn.connection, step.offset + step.stop, mono_ns, rest)
            self.unframed(conn, entry, step.cause.value)

    def _alike(
        self, conn: ConnectionState, conversation: Conversation, direction: int, step: Step, first: int
    ) -> list[FrameSpan]:
        """The first frames of a step whose frames are all alike, or its only frame; none if it has others.

        No frame was arriving before the step. `first`: the number of the first request that may begin in it.
        """
        count = len(step.finished) if direction else conversation.next_request_number - first
        if step.cause is not None:
            return []
        if count == 1:
            return lone_frame(conversation, direction, step, _side(conversation, direction).bytes_left)
        if count < FEW:
            return []
        if direction:
            return alike_responses(conn, step, conversation.responses_side.bytes_left)
        return alike_requests(conn, conversation, step, first)

    def _add_frames(
        self,
        conn: ConnectionState,
        direction: int,
        step: Step,
        spans: list[FrameSpan],
        mono_ns: int,
        absent: Sequence[Stretch],
    ) -> None:
        """Adds rows for complete frames. Consecutive plain frames are added together, because most frames are plain.

        `absent`: zeros stand in place of these stretches of the step's data.
        """
        data = step.data
        end = len(data)
        run: list[FrameSpan] = []
        special, hashes = conn.may_have_special_frames(direction), self._hashing is not None
        for frame in spans:
            _, exchange, start, stop = frame
            is_plain = exchange is not None and exchange.opaque is None and 0 <= start < stop <= end
            if special or not is_plain or (hashes and self._may_change(conn, direction, exchange)):
                if run:
                    self.rows.add_run(conn, direction, data, run, mono_ns)
                    run = []
                self._add_special(conn, direction, step, frame, mono_ns, absent)
            else:
                run.append(frame)
        if run:
            self.rows.add_run(conn, direction, data, run, mono_ns)

    def _add_special(
        self,
        conn: ConnectionState,
        direction: int,
        step: Step,
        frame: FrameSpan,
        mono_ns: int,
        absent: Sequence[Stretch],
    ) -> None:
        """Takes a frame that is not plain, or a piece of one."""
        _, exchange, start, stop = frame
        if not direction and start >= 0 and exchange is not None:
            conn.request_began(exchange)
        if start == stop and exchange is not None and exchange.own_answer is not None:
            self._add_row(conn, direction, frame, exchange.own_answer[4:], step.offset, mono_ns, mono_ns)
        elif start >= 0 and stop <= len(step.data):
            kept = _kept(step.data, start + 4, stop, absent)
            self._add_row(conn, direction, frame, kept, step.offset, mono_ns, mono_ns)
        else:
            self._add_piece(conn, direction, step, frame, mono_ns, absent)

    def _add_piece(
        self,
        conn: ConnectionState,
        direction: int,
        step: Step,
        frame: FrameSpan,
        mono_ns: int,
        absent: Sequence[Stretch],
    ) -> None:
        """Adds a piece of a frame to `conn.parts`; with the last piece, adds the frame's row."""
        kind, _, start, stop = frame
        part = conn.parts[direction]
        if part is None:
            part = conn.parts[direction] = bytearray()
            conn.first_ns[direction], conn.kinds[direction] = mono_ns, kind
        part += _kept(step.data, max(start, 0), min(stop, len(step.data)), absent)
        if stop <= len(step.data):
            conn.parts[direction] = None
            first_ns = conn.first_ns[direction]
            self._add_row(conn, direction, frame, _without_length(part), step.offset, mono_ns, first_ns)

    def _add_row(
        self,
        conn: ConnectionState,
        direction: int,
        span: FrameSpan,
        frame: bytes,
        base: int,
        mono_ns: int,
        first_ns: int,
        note: str | None = None,
    ) -> None:
        """Adds the row of one frame, unless it is left out. `base`: the stream offset to which `span` refers."""
        masked, omitted, dropped = conn.spans(direction, base + span.start + 4, base + span.stop)
        exchange = span.exchange
        if conn.leaves_out(direction, exchange, base + span.start):
            conn.sequence += 1
            return
        if exchange is not None and exchange.opaque is not None and note is None:
            note = exchange.opaque.value
        note = note or conn.take_note(direction, base + span.start)
        hashed = None
        if self._hashing is not None and exchange is not None and self._may_change(conn, direction, exchange):
            size = len(frame) + sum(length for _, length in (*dropped, *omitted))
            found = self._hashing.hashed(
                direction,
                exchange.api_key,
                None if exchange.opaque is not None else exchange.api_version,
                conn.opening.get("cluster"),
                records.with_blanks(frame, sorted((*dropped, *omitted))),
                masked=masked,
                dropped=dropped,
                omitted=omitted,
            )
            if found is not None:
                frame, masked, dropped, omitted = found.whole, found.masked, [], found.omitted
                hashed = Hashed(size, found.told or ())
        self.rows.add_frame(
            conn, direction, span.kind, exchange, frame, mono_ns, first_ns, masked, omitted, note, dropped, hashed
        )

    def _may_change(self, conn: ConnectionState, direction: int, exchange: Exchange | None) -> bool:
        """True for a frame whose records may be hashed, or that tells what must be known for it."""
        return (
            self._hashing is not None
            and exchange is not None
            and self._hashing.concerns(direction, exchange.api_key, exchange.api_version, conn.dialect)
        )


def counted_note(counted: Sequence[Sequence[Any]]) -> str:
    """The note of a row of whose batches not even all heads are kept."""
    parts = [
        f"{topic}-{partition}: {batches} batches, {records} records, {size} bytes"
        for topic, partition, batches, records, size in counted[:_MOST_NOTED]
    ]
    more = len(counted) - _MOST_NOTED
    return f"{c.COUNTED}{'; '.join(parts)}" + (f"; {more} partitions more" if more > 0 else "")


def _side(conversation: Conversation, direction: int) -> Any:
    return conversation.responses_side if direction else conversation.requests_side


def _kept(data: bytes, start: int, stop: int, absent: Sequence[Stretch]) -> bytes:
    """The bytes from `start` to `stop`, without those that were left out."""
    if not absent:
        return data[start:stop]
    return without(data[start:stop], [(first - start, last - first) for first, last in within(absent, start, stop)])


def _without_length(part: bytearray) -> bytes:
    with memoryview(part) as view:
        return bytes(view[4:])
