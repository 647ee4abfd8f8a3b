"""One connection as the tap sees it: what may be written now, what must be kept back, what is masked.

Entries are written in the order of arrival and with their times. Two things hold bytes back. Bytes whose frame isn't
known yet wait for the next chunk of their own direction. A frame with secrets waits until it is whole, because only
then are the spans known; everything of the connection waits behind it. More than MOST_KEPT kept back ends that: the
frame is then masked whole, its head excepted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from proxy.conversation.conversation import Conversation
from proxy.conversation.exchange import Cause, Direction, Exchange, FrameKind
from proxy.conversation.step import Mark, Step, Verdict
from proxy.wire import sasl
from proxy.wire.error_paths import error_codes
from proxy.wire.errors import WireError
from recorder.capture import redaction
from recorder.capture.claims import Accepted, Claims
from recorder.capture.gap import Gap
from recorder.capture.sieve import Cut, Sieve
from recorder.capture.spool import Item, Kind

# what a connection may keep back: far above any honest login, far below what would hurt
MOST_KEPT = 1024 * 1024
# a SaslHandshake request: a head with a client id, and the name of a mechanism
LONGEST_HANDSHAKE = 4096
# what an entry costs beyond its bytes: what is kept back byte by byte must not fill the memory
ENTRY_COST = 64
# a stream offset that no stream reaches
NOWHERE = 1 << 62
# why a conversation reads no further -> the kind of the entry that holds what it left
UNREADABLE = {
    Cause.BAD_LENGTH: Kind.BAD_LENGTH,
    Cause.UNEXPECTED_RESPONSE: Kind.UNEXPECTED_RESPONSE,
    Cause.UNSUPPORTED_VERSION: Kind.UNSUPPORTED_VERSION,
}


class Kept:
    """An entry to be, and the spans of it that are to be masked (offsets of the stream)."""

    __slots__ = ("at_ns", "data", "direction", "kind", "left_out", "masks", "offset")

    def __init__(self, kind: int, direction: int, offset: int, at_ns: int, data: bytes) -> None:
        self.kind = kind
        self.direction = direction
        self.offset = offset
        self.at_ns = at_ns
        self.data = data
        self.masks: list[tuple[int, int]] = []
        self.left_out: list[tuple[int, int]] = []

    @property
    def end(self) -> int:
        """Behind its last byte; an entry without a place in the stream waits for nothing."""
        return self.offset + len(self.data) if self.kind == Kind.BYTES else -1

    def mask(self, start: int, stop: int) -> None:
        """Has masked what lies in this entry of the stream offsets from `start` to `stop`."""
        start, stop = max(start, self.offset), min(stop, self.end)
        if start < stop:
            self.masks.append((start, stop))

    def leave_out(self, start: int, stop: int) -> None:
        """Has left out what lies in this entry of the stream offsets from `start` to `stop`; called in their order."""
        start, stop = max(start, self.offset), min(stop, self.end)
        if start < stop:
            self.left_out.append((start, stop))

    def split(self, at: int) -> tuple[Kept, Kept]:
        """What stands before stream offset `at`, and what stands behind it. Masks and so on are shared out."""
        front = Kept(self.kind, self.direction, self.offset, self.at_ns, self.data[: at - self.offset])
        rest = Kept(self.kind, self.direction, at, self.at_ns, self.data[at - self.offset :])
        for start, stop in self.masks:
            front.mask(start, stop)
            rest.mask(start, stop)
        for start, stop in self.left_out:
            front.leave_out(start, stop)
            rest.leave_out(start, stop)
        return front, rest

    def items(self, connection: int) -> list[Item]:
        """As it is written: bytes, and the lengths of what is left out between them."""
        found, rest = [], self
        for start, stop in self.left_out:
            front, rest = rest.split(start)
            if front.data:
                found.append(front.item(connection))
            gone, rest = rest.split(stop)
            length = json.dumps({"length": len(gone.data)}).encode()
            found.append((int(Kind.OMITTED), self.direction, connection, gone.offset, self.at_ns, length, ()))
        if rest.data or rest is self:
            found.append(rest.item(connection))
        return found

    def item(self, connection: int, kind: int | None = None) -> Item:
        """As it is written: zeros where it is masked."""
        kind = self.kind if kind is None else kind
        if not self.masks:
            return kind, self.direction, connection, self.offset, self.at_ns, self.data, ()
        spans = _merged(self.masks, self.offset)
        blanked = bytearray(self.data)
        for start, length in spans:
            blanked[start : start + length] = bytes(length)
        return kind, self.direction, connection, self.offset, self.at_ns, bytes(blanked), spans


def _merged(masks: list[tuple[int, int]], offset: int) -> tuple[tuple[int, int], ...]:
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(masks):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        else:
            merged.append((start, stop))
    return tuple((start - offset, stop - start) for start, stop in merged)


class Line:
    """What the tap remembers of a connection. Every method that gives items gives them in the order to be written."""

    __slots__ = (
        "_barrier",
        "_claims",
        "_cost",
        "_kept",
        "_left_as",
        "_names_mechanism",
        "_secret",
        "_stuck_on",
        "_whole",
        "accounted",
        "checkpoint",
        "connection",
        "gap",
        "introduction",
        "opened",
        "principal",
        "resume",
        "sieve",
        "talk",
        "unwritten",
        "where",
    )

    def __init__(self, connection: int, talk: Conversation, opened: Item, principal: str | None = None) -> None:
        self.connection = connection
        self.talk = talk
        # who has logged in, if anybody has
        self.principal = principal
        # what is left out, if anything may be
        self.sieve: Sieve | None = None
        # its cluster and its listener
        self.where: tuple[str | None, str] = (None, "")
        # its first entry, and that once more while it isn't written
        self.introduction = opened
        self.opened: Item | None = opened
        self.gap: Gap | None = None
        # the newest segment of the log when all of this was last said
        self.checkpoint = 0
        # whose response the last gap cut, and counted
        self.accounted: Exchange | None = None
        # per direction: bytes before this stream offset belong to a gap
        self.resume = [0, 0]
        # exchanges that ended in what is kept back
        self.unwritten: list[Exchange] = []
        self._kept: list[Kept] = []
        self._cost = 0
        # the secret frame that everything kept back waits behind: its direction, and where it begins
        self._stuck_on: tuple[Direction, int] | None = None
        # per direction: where bytes that can't be written yet start, the secret frame that starts there, if one does,
        # and the end of a frame that is masked whole
        self._barrier = [NOWHERE, NOWHERE]
        self._secret: list[Mark | None] = [None, None]
        self._whole = [-1, -1]
        # per direction: the kind of what is left when the connection ends
        self._left_as = [Kind.UNFRAMED, Kind.UNFRAMED]
        self._claims = Claims()
        # whether what can't be written yet is the beginning of a handshake, which holds no secret
        self._names_mechanism = False

    @property
    def calm(self) -> bool:
        """Chunks that nothing is known to be special about may be written as they come."""
        return self.sieve is None and self.settled

    @property
    def settled(self) -> bool:
        """Whether all that has come is written or given up, so that the conversation's state is that of the log."""
        settled = self.gap is None and self.opened is None
        return settled and not self._kept and self.resume == [0, 0]

    def take(
        self, direction: Direction, offset: int, chunk: bytes, at_ns: int, step: Step, cuts: Iterable[Cut] = ()
    ) -> list[Item]:
        """What may be written after this chunk has come.

        Args:
            offset: of the chunk in its stream.
            cuts: what is left out.
        """
        for verdict in step.verdicts:
            self._note_login(verdict, at_ns)
        if chunk:
            self._kept.append(Kept(Kind.BYTES, direction, offset, at_ns, chunk))
            self._cost += len(chunk) + ENTRY_COST
        self._barrier[direction] = step.offset + step.stop if step.unclassified else NOWHERE
        self._secret[direction] = None
        if step.cause is not None:
            self._left_as[direction] = UNREADABLE.get(step.cause, Kind.UNFRAMED)
        if direction is Direction.REQUEST:
            self._names_mechanism = False
        for mark in step.marks:
            if mark.begin < mark.end and mark.begin >= self.resume[direction]:
                self._mask(mark, direction)
        for cut in cuts:
            self._leave_out(cut, direction, at_ns)
        if direction is Direction.REQUEST and self.sieve is not None:
            self._barrier[direction] = min(self._barrier[direction], self.sieve.undecided)
        items = self._release()
        if self._kept and any(self._secret):
            # a secret holds up the whole connection; bytes that can't be told yet, only what comes behind them
            self.unwritten += step.finished + step.one_way
            if self._cost > MOST_KEPT:
                self._give_up_waiting()
                items += self._release()
        else:
            self.unwritten = []
        return items

    def add(self, kind: Kind, direction: int, offset: int, at_ns: int, data: bytes) -> list[Item]:
        """An entry that is no bytes of a stream, in its turn."""
        self._kept.append(Kept(kind, direction, offset, at_ns, data))
        return self._release()

    def finish(self) -> list[Item]:
        """Everything that is still kept back, as the connection ends: what can't be told from a secret is masked."""
        self._give_up_waiting()
        if self._names_mechanism:
            self._barrier[Direction.REQUEST] = NOWHERE
        items = self._release()
        head = redaction.TOKEN_HEAD if self.talk.login.pending else redaction.REQUEST_HEAD
        for kept in self._kept:
            kept.mask(self._barrier[kept.direction] + head, NOWHERE)
            items.append(kept.item(self.connection, self._left_as[kept.direction]))
        self._kept, self._cost = [], 0
        return items

    def give_up(self) -> tuple[int, int]:
        """Forgets what is kept back. Returns the offsets behind what has been written, per direction."""
        offsets = list(self.talk.offsets)
        for kept in reversed(self._kept):
            if kept.kind == Kind.BYTES:
                offsets[kept.direction] = kept.offset
        self._kept, self._cost, self._stuck_on = [], 0, None
        self._barrier, self._secret, self._whole = [NOWHERE, NOWHERE], [None, None], [-1, -1]
        self._claims.forget()
        return offsets[0], offsets[1]

    def skip(self, direction: Direction, offset: int, chunk: bytes) -> tuple[int, bytes]:
        """The part of a chunk that a gap's end leaves to be recorded, and its offset."""
        until = self.resume[direction]
        if offset + len(chunk) < until:
            return until, b""
        self.resume[direction] = 0
        lost = max(until - offset, 0)
        return offset + lost, chunk[lost:]

    def _leave_out(self, cut: Cut, direction: Direction, at_ns: int) -> None:
        if cut.whole and cut.begin >= self.resume[direction]:
            # before the frame's first byte: it is to be no row
            fact = json.dumps({"length": 0, "frame": True}).encode()
            self._insert(Kept(Kind.OMITTED, direction, cut.begin, at_ns, fact))
        # from the newest on: what has been cut before is not looked at again
        for kept in reversed(self._kept):
            if kept.direction == direction and kept.kind == Kind.BYTES:
                kept.leave_out(cut.start, cut.stop)
                if kept.offset <= cut.start:
                    return

    def _note_login(self, verdict: Verdict, at_ns: int) -> None:
        facts = {"token": verdict.token, "mechanism": verdict.mechanism, "ended": verdict.ended}
        entry = Kept(Kind.LOGIN, verdict.direction, verdict.offset, at_ns, json.dumps(facts).encode())
        self._insert(entry)

    def _insert(self, entry: Kept) -> None:
        """Before the bytes that it is about, of which some may have been kept back."""
        about = (
            n for n, kept in enumerate(self._kept) if kept.direction == entry.direction and kept.end > entry.offset
        )
        self._kept.insert(next(about, len(self._kept)), entry)

    def _note_accepted(self, accepted: Accepted, offset: int) -> None:
        """From this offset of the broker's stream on, and from the client's next bytes on, somebody has logged in."""
        self.principal = accepted.name
        if self.sieve is not None:
            self.sieve.principal = accepted.name
        facts = json.dumps({"principal": accepted.name, "mechanism": accepted.mechanism}).encode()
        number, last = next(
            (number, kept)
            for number, kept in reversed([*enumerate(self._kept)])
            if kept.kind == Kind.BYTES and kept.direction == Direction.RESPONSE and kept.offset < offset
        )
        entry = Kept(Kind.LOGIN, Direction.RESPONSE, offset, last.at_ns, facts)
        front, rest = last.split(offset)
        self._kept[number : number + 1] = [front, entry, rest] if rest.data else [front, entry]

    def _mask(self, mark: Mark, direction: Direction) -> None:
        rule = redaction.rule(mark)
        if mark.exchange is not None and mark.exchange.api_key == redaction.SASL_HANDSHAKE and rule is None:
            self._read_handshake(mark, direction)
        if rule is None:
            return
        if mark.kind is FrameKind.TOKEN:
            self._read_token(mark, direction)
        if not rule.paths or mark.end == self._whole[direction]:
            self._mask_all(direction, mark.begin + rule.head, mark.stop)
        elif mark.last:
            self._mask_values(mark, direction, rule)
        else:
            self._barrier[direction], self._secret[direction] = mark.begin, mark

    def _mask_values(self, mark: Mark, direction: Direction, rule: redaction.Rule) -> None:
        frame = self._frame(mark, direction)
        try:
            if frame is None or mark.exchange is None:
                raise WireError("not all of the frame is at hand")
            spans = redaction.secret_spans(mark.kind, mark.exchange, frame, rule.paths)
        except WireError:
            self._mask_all(direction, mark.begin + rule.head, mark.end)
            return
        for start, stop in spans:
            self._mask_all(direction, mark.begin + 4 + start, mark.begin + 4 + stop)
        if mark.exchange.api_key == redaction.SASL_AUTHENTICATE:
            self._read_login(mark, mark.exchange, frame, b"".join(frame[start:stop] for start, stop in spans))

    def _read_login(self, mark: Mark, exchange: Exchange, frame: bytes, token: bytes) -> None:
        if mark.kind is FrameKind.REQUEST:
            self._claims.asked(token, exchange.number)
            return
        is_error = error_codes(frame, exchange.api_key, exchange.api_version) != []
        accepted = self._claims.answered(None if is_error else token, exchange.number)
        if accepted is not None:
            self._note_accepted(accepted, mark.end)

    def _read_token(self, mark: Mark, direction: Direction) -> None:
        accepted = self._claims.bare(direction, self._stretch(direction, mark.start, mark.stop), is_last=mark.last)
        if accepted is not None:
            self._note_accepted(accepted, mark.end)

    def _mask_all(self, direction: Direction, start: int, stop: int) -> None:
        for kept in self._kept:
            if kept.direction == direction and kept.kind == Kind.BYTES:
                kept.mask(start, stop)

    def _read_handshake(self, mark: Mark, direction: Direction) -> None:
        if mark.kind is not FrameKind.REQUEST:
            return
        if not mark.last:
            # it names the mechanism, so its beginning must still be at hand when its end comes
            if mark.end - mark.begin <= LONGEST_HANDSHAKE:
                self._barrier[direction] = mark.begin
                self._names_mechanism = True
            return
        frame = self._frame(mark, direction)
        if frame is not None:
            self._claims.begin(sasl.handshake_mechanism(frame))

    def _frame(self, mark: Mark, direction: Direction) -> bytes | None:
        """The frame behind its length, out of what is kept; None if some of it has gone."""
        begin = mark.begin + 4
        whole = self._stretch(direction, begin, mark.end)
        return whole if len(whole) == mark.end - begin else None

    def _stretch(self, direction: Direction, start: int, stop: int) -> bytes:
        """What is kept of a stream between two offsets."""
        pieces = [kept for kept in self._kept if kept.kind == Kind.BYTES and kept.direction == direction]
        return b"".join(
            kept.data[max(start - kept.offset, 0) : stop - kept.offset] for kept in pieces if kept.offset < stop
        )

    def _give_up_waiting(self) -> None:
        """Masks the secret frames that haven't come whole, whatever may still come of them too."""
        for direction in Direction:
            mark = self._secret[direction]
            if mark is not None:
                self._mask_all(direction, mark.begin + redaction.HEADS[mark.kind], NOWHERE)
                self._whole[direction] = mark.end
                self._barrier[direction], self._secret[direction] = NOWHERE, None

    def _is_stuck(self) -> bool:
        if self._stuck_on is None:
            return False
        direction, begin = self._stuck_on
        secret = self._secret[direction]
        return secret is not None and secret.begin == begin

    def _release(self) -> list[Item]:
        if self._is_stuck():
            # as before: a frame that comes byte by byte is not looked through for every byte
            return []
        self._stuck_on = None
        items: list[Item] = []
        waiting: list[Kept] = []
        for kept in self._kept:
            barrier = self._barrier[kept.direction]
            if self._stuck_on is None and kept.offset < barrier < kept.end:
                front, kept = kept.split(barrier)
                items += front.items(self.connection)
            if self._stuck_on is not None or kept.end > barrier:
                waiting.append(kept)
                secret = self._secret[kept.direction]
                if secret is not None and self._stuck_on is None:
                    self._stuck_on = Direction(kept.direction), secret.begin
            else:
                items += kept.items(self.connection)
        self._kept = waiting
        self._cost = sum(len(kept.data) + ENTRY_COST for kept in waiting)
        return items
