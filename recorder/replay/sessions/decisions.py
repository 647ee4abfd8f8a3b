"""What a share group's members decided about records (accept, release, reject), until the target's group has done so.

The target gives a group's records to whichever member asks first, so what one recorded member had, another may have
there. A decision therefore belongs to the record, by its offset: it goes with the next request of whichever member has
acquired the record on the target. A record that was released is acquired again, and its next decision follows.

Offsets are counted one by one: a broker lets a group have some thousand records of a partition at a time.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from recorder.replay.partitions import Place
from recorder.replay.plan import Values

# Five times what a broker lets a group have of a partition (group.share.partition.max.record.locks: 2,000).
MOST = 10_000
# AcknowledgeType.RENEW: no decision yet
RENEW = 4

Member = tuple[str, str]
# (recorded topic, partition, recorded offset) -> the target's offset
Counterpart = Callable[[str, int, int], int]


class Decision(NamedTuple):
    """One of a record. `kind`: as the protocol numbers them."""

    recorded: int
    target: int
    kind: int


class Decisions:
    """The decisions of all groups, and which records their members have on the target. Places: recorded topics."""

    def __init__(self, counterpart: Counterpart) -> None:
        self._counterpart = counterpart
        self._pending: dict[tuple[str, Place], OrderedDict[int, deque[int]]] = {}
        self._held: dict[tuple[Member, Place], dict[int, None]] = {}

    def decide(self, group: str, place: Place, batches: Iterable[Values]) -> None:
        """A recorded request acknowledges these."""
        pending = self._pending.setdefault((group, place), OrderedDict())
        for batch in batches:
            kinds = batch["acknowledge_types"]
            for offset in _offsets(batch["first_offset"], batch["last_offset"]):
                kind = _kind(kinds, offset - batch["first_offset"])
                if kind not in (None, RENEW):
                    pending.setdefault(offset, deque()).append(kind)
        while len(pending) > MOST:
            pending.popitem(last=False)

    def acquire(self, member: Member, place: Place, first: int, last: int) -> None:
        """The target gives a member these records."""
        held = self._held.setdefault((member, place), {})
        held.update(dict.fromkeys(_offsets(first, last)))
        while len(held) > MOST:
            del held[next(iter(held))]

    def due(self, member: Member, place: Place) -> list[Decision]:
        """What a member may decide now, by the target's offsets."""
        held = self._held.get((member, place))
        if not held:
            return []
        pending = self._pending.get((member[0], place), OrderedDict())
        moved = (Decision(offset, self._counterpart(*place, offset), kinds[0]) for offset, kinds in pending.items())
        return sorted((each for each in moved if each.target in held), key=lambda each: each.target)

    def renewed(self, member: Member, place: Place, batches: Iterable[Values]) -> list[Decision]:
        """What a member keeps for longer, and decides now. It is asked for in one request, and not kept for another."""
        held: dict[int, None] = self._held.get((member, place)) or {}
        found: dict[int, Decision] = {each.target: each for each in self.due(member, place)}
        for batch in batches:
            for offset in _offsets(batch["first_offset"], batch["last_offset"]):
                target = self._counterpart(*place, offset)
                if target in held and _kind(batch["acknowledge_types"], offset - batch["first_offset"]) == RENEW:
                    found.setdefault(target, Decision(offset, target, RENEW))
        return sorted(found.values(), key=lambda each: each.target)

    def take(self, member: Member, place: Place, decided: Iterable[Decision]) -> None:
        """A member's request with these leaves."""
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

    def give_back(self, member: Member, place: Place, decided: Iterable[Decision]) -> None:
        """The target has not taken these: the records will be acquired again."""
        pending = self._pending.setdefault((member[0], place), OrderedDict())
        for each in decided:
            if each.kind != RENEW:
                pending.setdefault(each.recorded, deque()).appendleft(each.kind)

    def release(self, member: Member, place: Place) -> None:
        """The target takes back all that a member has of a partition: its session is gone."""
        self._held.pop((member, place), None)

    def leave(self, member: Member) -> None:
        """A member has no session any more."""
        for key in [key for key in self._held if key[0] == member]:
            del self._held[key]

    def undecided(self) -> int:
        """Partitions of which a recorded decision never reached the target."""
        return sum(bool(pending) for pending in self._pending.values())


def batches(decided: Sequence[Decision]) -> list[Values]:
    """Decisions as a request has them: neighbours of one kind together."""
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
    """One for all, or one each."""
    if len(kinds) == 1:
        return kinds[0]
    return kinds[place] if place < len(kinds) else None
