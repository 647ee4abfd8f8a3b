"""The log's entries made into frames again: framed and paired by the same rooms as in the proxy, offline.

Knows entries and rows; never files. It follows the tap's verdicts on logins and never decides again, because the tokens
have been masked by then. Where the record of a connection breaks off (a hole) it drops what has come of the frames
there and goes on with the state that the resync entry carries; the numbers of both say how much was lost.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from proxy.conversation.conversation import Conversation
from proxy.conversation.exchange import Direction, Exchange, FrameKind
from proxy.conversation.kafka07 import Routes07
from proxy.conversation.routes import Routes
from proxy.conversation.step import Step, Verdict
from proxy.wire.dialects import Dialect
from proxy.wire.errors import in_bytes
from recorder.capture import frames as c
from recorder.capture.cutting import Found, cut_requests, cut_responses
from recorder.capture.events import Events
from recorder.capture.gap import REASON_DAMAGE
from recorder.capture.line import UNREADABLE
from recorder.capture.outcome import DIED
from recorder.capture.rows import RowMaker, Sink
from recorder.capture.spool import Entry, Kind
from recorder.capture.track import Track

# the cause of connections that the log's end leaves open
SESSION_ENDED = "session_ended"
# entries whose bytes are no frame -> the note of their row
NOTES = {Kind.UNFRAMED: "the connection ended before it could be told what this is"} | {
    kind: cause.value for cause, kind in UNREADABLE.items()
}


class Assembly:
    """All connections of a session, as the log tells of them. `begin_range` comes before the first entry."""

    def __init__(self) -> None:
        self.routes: dict[Dialect, Routes] = {one.dialect: one for one in (Routes(), Routes07())}
        self.tracks: dict[int, Track] = {}
        self.clock_ns = 0
        self.last_mono_ns = 0
        # whether the session was closed in order
        self.ended = False
        self.rows: RowMaker
        self.events: Events
        self._actions = {
            Kind.OPENED: self._opened,
            Kind.OMITTED: self._omitted,
            Kind.HOLE: self._hole,
            Kind.MADE: self._made,
            Kind.LOGIN: self._login,
            Kind.END_OF_STREAM: self._end_of_stream,
            Kind.RESYNC: self._resync,
            Kind.CLOSED: self._closed,
            Kind.CLOCK: self._clock,
            Kind.NODE: self._node,
            Kind.END: self._end,
            **dict.fromkeys(NOTES, self._left_over),
        }

    def begin_range(self, sink: Sink, clock_ns: int) -> None:
        """From here on rows go to this range's files."""
        self.clock_ns = clock_ns
        self.rows = RowMaker(sink, clock_ns)
        self.events = Events(sink, clock_ns)
        for track in self.tracks.values():
            self.rows.describe(track)

    def feed(self, entry: Entry) -> None:
        """One entry, in the log's order."""
        self.last_mono_ns = entry.mono_ns
        if entry.kind == Kind.BYTES:
            track = self.tracks.get(entry.connection)
            if track is not None:
                self._bytes(track, entry)
        else:
            self._actions[Kind(entry.kind)](entry)

    def damage(self) -> None:
        """Entries are missing here, nobody knows which: every connection's record breaks off."""
        for track in self.tracks.values():
            track.break_off(REASON_DAMAGE, self.last_mono_ns)

    def finish(self) -> None:
        """The log has ended; so have all connections."""
        for track in self.tracks.values():
            self._close(track, self.last_mono_ns, SESSION_ENDED, {})
        self.tracks.clear()
        self.events.session("ended" if self.ended else DIED, self.last_mono_ns, {})

    # bytes of a stream

    def _bytes(self, track: Track, entry: Entry) -> None:
        direction = entry.direction
        if track.talk is None:
            return
        if track.deaf[direction]:
            self._unframed(track, entry, "behind what could not be read")
            return
        for start, length in entry.spans:
            track.masks[direction].append((entry.offset + start, entry.offset + start + length))
        cut = cut_responses if direction else cut_requests
        step, found = cut(track.talk, entry.data, entry.mono_ns, track.kinds[direction])
        self._frames(track, direction, step, found, entry.mono_ns)
        if step.cause is not None:
            track.deaf[direction] = True
            rest = entry._replace(offset=step.offset + step.stop, data=step.data[step.stop :], spans=())
            self._unframed(track, rest, step.cause.value)

    def _frames(self, track: Track, direction: int, step: Step, found: list[Found], mono_ns: int) -> None:
        """Rows for the frames that are complete. Runs of plain ones are many, and are made at once."""
        data = step.data
        end = len(data)
        run: list[Found] = []
        special = track.rare(direction)
        for frame in found:
            _, exchange, start, stop = frame
            if exchange is None or exchange.opaque is not None or start < 0 or stop > end or start == stop or special:
                self.rows.run(track, direction, data, run, mono_ns)
                run = []
                self._special(track, direction, step, frame, mono_ns)
            else:
                run.append(frame)
        self.rows.run(track, direction, data, run, mono_ns)

    def _special(self, track: Track, direction: int, step: Step, frame: Found, mono_ns: int) -> None:
        _, exchange, start, stop = frame
        if start == stop and exchange is not None and exchange.made is not None:
            self._any(track, direction, frame, exchange.made[4:], step.offset, mono_ns, mono_ns)
        elif start >= 0 and stop <= len(step.data):
            self._any(track, direction, frame, step.data[start + 4 : stop], step.offset, mono_ns, mono_ns)
        else:
            self._piece(track, direction, step, frame, mono_ns)

    def _piece(self, track: Track, direction: int, step: Step, frame: Found, mono_ns: int) -> None:
        """A frame that comes in several chunks: gathered until its last byte is here."""
        kind, _, start, stop = frame
        part = track.parts[direction]
        if part is None:
            part = track.parts[direction] = bytearray()
            track.first_ns[direction], track.kinds[direction] = mono_ns, kind
        part += step.data[max(start, 0) : stop]
        if stop <= len(step.data):
            track.parts[direction] = None
            first_ns = track.first_ns[direction]
            self._any(track, direction, frame, _without_length(part), step.offset, mono_ns, first_ns)

    def _any(
        self,
        track: Track,
        direction: int,
        found: Found,
        frame: bytes,
        base: int,
        mono_ns: int,
        first_ns: int,
        note: str | None = None,
    ) -> None:
        """Any frame: also one that is masked, opaque, cut, or no exchange's. `base`: stream offset of the data."""
        masked, omitted = track.spans(direction, base + found.start + 4, base + found.stop)
        exchange = found.exchange
        if track.leaves_out(direction, exchange, base + found.start):
            track.sequence += 1
            track.clients.pop(exchange.number if direction and exchange is not None else -1, None)
            return
        if exchange is not None and exchange.opaque is not None and note is None:
            note = exchange.opaque.value
        self.rows.add(track, direction, found.kind, exchange, frame, mono_ns, first_ns, masked, omitted, note)

    def _unframed(self, track: Track, entry: Entry, note: str) -> None:
        """Bytes that no frame can be made of: a row as they stand."""
        if entry.data:
            spans = list(entry.spans)
            kind, at_ns = FrameKind.BYTES, entry.mono_ns
            self.rows.add(track, entry.direction, kind, None, entry.data, at_ns, at_ns, spans, [], note)

    # facts

    def _opened(self, entry: Entry) -> None:
        track = self.tracks[entry.connection] = Track(entry.connection, None, entry.facts())
        track.talk = Conversation(self.routes[track.dialect], decides=False)
        self.rows.describe(track)
        self.events.opened(track, entry.mono_ns)

    def _omitted(self, entry: Entry) -> None:
        track = self.tracks.get(entry.connection)
        if track is not None and track.talk is not None:
            facts = entry.facts()
            length = facts["length"]
            if facts.get("frame"):
                track.left_out[entry.direction].add(entry.offset)
            if length:
                track.omissions[entry.direction].append((entry.offset, entry.offset + length))
                self._bytes(track, entry._replace(data=bytes(length)))

    def _left_over(self, entry: Entry) -> None:
        track = self.tracks.get(entry.connection)
        if track is not None and track.talk is not None:
            self._unframed(track, entry, NOTES[Kind(entry.kind)])

    def _made(self, entry: Entry) -> None:
        track = self.tracks.get(entry.connection)
        if track is None or track.talk is None:
            return
        # a request that was lost with a damaged segment has no answer here either
        with suppress(LookupError):
            track.talk.made(entry.offset, entry.data)
            self._due(track, track.talk, entry.mono_ns)

    def _due(self, track: Track, talk: Conversation, mono_ns: int) -> None:
        """Rows for the proxy's answers whose turn it is."""
        step = talk.due(mono_ns)
        found = [Found(FrameKind.RESPONSE, exchange, 0, 0) for exchange in step.finished]
        self._frames(track, Direction.RESPONSE, step, found, mono_ns)

    def _login(self, entry: Entry) -> None:
        track = self.tracks.get(entry.connection)
        if track is None:
            return
        facts = entry.facts()
        if "principal" in facts:
            track.principal = facts["principal"]
            self.rows.describe(track)
        elif track.talk is not None:
            direction = Direction(entry.direction)
            track.talk.follow(Verdict(direction, entry.offset, facts["token"], facts["mechanism"], facts["ended"]))
        self.events.login(track, entry.mono_ns, facts | {"by": c.BY_BROKER if entry.direction else c.BY_CLIENT})

    def _end_of_stream(self, entry: Entry) -> None:
        track = self.tracks.get(entry.connection)
        if track is not None:
            self.events.half_closed(track, entry.mono_ns, entry.direction)

    def _hole(self, entry: Entry) -> None:
        facts = entry.facts()
        if entry.connection < 0:
            self.events.connections_lost(entry.mono_ns, facts)
        elif entry.connection in self.tracks:
            self.tracks[entry.connection].break_off(facts["reason"], entry.mono_ns)

    def _resync(self, entry: Entry) -> None:
        track = self.tracks.get(entry.connection)
        if track is not None:
            facts = entry.facts()
            talk = Conversation.from_state(self.routes[track.dialect], facts["state"])
            self.events.gap(track, entry.mono_ns, talk.sequence, sum(talk.offsets), facts["account"])
            track.resume(talk, facts.get("unwanted", ()))
            # an answer of the proxy that waited for its turn
            self._due(track, talk, entry.mono_ns)

    def _closed(self, entry: Entry) -> None:
        track = self.tracks.pop(entry.connection, None)
        if track is not None:
            facts = entry.facts()
            self._close(track, entry.mono_ns, facts["cause"], facts)

    def _close(self, track: Track, mono_ns: int, cause: str, facts: dict[str, Any]) -> None:
        waiting: list[Exchange] = []
        size: int | None = None
        if track.talk is not None:
            self._cut_off(track, track.talk, mono_ns)
            waiting, size = list(track.talk.in_flight), sum(track.talk.offsets)
        elif "account" in facts:
            size = sum(facts["offsets"])
            self.events.gap(track, mono_ns, facts["sequence"], size, facts["account"])
            track.sequence = facts["sequence"]
        else:
            self.events.gap(track, mono_ns, None, 0, None)
        self.events.closed(track, mono_ns, cause, size, waiting)

    def _cut_off(self, track: Track, talk: Conversation, mono_ns: int) -> None:
        """Rows for what has come of the frames that will never be whole."""
        for side in (talk.requests_side, talk.responses_side):
            direction = int(side.direction)
            part = track.parts[direction]
            if part is not None:
                exchange = side.open
                if exchange is not None and direction:
                    exchange.response_last_ns = mono_ns
                found = Found(track.kinds[direction], exchange, side.begin, side.offset + side.left)
                note = f"{c.CUT}{in_bytes(side.left)} never came"
                first_ns = track.first_ns[direction]
                self._any(track, direction, found, _without_length(part), 0, mono_ns, first_ns, note)
            elif side.held and not track.deaf[direction]:
                entry = Entry(Kind.UNFRAMED, direction, track.connection, side.offset, mono_ns, side.held)
                self._unframed(track, entry, "cut in its head")

    def _clock(self, entry: Entry) -> None:
        self.events.clock(entry.mono_ns, entry.offset - self.clock_ns)
        self.clock_ns = self.events.clock_ns = entry.offset
        self.rows.set_clock(entry.offset)

    def _node(self, entry: Entry) -> None:
        self.events.node(entry.mono_ns, entry.facts())

    def _end(self, entry: Entry) -> None:
        self.ended = True

    # to go on elsewhere

    def state(self, blob: bytearray) -> dict[str, Any]:
        """Everything needed to go on behind this range, as JSON has it; bytes go into `blob`."""
        return {
            "clock_ns": self.clock_ns,
            "last_mono_ns": self.last_mono_ns,
            "ended": self.ended,
            "tracks": [track.state(blob) for track in self.tracks.values()],
        }

    def restore(self, state: dict[str, Any], blob: bytes) -> None:
        """Goes on from what `state` gave: the JSON-able part, and the bytes beside it."""
        self.clock_ns, self.last_mono_ns, self.ended = state["clock_ns"], state["last_mono_ns"], state["ended"]
        for saved in state["tracks"]:
            track = Track.from_state(self.routes, saved, blob)
            self.tracks[track.connection] = track


def _without_length(part: bytearray) -> bytes:
    with memoryview(part) as view:
        return bytes(view[4:])
