"""Finds what the rules for records leave out of one connection's frames, while their bytes arrive.

Used by `frame_filter`, if any rule is not `keep`. Frames that hold or quote records are walked through, and so are
answers that tell topics' names and ids. All other frames that the catalog knows are left as they are. What nobody can
read is left out behind its head, because it may hold records.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

from proxy.conversation.exchange import Direction, Exchange, FrameKind
from proxy.conversation.step import Step
from proxy.wire import catalog
from proxy.wire.apis import MessageKind
from proxy.wire.compile.record_finder import ALL, NOTHING, TEXTS
from proxy.wire.kafka07 import RequestType
from proxy.wire.kafka07 import record_data as of_07
from proxy.wire.primitives import uuid_text
from proxy.wire.records.walk import Alike, Find, RecordWalk, alike, found_in_whole, nothing_known
from recorder.capture.frame_spans import FrameSpan
from recorder.capture.record_rules import RecordRule, RecordRules
from recorder.capture.spool import Spans
from recorder.capture.topic_ids import TopicIds

# bytes at a frame's beginning that hold no record data: from its length to its correlation id, both included
_HEADS = {Direction.REQUEST: 12, Direction.RESPONSE: 8}
# batches that are hashed pass: the compactor rewrites them
_LEFT_OUT = {RecordRule.KEEP: NOTHING, RecordRule.HASH: TEXTS, RecordRule.DROP: ALL}
_KINDS: dict[Direction, MessageKind] = {Direction.REQUEST: "request", Direction.RESPONSE: "response"}
# names of topics for which it is known what is left out
_MOST_KNOWN = 1000
# frames of each direction that are remembered for those like them, each of which takes twice the time of one that is
# not: where frames of one size differ, that must end
_MOST_REMEMBERED = 50
# requests of 0.7 in flight whose topics are remembered, and the topics of each: the answers name none
_MOST_REQUESTS, _MOST_TOPICS, _LONGEST_TOPIC = 1000, 1000, 250


class RecordSpans(NamedTuple):
    """What rules leave out of a piece of a frame, in offsets of the frame, its length included.

    `spans`: the record data. `unreadable_from`: the offset from which on all is left out; None: nothing more.
    `counted`: at the frame's end, what was only counted: topic, partition, batches, records and bytes.
    """

    spans: list[tuple[int, int]]
    unreadable_from: int | None
    counted: list[tuple[str, int, int, int, int]]


@dataclass(slots=True)
class NamedTopics:
    """The topics that a request with records has named so far.

    `may_be_chosen`: `only.topics` chooses one of them, or may, as nobody can tell. `is_all`: it names no more.
    """

    number: int = 0
    may_be_chosen: bool = False
    is_all: bool = False


class Known(NamedTuple):
    """Whole frames that are alike, and what is known of them.

    `named`: the topics that they name; `left_out`: what the rules leave out, as (start, length).
    """

    alike: Alike
    named: NamedTopics
    left_out: Spans


class _Remembered:
    """The frames of one direction that others may be like: by `Route.api_and_version` and size, the last one."""

    __slots__ = ("_last", "_left", "alike")

    def __init__(self) -> None:
        self.alike: dict[tuple[int, int], Known] = {}
        self._last: tuple[int, int] | None = None
        self._left = _MOST_REMEMBERED

    def is_due(self, place: tuple[int, int]) -> bool:
        """True if the frame should be remembered, which is like none: the one before it had the same place."""
        is_due, self._last = place == self._last and self._left > 0, place
        self._left -= is_due
        return is_due


class RecordFilter:
    """The filter of one connection.

    `topic_ids`: what the connection's cluster has told of its topics. `is_kafka07`: it speaks the dialect of 0.7.
    """

    def __init__(self, rules: RecordRules, topic_ids: TopicIds, *, is_kafka07: bool) -> None:
        self._rules = rules
        self._topic_ids = topic_ids
        # a topic's name -> what is left out of its records; and None for what has no topic
        self._by_name: dict[bytes | None, int] = {}
        self.is_kafka07 = is_kafka07
        # per direction: the walk through the frame that is arriving
        self._walks: list[RecordWalk | None] = [None, None]
        # of the request that is arriving, or has arrived last
        self.named = NamedTopics()
        # per direction, what is asked for each topic
        self._topics = tuple(partial(self._topic, bool(direction)) for direction in Direction)
        # per direction, the frames that others may be like; and the `TopicIds.changes` at which they were remembered
        self._remembered = (_Remembered(), _Remembered())
        self._topic_changes = topic_ids.changes
        # (exchange number, topics) of requests of 0.7 that were not answered yet
        self._asked: deque[tuple[int, list[bytes]]] = deque(maxlen=_MOST_REQUESTS)

    def use(self, rules: RecordRules) -> None:
        """Uses other rules for all frames that begin from here on, and for the rest of one that is arriving."""
        self._rules = rules
        self._by_name.clear()
        self._forget_alike()

    def _forget_alike(self) -> None:
        self._topic_changes = self._topic_ids.changes
        self._remembered = (_Remembered(), _Remembered())

    def resume(self) -> None:
        """Goes on after bytes that were not walked through: the frames that are arriving are not recorded."""
        self._walks = [None, None]

    @property
    def rules(self) -> RecordRules:
        """The rules that are used now."""
        return self._rules

    @property
    def is_idle(self) -> bool:
        """True if no frame is being walked through."""
        return self._walks == [None, None]

    def looks_into(self, direction: Direction, exchange: Exchange) -> bool:
        """True if rules may leave anything out of such a frame, or learn from it."""
        return self.is_kafka07 or _find(direction, exchange.api_key, version_of(exchange)) is not None

    def walks_request(self, exchange: Exchange) -> bool:
        """True if `named` tells the topics of this request, of a known version."""
        version = version_of(exchange)
        return self.is_kafka07 or (
            version is not None and catalog.holds_record_data("request", exchange.api_key, version)
        )

    def left_out(self, direction: Direction, step: Step, frame: FrameSpan) -> RecordSpans | None:
        """What the rules leave out of the frame's bytes in a step; None: nothing. Call it for each frame, in order."""
        _, exchange, start, stop = frame
        arrived = min(stop, step.stop)
        is_request = direction is Direction.REQUEST
        if 0 <= start < stop == arrived and exchange is not None and not self._rules.keeps_everything:
            found = self.of_plain(direction, exchange, step.data[start:stop])
            if found is not None:
                return RecordSpans([(at, at + length) for at, length in found], None, [])
        if start >= 0 and is_request:
            self.named = NamedTopics()
        walk = self._begun(direction, frame) if start >= 0 else self._walks[direction]
        self._walks[direction] = None if walk is None or arrived == stop else walk
        if walk is None:
            return None
        spans = walk.feed(memoryview(step.data)[max(start, 0) : arrived])
        if is_request:
            self._note_walked(walk, is_whole=arrived == stop)
        counted = self._counted(walk) if walk.counted and arrived == stop else []
        return RecordSpans(spans, walk.unreadable_from, counted)

    def of_plain(self, direction: Direction, exchange: Exchange, frame: bytes) -> Spans | None:
        """What the rules leave out of a whole frame with records, its length included; None: ask `left_out`.

        Returns (start, length) in offsets of the frame.
        """
        if exchange.opaque is not None or self.is_kafka07 or self._walks[direction] is not None:
            return None
        known = self.known(direction, exchange.route.api_and_version, frame)
        if known is not None:
            return known.left_out
        remembered, place = self._remembered[direction], (exchange.route.api_and_version, len(frame))
        codec = _codec_of_whole(direction, exchange.api_key, version_of(exchange))
        if codec is None:
            return None
        of_topic = self._topics[direction]
        if not direction:
            self.named = NamedTopics(is_all=True)
        spans = found_in_whole(codec.find_whole_records, frame, of_topic, by_broker=bool(direction))
        if spans is None:
            return None
        left_out = tuple([(start, stop - start) for start, stop in spans])
        if remembered.is_due(place):
            named = self.named
            found = alike(codec.find_judged_records, frame, of_topic)
            if found is not None:
                remembered.alike[place] = Known(found, named, left_out)
        return left_out

    def known(self, direction: Direction, api_and_version: int, frame: bytes) -> Known | None:
        """What the rules leave out of a whole frame that is like an earlier one; None: it is like none."""
        if self._topic_changes != self._topic_ids.changes:
            self._forget_alike()
        known = self._remembered[direction].alike.get((api_and_version, len(frame)))
        if known is None or known.alike.judged(frame) != known.alike.values:
            return None
        if not direction:
            self.named = known.named
        return known

    def _begun(self, direction: Direction, frame: FrameSpan) -> RecordWalk | None:
        kind, exchange = frame.kind, frame.exchange
        if exchange is None or kind not in (FrameKind.REQUEST, FrameKind.RESPONSE) or self._rules.keeps_everything:
            # tokens and frames without a readable head are masked
            return None
        at = direction, exchange.api_key, version_of(exchange), exchange.number
        return self._walk(*at, awaits=exchange.awaits, size=frame.stop - frame.start)

    def of_whole(
        self,
        direction: Direction,
        key: int,
        version: int | None,
        number: int,
        frame: bytes,
        *,
        awaits: bool,
        is_cut: bool,
    ) -> RecordSpans | None:
        """As `left_out`, of a frame that is there, its length included. `number`: of its exchange.

        `version`: None for one that nobody knows. `is_cut`: the frame never came whole.
        """
        size = None if is_cut else len(frame)
        at = direction, key, version, number
        if direction is Direction.REQUEST:
            self.named = NamedTopics()
        walk = None if self._rules.keeps_everything else self._walk(*at, awaits=awaits, size=size)
        if walk is None:
            return None
        spans = walk.feed(frame)
        if direction is Direction.REQUEST:
            self._note_walked(walk, is_whole=not is_cut)
        return RecordSpans(spans, walk.unreadable_from, self._counted(walk))

    def _walk(
        self, direction: Direction, key: int, version: int | None, number: int, *, awaits: bool, size: int | None
    ) -> RecordWalk | None:
        find = (
            self._find_07(direction, key, number, awaits=awaits) if self.is_kafka07 else _find(direction, key, version)
        )
        if find is None:
            return None
        holds_records = self.is_kafka07 or version is None or catalog.holds_record_data(_KINDS[direction], key, version)
        head = of_07.HEAD if self.is_kafka07 else _HEADS[direction]
        topic, by_broker = self._topics[direction], bool(direction)
        return RecordWalk(find, topic, head=head, by_broker=by_broker, size=size, holds_records=holds_records)

    def _counted(self, walk: RecordWalk) -> list[tuple[str, int, int, int, int]]:
        found = []
        for ((raw, topic_id), partition), (batches, records, size) in walk.counted.items():
            by_id = None if topic_id is None else self._topic_ids.name(topic_id) or uuid_text(topic_id)
            found.append((_text(raw) or by_id or "?", partition, batches, records, size))
        return found

    def _topic(self, is_told: bool, raw: bytes | None, topic_id: bytes | None) -> int:
        """What is left out of a topic's records. `is_told`: an answer tells of the topic."""
        if topic_id is None:
            found = self._by_name.get(raw)
            is_noted = is_told or raw is None or self._rules.only.matches_all
            if found is not None and is_noted:
                return found
        name = _text(raw)
        if topic_id is not None:
            if name is None:
                name = self._topic_ids.name(topic_id)
            elif is_told:
                self._topic_ids.learn(topic_id, name)
        if not (is_told or self._rules.only.matches_all or (raw is None and topic_id is None)):
            self._note_named(name)
        found = _LEFT_OUT[self._rules.of(name)]
        if topic_id is None:
            if len(self._by_name) >= _MOST_KNOWN:
                self._by_name.clear()
            self._by_name[raw] = found
        return found

    def _note_walked(self, walk: RecordWalk, *, is_whole: bool) -> None:
        """Notes how far the walk through a request is. `is_whole`: all of its bytes have come."""
        has_all = walk.elements is not None and self.named.number >= walk.elements
        self.named.is_all = is_whole or has_all
        self.named.may_be_chosen = self.named.may_be_chosen or walk.unreadable_from is not None

    def _note_named(self, name: str | None) -> None:
        self.named.number += 1
        self.named.may_be_chosen = self.named.may_be_chosen or self._rules.may_choose(name)

    def _find_07(self, direction: Direction, key: int, number: int, *, awaits: bool) -> Find | None:
        if not 0 <= key <= RequestType.OFFSETS:
            return nothing_known(of_07.HEAD)
        request_type = RequestType(key)
        if direction is Direction.RESPONSE:
            while self._asked and self._asked[0][0] < number:
                self._asked.popleft()
            topics = self._asked[0][1] if self._asked and self._asked[0][0] == number else []
            return of_07.find_in_response(request_type, topics)
        topics = []
        if awaits:
            self._asked.append((number, topics))

        def asked(topic: bytes) -> None:
            self._note_named(_text(topic))
            if len(topics) < _MOST_TOPICS:
                topics.append(topic[:_LONGEST_TOPIC])

        return of_07.find_in_request(request_type, asked)


