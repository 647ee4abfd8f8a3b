"""Each record of a log: its offset, who produced it and when, who fetched it.

A record appears in the Produce that brings it and in each Fetch that takes it. Appearances are joined by the record's
place in the log, so records are kept until the whole capture was read: those that a filter asks for, within the budget.

A fetch is of a group if a member with its client id, host and cluster held the partition then. If none did, or members
of several groups, nobody can tell the group from the traffic.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow.dataset as ds

from proxy.wire import keys, records
from proxy.wire.budget import DEFAULT_BUDGET, Budget
from proxy.wire.errors import OverBudget, WireError, in_bytes
from recorder.capture import frames as c
from recorder.capture.reader import Row
from recorder.capture.remote import Place
from recorder.facts.frame import REQUEST, RESPONSE, Frame, Unreadable, is_not_kept, why
from recorder.facts.group_rows import LEAVE, GroupRow
from recorder.facts.memberships import read as read_membership
from recorder.facts.response_errors import ResponseErrors
from recorder.facts.rows import frame_of
from recorder.facts.topics import Place as PartitionPlace
from recorder.facts.topics import places
from recorder.query.columns import Rows
from recorder.query.evaluation import UNKNOWN, Element, PartlyKnown, Subject, Truth, predicate
from recorder.query.syntax import EQUAL, Comparison, Node, names, required, together
from recorder.reading.elements import Side, Told, hash_shown, shown
from recorder.reading.exchanges import ROW_SIZE, Pair, exchange_id, pairs
from recorder.reading.heads import of_exchange
from recorder.reading.known import NO_FACTS, Known
from recorder.reading.passing import Unsure
from recorder.reading.rows import ByFile, all_bodies, rows
from recorder.reading.told import told

_FETCHES = (keys.FETCH, keys.SHARE_FETCH)
_ASSIGNING = (keys.SYNC_GROUP, keys.LEAVE_GROUP, keys.CONSUMER_GROUP_HEARTBEAT, keys.SHARE_GROUP_HEARTBEAT)
# fields that a record has wherever it appears
_OWN = frozenset({"topic", "partition", "offset", "key", "value", "timestamp"})
_NS = 1_000_000
# makes a text of a record's bytes
Text = Callable[[bytes | None], str | None]
Matches = Callable[[records.Record, Text], bool]


class Produced(NamedTuple):
    """Who produced a record, and when (ns since 1970). `error`: the code of the answer; None: unknown."""

    exchange: str
    client_id: str | None
    client: str | None
    principal: str | None
    at_ns: int
    error: int | None


class Fetched(NamedTuple):
    """Who fetched a record, and when (ns since 1970, of the request). `group`: None if nobody can tell."""

    exchange: str
    client_id: str | None
    client: str | None
    principal: str | None
    at_ns: int
    group: str | None


@dataclass(slots=True)
class LogRecord:
    """A record of a log. `offset`: None if no answer told it. `produced`: None if that was not recorded.

    `is_hashed`: hashes stand in place of its key, its value and its headers' values.
    """

    cluster: str | None
    topic: str
    partition: int
    offset: int | None
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    produced: Produced | None = None
    fetched: list[Fetched] = field(default_factory=list)
    is_hashed: bool = False


class _Taken(NamedTuple):
    """A record that may pass. `number`: how many records of its partition stand before it in the frame."""

    number: int
    record: records.Record
    is_hashed: bool


@dataclass(slots=True)
class _Said(Side):
    """What one frame says: records by partition, and the steps of members."""

    places: list[tuple[PartitionPlace, list[_Taken]]] = field(default_factory=list)
    steps: list[GroupRow] = field(default_factory=list)
    # records that a rule has left out of the capture, and that might be asked for
    not_kept: int = 0

    @property
    def number(self) -> int:
        """The number of its records."""
        return sum(len(found) for _, found in self.places)


# the first fields of Produced and of Fetched
_Client = tuple[str, str | None, str | None, str | None, int]
Who = tuple[str | None, str | None, str]


class Records:
    """The records that were found so far.

    Args:
        known: what other frames tell. unsure: counts exchanges of which nobody can tell.
        matches: what a record must meet besides the filter.
        most: the limit in bytes of memory for the records, and for what is read of a frame.
        text: what makes texts of keys and values, for the filter.
    """

    def __init__(
        self, node: Node, known: Told, matches: Matches | None, unsure: Unsure, most: int, text: Text = shown
    ) -> None:
        self._text = text
        self._told, self._matches, self._unsure, self._most = known, matches, unsure, most
        own = together(*(part for part in required(node) if names(part) <= _OWN))
        self._own, self._is_own, self._passes = own, predicate(own), predicate(node)
        self._needles = _needles(own)
        self._records: dict[tuple[Any, ...], LogRecord] = {}
        self._passing: set[tuple[Any, ...]] = set()
        self._holding: dict[Who, dict[tuple[str, str | None], frozenset[str]]] = defaultdict(dict)
        self._size = 0

    def read(self, row: Row, _: ResponseErrors | None) -> _Said | None:
        """What a frame says of records and members."""
        if row[c.FRAME] is None or row[c.OMITTED]:
            return _Said(unread="omitted")
        frame, budget = frame_of(row), Budget(self._most)
        found = _Said()
        try:
            if row[c.API_KEY] in _ASSIGNING:
                found.steps = [step for group in read_membership(frame, budget) for step in _steps(group.rows)]
            else:
                self._read_places(found, frame, budget)
        except Unreadable as error:
            found.unread = error.reason
        return found

    def _read_places(self, found: _Said, frame: Frame, budget: Budget) -> None:
        for place in places(frame, budget):
            number, taken = 0, list[_Taken]()
            found.places.append((place, taken))
            element = self._element(place)
            if not place.records or self._is_own(Subject({}, (PartlyKnown(element),))) is False:
                continue
            batches, error = place.batches
            try:
                for batch, is_hashed in zip(batches, place.are_hashed, strict=True):
                    if is_not_kept(frame, place.records, batch):
                        # of a wrapper nobody knows how many there were
                        found.not_kept += batch.count or 1
                        number += batch.count or 1
                        continue
                    if batch.count is not None and not is_hashed and self._holds_none(place.records, batch):
                        number += batch.count
                        continue
                    for record in () if batch.control else records.read_batch(place.records, batch, budget=budget):
                        one = _Taken(number, record, is_hashed)
                        if self._is_wanted(self._of_record(element, one, frame.side), one):
                            taken.append(one)
                        number += 1
            except WireError as broken:
                raise Unreadable(why(broken, frame)) from None
            if error:
                raise Unreadable(why(error, frame))

    def _holds_none(self, data: bytes, batch: records.Batch) -> bool:
        """True if no record of a batch has a key or value that must be there. Errors: WireError for a damaged batch."""
        if batch.control or batch.codec is not records.Compression.NONE or not self._needles:
            return False
        if all(any(data.find(each, batch.start, batch.end) >= 0 for each in either) for either in self._needles):
            return False
        records.verify(data, batch)
        return True

    def by_file(self, known: Known) -> ByFile:
        """What facts tell of the files' rows: those about partitions that may be wanted."""
        assigning = ds.field(c.API_KEY).isin(_ASSIGNING)
        return ByFile(
            where=lambda files, where: known.narrowed(files, [self._own], self._told.topics, where, assigning),
            further=lambda file, heads: known.of_rows(file, heads, ()),
        )

    def _is_wanted(self, element: Element, one: _Taken) -> Truth:
        if self._is_own(Subject({}, (element,))) is False:
            return False
        return self._matches is None or self._matches(one.record, self._text_of(one))

    def _text_of(self, one: _Taken) -> Text:
        return hash_shown if one.is_hashed else self._text

    def _of_record(self, element: dict[str, Any], one: _Taken, side: str) -> dict[str, Any]:
        record, text = one.record, self._text_of(one)
        return element | {
            "key": text(record.key),
            "value": text(record.value),
            "timestamp": record.timestamp * _NS if record.timestamp >= 0 else None,
            # only the answer tells where a produced record stands
            "offset": UNKNOWN if side == REQUEST else record.offset,
            "size": len(record.key or b"") + len(record.value or b""),
        }

    def _element(self, place: PartitionPlace) -> dict[str, Any]:
        name, topic_id, partition = place.named
        topic = name or self._told.topics.get(topic_id or "")
        return {"topic": UNKNOWN if topic is None else topic, "partition": partition, "topic_id": topic_id}

    def add(self, pair: Pair) -> None:
        """Adds an exchange. Errors: OverBudget."""
        asked, answered = (side if isinstance(side, _Said) else _Said() for side in (pair.asked, pair.told))
        key = pair.head[c.API_KEY]
        if key in _ASSIGNING:
            self._assign(pair, asked.steps, answered.steps)
            return
        unread = (asked if key == keys.PRODUCE else answered).unread
        if unread:
            self._unsure.unread[unread] += 1
        if not_kept := (asked if key == keys.PRODUCE else answered).not_kept:
            self._unsure.records_not_kept += not_kept
        if key == keys.PRODUCE:
            self._add_produced(pair, asked, answered)
        elif pair.response is not None:
            self._add_fetched(pair, asked, answered)

    def _add_produced(self, pair: Pair, asked: _Said, answered: _Said) -> None:
        head = of_exchange(pair)
        results = {place.named: place for place, _ in answered.places}
        for place, found in asked.places:
            result = results.get(place.named)
            base = result.values.get("base_offset", -1) if result and not result.code else -1
            error = result.code if result else None
            for one in found:
                offset = base + one.number if base >= 0 else None
                element = self._of_record(self._element(place), one, REQUEST) | {"offset": offset, "error": error}
                if offset is None and error is None and pair.response is not None:
                    element["offset"] = element["error"] = UNKNOWN
                kept = self._kept(head, element, one, offset)
                if kept.produced is None:
                    kept.produced = Produced(*_client(pair), error)

    def _add_fetched(self, pair: Pair, asked: _Said, answered: _Said) -> None:
        head = of_exchange(pair)
        begins = {place.named: place.values.get("fetch_offset", -1) for place, _ in asked.places}
        for place, found in answered.places:
            element = self._element(place)
            group = self._group(pair.head, element) if found else None
            for one in found:
                # a broker sends whole batches, which may begin before what was asked for
                if one.record.offset >= begins.get(place.named, -1):
                    whole = self._of_record(element, one, RESPONSE) | {"group": group, "error": place.code}
                    self._kept(head, whole, one, one.record.offset).fetched.append(Fetched(*_client(pair), group))
                    self._pay(ROW_SIZE // 10)

    def _kept(self, head: Any, element: dict[str, Any], one: _Taken, offset: int | None) -> LogRecord:
        record = one.record
        topic = element["topic"] if element["topic"] is not UNKNOWN else element["topic_id"]
        place = head[c.CLUSTER], topic, element["partition"], offset
        # what has no place in the log is a record of its own
        key = place if offset is not None else (*place, len(self._records))
        kept = self._records.get(key)
        if kept is None:
            time = record.timestamp if record.timestamp >= 0 else None
            content = record.key, record.value, tuple(record.headers)
            kept = LogRecord(*place, time, *content, is_hashed=one.is_hashed)
            self._records[key] = kept
            self._pay(ROW_SIZE + len(record.key or b"") + len(record.value or b""))
        verdict = self._passes(Subject(head, (element,)))
        if verdict:
            self._passing.add(key)
        elif verdict is None:
            self._unsure.unread["unknown"] += 1
        return kept

    def _pay(self, size: int) -> None:
        self._size += size
        if self._size > self._most:
            raise OverBudget(f"keeping records until their fetches are read makes more than {in_bytes(self._most)}")

    def _assign(self, pair: Pair, asked: list[GroupRow], answered: list[GroupRow]) -> None:
        held = self._holding[_holder(pair.head)]
        for step in asked:
            told = next(iter(answered), GroupRow())
            member = step.group_id or "", step.member_id or told.member_id
            if step.step == LEAVE or told.error_code:
                held.pop(member, None)
            elif told.assignment is not None:
                held[member] = frozenset(told.assignment)

    def _group(self, head: Row, element: dict[str, Any]) -> str | None:
        """The group whose member held the partition; None if there is none, or if there are several."""
        held = self._holding.get(_holder(head), {})
        spelled = {f"{element[name]}-{element['partition']}" for name in ("topic", "topic_id")}
        groups = {group for (group, _), partitions in held.items() if not spelled.isdisjoint(partitions)}
        return groups.pop() if len(groups) == 1 else None

    def learn_members(self, folder: Place) -> None:
        """Takes the members of groups from a capture's files. Errors: those of `rows`."""
        every = rows(folder, rows_of_records(_ASSIGNING), bodies=all_bodies, most=self._most)
        for pair in pairs(every, most=self._most, read=self.read):
            self.add(pair)

    def taken(self) -> list[LogRecord]:
        """The records that pass; forgets all."""
        found = [*self.passing()]
        self._records.clear()
        self._passing.clear()
        self._size = 0
        return found

    def passing(self) -> Iterator[LogRecord]:
        """The records that pass, in the order of topic, partition and offset; those without an offset last."""
        self._place_unanswered()
        found = [self._records[key] for key in self._passing]
        found.sort(key=lambda one: (one.topic, one.partition, one.offset is None, one.offset or 0, one.cluster or ""))
        yield from found

    def _place_unanswered(self) -> None:
        """Joins a produced record whose offset no answer told (acks=0) with the fetched one that it must be.

        Where several of the same content were produced or fetched, nobody can tell which is which: all stay apart.
        """
        alike = defaultdict[tuple[Any, ...], list[tuple[Any, ...]]](list)
        for key, one in self._records.items():
            content = one.timestamp_ms, one.key, one.value, one.headers
            alike[one.cluster, one.topic, one.partition, *content].append(key)
        for several in alike.values():
            if len(several) != 2:
                continue
            # the one without an offset first
            first, second = sorted(several, key=lambda key: self._records[key].offset is not None)
            sent, read = self._records[first], self._records[second]
            if _is_fetched_later(sent, read):
                read.produced = sent.produced
                del self._records[first]
                if first in self._passing:
                    self._passing.remove(first)
                    self._passing.add(second)


def _is_fetched_later(sent: LogRecord, read: LogRecord) -> bool:
    """True if one record was sent, without an offset, before the other one was fetched, whose Produce is unknown."""
    if sent.offset is not None or sent.produced is None or sent.produced.error or read.produced is not None:
        return False
    return read.offset is not None and any(each.at_ns >= sent.produced.at_ns for each in read.fetched)


def log_records(
    folder: Place,
    node: Node,
    unsure: Unsure,
    *,
    matches: Matches | None = None,
    known: Known = NO_FACTS,
    most: int = DEFAULT_BUDGET,
    text: Text = shown,
) -> Iterator[LogRecord]:
    """The records that a filter passes where they were produced, or where they were fetched.

    Args:
        unsure, matches, most, text: as of `Records`.
        known: the capture's facts.
    Errors: OverBudget; the errors of `rows`.
    """
    of_topics = told(folder, topics=True, software=False, known=known, most=most)
    log = Records(node, of_topics, matches, unsure, most, text)
    every = rows(folder, rows_of_records(), bodies=all_bodies, most=most, by=log.by_file(known))
    for pair in pairs(every, most=most, read=log.read):
        log.add(pair)
    yield from log.passing()


def rows_of_records(api_keys: Sequence[int] = (keys.PRODUCE, *_FETCHES, *_ASSIGNING)) -> Rows:
    """The frames that carry records, and those that tell the members of groups; or those of some APIs."""
    return Rows(ds.field(c.API_KEY).isin([*api_keys]) & (ds.field(c.DIALECT) == c.KAFKA))


def _needles(own: Node) -> list[list[bytes]]:
    """Bytes of which a record that passes must hold one of each list. `shown` would show other bytes with escapes."""
    exact = (
        part
        for part in required(own)
        if isinstance(part, Comparison) and part.field.name in ("key", "value") and part.operator == EQUAL
    )
    return [
        [value.encode() for value in part.values] for part in exact if not any("\\" in each for each in part.values)
    ]


def matching(grep: re.Pattern[str]) -> Matches:
    """True for records whose key, value or headers match a regular expression somewhere."""

    def matches(record: records.Record, text: Text) -> bool:
        of_header = hash_shown if text is hash_shown else shown
        texts = (text(record.key), text(record.value), *(of_header(value) for _, value in record.headers))
        every = (*texts, *(name for name, _ in record.headers))
        return any(each is not None and grep.search(each) for each in every)

    return matches


def _steps(found: Any) -> Iterator[GroupRow]:
    return (GroupRow(*row[: len(GroupRow._fields)]) for row in found)


def _holder(head: Row) -> Who:
    """Who a connection is of: cluster, client id, host."""
    return head[c.CLUSTER], head[c.CLIENT_ID], (head[c.CLIENT] or "").rpartition(":")[0]


def _client(pair: Pair) -> _Client:
    head = pair.head
    return exchange_id(head), head[c.CLIENT_ID], head[c.CLIENT], head[c.PRINCIPAL], of_exchange(pair)["at"]
