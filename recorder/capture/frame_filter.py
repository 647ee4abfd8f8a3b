"""Decides which frames, or which bytes after their heads, are left out of one connection's recording.

Used by the tap if the settings leave anything out. A request is selected by its API, its client id, its connection's
principal, and its topics; a response is selected with its request. If the client id or the topics decide, the request's
bytes wait until these are known (the request is *undecided*). The bytes that framing and pairing need are always kept.
In place of bytes that are left out, the log holds their number, with which the compactor still frames and counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, MutableMapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from proxy.conversation.acks import acks_at
from proxy.conversation.conversation import Conversation
from proxy.conversation.exchange import Direction, Exchange, FrameKind
from proxy.conversation.step import Step
from proxy.wire.dialects import Dialect
from proxy.wire.errors import WireError
from proxy.wire.framing import LENGTH
from proxy.wire.headers import CLIENT_ID_SIZE_AT
from proxy.wire.keys import PRODUCE, SASL_HANDSHAKE
from proxy.wire.records.walk import Span
from recorder.capture.backlog import NOWHERE
from recorder.capture.frame_spans import ArrivingFrame, FrameSpan, begun_in, request_spans, response_spans, take_number
from recorder.capture.record_filter import RecordFilter
from recorder.capture.selection import OTHER, LeftOutBy, Selection
from recorder.capture.session_topics import SessionTopics
from recorder.capture.spool import Spans
from recorder.capture.topic_choice import SESSION_WITHIN, TopicChoice
from recorder.capture.topic_ids import TopicIds

# offsets in a request, its length field included: of the client id's size, and of the client id
FRAMED_SIZE_AT = LENGTH.size + CLIENT_ID_SIZE_AT
FRAMED_ID_AT = FRAMED_SIZE_AT + 2
# the most bytes of a client id that are matched. Longer ids would cost too much: with each further chunk, an undecided
# request is read again from its beginning
LONGEST_CLIENT_ID = 256
LONGEST_HEAD = FRAMED_ID_AT + LONGEST_CLIENT_ID
# bytes at a frame's beginning that are always kept: length and correlation id of a response; length and type or error
# code of a frame of the dialect of 0.7; the length alone of a frame without an exchange
RESPONSE_HEAD, HEAD_07, LENGTH_SIZE = 8, 6, 4
_API = attrgetter("route.api_and_version")
_START = attrgetter("start")


class Omission(NamedTuple):
    """The bytes of a frame from `start` to `stop` are left out; the frame begins at `begin` (all are stream offsets).

    `begins_left_out_frame`: True for the first omission of a frame that becomes no row. `are_records`: a rule for
    records leaves the bytes out. `counted`: see `RecordSpans`.
    """

    begin: int
    start: int
    stop: int
    begins_left_out_frame: bool
    are_records: bool = False
    counted: Sequence[tuple[str, int, int, int, int]] = ()


class FrameFilter:
    """The filter of one connection with its current `principal`."""

    def __init__(
        self,
        conversation: Conversation,
        selection: Selection,
        topic_ids: TopicIds,
        sessions: SessionTopics,
        left_out_frames: MutableMapping[LeftOutBy, int],
        *,
        is_selected: bool,
        principal: str | None,
        client: str = "",
    ) -> None:
        """Makes a filter.

        Args:
            topic_ids: those of the connection's cluster.
            sessions: those with its broker.
            left_out_frames: counts the frames that are left out, for this filter and others.
            client: the client's address.
        """
        self.selection = selection
        self._client, self._host = client, client.rpartition(":")[0]
        # True if the connection is recorded at all
        self.is_selected = is_selected
        self.principal = principal
        # the stream offset of the undecided request, if there is one
        self.undecided = NOWHERE
        # what `take_counts` tells, or adds to `left_out_frames`
        self._matched = self._left_out_by_topics = self._left_out_bytes = 0
        self._left_out_frames = left_out_frames
        self._conversation = conversation
        self._is_kafka07 = conversation.dialect is Dialect.KAFKA_07
        self._records = RecordFilter(selection.rules, topic_ids, is_kafka07=self._is_kafka07)
        self._topics = TopicChoice(self._records, topic_ids, sessions)
        # numbers of the exchanges whose requests were left out and whose responses have not come
        self._left_out_responses: deque[int] = deque()
        # those of them that were not left out by their topics, in their order
        self._other_causes: dict[int, LeftOutBy] = {}
        # per direction: the frame that was incomplete at the end of the last step
        self._arriving = [
            ArrivingFrame.between_steps(conversation, direction, FrameKind.REQUEST) for direction in Direction
        ]
        # per direction: the stream offset from which on the arriving frame is left out
        self._omit_from = [NOWHERE, NOWHERE]
        # the number of the first request of the next step, if `plain_spans` tells of it
        self._next_request_number = conversation.next_request_number
        # per direction: True if the frame that arrives, or has arrived last, becomes no row
        self._is_left_out = [False, False]
        # the bytes of the undecided request that have come, as far as they decide, and the record data in it
        self._undecided_bytes = bytearray()
        self._undecided_records = list[Span]()
        # per direction: the APIs and versions whose frames no rule looks into, as far as they have been met
        self._untouched: tuple[set[int], set[int]] = (set(), set())
        # those of requests that a choice of topics looks into, but that hold no records
        self._without_records = set[int]()
        # what `plain_spans` has decided of a step but can't tell: `omissions` tells it next
        self._decided: list[Omission] | None = None
        # True if a choice of topics may leave frames out
        self._chooses = not selection.rules.only.matches_all
        # True once there may be exchanges that nobody can read
        self._may_be_opaque = any(exchange.opaque is not None for exchange in conversation.in_flight)

    def select(self, selection: Selection, *, is_selected: bool) -> None:
        """Uses another selection for all frames that begin from here on."""
        self.selection, self.is_selected = selection, is_selected
        self._chooses = not selection.rules.only.matches_all
        self._records.use(selection.rules)
        for known in (*self._untouched, self._without_records):
            known.clear()

    @property
    def left_out_responses(self) -> list[int]:
        """The numbers of the exchanges whose responses will be left out."""
        return [*self._left_out_responses]

    def resume(self) -> None:
        """Goes on after bytes of which this filter has not seen all: their frames are not recorded.

        The conversation has passed over bytes, or a call was broken off by a fault. The responses to requests that were
        not decided are left out.
        """
        for direction, before in enumerate(self._arriving):
            usual = FrameKind.RESPONSE if direction else FrameKind.REQUEST
            kind = usual if before is None else before.kind
            now = ArrivingFrame.between_steps(self._conversation, direction, kind)
            self._arriving[direction] = now
            if now is None:
                self._omit_from[direction] = NOWHERE
        first = self._next_request_number - (self.undecided != NOWHERE)
        undecided = [exchange.number for exchange in self._conversation.in_flight if exchange.number >= first]
        self._left_out_responses = deque(sorted({*self._left_out_responses, *undecided}))
        self._other_causes |= dict.fromkeys(undecided, LeftOutBy.FAULT)
        self._next_request_number = self._conversation.next_request_number
        self._decided = None
        self._forget_undecided()
        self._records.resume()
        self._topics.resume()

    def _forget_undecided(self) -> None:
        self.undecided, self._undecided_bytes, self._undecided_records = NOWHERE, bytearray(), []

    @property
    def omits_nothing(self) -> bool:
        """True if nothing is left out from here on."""
        return (
            self.is_selected
            and self.selection.selects_everything
            and not self._left_out_responses
            and self._omit_from == [NOWHERE, NOWHERE]
            and self.undecided == NOWHERE
            and self._records.is_idle
        )

    @property
    def is_of_topics(self) -> bool:
        """True if topics alone decide what is left out from here on, so that `plain_spans` may be asked."""
        selection = self.selection
        may_pass = self.is_selected and selection.selects_by_topics_alone and not selection.rules.keeps_everything
        is_plain = not (self._is_kafka07 or self._may_be_opaque or self._other_causes)
        return may_pass and is_plain and self.undecided == NOWHERE

    def plain_spans(self, direction: Direction, step: Step) -> Spans | None:
        """What rules for records leave out of a step, if nothing else is left out of it.

        None: `omissions` must be called, as for any other step; if this tells it, `omissions` must not be called. Most
        frames come whole, hold no records and name no topics, and there may be very many, so they take little time.
        Needs a step whose marks mask nothing. Returns (start, length) in offsets of the step's data.
        """
        conversation, arriving = self._conversation, self._arriving[direction]
        side = conversation.responses_side if direction else conversation.requests_side
        if step.unanswered or step.opaque_reasons:
            return None
        if arriving is not None or side.bytes_left:
            return self._told(step.offset, self._omissions_by_frame(direction, step))
        exchanges = step.finished if direction else begun_in(conversation, step, self._next_request_number)
        left_out, untouched = self._left_out_responses, self._untouched[direction]
        if left_out and direction and exchanges and exchanges[-1].number >= left_out[0]:
            untouched = set()
        if len(exchanges) == 1 and not left_out:
            spans = self._known_spans(direction, exchanges[0], step.data)
        else:
            spans = () if untouched.issuperset(map(_API, exchanges)) else None
        if spans is None:
            return self._decide(direction, step, exchanges, untouched)
        if not direction:
            self._next_request_number = conversation.next_request_number
        return spans

    def _known_spans(self, direction: Direction, exchange: Exchange, frame: bytes) -> Spans | None:
        """`plain_spans` of a whole frame that no rule looks into, or that is like an earlier one; None: of another."""
        api_and_version = exchange.route.api_and_version
        if api_and_version in self._untouched[direction]:
            return ()
        known = self._records.known(direction, api_and_version, frame)
        if known is None or (self._chooses and not self._takes_whole(direction, exchange, frame)):
            return None
        return known.left_out

    def _decide(self, direction: Direction, step: Step, exchanges: list[Exchange], untouched: set[int]) -> Spans | None:
        """`plain_spans` of the frames of these exchanges, which are all that the step has.

        `untouched`: APIs and versions whose frames are kept whole.
        """
        frames: list[tuple[Exchange, int, int]] = []
        at = 0
        for exchange in exchanges:
            if exchange.own_answer is not None:
                return None
            start = at
            at += LENGTH.size + (exchange.response_size if direction else exchange.request_size)
            if exchange.route.api_and_version not in untouched:
                frames.append((exchange, start, at))
        data = step.data
        if at != len(data):
            return None
        without_records = self._untouched[1] if direction else self._without_records
        may_leave_out = bool(self._left_out_responses) or self._chooses
        of_plain, kind = self._records.of_plain, FrameKind.RESPONSE if direction else FrameKind.REQUEST
        spans: list[tuple[int, int]] = []
        omissions: list[Omission] = []
        for exchange, start, stop in frames:
            frame = data[start:stop]
            found = () if exchange.route.api_and_version in without_records else of_plain(direction, exchange, frame)
            if found is None:
                omissions += self._frame_omissions(direction, step, FrameSpan(kind, exchange, start, stop))
            elif may_leave_out and (head := self._kept_head(direction, exchange, frame)):
                self._left_out_by_topics += 1
                begin = step.offset + start
                omissions.append(Omission(begin, begin + head, step.offset + stop, True))
            else:
                spans += [(start + first, length) for first, length in found]
        if not direction:
            self._next_request_number = self._conversation.next_request_number
        if not omissions:
            return tuple(spans)
        offset = step.offset
        for start, length in spans:
            omissions.append(Omission(offset + start, offset + start, offset + start + length, False, True))
        return self._told(offset, sorted(omissions, key=_START))

    def _told(self, offset: int, omissions: list[Omission]) -> Spans | None:
        """The omissions in a step at this stream offset as spans; or None: `omissions` will tell them."""
        if self.undecided == NOWHERE and all(one.are_records and not one.counted for one in omissions):
            return tuple((one.start - offset, one.stop - one.start) for one in omissions)
        self._decided = omissions
        return None

    def _kept_head(self, direction: Direction, exchange: Exchange, frame: bytes) -> int:
        """How many bytes of a whole frame are kept, if it is left out; 0 if it is not."""
        is_taken = self._takes_whole(direction, exchange, frame)
        if direction:
            return RESPONSE_HEAD if take_number(self._left_out_responses, exchange.number) else 0
        if is_taken:
            return 0
        if exchange.awaits:
            self._left_out_responses.append(exchange.number)
        return max(FRAMED_SIZE_AT, _end_of_acks(exchange, frame))

    def _takes_whole(self, direction: Direction, exchange: Exchange, frame: bytes) -> bool:
        """False if a choice of topics leaves out the exchange of a whole request; True for a response."""
        if direction:
            self._topics.answered(exchange, frame[:SESSION_WITHIN], is_first=True)
            return True
        # of a whole request, it is known
        is_taken = self._topics.takes(exchange, frame, len(frame)) is not False
        self._matched += is_taken
        return is_taken

    def omissions(self, direction: Direction, step: Step) -> list[Omission]:
        """The omissions in the bytes of a step. Call it once for each step of the connection, in order."""
        decided, self._decided = self._decided, None
        omissions = self._omissions_by_frame(direction, step) if decided is None else decided
        self._left_out_bytes += sum(omission.stop - omission.start for omission in omissions)
        return omissions

    def _omissions_by_frame(self, direction: Direction, step: Step) -> list[Omission]:
        conversation, arriving = self._conversation, self._arriving[direction]
        if direction:
            frames = response_spans(conversation, step, arriving)
        else:
            frames = request_spans(conversation, step, arriving, self._next_request_number)
        omissions = [omission for frame in frames for omission in self._frame_omissions(direction, step, frame)]
        last_kind = frames[-1].kind if frames else FrameKind.REQUEST
        self._arriving[direction] = ArrivingFrame.between_steps(self._conversation, direction, last_kind)
        if direction is Direction.REQUEST:
            self._next_request_number = self._conversation.next_request_number
        return omissions

    def _frame_omissions(self, direction: Direction, step: Step, frame: FrameSpan) -> Iterator[Omission]:
        _, exchange, start, stop = frame
        if start == stop:
            # the proxy's own answer, which has no bytes in the stream
            if exchange is not None and (cause := self._response_left_out_by(exchange.number)):
                self._left_out_frames[cause] += 1
            return
        begin, end = step.offset + start, step.offset + stop
        arrived = step.offset + min(stop, step.stop)
        left_out = self._records.left_out(direction, step, frame)
        if start >= 0 and exchange is not None:
            self._note(direction, exchange)
        if direction is Direction.RESPONSE and exchange is not None:
            beginning = step.data[max(start, 0) : min(stop, step.stop, max(start, 0) + SESSION_WITHIN)]
            self._topics.answered(exchange, beginning, is_first=start >= 0)
        spans = [] if left_out is None else left_out.spans
        begins_left_out_frame = False
        is_continued = direction is Direction.REQUEST and begin == self.undecided
        # a frame that begins in this step, or one whose decision was put off
        if start >= 0 or is_continued:
            piece = step.data[max(start, 0) : min(stop, step.stop)]
            part = self._continued(exchange, piece) if is_continued else piece
            spans = [*self._undecided_records, *spans] if is_continued else spans
            decision = self._decision(direction, frame, part, arrived - begin)
            if decision is None:
                self.undecided, self._undecided_bytes, self._undecided_records = begin, bytearray(part), spans
                return
            if is_continued:
                self._forget_undecided()
            cause, kept_size = decision
            self._is_left_out[direction] = begins_left_out_frame = cause is not None
            if cause is not None:
                self._left_out_frames[cause] += 1
            self._omit_from[direction] = begin + kept_size if kept_size is not None else NOWHERE
            piece_start = begin
        else:
            piece_start = step.offset
        if left_out is not None:
            if left_out.unreadable_from is not None:
                self._omit_from[direction] = min(self._omit_from[direction], begin + left_out.unreadable_from)
            limit = min(self._omit_from[direction], arrived)
            for first, last in spans:
                if begin + first < limit:
                    yield Omission(begin, begin + first, min(begin + last, limit), False, are_records=True)
            if left_out.counted and not self._is_left_out[direction]:
                yield Omission(begin, arrived, arrived, False, True, left_out.counted)
        omit_from = max(self._omit_from[direction], piece_start)
        if begins_left_out_frame or omit_from < arrived:
            yield Omission(begin, min(omit_from, arrived), arrived, begins_left_out_frame)
        if arrived == end:
            self._omit_from[direction] = NOWHERE

    def _continued(self, exchange: Exchange | None, piece: bytes) -> bytearray:
        """The bytes of the undecided request, with its next piece where that may decide."""
        needs_all = exchange is not None and self._topics.needs_all(exchange)
        if needs_all or len(self._undecided_bytes) < LONGEST_HEAD:
            self._undecided_bytes += piece
        return self._undecided_bytes

    def _note(self, direction: Direction, exchange: Exchange) -> None:
        """Notes for `plain_spans` what a frame that begins is."""
        self._may_be_opaque = self._may_be_opaque or exchange.opaque is not None
        if not self._records.looks_into(direction, exchange):
            is_of_topics = not direction and self._topics.looks_into(exchange)
            known = self._without_records if is_of_topics else self._untouched[direction]
            known.add(exchange.route.api_and_version)

    def _decision(
        self, direction: Direction, frame: FrameSpan, part: bytes | bytearray, arrived: int
    ) -> tuple[LeftOutBy | None, int | None] | None:
        """(What makes the frame become no row, `_kept_size`); None while the frame is undecided.

        `part`: the bytes of the frame that have come, as far as they decide. `arrived`: how many have come.
        """
        if frame.kind is FrameKind.TOKEN:
            return None, None
        if direction is Direction.RESPONSE:
            cause = None if frame.exchange is None else self._response_left_out_by(frame.exchange.number)
            return cause, self._kept_size(HEAD_07 if self._is_kafka07 else RESPONSE_HEAD, cause)
        decision = self._request_decision(frame.exchange, part, arrived)
        self._matched += decision is not None and decision[0] is None
        return decision

    def _response_left_out_by(self, number: int) -> LeftOutBy | None:
        """What has left out the request of a response; None: nothing. Call it once for each response, in order."""
        if not take_number(self._left_out_responses, number):
            return None
        cause = self._other_causes.get(number, LeftOutBy.TOPICS)
        # earlier ones were never answered
        while self._other_causes and (first := next(iter(self._other_causes))) <= number:
            del self._other_causes[first]
        return cause

    def _request_decision(
        self, exchange: Exchange | None, part: bytes | bytearray, arrived: int
    ) -> tuple[LeftOutBy | None, int | None] | None:
        if exchange is None:
            # the client id of a token is unknown: it is kept where its connection's next request may be
            cause = self._left_out_by(None, "")
            return cause, self._kept_size(LENGTH_SIZE, cause)
        of_client = self._decision_by_client(exchange, part, arrived)
        if of_client is None:
            return None
        cause, head_size = of_client
        if cause is None:
            is_taken = self._topics.takes(exchange, part, arrived)
            if is_taken is None:
                return None
            if is_taken and head_size is None:
                return None, None
            cause = None if is_taken else LeftOutBy.TOPICS
        head_size = head_size or (HEAD_07 if self._is_kafka07 else FRAMED_SIZE_AT)
        if cause is not None and exchange.awaits:
            self._left_out_responses.append(exchange.number)
            if cause is not LeftOutBy.TOPICS:
                self._other_causes[exchange.number] = cause
        if exchange.api_key == SASL_HANDSHAKE and not self._is_kafka07:
            # all bytes of a handshake are kept: they name the mechanism of the tokens that follow
            return cause, None
        return cause, self._kept_size(max(head_size, _end_of_acks(exchange, part)), cause)

    def _decision_by_client(
        self, exchange: Exchange, part: bytes | bytearray, arrived: int
    ) -> tuple[LeftOutBy | None, int | None] | None:
        """(What leaves the request out, except for its topics; the size of its head); None: not known yet.

        The size is None where nothing of the request is left out.
        """
        sample = self.selection.sample
        is_taken = sample.takes_exchange(exchange.api, self._client, exchange.number)
        if self._is_kafka07:
            # 0.7 has no client ids
            is_taken = is_taken and sample.takes_client(self._host, "")
            return self._left_out_by(exchange.api, "", is_taken=is_taken), HEAD_07
        cause = self._left_out_by(exchange.api, None, is_taken=is_taken)
        if cause is not None:
            return cause, FRAMED_SIZE_AT
        is_of_any_client = self.selection.client_ids.matches_all and self.selection.sample.takes_all_clients
        if self.selection.body_limit is None and is_of_any_client:
            return None, None
        frame_size = LENGTH.size + exchange.request_size
        size = _client_id_size(part, frame_size)
        client_id = part[FRAMED_ID_AT : FRAMED_ID_AT + min(size, LONGEST_CLIENT_ID)]
        if len(part) < FRAMED_ID_AT + min(size, LONGEST_CLIENT_ID) and arrived < frame_size:
            return None
        name = client_id.decode("utf-8", "replace")
        cause = self._left_out_by(exchange.api, name, is_taken=sample.takes_client(self._host, name))
        return cause, FRAMED_ID_AT + size if cause is None else FRAMED_ID_AT

    def take_counts(self) -> tuple[int, int]:
        """What came since the last call: requests that were selected, and bytes that were left out.

        The bytes of which `plain_spans` tells are not among them.
        """
        counts = self._matched, self._left_out_bytes
        self._left_out_frames[LeftOutBy.TOPICS] += self._left_out_by_topics
        self._matched = self._left_out_by_topics = self._left_out_bytes = 0
        return counts

    def _kept_size(self, head_size: int, cause: LeftOutBy | None) -> int | None:
        """The number of a frame's bytes to keep; None: all. `cause`: what leaves it out."""
        if cause is not None:
            return head_size
        limit = self.selection.body_limit
        return None if limit is None else max(head_size, LENGTH_SIZE + limit)

    def _left_out_by(self, api: str | None, client_id: str | None, *, is_taken: bool = True) -> LeftOutBy | None:
        """What leaves out frames of this API and client id; None: nothing. `client_id` None: of any client id.

        `is_taken`: False if a share leaves them out.
        """
        selection = self.selection
        if not self.is_selected:
            return LeftOutBy.CONNECTIONS
        if not selection.apis.matches(api or OTHER):
            return LeftOutBy.APIS
        if not selection.principals.matches(self.principal or ""):
            return LeftOutBy.PRINCIPALS
        if client_id is not None and not selection.client_ids.matches(client_id):
            return LeftOutBy.CLIENT_IDS
        return None if is_taken else LeftOutBy.SHARE


class UnrecordedConnection:
    """Counts the frames of a connection that is not recorded.

    `is_lost`: the settings may select it, but a fault of the recorder came between.
    """

    def __init__(self, conversation: Conversation, *, is_lost: bool = False) -> None:
        self.conversation, self.is_lost = conversation, is_lost
        self._frames = 0

    def more_frames(self) -> int:
        """How many frames came since the last call."""
        before, self._frames = self._frames, self.conversation.sequence
        return self._frames - before


def _client_id_size(part: bytes | bytearray, frame_size: int) -> int:
    """The client id's size; 0 if it is null, exceeds the frame, or has not come yet."""
    size = int.from_bytes(part[FRAMED_SIZE_AT:FRAMED_ID_AT], "big", signed=True) if len(part) >= FRAMED_ID_AT else 0
    return size if 0 <= size <= frame_size - FRAMED_ID_AT else 0


def _end_of_acks(exchange: Exchange, part: bytes | bytearray) -> int:
    """The offset after `acks` in a Produce request, which pairing reads; 0 for other requests."""
    version = exchange.api_version
    if version is None or exchange.api_key != PRODUCE or exchange.opaque is not None:
        return 0
    try:
        return acks_at(bytes(part), 0, version) + 2
    except WireError:
        return 0
