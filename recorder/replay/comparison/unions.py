"""What the members of a group have to read, all together.

The target's coordinator gives partitions and tasks to members as it likes, one answer after another. What it gives to
all of them must be what the recorded coordinator gave: no partition is read by nobody, none that wasn't read before.

In an answer that describes a group, all members stand side by side (`together`). Heartbeats tell each member its own,
when it has changed; `Unions` keeps what was ever given within a group, and compares when the replay ends.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from typing import NamedTuple

from recorder.replay.plan import Values

Given = frozenset[tuple[Hashable, ...]]
_TASKS = ("active_tasks", "standby_tasks", "warmup_tasks")


def given(assignment: Values | None) -> Given:
    """What one assignment gives: (topic, partition) for each partition, (role, subtopology, partition) for each task.

    `assignment`: the struct that holds `topic_partitions`, or lists of tasks. A topic is its name, else its id.
    """
    return frozenset(_given(assignment or {}))


def _given(assignment: Values) -> Iterator[tuple[Hashable, ...]]:
    for entry in assignment.get("topic_partitions") or ():
        topic = entry.get("topic_name") or entry.get("topic_id")
        yield from ((topic, partition) for partition in entry["partitions"])
    for tasks in _TASKS:
        for entry in assignment.get(tasks) or ():
            yield from ((tasks, entry["subtopology_id"], partition) for partition in entry["partitions"])


def together(members: Iterable[Values], field: str) -> Given:
    """What a field (`assignment`, `target_assignment`) of all members gives."""
    return frozenset().union(*(given(member.get(field)) for member in members))


class Differing(NamedTuple):
    """A group whose members have to read something else than in the recording."""

    group: str
    only_recorded: Given
    only_target: Given


class Unions:
    """What the heartbeats of each group ever gave, on both sides. Memory: an entry for each partition of a group.

    Topics are in the target's terms on both sides: the caller translates recorded ones.
    """

    def __init__(self) -> None:
        self._recorded: defaultdict[str, set[tuple[Hashable, ...]]] = defaultdict(set)
        self._target: defaultdict[str, set[tuple[Hashable, ...]]] = defaultdict(set)

    def add_recorded(self, group: str, assignment: Given) -> None:
        """What a recorded heartbeat's answer gives."""
        self._recorded[group] |= assignment

    def add_replayed(self, group: str, assignment: Given) -> None:
        """What the target's answer gives."""
        self._target[group] |= assignment

    def differing(self) -> Iterator[Differing]:
        """The groups whose unions differ."""
        for group in sorted(self._recorded.keys() | self._target.keys()):
            recorded, target = self._recorded[group], self._target[group]
            if recorded != target:
                yield Differing(group, frozenset(recorded - target), frozenset(target - recorded))
