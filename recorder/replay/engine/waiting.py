"""The order of exchanges: which items wait for which others.

Recorded answers are read in the order of time. So the first unsettled exchange of a key is the earliest, and one look
at it says whether a request may leave, however many wait. Exchanges that need no answer are kept by lane: they hold
back requests of other lanes only, since those of their own lane leave later in any case.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from itertools import chain, count

from proxy.wire.keys import SYNC_GROUP
from recorder.replay.engine.item import Item, ItemState, Lane
from recorder.replay.outcome import Cause
from recorder.replay.requests.order import Key

_NONE: Mapping[Lane, OrderedDict[Item, None]] = {}


class WaitGraph:
    """The order of one replay. Memory: the keys of items until these are settled."""

    def __init__(self) -> None:
        self._rows = count(1)
        # exchanges that need an answer; a single one, as most are, is its own queue
        self._blocking: dict[Key, Item | OrderedDict[Item, None]] = {}
        # those that need none, by their lane
        self._silent: dict[Key, dict[Lane, OrderedDict[Item, None]]] = {}
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
        return [each for each in self._members.get(group, ()) if each.state is ItemState.QUEUED]

    def answer_read(self, item: Item) -> None:
        """A recorded answer was read, or none is needed: later requests wait for the item."""
        item.answer_row = next(self._rows)
        if not item.exchange.awaits:
            for key in item.keys.blocks:
                self._silent.setdefault(key, {}).setdefault(item.lane, OrderedDict())[item] = None
            return
        for key in item.keys.blocks:
            blocking = self._blocking.setdefault(key, item)
            if blocking is item:
                continue
            if isinstance(blocking, Item):
                self._blocking[key] = OrderedDict({blocking: None, item: None})
            else:
                blocking[item] = None

    def holds_back(self, item: Item) -> bool:
        """True if an item has to wait. Its lane is freed when that may have changed."""
        for before in item.before:
            if before.state is ItemState.QUEUED and not _passes(item, before):
                before.followers.append(item.lane)
                item.cause = Cause.OTHER_ANSWERS
                return True
        item.before = []
        for key in item.keys.waits_for:
            blocking = self._blocking.get(key)
            if blocking is not None:
                first = blocking if isinstance(blocking, Item) else next(iter(blocking))
                if _precedes(first, item):
                    return self._wait(item, key, first)
            for lane, silent in self._silent.get(key, _NONE).items() if self._silent else ():
                first = next(iter(silent))
                if lane is not item.lane and _precedes(first, item):
                    return self._wait(item, key, first)
        return False

    def _wait(self, item: Item, key: Key, first: Item) -> bool:
        self._blocked.setdefault(key, {})[item.lane] = None
        item.cause = Cause.OWN_ANSWERS if first.lane is item.lane else Cause.OTHER_ANSWERS
        return True

    def is_open(self, key: Key, until_ns: int) -> bool:
        """True if an exchange that blocks a key is unsettled. `until_ns`: the latest recorded time of its request."""
        # one that was requested early may have been answered behind others
        blocking = self._blocking.get(key, ())
        unsettled = (blocking,) if isinstance(blocking, Item) else blocking
        silent = (item for each in self._silent.get(key, _NONE).values() for item in each)
        return any(item.exchange.at_ns <= until_ns for item in chain(unsettled, silent))

    def left(self, item: Item) -> list[Lane]:
        """An item has left, or never will. Returns lanes whose head may leave now."""
        if not item.followers:
            return []
        followers, item.followers = item.followers, []
        return followers

    def settled(self, item: Item) -> list[Lane]:
        """An item is settled. Returns lanes whose head may leave now."""
        freed = self.left(item) if item.followers else []
        if item.answer_row:
            self._unblock(item, freed)
        if item.keys.member_of is not None and self._members.get(item.keys.member_of) == [item]:
            del self._members[item.keys.member_of]
        return freed

    def _unblock(self, item: Item, freed: list[Lane]) -> None:
        """Adds the lanes to `freed` that waited for the item as the first one of a key."""
        for key in item.keys.blocks:
            blocking = self._blocking.get(key) if item.exchange.awaits else self._silent.get(key, _NONE).get(item.lane)
            if blocking is item:
                del self._blocking[key]
                if key in self._blocked:
                    freed += self._blocked.pop(key)
            # a key may stand twice in `blocks`
            elif blocking is not None and not isinstance(blocking, Item) and item in blocking:
                if next(iter(blocking)) is item:
                    freed += self._blocked.pop(key, ())
                del blocking[item]
                if not blocking:
                    self._forget(key, item)

    def _forget(self, key: Key, item: Item) -> None:
        if item.exchange.awaits:
            del self._blocking[key]
            return
        del self._silent[key][item.lane]
        if not self._silent[key]:
            del self._silent[key]


def _passes(item: Item, before: Item) -> bool:
    """True for a SyncGroup or a commit that may leave before an earlier membership request that a room holds back.

    A SyncGroup passes SyncGroups only, a commit any of them.
    """
    is_sync = {item.exchange.api_key, before.exchange.api_key} == {SYNC_GROUP}
    return before.hold is not None and (is_sync or item.keys.member_of is None)


def _precedes(other: Item, item: Item) -> bool:
    """True if `item` waits for `other`, which had ended in the recording before the first byte of `item`.

    An exchange ends with its answer, or with its connection, or once it is sent if it needs none.
    """
    exchange = other.exchange
    over = (exchange.cut_ns or exchange.answered_ns) if exchange.awaits else exchange.at_ns
    return other.answer_row < item.request_row and over is not None and over <= item.exchange.first_ns
