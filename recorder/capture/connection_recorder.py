"""The tap's record of one connection: decides which bytes are written now, which are kept back, and which are masked.

Entries have their times of arrival, and each direction's bytes are written in order. Bytes are kept back for two
reasons. Bytes that can't be judged yet (an incomplete head, an incomplete SaslHandshake, an undecided request) wait for
the next chunk of their direction; the opposite direction goes on. A frame that is searched for secrets waits until all
of it has come, because only then are all its secrets known; all later bytes of the connection wait behind it. Once the
kept-back entries take more than MAX_KEPT bytes of memory, the waiting frame is masked except for its head.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from proxy.conversation.conversation import Conversation
from proxy.conversation.exchange import Cause, Direction, Exchange, FrameKind
from proxy.conversation.step import Mark, Step, Verdict
from proxy.wire import sasl
from proxy.wire.catalog import Search
from proxy.wire.errors import Truncated, WireError
from proxy.wire.framing import LENGTH, RESPONSE_HEAD
from proxy.wire.keys import SASL_AUTHENTICATE, SASL_HANDSHAKE
from recorder.capture import redaction
from recorder.capture.backlog import NOWHERE, Backlog, PendingEntry
from recorder.capture.claims import Accepted, Claims
from recorder.capture.frame_filter import FrameFilter, Omission
from recorder.capture.gap import Gap
from recorder.capture.spool import EntryKind, Item

# memory of the entries that a connection may keep back: far more than any honest login takes, too little to hurt
MAX_KEPT = 1024 * 1024
# secrets in one frame: masking more of them one by one would stop all connections for milliseconds
MAX_SECRETS = 4096
# bytes of a SaslHandshake request: more than a head with a client id and the name of a mechanism take
LONGEST_HANDSHAKE = 4096
# the cause that ends a conversation -> the kind of the entry that holds the bytes after it
UNREADABLE = {
    Cause.BAD_LENGTH: EntryKind.BAD_LENGTH,
    Cause.UNEXPECTED_RESPONSE: EntryKind.UNEXPECTED_RESPONSE,
    Cause.UNSUPPORTED_VERSION: EntryKind.UNSUPPORTED_VERSION,
}
# what an OMITTED entry says where a frame begins that becomes no row
_LEFT_OUT_FRAME = b'{"length":0,"frame":true}'


class ConnectionRecorder:
    """The record of one connection. Methods that return items return them in the order in which to write them."""

    __slots__ = (
        "_backlog",
        "_barrier",
        "_claims",
        "_holds_handshake",
        "_leftover_kinds",
        "_masked_until",
        "_searches",
        "_unframed_from",
        "_waiting_marks",
        "checkpoint_segment",
        "client",
        "cluster_and_listener",
        "connection",
        "conversation",
        "counted_exchange",
        "ended_unwritten",
        "frame_filter",
        "gap",
        "opened_entry",
        "principal",
        "resume_at",
        "unwritten_opened",
        "upstream",
    )

    def __init__(
        self,
        connection: int,
        conversation: Conversation,
        opened: Item,
        principal: str | None = None,
        client: str = "",
        upstream: str | None = None,
    ) -> None:
        self.connection = connection
        # the addresses of the client and of the broker
        self.client, self.upstream = client, upstream
        self.conversation = conversation
        # the principal of the last accepted login, if there was one
        self.principal = principal
        # None if nothing is left out
        self.frame_filter: FrameFilter | None = None
        self.cluster_and_listener: tuple[str | None, str] = (None, "")
        # the connection's first entry; `unwritten_opened`: None once it is written
        self.opened_entry = opened
        self.unwritten_opened: Item | None = opened
        self.gap: Gap | None = None
        # the log's segment for which the last checkpoint was written
        self.checkpoint_segment = 0
        # the exchange whose response was arriving when the last gap ended: that gap has counted the response as lost
        self.counted_exchange: Exchange | None = None
        # per direction: bytes before this stream offset belong to the last gap; 0 once that offset is reached
        self.resume_at = [0, 0]
        # exchanges that ended in bytes that are kept back
        self.ended_unwritten: list[Exchange] = []
        self._backlog = Backlog()
        # each list below has a value for each direction. `_barrier`: the stream offset from which on bytes must wait
        self._barrier = [NOWHERE, NOWHERE]
        # the mark of the frame at the barrier, if the frame waits to be searched for secrets
        self._waiting_marks: list[Mark | None] = [None, None]
        # the end of a frame that is masked whole
        self._masked_until = [-1, -1]
        # the search in the frame that is arriving
        self._searches: list[Search | None] = [None, None]
        # the stream offset at which framing has ended
        self._unframed_from = [NOWHERE, NOWHERE]
        # the kind of entry for the bytes that are still kept back when the connection ends
        self._leftover_kinds = [EntryKind.UNFRAMED, EntryKind.UNFRAMED]
        self._claims = Claims()
        # True while the client's bytes that wait are the beginning of a SaslHandshake, which holds no secret
        self._holds_handshake = False

    @property
    def is_settled(self) -> bool:
        """True if the log has all bytes that the conversation has taken: none wait, and no gap lasts."""
        is_settled = self.gap is None and self.unwritten_opened is None
        return (
            is_settled and not self._backlog and self.resume_at == [0, 0] and self._unframed_from == [NOWHERE, NOWHERE]
        )

    def take(
        self,
        direction: Direction,
        offset: int,
        chunk: bytes,
        at_ns: int,
        step: Step,
        omissions: Iterable[Omission] = (),
    ) -> list[Item]:
        """Takes a chunk; returns the items that may be written now.

        Args:
            offset: the stream offset of the chunk.
            omissions: the bytes of the step that are left out.
        """
        if self._passes_at_once(step):
            pending = PendingEntry(EntryKind.BYTES, direction, offset, at_ns, chunk)
            for omission in omissions:
                pending.leave_out(omission.start, omission.stop, are_records=omission.are_records)
                if omission.begins_left_out_frame or omission.counted:
                    pending.add_before(_of_frame(omission, direction, at_ns))
            return [*pending.items(self.connection)]
        for verdict in step.verdicts:
            self._note_login(verdict, at_ns)
        if chunk:
            self._backlog.add(PendingEntry(EntryKind.BYTES, direction, offset, at_ns, chunk))
        self._barrier[direction] = step.offset + step.stop if step.unclassified else NOWHERE
        self._waiting_marks[direction] = None
        if step.cause is not None:
            self._leftover_kinds[direction] = UNREADABLE.get(step.cause, EntryKind.UNFRAMED)
        if direction is Direction.REQUEST:
            self._holds_handshake = False
        for mark in step.marks:
            if mark.begin < mark.end and self.resume_at[direction] <= mark.begin < self._unframed_from[direction]:
                self._mask(mark, direction, step)
        if self._unframed_from[direction] != NOWHERE:
            self._mask_stretch(direction, self._unframed_from[direction], NOWHERE)
            self._barrier[direction] = NOWHERE
        for omission in omissions:
            self._leave_out(omission, direction, at_ns)
        if direction is Direction.REQUEST and self.frame_filter is not None:
            self._barrier[direction] = min(self._barrier[direction], self.frame_filter.undecided)
        self._backlog.join(direction, self._barrier[direction])
        items = self._release()
        if self._backlog and any(self._waiting_marks):
            # a frame with secrets holds up the whole connection; unclassified bytes hold up only their direction
            self.ended_unwritten += step.finished + step.one_way
            if self._backlog.cost > MAX_KEPT:
                self._give_up_waiting()
                items += self._release()
        else:
            self.ended_unwritten = []
        return items

    def _passes_at_once(self, step: Step) -> bool:
        """True if nothing in the step is masked, and nothing must wait."""
        is_plain = step.stop == len(step.data) and step.cause is None and not (step.marks or step.verdicts)
        is_decided = self.frame_filter is None or self.frame_filter.undecided == NOWHERE
        return is_plain and is_decided and self.is_settled

    def add(self, kind: EntryKind, direction: int, offset: int, at_ns: int, data: bytes) -> list[Item]:
        """Adds a control entry. Returns the items that may be written now."""
        self._backlog.add(PendingEntry(kind, direction, offset, at_ns, data))
        return self._release()

    def finish(self) -> list[Item]:
        """The items that are still kept back, for the end of the connection; bytes that may be a secret are masked."""
        self._give_up_waiting()
        if self._holds_handshake:
            self._barrier[Direction.REQUEST] = NOWHERE
        items = self._release()
        head = redaction.UNFRAMED_HEADS[self.conversation.dialect]
        for direction in Direction:
            if self._leftover_kinds[direction] is EntryKind.UNEXPECTED_RESPONSE:
                self._mask_between_heads(direction, self._barrier[direction])
            else:
                self._mask_stretch(direction, self._barrier[direction] + head, NOWHERE)
        for pending in self._backlog.release((NOWHERE, NOWHERE), (False, False)):
            pending.kind = int(self._leftover_kinds[pending.direction])
            items += pending.items(self.connection)
        return items

    def _mask_between_heads(self, direction: Direction, start: int) -> None:
        """Masks responses that end the connection, from the one at stream offset `start` on, except for their heads.

        Heads show which response came before which. Where the first head is, is known. Behind it, bytes count as a head
        only if their correlation id is that of a request in flight: any others may be a piece of a secret.
        """
        if start == NOWHERE:
            return
        awaited = {exchange.correlation_id for exchange in self.conversation.in_flight}
        rest, stretches = self._bytes(direction, start, NOWHERE), list[tuple[int, int]]()
        head = max(redaction.RESPONSE_HEAD, redaction.UNFRAMED_HEADS[self.conversation.dialect])
        at = 0
        while True:
            size, _ = RESPONSE_HEAD.unpack_from(rest, at) if len(rest) - at >= RESPONSE_HEAD.size else (-1, 0)
            following = at + LENGTH.size + size
            is_next = size >= 0 and len(rest) - following >= RESPONSE_HEAD.size
            if not is_next or RESPONSE_HEAD.unpack_from(rest, following)[1] not in awaited:
                break
            stretches.append((start + at + head, start + following))
            at = following
        stretches.append((start + at + head, NOWHERE))
        # all at once: a flood of small responses in many chunks is looked at once
        self._backlog.mask(direction, [(first, stop) for first, stop in stretches if first < stop])

    def drop_kept_back(self) -> tuple[int, int]:
        """Drops all kept-back bytes, for a gap. Returns the stream offset after the written bytes, per direction."""
        arrived = self.conversation.offsets
        self._barrier, self._waiting_marks, self._masked_until = [NOWHERE, NOWHERE], [None, None], [-1, -1]
        self._claims.forget()
        self._searches = [None, None]
        requests, responses = self._backlog.clear()
        return arrived[0] if requests is None else requests, arrived[1] if responses is None else responses

    def skip_gap(self, direction: Direction, offset: int, chunk: bytes) -> tuple[int, bytes]:
        """Skips the bytes of the last gap. Returns the stream offset and the bytes of a chunk's rest."""
        until = self.resume_at[direction]
        if offset + len(chunk) < until:
            return until, b""
        self.resume_at[direction] = 0
        lost = max(until - offset, 0)
        return offset + lost, chunk[lost:]

    def _leave_out(self, omission: Omission, direction: Direction, at_ns: int) -> None:
        says_more = omission.begins_left_out_frame or omission.counted
        if says_more and omission.begin >= self.resume_at[direction]:
            self._backlog.add_before_offset(_of_frame(omission, direction, at_ns))
        self._backlog.leave_out(direction, omission.start, omission.stop, are_records=omission.are_records)

    def _note_login(self, verdict: Verdict, at_ns: int) -> None:
        fields = {"token": verdict.token, "mechanism": verdict.mechanism, "ended": verdict.ended}
        self._backlog.add_before_offset(
            PendingEntry(EntryKind.LOGIN, verdict.direction, verdict.offset, at_ns, json.dumps(fields).encode())
        )

    def _note_accepted(self, accepted: Accepted | None, offset: int) -> None:
        """Notes an accepted principal, if there is one.

        Responses belong to this principal from stream offset `offset` on, requests from the client's next bytes on.
        """
        if accepted is None:
            return
        self.principal = accepted.name
        if self.frame_filter is not None:
            self.frame_filter.principal = accepted.name
        self._backlog.split(Direction.RESPONSE, offset)
        at_ns = self._backlog.newest(Direction.RESPONSE).at_ns
        fields = json.dumps({"principal": accepted.name, "mechanism": accepted.mechanism}).encode()
        self._backlog.add_before_offset(PendingEntry(EntryKind.LOGIN, Direction.RESPONSE, offset, at_ns, fields))

    def _mask(self, mark: Mark, direction: Direction, step: Step) -> None:
        rule = redaction.rule(mark)
        if mark.exchange is not None and mark.exchange.api_key == SASL_HANDSHAKE and rule is None:
            self._read_handshake(mark, direction)
        if rule is None:
            return
        if mark.kind is FrameKind.TOKEN:
            piece = self._bytes(direction, mark.start, mark.stop)
            self._note_accepted(self._claims.take_bare_piece(direction, piece, is_last=mark.last), mark.end)
        if rule.searched and mark.end != self._masked_until[direction]:
            self._search(mark, direction, step, rule)
        else:
            self._mask_stretch(direction, max(mark.begin + rule.head, mark.start), mark.stop)

    def _search(self, mark: Mark, direction: Direction, step: Step, rule: redaction.Rule) -> None:
        """Searches a piece of a frame for secrets. The frame waits for its last piece; then the secrets are masked."""
        assert mark.exchange is not None
        if mark.first:
            self._searches[direction] = redaction.search(mark.kind, mark.exchange)
        search = self._searches[direction]
        try:
            if search is None:
                raise WireError("the frame's beginning is in a gap")
            search.feed(memoryview(step.data)[mark.start - step.offset : mark.stop - step.offset])
            if len(search) > MAX_SECRETS:
                raise WireError("there are too many secrets to mask one by one")
            if not mark.last:
                self._barrier[direction], self._waiting_marks[direction] = mark.begin, mark
                return
            secrets = [(mark.begin + start, mark.begin + stop) for start, stop in search.found()]
        except WireError as error:
            self._mask_whole(mark, direction, rule.head)
            if mark.last and isinstance(error, Truncated):
                # the message is longer than its frame: the bytes after the frame may be the rest of a secret
                self._unframed_from[direction] = mark.end
            return
        self._backlog.mask(direction, secrets)
        if mark.exchange.api_key == SASL_AUTHENTICATE:
            self._read_login(mark, mark.exchange, direction)

    def _read_login(self, mark: Mark, exchange: Exchange, direction: Direction) -> None:
        token = redaction.sasl_token(mark.kind, exchange, self._bytes(direction, mark.begin + LENGTH.size, mark.end))
        if mark.kind is FrameKind.RESPONSE:
            self._note_accepted(self._claims.take_answer(token, exchange.number), mark.end)
        elif token is not None:
            self._claims.take_client_token(token, exchange.number)

    def _mask_whole(self, mark: Mark, direction: Direction, head: int) -> None:
        """Masks a frame except for its first `head` bytes. The frame's later bytes are masked when they come."""
        self._mask_stretch(direction, mark.begin + head, mark.end)
        self._masked_until[direction] = mark.end

    def _mask_stretch(self, direction: Direction, start: int, stop: int) -> None:
        if start < stop:
            self._backlog.mask(direction, [(start, stop)])

    def _read_handshake(self, mark: Mark, direction: Direction) -> None:
        if mark.kind is not FrameKind.REQUEST:
            return
        if not mark.last:
            # the frame is kept back until all of it has come, because the mechanism's name is read from it
            if mark.end - mark.begin <= LONGEST_HANDSHAKE:
                self._barrier[direction] = mark.begin
                self._holds_handshake = True
            return
        frame = self._bytes(direction, mark.begin, mark.end)
        if len(frame) == mark.end - mark.begin:
            self._claims.begin_login(sasl.handshake_mechanism(frame[LENGTH.size :]))

    def _bytes(self, direction: Direction, start: int, stop: int) -> bytes:
        """The kept-back bytes between two stream offsets."""
        kept_back = self._backlog.since(direction, start)
        return b"".join(
            pending.data[max(start - pending.offset, 0) : stop - pending.offset]
            for pending in kept_back
            if pending.offset < stop
        )

    def _give_up_waiting(self) -> None:
        """Masks the waiting frames except for their heads, instead of searching them until their ends come."""
        for direction in Direction:
            mark = self._waiting_marks[direction]
            if mark is not None:
                self._mask_whole(mark, direction, redaction.HEADS[mark.kind])
                self._barrier[direction], self._waiting_marks[direction] = NOWHERE, None

    def _release(self) -> list[Item]:
        holds_all = [mark is not None for mark in self._waiting_marks]
        released = self._backlog.release(self._barrier, holds_all)
        return [item for pending in released for item in self._items(pending)]

    def _items(self, pending: PendingEntry) -> Iterator[Item]:
        """The items of an entry. Bytes from `_unframed_from` on become UNFRAMED entries."""
        unframed_from = self._unframed_from[pending.direction] if pending.kind == EntryKind.BYTES else NOWHERE
        if pending.offset < unframed_from < pending.end:
            front, pending = pending.split(unframed_from)
            yield from front.items(self.connection)
        if pending.offset >= unframed_from:
            pending.kind = int(EntryKind.UNFRAMED)
        yield from pending.items(self.connection)


def _of_frame(omission: Omission, direction: Direction, at_ns: int) -> PendingEntry:
    """The entry that says that a frame becomes no row, or what was only counted of its batches."""
    if omission.begins_left_out_frame:
        told = _LEFT_OUT_FRAME
    else:
        told = json.dumps({"length": 0, "counted": omission.counted}).encode()
    return PendingEntry(EntryKind.OMITTED, direction, omission.begin, at_ns, told)
