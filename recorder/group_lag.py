"""How far groups are behind, as it is seen on the wire: what they commit, and where the logs end.

    committed    by group and partition: the newest answered commit, or what an OffsetFetch was told
    log ends     by partition: a Fetch's high watermark, the end of what a Produce has appended, what ListOffsets found

A number is as old as the frame that told it, so each has its time. Offsets that are committed in a transaction count
once the transaction is. How a group does at a partition is judged as LinkedIn's Burrow does, over the last commits
(https://github.com/linkedin/Burrow/wiki/Consumer-Lag-Evaluation-Rules).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import Any, Generic, NamedTuple, TypeVar

from recorder.facts.group_rows import COMMIT, DELETE, END_TXN, FETCH_OFFSETS
from recorder.labels import IDLE_SECONDS, UNKNOWN, Labelled, cut, topic_name
from recorder.reading.elements import Told

# the commits that a judgement is made of, as in Burrow
WINDOW = 10
# seconds: a commit that follows sooner takes its predecessor's place in the window
MIN_DISTANCE = 1.0
# seconds without a commit before a group can count as stopped: Java's consumer commits every 5 seconds
LEAST_SILENCE = 30.0
# a group that has stopped is told of for a day
GROUP_IDLE_SECONDS = 24 * IDLE_SECONDS
# halves of exchanges, and open transactions, that are remembered; the oldest is forgotten for a further one
_MOST_WAITING = 10_000


class State(StrEnum):
    """How a group does at a partition.

    OK: it keeps up. WARNING: it goes on, and its lag has not fallen over the window. STALLED: it commits the same
    offset again and again, and is behind. STOPPED: it is behind, and silent for longer than its window lasts.
    """

    OK = "ok"
    WARNING = "warning"
    STALLED = "stalled"
    STOPPED = "stopped"


class Partition(NamedTuple):
    """A partition of a topic."""

    cluster: str
    topic: str
    number: int


class Place(NamedTuple):
    """A group at a partition."""

    group: str
    partition: Partition


class Commit(NamedTuple):
    """A commit in a window, in seconds since 1970. `lag`: what the group lacked; None: the log's end was not known."""

    offset: int
    at: float
    lag: int | None


@dataclass(slots=True)
class Seen:
    """An offset, and when it was told, in seconds since 1970. -1 and 0: never."""

    offset: int = -1
    at: float = 0.0

    @property
    def is_known(self) -> bool:
        """True once it was told."""
        return self.offset >= 0


@dataclass(slots=True)
class Progress(Seen):
    """What a group has committed at a partition. `window`: its last commits, oldest first."""

    window: deque[Commit] = field(default_factory=lambda: deque(maxlen=WINDOW))


class _End(NamedTuple):
    """How a transaction has ended, and when, in seconds since 1970."""

    at: float
    is_commit: bool


class Standing(NamedTuple):
    """How a group does at a partition now. `end`, `lag`, `state`: None while the log's end is not known."""

    place: Place
    committed: Progress
    end: Seen | None
    lag: int | None
    state: State | None


# what one side of an exchange says of a group's offsets: columns of `recorder.facts.group_rows.COLUMNS`
GroupFacts = Mapping[str, Any]
Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Waiting(Generic[Key, Value]):
    """What waits for something else, _MOST_WAITING at most."""

    def __init__(self) -> None:
        self._values: dict[Key, Value] = {}

    def put(self, key: Key, value: Value) -> None:
        """Lets a value wait; the oldest waits no more if there are too many."""
        self._values.pop(key, None)
        if len(self._values) >= _MOST_WAITING:
            del self._values[next(iter(self._values))]
        self._values[key] = value

    def get(self, key: Key) -> Value | None:
        """What waits under this key; None if nothing does."""
        return self._values.get(key)

    def taken(self, key: Key) -> Value | None:
        """What waits under this key, and waits no more; None if nothing does."""
        return self._values.pop(key, None)


