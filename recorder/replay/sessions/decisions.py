"""Acknowledgements of a share group's members (accept, release, reject), until the target's group has made them too.

The target gives a group's records to the member that asks first, so a record of one recorded member may be another's
there. A decision therefore belongs to the record, by its offset: it goes with the next request of the member that has
acquired the record on the target. A released record is acquired again, and its next decision follows.

Offsets are counted one by one: a broker lets a group have some thousand records of a partition at a time.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from recorder.replay.partitions import TopicPartition
from recorder.replay.plan import Values

# five times the records of a partition that a broker lets a group have (group.share.partition.max.record.locks: 2,000)
MOST = 10_000
# AcknowledgeType.RENEW: the member keeps the record for longer, and decides later
RENEW = 4

Member = tuple[str, str]
# (recorded topic, partition, recorded offset) -> the target's offset
Counterpart = Callable[[str, int, int], int]


class Decision(NamedTuple):
    """A decision about one record, by its recorded and its target's offset. `kind`: an AcknowledgeType."""

    recorded: int
    target: int
    kind: int


class Decisions:
    """The decisions of all groups, and the records that their members have on the target.

    Places have recorded topics.
    """

    def __init__(self, counterpart: Counterpart) -> None:
        self._counterpart = counterpart
        self._pending: dict[tuple[str, TopicPartition], OrderedDict[int, deque[int]]] = {}
        self._held: dict[tuple[Member, TopicPartition], dict[int, None]] = {}

    def decide(self, group: str, place: TopicPartition, batches: Iterable[Values]) -> None:
        """Adds the acknowledgements of a recorded request."""
        pending = self._pending.setdefault((group, place), OrderedDict())
        for batch in batches:
            kinds = batch["acknowledge_types"]
            for offset in _offsets(batch["first_offset"], batch["last_offset"]):
                kind = _kind(kinds, offset - batch["first_offset"])
                if kind not in (None, RENEW):
                    pending.setdefault(offset, deque()).append(kind)
        while len(pending) > MOST:
            pending.popitem(last=False)

    def acquire(self, member: Member, place: TopicPartition, first: int, last: int) -> None:
        """The target has given records to a member."""
        held = self._held.setdefault((member, place), {})
        held.update(dict.fromkeys(_offsets(first, last)))
        while len(held) > MOST:
            del held[next(iter(held))]

    def due(self, member: Member, place: TopicPartition) -> list[Decision]:
        """The decisions that a member can send now, by the target's offsets."""
        held = self._held.get((member, place))
        if not held:
            return []
        pending = self._pending.get((member[0], place), OrderedDict())
        moved = [Decision(offset, self._counterpart(*place, offset), kinds[0]) for offset, kinds in pending.items()]
        # two records are never at one offset: where they are on the target is not known yet
        number = Counter(each.target for each in moved)
        found = (each for each in moved if each.target in held and number[each.target] == 1)
        return sorted(found, key=lambda each: each.target)

    def renewed(self, member: Member, place: TopicPartition, batches: Iterable[Values]) -> list[Decision]:
        """The decisions that a member can send now, and the records that its recorded request renews.

        A renewal goes with this request or not at all: it is not kept for a later one.
        """
        held: dict[int, None] = self._held.get((member, place)) or {}
        found: dict[int, Decision] = {each.target: each for each in self.due(member, place)}
        for batch in batches:
            for offset in _offsets(batch["first_offset"], batch["last_offset"]):
                target = self._counterpart(*place, offset)
                if target in held and _kind(batch["acknowledge_types"], offset - batch["first_offset"]) == RENEW:
                    found.setdefault(target, Decision(offset, target, RENEW))
        return sorted(found.values(), key=lambda each: each.target)

    def take(self, member: Member, place: TopicPartition, decided: Iterable[Decision]) -> None:
        """A member's request with these decisions leaves."""
        pending = self._pending.get((member[0], place), OrderedDict())
        held = self._held.get((member, place), {})
        for each in decided:
            if each.kind == RENEW:
                continue
            held.pop(each.target, None)
            kinds = pending.get(each.recorded)
            if kinds:
                kinds.popleft()
            if not kinds:
                pending.pop(each.recorded, None)

    def give_back(self, member: Member, place: TopicPartition, decided: Iterable[Decision]) -> None:
        """The target has not taken these decisions: its group will acquire the records again."""
        pending = self._pending.setdefault((member[0], place), OrderedDict())
        for each in decided:
            if each.kind != RENEW:
                pending.setdefault(each.recorded, deque()).appendleft(each.kind)

    def release(self, member: Member, place: TopicPartition) -> None:
        """The target takes back a member's records of a partition: the session is gone."""
        self._held.pop((member, place), None)

    def leave(self, member: Member) -> None:
        """A member has no sessions any more."""
        for key in [key for key in self._held if key[0] == member]:
            del self._held[key]

    def forget_topic(self, topic: str) -> None:
        """The target has deleted a topic, with the records that decisions were about."""
        for pending in [key for key in self._pending if key[1][0] == topic]:
            del self._pending[pending]
        for held in [key for key in self._held if key[1][0] == topic]:
            del self._held[held]

    def undecided(self) -> int:
        """The number of partitions with recorded decisions that never reached the target."""
        return sum(bool(pending) for pending in self._pending.values())


def acknowledgement_batches(decided: Sequence[Decision]) -> list[Values]:
    """Decisions as acknowledgement batches of a request: neighbours of one kind together."""
    found: list[Values] = []
    for each in decided:
        if found and found[-1]["last_offset"] + 1 == each.target and found[-1]["acknowledge_types"] == [each.kind]:
            found[-1]["last_offset"] = each.target
        else:
            found.append({"first_offset": each.target, "last_offset": each.target, "acknowledge_types": [each.kind]})
    return found


def _offsets(first: int, last: int) -> range:
    return range(max(first, 0), min(last, first + MOST) + 1)


def _kind(kinds: Sequence[int], place: int) -> int | None:
    """The kind for one offset of a batch, which has one for all offsets or one for each."""
    if len(kinds) == 1:
        return kinds[0]
    return kinds[place] if place < len(kinds) else None
