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
from proxy.wire.framing import LENGTH
from recorder.capture import redaction
from recorder.capture.backlog import NOWHERE, Backlog, Kept
from recorder.capture.claims import Accepted, Claims
from recorder.capture.gap import Gap
from recorder.capture.sieve import Cut, Sieve
from recorder.capture.spool import Item, Kind

# what a connection may keep back: far above any honest login, far below what would hurt
MOST_KEPT = 1024 * 1024
# a SaslHandshake request: a head with a client id, and the name of a mechanism
LONGEST_HANDSHAKE = 4096
# why a conversation reads no further -> the kind of the entry that holds what it left
UNREADABLE = {
    Cause.BAD_LENGTH: Kind.BAD_LENGTH,
    Cause.UNEXPECTED_RESPONSE: Kind.UNEXPECTED_RESPONSE,
    Cause.UNSUPPORTED_VERSION: Kind.UNSUPPORTED_VERSION,
}


class Line:
    """What the tap remembers of a connection. Every method that gives items gives them in the order to be written."""

    __slots__ = (
        "_backlog",
        "_barrier",
        "_claims",
        "_left_as",
        "_names_mechanism",
        "_secret",
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
        self._backlog = Backlog()
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
        return settled and not self._backlog and self.resume == [0, 0]

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
            self._backlog.add(Kept(Kind.BYTES, direction, offset, at_ns, chunk))
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
        self._backlog.join(direction, self._barrier[direction])
        items = self._release()
        if self._backlog and any(self._secret):
            # a secret holds up the whole connection; bytes that can't be told yet, only what comes behind them
            self.unwritten += step.finished + step.one_way
            if self._backlog.cost > MOST_KEPT:
                self._give_up_waiting()
                items += self._release()
        else:
            self.unwritten = []
        return items

    def add(self, kind: Kind, direction: int, offset: int, at_ns: int, data: bytes) -> list[Item]:
        """An entry that is no bytes of a stream, in its turn."""
        self._backlog.add(Kept(kind, direction, offset, at_ns, data))
        return self._release()

    def finish(self) -> list[Item]:
        """Everything that is still kept back, as the connection ends: what can't be told from a secret is masked."""
        self._give_up_waiting()
        if self._names_mechanism:
            self._barrier[Direction.REQUEST] = NOWHERE
        items = self._release()
        head = redaction.TOKEN_HEAD if self.talk.login.pending else redaction.REQUEST_HEAD
        for direction in Direction:
            self._mask_all(direction, self._barrier[direction] + head, NOWHERE)
        for kept in self._backlog.release((NOWHERE, NOWHERE), (False, False)):
            kept.kind = int(self._left_as[kept.direction])
            items += kept.items(self.connection)
        return items

    def give_up(self) -> tuple[int, int]:
        """Forgets what is kept back. Returns the offsets behind what has been written, per direction."""
        arrived = self.talk.offsets
        self._barrier, self._secret, self._whole = [NOWHERE, NOWHERE], [None, None], [-1, -1]
        self._claims.forget()
        asked, answered = self._backlog.clear()
        return arrived[0] if asked is None else asked, arrived[1] if answered is None else answered

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
            self._backlog.note(Kept(Kind.OMITTED, direction, cut.begin, at_ns, fact))
        self._backlog.leave_out(direction, cut.start, cut.stop)

    def _note_login(self, verdict: Verdict, at_ns: int) -> None:
        facts = {"token": verdict.token, "mechanism": verdict.mechanism, "ended": verdict.ended}
        self._backlog.note(Kept(Kind.LOGIN, verdict.direction, verdict.offset, at_ns, json.dumps(facts).encode()))

    def _note_accepted(self, accepted: Accepted, offset: int) -> None:
        """From this offset of the broker's stream on, and from the client's next bytes on, somebody has logged in."""
        self.principal = accepted.name
        if self.sieve is not None:
            self.sieve.principal = accepted.name
        self._backlog.split(Direction.RESPONSE, offset)
        at_ns = self._backlog.newest(Direction.RESPONSE).at_ns
        facts = json.dumps({"principal": accepted.name, "mechanism": accepted.mechanism}).encode()
        self._backlog.note(Kept(Kind.LOGIN, Direction.RESPONSE, offset, at_ns, facts))

    def _mask(self, mark: Mark, direction: Direction) -> None:
        rule = redaction.rule(mark)
        if mark.exchange is not None and mark.exchange.api_key == redaction.SASL_HANDSHAKE and rule is None:
            self._read_handshake(mark, direction)
        if rule is None:
            return
        if mark.kind is FrameKind.TOKEN:
            self._read_token(mark, direction)
        if not rule.paths or mark.end == self._whole[direction]:
            self._mask_all(direction, max(mark.begin + rule.head, mark.start), mark.stop)
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
        behind = mark.begin + LENGTH.size
        self._backlog.mask(direction, [(behind + start, behind + stop) for start, stop in spans])
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
        accepted = self._claims.bare(direction, self._bytes(direction, mark.start, mark.stop), is_last=mark.last)
        if accepted is not None:
            self._note_accepted(accepted, mark.end)

    def _mask_all(self, direction: Direction, start: int, stop: int) -> None:
        if start < stop:
            self._backlog.mask(direction, [(start, stop)])

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
        begin = mark.begin + LENGTH.size
        whole = self._bytes(direction, begin, mark.end)
        return whole if len(whole) == mark.end - begin else None

    def _bytes(self, direction: Direction, start: int, stop: int) -> bytes:
        """What stands between two stream offsets, of what is kept back."""
        kept_back = self._backlog.since(direction, start)
        return b"".join(
            kept.data[max(start - kept.offset, 0) : stop - kept.offset] for kept in kept_back if kept.offset < stop
        )

    def _give_up_waiting(self) -> None:
        """Masks the secret frames that haven't come whole, whatever may still come of them too."""
        for direction in Direction:
            mark = self._secret[direction]
            if mark is not None:
                self._mask_all(direction, mark.begin + redaction.HEADS[mark.kind], NOWHERE)
                self._whole[direction] = mark.end
                self._barrier[direction], self._secret[direction] = NOWHERE, None

    def _release(self) -> list[Item]:
        holds_all = [secret is not None for secret in self._secret]
        released = self._backlog.release(self._barrier, holds_all)
        return [item for kept in released for item in kept.items(self.connection)]
