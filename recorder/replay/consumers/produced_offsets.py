"""Where both logs have the records of one Produce: pairs of offsets, and the room that the records take.

Records that the replay did not send again stand where an earlier request brought them. The others stand together,
behind the target's base offset, in their order.

    recorded at 100   r1 r2 n1 n2     the pairs are 100 -> 50, with 2 records,
    target            r1 r2 at 50     and 102 -> 60, with 2 records
                      n1 n2 at 60
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from recorder.replay.plan import NO_OFFSET, Repeated


class OffsetPair(NamedTuple):
    """The offsets of a run of records on both sides. `length`: how many they are; 0: unknown."""

    recorded: int
    target: int
    length: int


def offset_pairs(base: int, target: int, length: int, repeated: Sequence[Repeated] = ()) -> Iterator[OffsetPair]:
    """The pairs of a partition's records.

    Args:
        base: the recorded base offset.
        target: the target's base offset of the records that were sent; NO_OFFSET: it gave none.
        length: the number of records that were sent; 0: unknown.
        repeated: the records that were not sent.
    """
    at = 0
    for each in repeated:
        new = each.first - at
        if new and target != NO_OFFSET:
            yield OffsetPair(base + at, target, new)
            target, length = target + new, length - new
        if each.target != NO_OFFSET:
            yield OffsetPair(base + each.first, each.target, each.length)
        at = each.first + each.length
    if target != NO_OFFSET and (length > 0 or not repeated):
        yield OffsetPair(base + at, target, length)
