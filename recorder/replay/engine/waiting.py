"""The order of exchanges: which items wait for which others.

Recorded answers are read in the order of time. So the first unsettled exchange of a key is the earliest, and one look
at it says whether a request may leave, however many wait.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import count

from proxy.wire.keys import SYNC_GROUP
from recorder.replay.engine.item import Item, Lane, State
from recorder.replay.outcome import Cause
from recorder.replay.requests.order import Key


class WaitGraph:
    """The order of one replay. Memory: the keys of items until these are settled."""

    def __init__(self) -> None:
        self._rows = count(1)
        self._blocking: dict[Key, OrderedDict[Item, None]] = {}
        self._blocked: dict[Key, dict[Lane, None]] = {}
        self._members: dict[str, list[Item]] = {}

    def request_read(self, item: Item) -> None:
        """A recorded request was read: it waits for what the recording had answered until now."""
        item.request_row = next(self._rows)
        if item.keys.member_of is not None:
            self._follow_members(item, item.keys.member_of)
        elif item.keys.commits_to is not None:
            item.before = self._not_left(item.keys.commits_to)

    def _follow_members(self, item: Item, group: str) -> None:
        """Membership requests leave in recorded order.

        A SyncGroup may pass earlier ones that a room holds back: the member that the target elected as leader waits for
        the SyncGroup of the recorded leader.
        """
        item.before = self._not_left(group)
        is_sync = item.exchange.api_key == SYNC_GROUP
        self._members[group] = [*item.before, item] if is_sync else [item]

    def _not_left(self, group: str) -> list[Item]:
        return [each for each in self._members.get(group, ()) if each.state is State.QUEUED]

    def answer_read(self, item: Item) -> None:
        """A recorded answer was read, or none is needed: later requests wait for the item."""
        item.answer_row = next(self._rows)
        for key in item.keys.blocks:
            blocking = self._blocking.get(key)
            if blocking is None:
                blocking = self._blocking[key] = OrderedDict()
            blocking[item] = None

    def holds_back(self, item: Item) -> bool:
        """True if an item has to wait. Its lane is freed when that may have changed."""
        for before in item.before:
            if before.state is State.QUEUED and not _passes(item, before):
                before.followers.append(item.lane)
                item.cause = Cause.OTHER_ANSWERS
                return True
        item.before = []
        for key in item.keys.waits_for:
            blocking = self._blocking.get(key)
            if blocking is None:
                continue
            first = next(iter(blocking))
            if _precedes(first, item):
                self._blocked.setdefault(key, {})[item.lane] = None
                item.cause = Cause.OWN_ANSWERS if first.lane is item.lane else Cause.OTHER_ANSWERS
                return True
        return False

    def left(self, item: Item) -> list[Lane]:
        """An item has left, or never will. Returns lanes whose head may leave now."""
        if not item.followers:
            return []
        followers, item.followers = item.followers, []
        return followers

    def settled(self, item: Item) -> list[Lane]:
        """An item is settled. Returns lanes whose head may leave now."""
        freed = self.left(item)
        for key in item.keys.blocks if item.answer_row else ():
            blocking = self._blocking.get(key)
            # a key may stand twice in `blocks`
            if blocking is None or item not in blocking:
                continue
            if next(iter(blocking)) is item:
                freed += self._blocked.pop(key, ())
            del blocking[item]
            if not blocking:
                del self._blocking[key]
        if item.keys.member_of is not None and self._members.get(item.keys.member_of) == [item]:
            del self._members[item.keys.member_of]
        return freed


def _passes(item: Item, before: Item) -> bool:
    """True for a SyncGroup or a commit that may leave before an earlier membership request that a room holds back.

    A SyncGroup passes SyncGroups only, a commit any of them.
    """
    is_sync = {item.exchange.api_key, before.exchange.api_key} == {SYNC_GROUP}
    return before.hold is not None and (is_sync or item.keys.member_of is None)


def _precedes(other: Item, item: Item) -> bool:
    """True if `item` waits for `other`, which had ended in the recording before the first byte of `item`.

    An exchange ends with its answer, or once it is sent if it needs none. On its own connection the latter holds nobody
    back: it leaves earlier in any case.
    """
    exchange = other.exchange
    over = exchange.answered_ns if exchange.awaits else exchange.at_ns
    if not exchange.awaits and other.lane is item.lane:
        return False
    return other.answer_row < item.request_row and over is not None and over <= item.exchange.first_ns
