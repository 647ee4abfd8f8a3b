"""Leaves out of the verdict what is from before the recording, and counts it: the target can't have it.

    withheld requests and parts       of members, generations, transactions, sessions and topic ids from before
    OffsetFetch                       offsets that were committed before: only errors are compared
    ListOffsets                       offsets of records from before, likewise
    JoinGroup                         of a static leader that is back in a generation from before, likewise
    descriptions of groups            groups with a member from before: not compared
    assignments of groups             likewise (`assigned`)
    records                           those that the target lacks (`matching`)

`beginnings` has the proof. Members, offsets and descriptions are counted once for each group or partition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator
from typing import NamedTuple

from proxy.wire.keys import JOIN_GROUP, LIST_OFFSETS
from proxy.wire.places import Partition
from recorder.replay import partitions
from recorder.replay.beginnings import Before, Beginnings
from recorder.replay.comparison.terms import NOWHERE, EnclosingNames
from recorder.replay.consumers.records import count_within
from recorder.replay.names import Names
from recorder.replay.outcome import BeforeKind, FromBefore, Stream
from recorder.replay.partitions import TopicPartition
from recorder.replay.plan import Dropped, Exchange, Reason, Values, Withheld
from recorder.replay.requests.apis import (
    CLASSIC,
    DESCRIBES_GROUPS,
    HEARTBEATS,
    LONG_POLLS,
    OF_SESSIONS,
    SHARES,
    Trait,
    those,
)

_WITH_OFFSETS = those(Trait.TELLS_OFFSETS)
# APIs of reads whose answers tell of what is from before
TOLD = _WITH_OFFSETS | DESCRIBES_GROUPS | LONG_POLLS
# requests that a member can't send unless it is in the target's group
_OF_MEMBERS = (CLASSIC | HEARTBEATS) - {JOIN_GROUP}
_NOTHING: frozenset[EnclosingNames] = frozenset()


class NotExpected(NamedTuple):
    """Structs of an answer that tell of what is from before.

    `follow`: those of which only errors are compared; `whole`: those that are not compared.
    """

    follow: Collection[EnclosingNames] = _NOTHING
    whole: Collection[EnclosingNames] = _NOTHING


_ALL_EXPECTED = NotExpected()
_ERRORS_ALONE = NotExpected(follow=frozenset({NOWHERE}))


class BeforeRecording:
    """What one replay does not expect of its target."""

    def __init__(self, begun: Beginnings, names: Names) -> None:
        self._begun, self._names = begun, names
        self._counts = Counter[Before]()
        self._counted: set[Hashable] = set()
        # sessions whose requests name topics that no answer names, so that none is open on the target
        self._unnamed: dict[Hashable, Before] = {}

    def planned(self, exchange: Exchange) -> Withheld | None:
        """Why a request will be withheld: a member from before sends it, who is not in the target's group."""
        found = self._begun.of_withheld(exchange, Reason.NO_MEMBER) if exchange.api_key in _OF_MEMBERS else None
        return None if found is None else Withheld(self._count(found))

    def add_planned(self, exchange: Exchange) -> None:
        """Counts what a recorded answer tells of what is from before, for a plan."""
        self.told_by(exchange)
        for each in (
            partitions.in_answer(exchange.api_key, exchange.answer or {}) if exchange.api_key in LONG_POLLS else ()
        ):
            topic = self._names.topic(each.topic)
            end = 0 if topic is None else self._begun.end(topic, each.partition)
            if end and each.values["records"]:
                number = count_within([(0, end - 1)], each.values["records"])
                self._counts[Before(BeforeKind.RECORDS, topic or "")] += number

    def reason(self, exchange: Exchange, reason: Reason) -> Reason:
        """The reason for which a request is withheld: that it is of something from before, where that is proven."""
        found = self._begun.of_withheld(exchange, reason)
        if found is None and reason is Reason.NO_TOPIC:
            topics = [each.topic for each in _asked(exchange)]
            unnamed = [each for each in topics if self._names.topic(each) is None]
            found = _unnamed(unnamed[0]) if topics and len(unnamed) == len(topics) else None
            if found is not None and exchange.api_key in OF_SESSIONS:
                self._unnamed[_session(exchange)] = found
        elif found is None and reason is Reason.NO_SESSION:
            found = self._unnamed.get(_session(exchange))
        return reason if found is None else self._count(found)

    def reason_of_part(self, dropped: Dropped) -> Reason:
        """The reason for which a part of a request is withheld."""
        if dropped.reason is Reason.NO_TOPIC and self._names.topic(dropped.topic) is None:
            return self._count(_unnamed(dropped.topic))
        return dropped.reason

    def _count(self, found: Before) -> Reason:
        self._counts[found] += 1
        return Reason.FROM_BEFORE

    def told_by(self, exchange: Exchange) -> NotExpected:
        """The structs of a recorded answer that tell of what is from before."""
        if exchange.api_key in _WITH_OFFSETS:
            return NotExpected(follow=frozenset(self._offsets(exchange, exchange.answer or {})))
        if exchange.api_key in DESCRIBES_GROUPS:
            return NotExpected(whole=frozenset(self._groups(exchange, exchange.answer or {})))
        if exchange.api_key == JOIN_GROUP and self._is_back(exchange, exchange.answer or {}):
            return _ERRORS_ALONE
        return _ALL_EXPECTED

    def _offsets(self, exchange: Exchange, answer: Values) -> Iterator[EnclosingNames]:
        for each in partitions.in_answer(exchange.api_key, answer):
            topic, own = self._names.topic(each.topic), each.around.around[-1].get("group_id")
            if topic is None:
                continue
            group = exchange.request.get("group_id") if own is None else own
            if self._is_offset(exchange, group or "", (topic, each.partition), each.values):
                self._count_once((group, topic, each.partition), Before(BeforeKind.OFFSET, topic))
                yield EnclosingNames(group=own, topic=each.topic, partition=each.partition)

    def _is_offset(self, exchange: Exchange, group: str, place: TopicPartition, told: Values) -> bool:
        if exchange.api_key == LIST_OFFSETS:
            offset: int = told.get("offset", -1)
            return 0 <= offset < self._begun.end(*place)
        committed: int = told["committed_offset"]
        return committed >= 0 and self._begun.is_commit(group, place, exchange.answered_ns or 0)

    def _is_back(self, exchange: Exchange, answer: Values) -> bool:
        """True for the join of a static leader that the recorded cluster took back without a new generation."""
        group, generation = exchange.request["group_id"], answer.get("generation_id", -1)
        if not answer.get("skip_assignment"):
            return False
        is_from_before = self._begun.is_generation(group, generation, exchange.answered_ns or 0)
        if is_from_before:
            self._count_once((group, generation), Before(BeforeKind.GENERATION, group))
        return is_from_before

    def _groups(self, exchange: Exchange, answer: Values) -> Iterator[EnclosingNames]:
        for group in answer.get("groups", ()):
            name, members = group["group_id"], group.get("members") or ()
            if any(self._begun.is_member(name, member["member_id"], exchange.first_ns) for member in members):
                self._count_once(name, Before(BeforeKind.GROUP, name))
                yield EnclosingNames(group=name)

    def _count_once(self, key: Hashable, found: Before) -> None:
        if (found.kind, key) not in self._counted:
            self._counted.add((found.kind, key))
            self._counts[found] += 1

    def counts(self, streams: Iterable[Stream], groups: Iterable[str]) -> tuple[FromBefore, ...]:
        """All that was not expected, by kind and name.

        `groups`: those whose assignments are not compared.
        """
        counts = self._counts + Counter({Before(BeforeKind.ASSIGNMENT, group): 1 for group in groups})
        for stream in streams:
            counts[Before(BeforeKind.RECORDS, stream.topic)] += stream.before
        return in_order(counts)


def in_order(counts: Counter[Before]) -> tuple[FromBefore, ...]:
    """Counts as a report tells them."""
    order = [*BeforeKind]
    kept = sorted((+counts).items(), key=lambda item: (order.index(item[0].kind), -item[1], item[0].name))
    return tuple(FromBefore(kind, name, number) for (kind, name), number in kept)


def _session(exchange: Exchange) -> Hashable:
    """Whose session a request is of: its connection's, or its share group's member's."""
    if exchange.api_key in SHARES:
        return exchange.request["group_id"], exchange.request["member_id"]
    return exchange.connection


def _asked(exchange: Exchange) -> list[Partition]:
    return partitions.in_request(exchange.api_key, exchange.request)


def _unnamed(topic: str | bytes) -> Before:
    return Before(BeforeKind.TOPIC, topic.hex() if isinstance(topic, bytes) else topic)
