"""Who waits for whom: exchanges that others ask for and that are not settled yet, and the connections that wait.

Recorded answers are read in the order of time. So the first exchange of a key that is not settled yet is the earliest,
and one look at it says whether a request may go, however many wait.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import count

from proxy.wire.keys import SYNC_GROUP
from recorder.replay.engine.item import Item, Lane, State
from recorder.replay.outcome import Cause
from recorder.replay.requests.order import Key


class Waiting:
    """The order of one replay. Memory: that of the items which it is told of until they are settled."""

    def __init__(self) -> None:
        self._rows = count(1)
        self._told: dict[Key, OrderedDict[Item, None]] = {}
        self._blocked: dict[Key, dict[Lane, None]] = {}
        self._members: dict[str, list[Item]] = {}

    def asked(self, item: Item) -> None:
        """The recording asked: what it had answered until now counts."""
        item.asked_row = next(self._rows)
        if item.keys.member_of is not None:
            self._follow_members(item, item.keys.member_of)
        elif item.keys.commits_to is not None:
            item.before = self._not_left(item.keys.commits_to)

    def _follow_members(self, item: Item, group: str) -> None:
        """Membership requests leave in recorded order. A SyncGroup passes earlier ones that are held back: whom the
        target elected waits for the recorded leader's.
        """
        item.before = self._not_left(group)
        is_sync = item.exchange.api_key == SYNC_GROUP
        self._members[group] = [*item.before, item] if is_sync else [item]

    def _not_left(self, group: str) -> list[Item]:
        return [each for each in self._members.get(group, ()) if each.state is State.QUEUED]

    def told(self, item: Item) -> None:
        """The recording answered, or need not: requests from now on wait for the item."""
        item.told_row = next(self._rows)
        for key in item.keys.tells:
            told = self._told.get(key)
            if told is None:
                told = self._told[key] = OrderedDict()
            told[item] = None

    def holds_back(self, item: Item) -> bool:
        """True if the head of a lane has to wait: its lane is told when that may have changed."""
        for before in item.before:
            if before.state is State.QUEUED and not _passes(item, before):
                before.followers.append(item.lane)
                item.cause = Cause.OTHER_ANSWERS
                return True
        item.before = []
        for key in item.keys.asks:
            told = self._told.get(key)
            if told is None:
                continue
            first = next(iter(told))
            if _precedes(first, item):
                self._blocked.setdefault(key, {})[item.lane] = None
                item.cause = Cause.OWN_ANSWERS if first.lane is item.lane else Cause.OTHER_ANSWERS
                return True
        return False

    def left(self, item: Item) -> list[Lane]:
        """An item has left, or never will. Returns lanes whose head may go now."""
        if not item.followers:
            return []
        followers, item.followers = item.followers, []
        return followers

    def settled(self, item: Item) -> list[Lane]:
        """Nobody waits for an item any more. Returns lanes whose head may go now."""
        freed = self.left(item)
        for key in item.keys.tells if item.told_row else ():
            told = self._told.get(key)
            # a request may tell one key twice
            if told is None or item not in told:
                continue
            if next(iter(told)) is item:
                freed += self._blocked.pop(key, ())
            del told[item]
            if not told:
                del self._told[key]
        if item.keys.member_of is not None and self._members.get(item.keys.member_of) == [item]:
            del self._members[item.keys.member_of]
        return freed


def _passes(item: Item, before: Item) -> bool:
    """True for a SyncGroup behind one that a room holds back, which may wait for it; for a commit behind any such."""
    is_sync = {item.exchange.api_key, before.exchange.api_key} == {SYNC_GROUP}
    return before.hold is not None and (is_sync or item.keys.member_of is None)


def _precedes(other: Item, item: Item) -> bool:
    """True if the recording had answered the other one before this one's first byte; had sent it, if it awaits nothing.

    What awaits nothing leaves before the rest of its connection in any case.
    """
    exchange = other.exchange
    over = exchange.answered_ns if exchange.awaits else exchange.at_ns
    if not exchange.awaits and other.lane is item.lane:
        return False
    return other.told_row < item.asked_row and over is not None and over <= item.exchange.first_ns
