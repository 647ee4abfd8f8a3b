"""How far groups are behind, as it is seen on the wire: what they commit, and where the logs end.

    committed    by group and partition: the newest answered commit, or what an OffsetFetch was told
    log ends     by partition: a Fetch's high watermark, the end of what a Produce has appended, what ListOffsets found

A number is as old as the frame that told it, so each has its time. Offsets that are committed in a transaction count
once the transaction is. How a group does at a partition is judged as LinkedIn's Burrow does, over the last commits
(https://github.com/linkedin/Burrow/wiki/Consumer-Lag-Evaluation-Rules).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import Any, Generic, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from proxy.wire import keys
from proxy.wire.apis import name_or_key
from recorder.capture import frames as c
from recorder.facts.group_rows import COMMIT, DELETE, END_TXN, FETCH_OFFSETS
from recorder.facts.rows import SIDE
from recorder.live.labels import IDLE_SECONDS, Labelled, cut
from recorder.live.traffic import FETCH, PRODUCE, UNKNOWN, topic_name
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
LIST_OFFSETS = name_or_key(keys.LIST_OFFSETS)
# in ListOffsets: the timestamp that stands for the log's end
_LATEST = -1


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
    """How a group does at a partition now. `lag`, `state`: None while the log's end is not known."""

    place: Place
    committed: Progress
    lag: int | None
    state: State | None


Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class _Waiting(Generic[Key, Value]):
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


