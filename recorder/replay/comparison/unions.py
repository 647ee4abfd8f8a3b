"""Assignments of a group's members, all together.

The target's coordinator gives partitions and tasks to members as it likes, one answer after another. All together they
must be those that the recorded coordinator gave: every partition is read, and no other one.

An answer that describes a group has all members side by side (`together`). Heartbeats tell each member its own
assignment when it changes: `AssignmentUnions` collects all that a group was ever given, and compares at the replay's
end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from typing import NamedTuple

from recorder.replay.plan import Values
from recorder.replay.requests.fields import TASKS

AssignmentParts = frozenset[tuple[Hashable, ...]]


def assignment_parts(assignment: Values | None) -> AssignmentParts:
    """The parts of one assignment: (topic, partition) for each partition, (role, subtopology, partition) for each task.

    `assignment`: the struct with `topic_partitions`, or with lists of tasks. A topic is its name, or else its id.
    """
    return frozenset(_given(assignment or {}))


def _given(assignment: Values) -> Iterator[tuple[Hashable, ...]]:
    for entry in assignment.get("topic_partitions") or ():
        topic = entry.get("topic_name") or entry.get("topic_id")
        yield from ((topic, partition) for partition in entry["partitions"])
    for tasks in TASKS:
        for entry in assignment.get(tasks) or ():
            yield from ((tasks, entry["subtopology_id"], partition) for partition in entry["partitions"])


def together(members: Iterable[Values], field: str) -> AssignmentParts:
    """The union of a field (`assignment`, `target_assignment`) of all members."""
    return frozenset().union(*(assignment_parts(member.get(field)) for member in members))


class Differing(NamedTuple):
    """A group whose members, all together, were assigned something else than in the recording."""

    group: str
    only_recorded: AssignmentParts
    only_target: AssignmentParts


class AssignmentUnions:
    """All that the heartbeats of each group ever assigned, on both sides. Memory grows with partitions.

    Both sides use the same names of topics: the caller translates those of one.
    """

    def __init__(self) -> None:
        self._recorded: defaultdict[str, set[tuple[Hashable, ...]]] = defaultdict(set)
        self._target: defaultdict[str, set[tuple[Hashable, ...]]] = defaultdict(set)

    def add_recorded(self, group: str, assignment: AssignmentParts) -> None:
        """Adds the assignment in a recorded answer."""
        self._recorded[group] |= assignment

    def add_replayed(self, group: str, assignment: AssignmentParts) -> None:
        """Adds the assignment in the target's answer."""
        self._target[group] |= assignment

    def differing(self) -> Iterator[Differing]:
        """The groups whose unions differ."""
        for group in sorted(self._recorded.keys() | self._target.keys()):
            recorded, target = self._recorded[group], self._target[group]
            if recorded != target:
                yield Differing(group, frozenset(recorded - target), frozenset(target - recorded))
