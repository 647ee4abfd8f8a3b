"""What a replay did, as values that the engine counts into and every form of the report reads. No rules of a replay.

    Plan       what a replay would do, before anything is sent (`--dry-run`)
    Progress   how far it is, for the line that is shown meanwhile
    Result     what it did

Times are nanoseconds; those named `…_at_ns` since 1970. Names of topics are the recording's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from recorder.replay.durations import Durations
from recorder.replay.plan import unplayable_percent

# Mismatches that are kept with their frames; all are counted.
MOST_MISMATCHES = 100


class Cause(StrEnum):
    """Why a request left later than it was due. The value stands in reports."""

    OWN_ANSWERS = "answers on its connection"
    OTHER_ANSWERS = "answers that others wait for"
    FULL_SOCKET = "the target read slowly"
    REPLAY = "the replay itself"


class Ending(StrEnum):
    """Why a replay ended. The value stands in reports."""

    WHOLE = "played to its end"
    INTERRUPTED = "interrupted"
    TOO_LATE = "later than --max-late"
    TOO_MANY = "more mismatches than --stop-after"
    DAMAGED = "the capture could not be read to its end"


class Verdict(StrEnum):
    """What a replay found. The value stands in reports."""

    EQUAL = "as recorded"
    TOLERATED = "mismatched, as far as allowed"
    MISMATCHED = "mismatched"
    WITHHELD = "too much withheld"
    NOTHING = "nothing sent"
    UNFINISHED = "unfinished"


@dataclass(frozen=True, slots=True)
class Target:
    """The cluster that was played to. `asked`: as given to --to; `nodes`: id -> host:port."""

    asked: str
    cluster_id: str | None = None
    nodes: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Source:
    """What was played: the capture's folder, its sessions, the times of the first and the last request chosen."""

    capture: str
    sessions: tuple[str, ...] = ()
    first_at_ns: int = 0
    last_at_ns: int = 0

    @property
    def span_ns(self) -> int:
        """First to last request, as recorded."""
        return self.last_at_ns - self.first_at_ns


@dataclass(frozen=True, slots=True)
class Touched:
    """A topic, group or transactional id that a replay touches: the target's name, and the requests that name it.

    `is_written`: records are produced, offsets committed, transactions begun; else it is only read.
    """

    name: str
    requests: int
    is_written: bool = False


@dataclass(slots=True)
class Plan:
    """What a replay would do.

    Attributes:
        options: in words, one each.
        requests: that would be sent, by API.
        sent: the same by API and target node; one that is split counts at each. None: a node that only an answer tells.
        withheld: requests by API and reason; `partitions`: parts of requests that are sent without them, by reason.
        made: topics that would be created, and the like: the replay's own requests by purpose.
        refusals: why it would not begin; `notes`: what people should know.
    """

    source: Source
    target: Target
    options: tuple[str, ...] = ()
    requests: Counter[str] = field(default_factory=Counter)
    sent: Counter[tuple[str, int | None]] = field(default_factory=Counter)
    withheld: Counter[tuple[str, str]] = field(default_factory=Counter)
    partitions: Counter[str] = field(default_factory=Counter)
    made: Counter[str] = field(default_factory=Counter)
    topics: tuple[Touched, ...] = ()
    groups: tuple[Touched, ...] = ()
    transactions: tuple[Touched, ...] = ()
    refusals: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def withheld_percent(self) -> float:
        """Requests that can't be played, of all that the options choose."""
        by_reason: Counter[str] = Counter()
        for (_, reason), number in self.withheld.items():
            by_reason[reason] += number
        return unplayable_percent(by_reason, self.withheld.total() + self.requests.total())


@dataclass(slots=True)
class Progress:
    """How far a replay is. `late`: requests that left later than due; `behind_ns`: how much the last one was.

    `position_ns`: of the last request that left, since the first one, as recorded; `span_ns`: of the last of all.
    """

    sent: int = 0
    answered: int = 0
    late: int = 0
    behind_ns: int = 0
    withheld: int = 0
    mismatches: int = 0
    position_ns: int = 0
    span_ns: int = 0