def version_of(exchange: Exchange) -> int | None:
    """The version of an exchange; None if nobody can read its frames."""
    return exchange.api_version if exchange.opaque is None and exchange.route.known else None


def _find(direction: Direction, key: int, version: int | None) -> Find | None:
    """What walks through a frame; None: it has no record data, and tells no ids of topics."""
    return _UNKNOWN[direction] if version is None else _find_known(direction, key, version)


@lru_cache(catalog.CACHE_SIZE)
def _codec_of_whole(direction: Direction, key: int, version: int | None) -> catalog.Codec | None:
    """The codec that finds the record data in whole frames; None: they have none, or tell ids of topics."""
    kind = _KINDS[direction]
    if version is None or not catalog.holds_record_data(kind, key, version):
        return None
    tells = direction is Direction.RESPONSE and catalog.tells_topics(kind, key, version)
    return None if tells else catalog.codec(kind, key, version)


_UNKNOWN = {direction: nothing_known(head) for direction, head in _HEADS.items()}


@lru_cache(catalog.CACHE_SIZE)
def _find_known(direction: Direction, key: int, version: int) -> Find | None:
    kind = _KINDS[direction]
    is_walked = catalog.holds_record_data(kind, key, version)
    is_walked = is_walked or (direction is Direction.RESPONSE and catalog.tells_topics(kind, key, version))
    found = catalog.codec(kind, key, version) if is_walked else None
    return None if found is None else found.find_records


def _text(raw: bytes | None) -> str | None:
    """A topic's name; None for none, and for bytes that are no text."""
    try:
        return raw.decode() if raw else None
    except UnicodeDecodeError:
        return None
