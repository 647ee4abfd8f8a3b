"""Assignments that heartbeats give to the members of each group, on both sides (`unions`). Topics have recorded names.

    ConsumerGroupHeartbeat, ShareGroupHeartbeat    the answer's assignment; null if it has not changed
    StreamsGroupHeartbeat                          the answer's tasks

Answers to made heartbeats count for the target too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress

from proxy.wire.errors import WireError
from proxy.wire.keys import STREAMS_GROUP_HEARTBEAT
from recorder.replay.comparison.unions import AssignmentParts, AssignmentUnions, assignment_parts
from recorder.replay.names import Names
from recorder.replay.outcome import Assigned
from recorder.replay.plan import Exchange, Values
from recorder.replay.requests.apis import HEARTBEATS
from recorder.replay.translator import Translator

# partitions of a group that a report lists
MOST_NAMED = 100


class Assignments(Translator):
    """The assignments of one replay's groups. A translator, which changes nothing."""

    def __init__(
        self, names: Names, is_before: Callable[[str, str, int], bool] = lambda group, member, at_ns: False
    ) -> None:
        """`is_before`: recorded group, member and time -> True for a member from before the recording."""
        self._names, self._is_before = names, is_before
        # groups with such members, which have partitions that the target gives to others
        self.of_before: set[str] = set()
        self._unions = AssignmentUnions()
        # groups with a topic that no recorded answer has named: they can't be compared
        self._unnamed: set[str] = set()

    def concerns(self, api_key: int, version: int) -> bool:
        """True for APIs that this room looks at."""
        return api_key in HEARTBEATS

    def answered(self, exchange: Exchange, values: Values, answer: Values, now: int) -> None:
        """Adds the assignments of both answers."""
        if exchange.api_key not in HEARTBEATS:
            return
        group = exchange.request["group_id"]
        recorded = _of(exchange.api_key, exchange.answer or {})
        if any(isinstance(of, bytes) and self._names.topic(of) is None for of, *_ in recorded):
            self._unnamed.add(group)
        self._unions.add_recorded(group, _named(recorded, self._names.topic))
        self.add_target_answer(exchange.api_key, group, answer)

    def add_target_answer(self, api_key: int, group: str, answer: Values) -> None:
        """Adds the assignment of the target's answer to a recorded or made heartbeat. `group`: its recorded name."""
        self._unions.add_replayed(group, _named(_of(api_key, answer), self._names.recorded_topic))

    def lost(self, exchange: Exchange, values: Values | None) -> None:
        """Notes a member from before the recording. The recorded answer is not counted without the target's."""
        if exchange.api_key not in HEARTBEATS:
            return
        with suppress(WireError):
            group, member = exchange.request["group_id"], exchange.request["member_id"]
            if self._is_before(group, member, exchange.first_ns):
                self.of_before.add(group)

    def differing(self) -> Iterable[Assigned]:
        """The groups whose assignments differ, for the report. Groups with members from before are not compared."""
        for found in self._unions.differing():
            if found.group not in self._unnamed | self.of_before:
                yield Assigned(found.group, _texts(found.only_recorded), _texts(found.only_target))


def _of(api_key: int, answer: Values) -> AssignmentParts:
    if answer.get("error_code", 0):
        return frozenset()
    return assignment_parts(answer if api_key == STREAMS_GROUP_HEARTBEAT else answer.get("assignment"))


def _named(found: AssignmentParts, topic: Callable[[bytes], str | None]) -> AssignmentParts:
    """Assignments with recorded topic names. Tasks stay."""

    def name(of: Hashable) -> Hashable:
        return (topic(of) or of) if isinstance(of, bytes) else of

    return frozenset((name(of), *rest) for of, *rest in found)


def _texts(found: AssignmentParts) -> tuple[str, ...]:
    """Partitions and tasks as texts for people: "topic 0", "active_tasks of subtopology 1 0"."""
    return tuple(sorted(" ".join(map(str, each)) for each in found)[:MOST_NAMED])