class GroupLag:
    """What groups have committed, and where logs end. Times are seconds since 1970.

    `most`: the most places of groups, and the most partitions.
    """

    def __init__(self, most: int, told: Told) -> None:
        self.committed = Labelled[Place, Progress](most, Progress, idle=GROUP_IDLE_SECONDS)
        self.ends = Labelled[Partition, Seen](most, Seen, idle=GROUP_IDLE_SECONDS)
        self._told = told
        # by cluster and transactional id: what the open transaction commits; how the last one has ended
        self._open = Waiting[tuple[str, str], dict[Place, Seen]]()
        self._ended = Waiting[tuple[str, str], _End]()

    def standings(self, now: float) -> Iterator[Standing]:
        """How each group does at each partition."""
        for place, committed in list(self.committed.rows.items()):
            end = self.ends.rows.get(place.partition)
            if committed.is_known:
                lag = max(end.offset - committed.offset, 0) if end else None
                state = None if lag is None else judged(committed.window, lag, now)
                yield Standing(place, committed, end, lag, state)

    def note_end(self, partition: Partition, end: int, at: float) -> None:
        """Learns where a log ends."""
        seen = self.ends.at(partition, at)
        if seen is None:
            return
        # an older answer may tell less. A log that was truncated ends earlier, which a later second shows
        if end >= seen.offset or at > seen.at + MIN_DISTANCE:
            seen.offset = end
        seen.at = max(seen.at, at)

    def read(self, cluster: str | None, asked: Sequence[GroupFacts], told: Sequence[GroupFacts], at: float) -> None:
        """Learns what an exchange does to groups' offsets.

        `asked`, `told`: what its request and its answer say, both something. `at`: the time of the answer.
        """
        step = asked[0]["step"]
        if step == FETCH_OFFSETS:
            self._read_told_offsets(cluster, asked, told, at)
            return
        failed = {row["part"] for row in told if row["error_code"]}
        done = {row["part"] for row in told} - failed
        for row in asked:
            if row["part"] in done:
                self._did(step, cluster or UNKNOWN, row, at)

    def _read_told_offsets(
        self, cluster: str | None, asked: Sequence[GroupFacts], told: Sequence[GroupFacts], at: float
    ) -> None:
        groups = {row["part"]: row["group_id"] for row in asked}
        for row in told:
            group = groups.get(row["part"])
            if group and row["committed_offset"] is not None and not row["error_code"]:
                committed = self.committed.at(self._place(group, cluster, row), at)
                if committed is not None and not committed.is_known:
                    committed.offset, committed.at = row["committed_offset"], at

    def _did(self, step: str, cluster: str, row: GroupFacts, at: float) -> None:
        transaction = cluster, cut(row["transactional_id"] or "")
        if step == END_TXN:
            self._ended.put(transaction, _End(at, row["is_news"]))
            for place, seen in (self._open.taken(transaction) or {}).items():
                self._commit_in(transaction, place, seen)
        elif step == DELETE:
            self._delete(cluster, row)
        elif step == COMMIT and row["committed_offset"] is not None:
            place = self._place(row["group_id"], cluster, row)
            if row["transactional_id"]:
                self._commit_in(transaction, place, Seen(row["committed_offset"], at))
            else:
                self._commit(place, row["committed_offset"], at)

    def _place(self, group: str | None, cluster: str | None, row: GroupFacts) -> Place:
        topic = topic_name(self._told, row["topic"], row["topic_id"])
        return Place(cut(group or UNKNOWN), Partition(cluster or UNKNOWN, topic, row["partition"]))

    def _commit_in(self, transaction: tuple[str, str], place: Place, seen: Seen) -> None:
        """Commits once the transaction ends, which may be known before: workers' logs are read one after the other."""
        end = self._ended.get(transaction)
        if end is None or end.at < seen.at:
            self._open.put(transaction, (self._open.taken(transaction) or {}) | {place: seen})
        elif end.is_commit:
            self._commit(place, seen.offset, end.at)

    def _commit(self, place: Place, offset: int, at: float) -> None:
        committed = self.committed.at(place, at)
        if committed is None or at < committed.at:
            return
        committed.offset, committed.at = offset, at
        end = self.ends.rows.get(place.partition)
        if committed.window and at - committed.window[-1].at < MIN_DISTANCE:
            committed.window.pop()
        committed.window.append(Commit(offset, at, max(end.offset - offset, 0) if end else None))

    def _delete(self, cluster: str, row: GroupFacts) -> None:
        if row["topic"] is not None or row["topic_id"] is not None:
            self.committed.drop(self._place(row["group_id"], cluster, row))
            return
        group = cut(row["group_id"] or UNKNOWN)
        of_group = (one for one in self.committed.rows if (one.group, one.partition.cluster) == (group, cluster))
        for place in [*of_group]:
            self.committed.drop(place)


def judged(window: Iterable[Commit], lag: int, now: float) -> State:
    """How a group does that lacks `lag` records. `window`: its last commits, oldest first; `now`: since 1970."""
    commits = [*window]
    if lag == 0 or not commits:
        return State.OK
    first, last = commits[0], commits[-1]
    if now - last.at > max(last.at - first.at, LEAST_SILENCE):
        return State.STOPPED
    # a lag that was nothing, or that nobody knew, within the window is no fault
    if len(commits) < WINDOW or not all(one.lag for one in commits):
        return State.OK
    if all(one.offset == first.offset for one in commits):
        return State.STALLED
    is_growing = all((later.lag or 0) >= (earlier.lag or 0) for earlier, later in pairwise(commits))
    return State.WARNING if is_growing else State.OK
