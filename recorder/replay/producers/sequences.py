"""The base sequences of one producer's batches to one partition, as the target must see them.

The target refuses a batch with error 45 unless its first sequence follows the last one that it took. So the replay
counts its own sequences, from 0 for each of the producer's pairs, over the batches that the target did not refuse.

    leaves            the next sequence; the same bytes once more keep theirs, so that the target recognizes the repeat
    taken             nothing changes
    refused           its sequence is the next one again. The target will refuse the batches in flight behind it with
                      45: they go again in order, with new sequences, before any new batch may leave
    45 while an       the same: the batch and those in flight behind it go again in order
    earlier batch is
    in flight
    other 45          the target has lost count: the producer needs a new pair (`renew`)
    lost              the batch may have been taken or not: its sequence stays used
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import NamedTuple

Pair = tuple[int, int]
# Identifies the bytes of a partition's batches by what the replay does not change: checksum, base sequence, length.
Identity = tuple[tuple[int, int, int], ...]

# the last sequence, behind which they wrap to 0
LARGEST = 2**31 - 1
# the later one of two sequences is less than this ahead
_HALF = 2**30
# A broker recognizes repeats of a producer's last 5 batches in a partition. Clients have 5 in flight.
_KEPT = 10
# `producer_pairs` keeps a producer's last two pairs
_PAIRS = 2


class Batches(NamedTuple):
    """The batches that one request has for a partition. `length`: the number of sequences that they take."""

    identity: Identity
    length: int


class _SentSequence(NamedTuple):
    pair: Pair
    base: int
    batches: Batches

    def is_before(self, other: _SentSequence) -> bool:
        """True if the target sees this one before `other`, both having the same pair."""
        return self.pair == other.pair and 0 < (other.base - self.base) & LARGEST < _HALF


class Sequences:
    """The sequences of one producer in one partition. Requests are named by their origin."""

    def __init__(self) -> None:
        self._next: OrderedDict[Pair, int] = OrderedDict()
        self._kept: OrderedDict[Identity, _SentSequence] = OrderedDict()
        self._taken: set[Identity] = set()
        self._flying: dict[Hashable, _SentSequence] = {}
        self._behind: list[Hashable] = []

    def may_leave(self, origin: Hashable) -> bool:
        """False while other requests have to leave or be answered first."""
        if origin in self._behind:
            return self._behind[0] == origin and all(other in self._behind for other in self._flying)
        return origin in self._flying or not self._behind

    def number(self, origin: Hashable, batches: Batches, pair: Pair) -> int | None:
        """The base sequence to send; None if the target has taken the same bytes with another pair."""
        kept = self._kept.get(batches.identity)
        if kept is not None and kept.pair == pair:
            return kept.base
        if kept is not None and batches.identity in self._taken:
            return None
        return self._next.get(pair, 0)

    def sent(self, origin: Hashable, batches: Batches, pair: Pair, base: int, *, awaits: bool = True) -> None:
        """The request leaves with its base sequence."""
        sent = _SentSequence(pair, base, batches)
        if base == self._next.get(pair, 0):
            self._move(pair, (base + batches.length) & LARGEST)
        self._keep(sent)
        if origin in self._behind:
            self._behind.remove(origin)
        self._flying.pop(origin, None)
        if awaits:
            self._flying[origin] = sent

    def taken(self, origin: Hashable) -> None:
        """The target has taken the batches."""
        sent = self._leave(origin)
        if sent is not None and sent.batches.identity in self._kept:
            self._taken.add(sent.batches.identity)

    def refused(self, origin: Hashable) -> None:
        """The target has refused the batches: their sequence is free again."""
        sent = self._flying.get(origin)
        was_behind = origin in self._behind
        self._leave(origin)
        if sent is not None and not was_behind and sent.batches.identity not in self._taken:
            self._forget(sent)
            self._go_back(sent)

    def lost(self, origin: Hashable) -> None:
        """The batches may have been taken or not, or never left."""
        self._leave(origin)

    def goes_again(self, origin: Hashable) -> bool:
        """Handles error 45. True if the batch was only too early, and goes again in order."""
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
        """The batch and those in flight behind it go again in order, with another pair."""
        sent = self._flying.get(origin)
        if sent is not None and origin not in self._behind:
            self._forget(sent)
            self._go_back(sent)
            self._behind.insert(0, origin)

    def _leave(self, origin: Hashable) -> _SentSequence | None:
        if origin in self._behind:
            self._behind.remove(origin)
        return self._flying.pop(origin, None)

    def _go_back(self, sent: _SentSequence) -> None:
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

    def _keep(self, sent: _SentSequence) -> None:
        self._kept[sent.batches.identity] = sent
        self._kept.move_to_end(sent.batches.identity)
        while len(self._kept) > _KEPT:
            self._taken.discard(self._kept.popitem(last=False)[0])

    def _forget(self, sent: _SentSequence) -> None:
        self._kept.pop(sent.batches.identity, None)
        self._taken.discard(sent.batches.identity)