class Lag:
    """What groups have committed, and where logs end.

    `most`: the most places of groups, and the most partitions. `clock`: seconds since 1970.
    """

    def __init__(self, most: int, told: Told, clock: Callable[[], float]) -> None:
        self.committed = Labelled[Place, Progress](most, Progress, idle=GROUP_IDLE_SECONDS)
        self.ends = Labelled[Partition, Seen](most, Seen, idle=GROUP_IDLE_SECONDS)
        self._told, self._clock = told, clock
        # by exchange and kind of facts: the rows of the side that came first
        self._halves = _Waiting[tuple[Any, ...], tuple[str, list[dict[str, Any]]]]()
        # by cluster and transactional id: what the open transaction commits; how the last one has ended
        self._open = _Waiting[tuple[str, str], dict[Place, Seen]]()
        self._ended = _Waiting[tuple[str, str], _End]()

    def standings(self) -> Iterator[Standing]:
        """How each group does at each partition."""
        now = self._clock()
        for place, committed in list(self.committed.rows.items()):
            end = self.ends.rows.get(place.partition)
            if committed.is_known:
                lag = max(end.offset - committed.offset, 0) if end and end.is_known else None
                yield Standing(place, committed, lag, None if lag is None else judged(committed.window, lag, now))

    # partitions: PARTITION_FACTS of Produce, Fetch and ListOffsets

    def read_partitions(self, facts: Any) -> None:
        """Learns where logs end, from a batch of the facts of partitions."""
        table = pa.Table.from_batches([facts])
        self._read_fetched(table.filter(pc.equal(table["api"], FETCH)))
        rows = table.filter(pc.and_(pc.is_in(table["api"], pa.array([PRODUCE, LIST_OFFSETS])), _is_answered(table)))
        for exchange, asked, told in self._pairs("partitions", rows, _OF_ENDS):
            answers = {_key(row): row for row in told}
            for row in asked:
                answer = answers.get(_key(row))
                end = None if answer is None or answer["error_code"] else _end(row, answer)
                if end is not None:
                    self._note_end(self._partition(exchange[0], row), end, _seconds(told[0]["at"]))

    def _read_fetched(self, table: Any) -> None:
        names = ["cluster", "topic", "topic_id", "partition"]
        known = table.filter(pc.is_valid(table["high_watermark"])).select([*names, "high_watermark", "at"])
        highest = known.group_by(names).aggregate([("high_watermark", "max"), ("at", "max")])
        for row in highest.to_pylist():
            self._note_end(self._partition(row["cluster"], row), row["high_watermark_max"], _seconds(row["at_max"]))

    def _note_end(self, partition: Partition, end: int, at: float) -> None:
        seen = self.ends.at(partition, self._clock())
        if seen is None:
            return
        # an older answer may tell less. A log that was truncated ends earlier, which a later second shows
        if end >= seen.offset or at > seen.at + MIN_DISTANCE:
            seen.offset = end
        seen.at = max(seen.at, at)

    def _partition(self, cluster: str | None, row: dict[str, Any]) -> Partition:
        return Partition(cluster or UNKNOWN, topic_name(self._told, row["topic"], row["topic_id"]), row["partition"])

    # groups: the rows of `group_offsets` that are about offsets

    def read_groups(self, facts: Any) -> None:
        """Learns what is committed, from a batch of the facts of groups' offsets."""
        for exchange, asked, told in self._pairs("groups", pa.Table.from_batches([facts]), _OF_COMMITS):
            step = asked[0]["step"]
            if step == FETCH_OFFSETS:
                self._read_told_offsets(exchange[0], asked, told)
                continue
            failed = {row["part"] for row in told if row["error_code"]}
            answered = {row["part"] for row in told}
            at = _seconds(told[0]["at"])
            for row in asked:
                if row["part"] in answered and row["part"] not in failed:
                    self._did(step, exchange[0] or UNKNOWN, row, at)

    def _read_told_offsets(self, cluster: str | None, asked: list[dict[str, Any]], told: list[dict[str, Any]]) -> None:
        groups = {row["part"]: row["group_id"] for row in asked}
        for row in told:
            group = groups.get(row["part"])
            if group and row["committed_offset"] is not None and not row["error_code"]:
                place = Place(cut(group), self._partition(cluster, row))
                committed = self.committed.at(place, self._clock())
                if committed is not None and not committed.is_known:
                    committed.offset, committed.at = row["committed_offset"], _seconds(row["at"])

    def _did(self, step: str, cluster: str, row: dict[str, Any], at: float) -> None:
        transaction = cluster, cut(row["transactional_id"] or "")
        if step == END_TXN:
            self._ended.put(transaction, _End(at, row["is_news"]))
            for place, seen in (self._open.taken(transaction) or {}).items():
                self._commit_in(transaction, place, seen)
        elif step == DELETE:
            self._delete(cluster, row)
        elif step == COMMIT and row["committed_offset"] is not None:
            place = Place(cut(row["group_id"] or UNKNOWN), self._partition(cluster, row))
            if row["transactional_id"]:
                self._commit_in(transaction, place, Seen(row["committed_offset"], at))
            else:
                self._commit(place, row["committed_offset"], at)

    def _commit_in(self, transaction: tuple[str, str], place: Place, seen: Seen) -> None:
        """Commits once the transaction ends, which may be known before: workers' logs are read one after the other."""
        end = self._ended.get(transaction)
        if end is None or end.at < seen.at:
            self._open.put(transaction, (self._open.taken(transaction) or {}) | {place: seen})
        elif end.is_commit:
            self._commit(place, seen.offset, end.at)

    def _commit(self, place: Place, offset: int, at: float) -> None:
        committed = self.committed.at(place, self._clock())
        if committed is None or at < committed.at:
            return
        committed.offset, committed.at = offset, at
        end = self.ends.rows.get(place.partition)
        if committed.window and at - committed.window[-1].at < MIN_DISTANCE:
            committed.window.pop()
        committed.window.append(Commit(offset, at, max(end.offset - offset, 0) if end else None))

    def _delete(self, cluster: str, row: dict[str, Any]) -> None:
        group = cut(row["group_id"] or UNKNOWN)
        if row["topic"] is None and row["topic_id"] is None:
            of_group = (one for one in self.committed.rows if (one.group, one.partition.cluster) == (group, cluster))
            for place in [*of_group]:
                self.committed.drop(place)
        else:
            self.committed.drop(Place(group, self._partition(cluster, row)))

    def _pairs(
        self, of: str, table: Any, columns: Iterable[str]
    ) -> Iterator[tuple[tuple[Any, ...], list[dict[str, Any]], list[dict[str, Any]]]]:
        """Each exchange of which both sides have come, as (cluster, ...), the request's rows, the answer's rows."""
        sides: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for row in table.select([*_OF_EXCHANGE, *columns]).to_pylist():
            key = row["cluster"], row[c.SESSION], row[c.CONNECTION], row[c.EXCHANGE], of, row[SIDE]
            sides.setdefault(key, []).append(row)
        for (*exchange, side), rows in sides.items():
            earlier = self._halves.taken(tuple(exchange))
            if earlier is None or earlier[0] == side:
                self._halves.put(tuple(exchange), (side, rows))
            else:
                asked, told = (rows, earlier[1]) if side == c.REQUEST else (earlier[1], rows)
                yield tuple(exchange), asked, told


_OF_EXCHANGE = ("cluster", c.SESSION, c.CONNECTION, c.EXCHANGE, SIDE, "at")
_OF_ENDS = ("api", "topic", "topic_id", "partition", "error_code", "records", "base_offset", "offset", "timestamp_ms")
_OF_COMMITS = (
    *("part", "step", "group_id", "topic", "topic_id", "partition", "committed_offset", "error_code"),
    *("transactional_id", "is_news"),
)


def _is_answered(table: Any) -> Any:
    """False for Produces that ask for no answer."""
    return pc.fill_null(pc.not_equal(table["acks"], 0), True)


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["topic"] or row["topic_id"], row["partition"]


def _end(asked: dict[str, Any], told: dict[str, Any]) -> int | None:
    """The end of a log by both sides of an exchange."""
    if asked["api"] == LIST_OFFSETS:
        return told["offset"] if asked["timestamp_ms"] == _LATEST else None
    if told["base_offset"] is None:
        return None
    return int(told["base_offset"] + (asked["records"] or 0))


def _seconds(at: Any) -> float:
    return float(at.timestamp())


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
