"""The base sequences of one producer's batches to one partition, as the target has to see them.

The target refuses a batch whose first sequence is not the one behind the last that it took (error 45). So numbers are
the replay's own count, from 0 for each of the producer's pairs, over what the target did not refuse.

    leaves            the next number; the same bytes once more keep theirs, so that the target knows the repeat
    taken             nothing changes
    refused           its number is the next one again, and those in flight behind it will be refused with 45:
                      each of them goes again in its turn, numbered anew, before anything new may leave
    45, and one that
    left before it
    is unanswered     the same: it, and those behind it, go again in their turn
    45 else           the target has lost count: the producer needs a new pair (`renew`)
    lost              it may have been taken or not: the number stays
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import NamedTuple

Pair = tuple[int, int]
# The bytes of a partition's batches, told apart by what is not the replay's to change.
Identity = tuple[tuple[int, int, int], ...]

# Sequences wrap behind this one.
LARGEST = 2**31 - 1
# Of two sequences the later one is less than this ahead.
_HALF = 2**30
# A broker knows the repeats of a producer's last 5 batches in a partition; clients have 5 in flight.
_KEPT = 10
# A producer's last two pairs are quoted.
_PAIRS = 2


class Batches(NamedTuple):
    """What one request has for a partition. `length`: how many numbers it takes."""

    identity: Identity
    length: int


class _Sent(NamedTuple):
    pair: Pair
    base: int
    batches: Batches

    def is_before(self, other: _Sent) -> bool:
        """True if the target sees it first, both having the same pair."""
        return self.pair == other.pair and 0 < (other.base - self.base) & LARGEST < _HALF


class Sequences:
    """One producer's numbers in one partition. Requests are named by their origin."""

    def __init__(self) -> None:
        self._next: OrderedDict[Pair, int] = OrderedDict()
        self._kept: OrderedDict[Identity, _Sent] = OrderedDict()
        self._taken: set[Identity] = set()
        self._flying: dict[Hashable, _Sent] = {}
        self._behind: list[Hashable] = []

    def may_leave(self, origin: Hashable) -> bool:
        """False while others have to leave before it, or be answered."""
        if origin in self._behind:
            return self._behind[0] == origin and all(other in self._behind for other in self._flying)
        return origin in self._flying or not self._behind

    def number(self, origin: Hashable, batches: Batches, pair: Pair) -> int | None:
        """The base sequence to send. None: the target took the same bytes from another pair."""
        kept = self._kept.get(batches.identity)
        if kept is not None and kept.pair == pair:
            return kept.base
        if kept is not None and batches.identity in self._taken:
            return None
        return self._next.get(pair, 0)

    def sent(self, origin: Hashable, batches: Batches, pair: Pair, base: int, *, awaits: bool = True) -> None:
        """It leaves with the number that it was given."""
        sent = _Sent(pair, base, batches)
        if base == self._next.get(pair, 0):
            self._move(pair, (base + batches.length) & LARGEST)
        self._keep(sent)
        if origin in self._behind:
            self._behind.remove(origin)
        self._flying.pop(origin, None)
        if awaits:
            self._flying[origin] = sent

    def taken(self, origin: Hashable) -> None:
        """The target has it."""
        sent = self._leave(origin)
        if sent is not None and sent.batches.identity in self._kept:
            self._taken.add(sent.batches.identity)

    def refused(self, origin: Hashable) -> None:
        """The target doesn't have it, and never will by that number."""
        sent = self._flying.get(origin)
        was_behind = origin in self._behind
        self._leave(origin)
        if sent is not None and not was_behind and sent.batches.identity not in self._taken:
            self._forget(sent)
            self._go_back(sent)

    def lost(self, origin: Hashable) -> None:
        """Nobody knows whether the target has it, or it never left."""
        self._leave(origin)

    def goes_again(self, origin: Hashable) -> bool:
        """What error 45 means: True if the batch is only too early, and goes again in its turn."""
        if origin in self._behind:
            return True
        sent = self._flying.get(origin)
        if sent is None or not any(other.is_before(sent) for other in self._flying.values()):
            return False
        self._forget(sent)
        self._go_back(sent)
        self._behind.insert(0, origin)
        return True

    def renew(self, origin: Hashable) -> None:
        """It goes again in its turn with those behind it, from another pair."""
        sent = self._flying.get(origin)
        if sent is not None and origin not in self._behind:
            self._forget(sent)
            self._go_back(sent)
            self._behind.insert(0, origin)

    def _leave(self, origin: Hashable) -> _Sent | None:
        if origin in self._behind:
            self._behind.remove(origin)
        return self._flying.pop(origin, None)

    def _go_back(self, sent: _Sent) -> None:
        self._move(sent.pair, sent.base)
        later = {origin: other for origin, other in self._flying.items() if sent.is_before(other)}
        for other in later.values():
            self._forget(other)
        new = [origin for origin in later if origin not in self._behind]
        self._behind = sorted(new, key=lambda origin: (later[origin].base - sent.base) & LARGEST) + self._behind

    def _move(self, pair: Pair, following: int) -> None:
        self._next[pair] = following
        while len(self._next) > _PAIRS:
            self._next.popitem(last=False)

    def _keep(self, sent: _Sent) -> None:
        self._kept[sent.batches.identity] = sent
        self._kept.move_to_end(sent.batches.identity)
        while len(self._kept) > _KEPT:
            self._taken.discard(self._kept.popitem(last=False)[0])

    def _forget(self, sent: _Sent) -> None:
        self._kept.pop(sent.batches.identity, None)
        self._taken.discard(sent.batches.identity)
