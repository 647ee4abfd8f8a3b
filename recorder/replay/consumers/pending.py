"""Offsets that a transaction has committed: brokers show them a moment after the answer to its EndTxn.

An OffsetFetch that found them in the recording is sent again while the target still shows earlier offsets. Where the
recorded broker still showed an earlier offset, the target may show them already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from proxy.wire.keys import OFFSET_FETCH
from recorder.replay.names import Names
from recorder.replay.partitions import Topic, TopicPartition, in_answer
from recorder.replay.plan import Exchange, Origin, Values

# With doubling pauses this takes some seconds: a transaction's markers are written within milliseconds.
MOST_TRIES = 8
_NAMED = Callable[[Topic], str | None]


class _Committed(NamedTuple):
    recorded: int
    target: int


class PendingOffsets:
    """Offsets that transactions committed, by recorded names, until an OffsetFetch has found them."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._pending: dict[tuple[str, TopicPartition], _Committed] = {}
        # what the target showed already, and the earlier recorded offset
        self._ahead: dict[tuple[str, TopicPartition], _Committed] = {}
        self._tries: dict[Origin, int] = {}

    def add(self, group: str, place: TopicPartition, recorded: int, target: int) -> None:
        """The target has taken a TxnOffsetCommit."""
        self._pending[group, place] = _Committed(recorded, target)

    def is_early(self, exchange: Exchange, answer: Values) -> bool:
        """True if an OffsetFetch has to be sent again: the recording found offsets that the target doesn't show yet."""
        if not self._pending or exchange.answer is None:
            return False
        group = exchange.request.get("group_id", "")
        recorded_offsets = dict(_offsets(exchange.answer, group, str, self._names.topic))
        target_offsets = dict(_offsets(answer, group, self._names.recorded, self._names.recorded_topic))
        waits = False
        for key, recorded in recorded_offsets.items():
            pending = self._pending.get(key)
            if pending is None:
                continue
            if target_offsets.get(key) != pending.target:
                waits |= pending.recorded == recorded
            elif pending.recorded == recorded:
                del self._pending[key]
            else:
                self._ahead[key] = _Committed(recorded, pending.target)
        return waits and self._may_try(exchange.origin)

    def ahead(self, group: str, place: TopicPartition, recorded: int) -> int | None:
        """The offset that the target showed in place of an earlier recorded one; None if it showed none."""
        found = self._ahead.get((group, place))
        return found.target if found and found.recorded == recorded else None

    def forget(self, origin: Origin) -> None:
        """The exchange is over."""
        self._tries.pop(origin, None)

    def forget_topic(self, topic: str) -> None:
        """A topic was deleted, with the offsets committed in it."""
        for each in (self._pending, self._ahead):
            for key in [key for key in each if key[1][0] == topic]:
                del each[key]

    def _may_try(self, origin: Origin) -> bool:
        self._tries[origin] = self._tries.get(origin, 0) + 1
        return self._tries[origin] <= MOST_TRIES


def _offsets(
    answer: Values, group: str, recorded: Callable[[str], str], named: _NAMED
) -> Iterator[tuple[tuple[str, TopicPartition], int]]:
    """The offsets in an answer to OffsetFetch, by recorded group and place."""
    for each in in_answer(OFFSET_FETCH, answer):
        name = named(each.topic)
        own = each.around.around[-1].get("group_id")
        if name is not None:
            yield (group if own is None else recorded(own), (name, each.partition)), each.values["committed_offset"]
