"""What heartbeats give to the groups of both sides (`unions`): topics by their recorded names.

    ConsumerGroupHeartbeat, ShareGroupHeartbeat    the answer's assignment; null says that it is as it was
    StreamsGroupHeartbeat                          the answer's tasks

Heartbeats that the replay makes are told things as well: their answers count for the target.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from proxy.wire.keys import CONSUMER_GROUP_HEARTBEAT, SHARE_GROUP_HEARTBEAT, STREAMS_GROUP_HEARTBEAT
from recorder.replay.comparison.unions import Given, Unions, given
from recorder.replay.names import Names
from recorder.replay.outcome import Assigned
from recorder.replay.plan import Exchange, Values

_WITH_ASSIGNMENTS = frozenset({CONSUMER_GROUP_HEARTBEAT, SHARE_GROUP_HEARTBEAT})
API_KEYS = _WITH_ASSIGNMENTS | {STREAMS_GROUP_HEARTBEAT}
# Partitions of a group that a report names.
MOST_NAMED = 100


class Assignments:
    """What one replay's groups were given. A translator."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._unions = Unions()
        # topics that no answer of the recording has named: their groups can't be compared
        self._unnamed: set[str] = set()

    def concerns(self, api_key: int, version: int) -> bool:
        """True for APIs that these rules are about: nothing else is asked here."""
        return api_key in API_KEYS

    def request(self, exchange: Exchange, values: Values, now: int) -> None:
        """Nothing is changed."""

    def sent(self, exchange: Exchange, values: Values, now: int) -> None:
        """Nothing moves when a request leaves."""

    def answered(self, exchange: Exchange, values: Values, answer: Values, now: int) -> None:
        """Both sides have answered."""
        if exchange.api_key not in API_KEYS:
            return
        group = exchange.request["group_id"]
        recorded = _of(exchange.api_key, exchange.answer or {})
        if any(isinstance(of, bytes) and self._names.topic(of) is None for of, *_ in recorded):
            self._unnamed.add(group)
        self._unions.add_recorded(group, _named(recorded, self._names.topic))
        self.told(exchange.api_key, group, answer)

    def told(self, api_key: int, group: str, answer: Values) -> None:
        """The target's answer to a heartbeat, a made one too. `group`: its recorded name."""
        self._unions.add_replayed(group, _named(_of(api_key, answer), self._names.recorded_topic))

    def lost(self, exchange: Exchange, values: Values | None) -> None:
        """No answer will come: what it would have said is not missed."""

    def differing(self) -> Iterable[Assigned]:
        """The groups that were given something else, for the report."""
        for found in self._unions.differing():
            if found.group not in self._unnamed:
                yield Assigned(found.group, _texts(found.only_recorded), _texts(found.only_target))


def _of(api_key: int, answer: Values) -> Given:
    if answer.get("error_code", 0):
        return frozenset()
    return given(answer.get("assignment") if api_key in _WITH_ASSIGNMENTS else answer)


def _named(found: Given, topic: Callable[[bytes], str | None]) -> Given:
    """With the recorded names of topics; tasks have none."""

    def name(of: Hashable) -> Hashable:
        return (topic(of) or of) if isinstance(of, bytes) else of

    return frozenset((name(of), *rest) for of, *rest in found)


def _texts(found: Given) -> tuple[str, ...]:
    """Partitions and tasks for people: "topic 0", "active_tasks of subtopology 1 0"."""
    return tuple(sorted(" ".join(map(str, each)) for each in found)[:MOST_NAMED])
