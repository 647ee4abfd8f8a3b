"""Makes frames of the bytes of connections' streams, and rows of the frames.

Knows tracks and rows, and of entries only the places of their bytes in a stream. Bytes that arrive a second time are
skipped; where bytes are missing, the record breaks off. Bytes that a setting has left out are not in the log: the
conversation gets their number, and they take no memory.
"""

from __future__ import annotations

from typing import Any

from proxy.conversation.conversation import Conversation
from proxy.conversation.exchange import Direction, FrameKind
from proxy.conversation.side import Side
from proxy.conversation.step import Step
from proxy.wire.errors import in_bytes
from recorder.capture import frames as c
from recorder.capture.connection_state import ConnectionState
from recorder.capture.cutting import FrameSpan, cut
from recorder.capture.facts import SenselessEntryError
from recorder.capture.rows import RowMaker
from recorder.capture.spool import Entry, EntryKind

# pairing reads no more bytes of a frame of which a setting may have left out a part
_HEAD = 16


class Streams:
    """`rows` takes the rows; `damaged_since_ns`: the time before missing entries, where a gap by damage begins."""

    def __init__(self) -> None:
        self.rows: RowMaker
        self.damaged_since_ns = 0

    def arrived(self, track: ConnectionState, entry: Entry) -> None:
        """Takes an entry of bytes."""
        direction, data = entry.direction, entry.data
        conversation = track.conversation
        if conversation is None:
            track.reach(direction, entry.offset + len(data))
            return
        if track.unreadable[direction]:
            self.unframed(track, entry, "behind what could not be read")
            return
        seen = self._bytes_seen(track, _side(conversation, direction), entry, len(data))
        if seen is None:
            return
        for start, length in entry.spans:
            if start + length > seen:
                track.masks[direction].append((entry.offset + max(start, seen), entry.offset + start + length))
        self._take(track, conversation, direction, data[seen:] if seen else data, entry.mono_ns)

    def omitted(self, track: ConnectionState, entry: Entry, length: int, *, is_frame: bool) -> None:
        """Takes bytes that a setting left out. `is_frame`: the frame that begins here becomes no row."""
        direction, conversation = entry.direction, track.conversation
        if conversation is None:
            track.reach(direction, entry.offset + length)
            return
        side = _side(conversation, direction)
        if track.unreadable[direction]:
            return
        if is_frame and entry.offset >= side.offset:
            track.left_out[direction].add(entry.offset)
        seen = self._bytes_seen(track, side, entry, length) if length else None
        if seen is not None:
            if length - seen > side.missing:
                raise SenselessEntryError("left-out bytes of more than a single frame")
            track.omissions[direction].append((entry.offset + seen, entry.offset + length))
            self._pass_omitted(track, conversation, side, length - seen, entry.mono_ns)

    def own_answers_due(self, track: ConnectionState, conversation: Conversation, mono_ns: int) -> None:
        """Adds rows for the proxy's own answers whose turn has come."""
        step = conversation.own_answers_due(mono_ns)
        found = [FrameSpan(FrameKind.RESPONSE, exchange, 0, 0) for exchange in step.finished]
        self._frames(track, Direction.RESPONSE, step, found, mono_ns, 0)

    def unframed(self, track: ConnectionState, entry: Entry, note: str) -> None:
        """Adds a row of bytes that are no frame."""
        if entry.data:
            spans = list(entry.spans)
            kind, at_ns = FrameKind.BYTES, entry.mono_ns
            self.rows.add(track, entry.direction, kind, None, entry.data, at_ns, at_ns, spans, [], note)

    def cut_off(self, track: ConnectionState, conversation: Conversation, mono_ns: int) -> None:
        """Adds rows for frames that will never be whole."""
        for side in (conversation.requests_side, conversation.responses_side):
            direction = int(side.direction)
            part = track.parts[direction]
            if part is not None:
                exchange = side.open_exchange
                if exchange is not None and direction:
                    exchange.response_last_ns = mono_ns
                stop = side.offset + side.bytes_left
                found = FrameSpan(track.kinds[direction], exchange, side.open_begin, stop)
                note = f"{c.CUT}{in_bytes(side.bytes_left)} never came"
                first_ns = track.first_ns[direction]
                self._add_row(track, direction, found, _without_length(part), 0, mono_ns, first_ns, note)
            elif side.held and not track.unreadable[direction]:
                entry = Entry(EntryKind.UNFRAMED, direction, track.connection, side.offset, mono_ns, side.held)
                self.unframed(track, entry, "cut in its head")

    # of one stream

    def _bytes_seen(self, track: ConnectionState, side: Side, entry: Entry, length: int) -> int | None:
        """How many of an entry's bytes have come before. None: all of them, or bytes before the entry are missing."""
        here = side.offset + len(side.held)
        if entry.offset == here:
            return 0
        if entry.offset > here:
            track.break_off(c.GAP_DAMAGE, self.damaged_since_ns)
            track.reach(entry.direction, entry.offset + length)
            return None
        seen = here - entry.offset
        if seen <= length:
            track.count_lost_frame(entry.direction)
        return seen if seen < length else None

    def _pass_omitted(
        self, track: ConnectionState, conversation: Conversation, side: Side, length: int, mono_ns: int
    ) -> None:
        """Passes over left-out bytes of one frame; they may complete its head or end it."""
        direction = int(side.direction)
        head = min(length, _HEAD)
        self._take(track, conversation, direction, bytes(head), mono_ns, absent=head)
        rest = length - head
        if rest and side.bytes_left >= rest:
            side.skip(rest - 1)
            self._take(track, conversation, direction, b"\0", mono_ns, absent=1)

    def _take(
        self,
        track: ConnectionState,
        conversation: Conversation,
        direction: int,
        data: bytes,
        mono_ns: int,
        absent: int = 0,
    ) -> None:
        """Takes bytes of a stream. `absent`: so many bytes at the end of `data` stand for left-out ones."""
        step, found = cut(conversation, direction, data, mono_ns, track.kinds[direction])
        self._frames(track, direction, step, found, mono_ns, absent)
        if step.cause is not None:
            track.unreadable[direction] = True
            rest = step.data[step.stop : len(step.data) - absent]
            entry = Entry(EntryKind.BYTES, direction, track.connection, step.offset + step.stop, mono_ns, rest)
            self.unframed(track, entry, step.cause.value)

    def _frames(
        self, track: ConnectionState, direction: int, step: Step, found: list[FrameSpan], mono_ns: int, absent: int
    ) -> None:
        """Adds rows for complete frames; those of plain frames in a row together, because most frames are plain."""
        data = step.data
        end = len(data)
        run: list[FrameSpan] = []
        special = track.has_marks(direction)
        for frame in found:
            _, exchange, start, stop = frame
            if exchange is None or exchange.opaque is not None or start < 0 or stop > end or start == stop or special:
                self.rows.run(track, direction, data, run, mono_ns)
                run = []
                self._special(track, direction, step, frame, mono_ns, end - absent)
            else:
                run.append(frame)
        self.rows.run(track, direction, data, run, mono_ns)

    def _special(
        self, track: ConnectionState, direction: int, step: Step, frame: FrameSpan, mono_ns: int, kept: int
    ) -> None:
        _, exchange, start, stop = frame
        if not direction and start >= 0 and exchange is not None:
            track.request_began(exchange)
        if start == stop and exchange is not None and exchange.own_answer is not None:
            self._add_row(track, direction, frame, exchange.own_answer[4:], step.offset, mono_ns, mono_ns)
        elif start >= 0 and stop <= len(step.data):
            self._add_row(
                track, direction, frame, step.data[start + 4 : min(stop, kept)], step.offset, mono_ns, mono_ns
            )
        else:
            self._piece(track, direction, step, frame, mono_ns, kept)

    def _piece(
        self, track: ConnectionState, direction: int, step: Step, frame: FrameSpan, mono_ns: int, kept: int
    ) -> None:
        """Gathers a frame that comes in several chunks; adds its row with the last byte."""
        kind, _, start, stop = frame
        part = track.parts[direction]
        if part is None:
            part = track.parts[direction] = bytearray()
            track.first_ns[direction], track.kinds[direction] = mono_ns, kind
        part += step.data[max(start, 0) : min(stop, kept)]
        if stop <= len(step.data):
            track.parts[direction] = None
            first_ns = track.first_ns[direction]
            self._add_row(track, direction, frame, _without_length(part), step.offset, mono_ns, first_ns)

    def _add_row(
        self,
        track: ConnectionState,
        direction: int,
        found: FrameSpan,
        frame: bytes,
        base: int,
        mono_ns: int,
        first_ns: int,
        note: str | None = None,
    ) -> None:
        """Adds a row for any frame, also a masked, opaque, cut or ownerless one. `base`: stream offset of the data."""
        masked, omitted = track.spans(direction, base + found.start + 4, base + found.stop)
        exchange = found.exchange
        if track.leaves_out(direction, exchange, base + found.start):
            track.sequence += 1
            return
        if exchange is not None and exchange.opaque is not None and note is None:
            note = exchange.opaque.value
        self.rows.add(track, direction, found.kind, exchange, frame, mono_ns, first_ns, masked, omitted, note)


def _side(conversation: Conversation, direction: int) -> Any:
    return conversation.responses_side if direction else conversation.requests_side


def _without_length(part: bytearray) -> bytes:
    with memoryview(part) as view:
        return bytes(view[4:])
