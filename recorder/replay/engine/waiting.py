"""The order of exchanges: which items wait for which others.

Recorded answers are read in the order of time. So the first unsettled exchange of a key is the earliest, and one look
at it says whether a request may leave, however many wait. Exchanges that need no answer are kept by lane: they hold
back requests of other lanes only, since those of their own lane leave later in any case.
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
        # the lane of exchanges that need no answer; None: exchanges of all lanes that need one
        self._blocking: dict[Key, dict[Lane | None, OrderedDict[Item, None]]] = {}
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
        silent = _silent_lane(item)
        for key in item.keys.blocks:
            by_lane = self._blocking.get(key)
            if by_lane is None:
                by_lane = self._blocking[key] = {}
            blocking = by_lane.get(silent)
            if blocking is None:
                blocking = by_lane[silent] = OrderedDict()
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
            for silent, blocking in self._blocking.get(key, {}).items():
                first = next(iter(blocking))
                if silent is not item.lane and _precedes(first, item):
                    self._blocked.setdefault(key, {})[item.lane] = None
                    item.cause = Cause.OWN_ANSWERS if first.lane is item.lane else Cause.OTHER_ANSWERS
                    return True
        return False

    def is_open(self, key: Key, until_ns: int) -> bool:
        """True if an exchange that blocks a key is unsettled. `until_ns`: the latest recorded time of its request."""
        # one that was requested early may have been answered behind others
        unsettled = (item for blocking in self._blocking.get(key, {}).values() for item in blocking)
        return any(item.exchange.at_ns <= until_ns for item in unsettled)

    def left(self, item: Item) -> list[Lane]:
        """An item has left, or never will. Returns lanes whose head may leave now."""
        if not item.followers:
            return []
        followers, item.followers = item.followers, []
        return followers

    def settled(self, item: Item) -> list[Lane]:
        """An item is settled. Returns lanes whose head may leave now."""
        freed, silent = self.left(item), _silent_lane(item)
        for key in item.keys.blocks if item.answer_row else ():
            by_lane = self._blocking.get(key, {})
            blocking = by_lane.get(silent)
            # a key may stand twice in `blocks`
            if blocking is None or item not in blocking:
                continue
            if next(iter(blocking)) is item:
                freed += self._blocked.pop(key, ())
            del blocking[item]
            if not blocking:
                del by_lane[silent]
            if not by_lane:
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


def _silent_lane(item: Item) -> Lane | None:
    """The lane of an item that needs no answer."""
    return None if item.exchange.awaits else item.lane


def _precedes(other: Item, item: Item) -> bool:
    """True if `item` waits for `other`, which had ended in the recording before the first byte of `item`.

    An exchange ends with its answer, or once it is sent if it needs none.
    """
    exchange = other.exchange
    over = exchange.answered_ns if exchange.awaits else exchange.at_ns
    return other.answer_row < item.request_row and over is not None and over <= item.exchange.first_ns