@dataclass(slots=True)
class ApiCounts:
    """Requests of one API. `recorded` is what was chosen: sent, withheld, and what a replay that ended left over.

    Attributes:
        answered: of those sent; `lost`: whose connection broke; `retried`: sent once more, not counted in `sent`.
        withheld: by reason; `partitions`: parts withheld of requests that were sent, by reason.
        mismatches: answers that differ, by kind as the comparison names it. One answer counts once.
    """

    recorded: int = 0
    sent: int = 0
    answered: int = 0
    lost: int = 0
    retried: int = 0
    withheld: Counter[str] = field(default_factory=Counter)
    partitions: Counter[str] = field(default_factory=Counter)
    mismatches: Counter[str] = field(default_factory=Counter)

    def add(self, other: ApiCounts) -> None:
        """Adds the counts of another API."""
        for name in ("recorded", "sent", "answered", "lost", "retried"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.withheld += other.withheld
        self.partitions += other.partitions
        self.mismatches += other.mismatches


@dataclass(slots=True)
class Latency:
    """Last byte of the request to first byte of the answer: recorded, and replayed, of the exchanges that have both.

    `is_apart`: they wait on purpose (empty polls), and say nothing of how fast either side is.
    """

    recorded: Durations = field(default_factory=Durations)
    replayed: Durations = field(default_factory=Durations)
    is_apart: bool = False


@dataclass(slots=True)
class Stream:
    """Records that a consumer fetched of one partition. `reordered` ones are equal, but of other order.

    `missing`: the target's log ended before them; `unread`: it did not, but the replay did.
    """

    consumer: str
    topic: str
    partition: int
    equal: int = 0
    missing: int = 0
    extra: int = 0
    reordered: int = 0
    unread: int = 0

    @property
    def differs(self) -> bool:
        """True if records differ that both sides read."""
        return bool(self.missing or self.extra or self.reordered)


@dataclass(frozen=True, slots=True)
class Assigned:
    """A group whose members were given other partitions or tasks to read, all together, than in the recording.

    `only_recorded`, `only_target`: what one side alone gave, for people; the first hundred.
    """

    group: str
    only_recorded: tuple[str, ...] = ()
    only_target: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Difference:
    """One value that differs, both sides for people ("" if absent); `path`: `topics[0].partitions[3].error_code`."""

    path: str
    recorded: str
    replayed: str


@dataclass(frozen=True, slots=True)
class Frame:
    """The first bytes of a frame, without its length and without secrets; `size_bytes`: of all of it."""

    octets: bytes
    size_bytes: int

    @property
    def is_cut(self) -> bool:
        """True if bytes of the end are not there."""
        return len(self.octets) < self.size_bytes


@dataclass(frozen=True, slots=True)
class Mismatch:
    """An exchange whose answers differ: `kept.mismatch` makes it.

    Attributes:
        session, connection, exchange: where it is in the capture.
        version: of the request and of the recorded answer; `target_version`: of the replayed answer's frame.
        at_ns: of the request in the recording, since 1970.
        differences: the first ones; `more`: how many further ones there are.
        request: as recorded; `recorded`, `replayed`: the answers, None where there is none.
    """

    session: str
    connection: int
    exchange: int
    api: str
    api_key: int
    version: int
    kind: str
    at_ns: int = 0
    client: str = ""
    target_version: int | None = None
    differences: tuple[Difference, ...] = ()
    more: int = 0
    request: Frame | None = None
    recorded: Frame | None = None
    replayed: Frame | None = None


@dataclass(slots=True)
class Result:
    """What a replay did.

    Attributes:
        options: in words, one each.
        started_at_ns, ended_at_ns: of the replay; `position_ns`: how far in the recording it came.
        apis: by name; `made`: the replay's own requests by purpose.
        late: how late each request left, punctual ones with 0; `lateness`: what each cause added to late ones.
        latency: by API; what is apart of it (empty polls) behind a comma.
        assigned: groups whose members were given something else to read.
        left_open: transactions and members that the replay could not end on the target, by the target's names, and why.
        mismatches: the first `MOST_MISMATCHES`.
        max_mismatches: --max-mismatches; `partial`: --partial, in percent.
    """

    source: Source
    target: Target
    options: tuple[str, ...] = ()
    started_at_ns: int = 0
    ended_at_ns: int = 0
    position_ns: int = 0
    ending: Ending = Ending.WHOLE
    apis: dict[str, ApiCounts] = field(default_factory=dict)
    made: Counter[str] = field(default_factory=Counter)
    late: Durations = field(default_factory=Durations)
    lateness: dict[Cause, Durations] = field(default_factory=dict)
    latency: dict[str, Latency] = field(default_factory=dict)
    streams: list[Stream] = field(default_factory=list)
    assigned: list[Assigned] = field(default_factory=list)
    left_open: list[str] = field(default_factory=list)
    mismatches: list[Mismatch] = field(default_factory=list)
    max_mismatches: int = 0
    partial: float = 1.0

    def api(self, name: str) -> ApiCounts:
        """The counts of an API, made when they are first asked for."""
        # asked for several times an exchange: an object that is not needed is not made
        return self.apis.get(name) or self.apis.setdefault(name, ApiCounts())

    def add_mismatch(self, mismatch: Mismatch) -> None:
        """Counts an answer that differs, and keeps it while there are few."""
        self.api(mismatch.api).mismatches[mismatch.kind] += 1
        if len(self.mismatches) < MOST_MISMATCHES:
            self.mismatches.append(mismatch)

    def add_late(self, late_ns: int, parts: Mapping[Cause, int]) -> None:
        """Counts how late a request left, and what each cause has added to that."""
        self.late.add(late_ns)
        for cause, part_ns in parts.items():
            if part_ns > 0:
                self.lateness.setdefault(cause, Durations()).add(part_ns)

    def add_latency(self, api: str, recorded_ns: int, replayed_ns: int, apart: str = "") -> None:
        """Counts both latencies of an exchange. `apart`: why it says nothing of the rest: "empty polls"."""
        name = f"{api}, {apart}" if apart else api
        latency = self.latency.get(name) or self.latency.setdefault(name, Latency(is_apart=bool(apart)))
        latency.recorded.add(recorded_ns)
        latency.replayed.add(replayed_ns)

    @property
    def totals(self) -> ApiCounts:
        """The sums over all APIs."""
        sums = ApiCounts()
        for one in self.apis.values():
            sums.add(one)
        return sums

    @property
    def differences(self) -> int:
        """Answers, streams of records and groups' assignments that differ, and answers that never came.

        --max-mismatches counts these.
        """
        # asked for after each answer: no sums of all the other counts
        answers = sum(one.mismatches.total() + one.lost for one in self.apis.values())
        return answers + sum(1 for _ in self.differing_streams()) + len(self.assigned)

    def differing_streams(self) -> Iterator[Stream]:
        """Streams of records that differ."""
        return (stream for stream in self.streams if stream.differs)

    @property
    def withheld_percent(self) -> float:
        """Requests that could not be played, of all that the options chose."""
        totals = self.totals
        return unplayable_percent(totals.withheld, totals.recorded)

    @property
    def verdict(self) -> Verdict:
        """What was found; an ending before its time weighs most."""
        if self.ending is not Ending.WHOLE:
            return Verdict.UNFINISHED
        if self.differences > self.max_mismatches:
            return Verdict.MISMATCHED
        if self.withheld_percent > self.partial:
            return Verdict.WITHHELD
        if not self.totals.sent:
            return Verdict.NOTHING
        return Verdict.TOLERATED if self.differences else Verdict.EQUAL

    @property
    def exit_code(self) -> int:
        """Of the command, for whatever runs it."""
        return 0 if self.verdict in (Verdict.EQUAL, Verdict.TOLERATED) else 1
