"""The target's value for a value in a recorded answer. Asks all rooms of state, for the comparison."""

from __future__ import annotations

from collections.abc import Hashable

from proxy.wire.keys import LIST_OFFSETS, OFFSET_FETCH, PRODUCE
from recorder.replay.consumers.offsets import Offsets
from recorder.replay.mapping import Pairs, ValueKind
from recorder.replay.names import GROUP_RESOURCE, TOPIC_RESOURCE, Names
from recorder.replay.plan import Exchange

_NAMES = frozenset(
    {ValueKind.TOPIC_NAME, ValueKind.GROUP, ValueKind.TRANSACTION, ValueKind.INSTANCE, ValueKind.COORDINATOR_KEY}
)
_NOTHING: frozenset[ValueKind] = frozenset()
_OF_MEMBERS = frozenset({ValueKind.GENERATION, ValueKind.MEMBER_EPOCH})


def same_names(names: Names) -> frozenset[ValueKind]:
    """The kinds of names that are the same on both sides: those without a prefix."""
    return _NOTHING if names.prefix else _NAMES


class Expectations:
    """The counterparts for one exchange. `known.Counterparts` tells the questions and their scopes."""

    def __init__(self, names: Names, pairs: Pairs, offsets: Offsets, exchange: Exchange) -> None:
        self._names, self._pairs, self._offsets, self._exchange = names, pairs, offsets, exchange

    @property
    def same(self) -> frozenset[ValueKind]:
        """The kinds of names that are the same on both sides: those without a prefix."""
        return same_names(self._names)

    def expected(self, what: ValueKind, scope: Hashable, recorded: Hashable) -> Hashable | None:
        """The target's value; None: no answer gave one."""
        if what in _NAMES:
            target = self._names.target_topic if what is ValueKind.TOPIC_NAME else self._names.target
            return target(recorded) if isinstance(recorded, str) else None
        if what in _OF_MEMBERS:
            return self._of_member(what, scope, recorded)
        found = self._rest(what, scope, recorded)
        if type(found) is int:
            return found
        return found if isinstance(found, Hashable) else None

    def _rest(self, what: ValueKind, scope: Hashable, recorded: Hashable) -> object | None:
        if what is ValueKind.TOPIC_ID:
            return self._names.target_id(recorded) if isinstance(recorded, bytes) else None
        if what is ValueKind.OFFSET:
            return self._offset(scope, recorded)
        if what is ValueKind.RESOURCE:
            return self._resource(scope, recorded)
        return self._pairs.target(what, recorded, self._group(scope) if what is ValueKind.MEMBER else None)

    def _group(self, scope: Hashable) -> Hashable:
        return scope if scope is not None else self._exchange.request.get("group_id")

    def _of_member(self, what: ValueKind, scope: Hashable, recorded: Hashable) -> Hashable | None:
        """A generation or epoch. The request or the recorded answer names the member."""
        for values in (self._exchange.request, self._exchange.answer or {}):
            found = self._pairs.target(what, recorded, (self._group(scope), values.get("member_id")))
            if isinstance(found, int):
                return found
        return None

    def _offset(self, scope: Hashable, recorded: Hashable) -> object | None:
        if not isinstance(scope, tuple) or not isinstance(recorded, int):
            return None
        topic, partition = scope
        name = self._names.topic(topic)
        if name is None or not isinstance(partition, int):
            return None
        if self._exchange.api_key == OFFSET_FETCH:
            group = self._exchange.request.get("group_id")
            return self._offsets.committed(group, name, partition, recorded) if isinstance(group, str) else None
        if self._exchange.api_key == PRODUCE and self._offsets.is_before(name, partition, recorded):
            # a retry of records from before the recording, which the target has not taken before
            return None
        if self._exchange.api_key == LIST_OFFSETS:
            return self._offsets.listed(name, partition, recorded)
        return self._offsets.of_record(name, partition, recorded)

    def _resource(self, scope: Hashable, recorded: Hashable) -> object | None:
        if not isinstance(recorded, str):
            return None
        if scope == TOPIC_RESOURCE:
            return self._names.target_topic(recorded)
        return self._names.target(recorded) if scope == GROUP_RESOURCE else recorded
