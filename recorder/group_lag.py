"""How far groups are behind, as it is seen on the wire: what they commit, and where the logs end.

    committed    by group and partition: the newest answered commit, or what an OffsetFetch was told
    log ends     by partition: a Fetch's high watermark, the end of what a Produce has appended, what ListOffsets found

A number is as old as the frame that told it, so each has its time. Offsets that are committed in a transaction count
once the transaction is. How a group does at a partition is judged as LinkedIn's Burrow does, over the last commits
(https://github.com/linkedin/Burrow/wiki/Consumer-Lag-Evaluation-Rules).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

from recorder.bounded import Bounded
from recorder.facts.group_rows import COMMIT, DELETE, END_TXN, FETCH_OFFSETS
from recorder.labels import IDLE_SECONDS, UNKNOWN, cut, topic_name
from recorder.reading.elements import Told

# the commits that a judgement is made of, as in Burrow
WINDOW = 10
# seconds: a commit that follows sooner takes its predecessor's place in the window
MIN_DISTANCE = 1.0
# seconds without a commit before a group can count as stopped: Java's consumer commits every 5 seconds
LEAST_SILENCE = 30.0
# a group that has stopped is told of for a day
GROUP_IDLE_SECONDS = 24 * IDLE_SECONDS
# transactions that are open, and how others have ended; what all open ones together commit, in places of groups
MOST_TRANSACTIONS, MOST_OPEN_PLACES = 10_000, 20_000


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
    """An offset, and when it was told, in seconds since 1970. -1 and 0: never.

    `named_at`: when a frame has named its place last, in seconds since 1970.
    """

    offset: int = -1
    at: float = 0.0
    named_at: float = 0.0

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
Known = TypeVar("Known", bound=Seen)


class GroupLag:
    """What groups have committed, and where logs end. Times are seconds since 1970.

    `most`: the most places of groups, and the most partitions. Those that no frame has named for longest make room.
    """

    def __init__(self, most: int, told: Told) -> None:
        self.committed: Bounded[Place, Progress] = Bounded(most)
        self.ends: Bounded[Partition, Seen] = Bounded(most)
        self._told = told
        # by cluster and transactional id: what the open transaction commits; how the last one has ended
        self._open: Bounded[tuple[str, str], dict[Place, Seen]] = Bounded(
            MOST_TRANSACTIONS, size=lambda of: len(of[1]), room=MOST_OPEN_PLACES
        )
        self._ended: Bounded[tuple[str, str], _End] = Bounded(MOST_TRANSACTIONS)

    @property
    def forgotten(self) -> Mapping[str, int]:
        """By what a table is of: how many rows have made room for others."""
        # that a transaction has ended is of use for a moment: it is no loss
        return {
            "group": self.committed.forgotten,
            "partition": self.ends.forgotten,
            "transaction": self._open.forgotten,
        }

    def forget_idle(self, now: float) -> None:
        """Forgets places and partitions that no frame has named for GROUP_IDLE_SECONDS."""
        for table in (self.committed, self.ends):
            _forget_idle(table, now)

    def standings(self, now: float) -> Iterator[Standing]:
        """How each group does at each partition."""
        for place, committed in self.committed.copy_of_items():
            end = self.ends.get(place.partition)
            if committed.is_known:
                lag = max(end.offset - committed.offset, 0) if end else None
                state = None if lag is None else judged(committed.window, lag, now)
                yield Standing(place, committed, end, lag, state)

    def note_end(self, partition: Partition, end: int, at: float) -> None:
        """Learns where a log ends."""
        seen = _named(self.ends, partition, Seen, at)
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
        rows = [row for row in asked if row["part"] in done]
        if step == DELETE:
            self._delete(cluster or UNKNOWN, rows)
            return
        for row in rows:
            self._did(step, cluster or UNKNOWN, row, at)

    def _read_told_offsets(
        self, cluster: str | None, asked: Sequence[GroupFacts], told: Sequence[GroupFacts], at: float
    ) -> None:
        groups = {row["part"]: row["group_id"] for row in asked}
        for row in told:
            group = groups.get(row["part"])
            if group and row["committed_offset"] is not None and not row["error_code"]:
                committed = _named(self.committed, self._place(group, cluster, row), Progress, at)
                if not committed.is_known:
                    committed.offset, committed.at = row["committed_offset"], at

    def _did(self, step: str, cluster: str, row: GroupFacts, at: float) -> None:
        transaction = cluster, cut(row["transactional_id"] or "")
        if step == END_TXN:
            self._ended[transaction] = _End(at, row["is_news"])
            for place, seen in (self._open.take(transaction) or {}).items():
                self._commit_in(transaction, place, seen)
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
            places = self._open.get(transaction) or {}
            places[place] = seen
            self._open[transaction] = places
        elif end.is_commit:
            self._commit(place, seen.offset, end.at)

    def _commit(self, place: Place, offset: int, at: float) -> None:
        committed = _named(self.committed, place, Progress, at)
        if at < committed.at:
            return
        committed.offset, committed.at = offset, at
        end = self.ends.get(place.partition)
        if committed.window and at - committed.window[-1].at < MIN_DISTANCE:
            # the time stays: by a newer one, a group that commits all the time would be judged by one commit for ever
            at = committed.window.pop().at
        committed.window.append(Commit(offset, at, max(end.offset - offset, 0) if end else None))

    def _delete(self, cluster: str, rows: Iterable[GroupFacts]) -> None:
        groups: set[str] = set()
        for row in rows:
            if row["topic"] is None and row["topic_id"] is None:
                groups.add(cut(row["group_id"] or UNKNOWN))
            else:
                self.committed.take(self._place(row["group_id"], cluster, row))
        for place in [*self.committed] if groups else ():
            if place.partition.cluster == cluster and place.group in groups:
                self.committed.take(place)


def _named(table: Bounded[Key, Known], key: Key, make: Callable[[], Known], at: float) -> Known:
    """What is known of a place or a partition that a frame has named."""
    seen = table.use(key, make)
    seen.named_at = at
    return seen


def _forget_idle(table: Bounded[Any, Any], now: float) -> None:
    # the first was named longest ago
    while table and now - table[next(iter(table))].named_at > GROUP_IDLE_SECONDS:
        table.take(next(iter(table)))


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
