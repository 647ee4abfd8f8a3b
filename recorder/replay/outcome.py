"""What a replay did: values that the engine counts into, and that every form of the report reads. No rules.

    Plan       what a replay would do, before anything is sent (`--dry-run`)
    Progress   how far a replay is, for the line on the terminal
    Result     what a replay did

Times are nanoseconds; those named `…_at_ns` count since 1970. Names of topics and groups are the recording's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from recorder.replay.durations import Durations
from recorder.replay.plan import Reason, unplayable_percent

# Mismatches that are kept with their frames. Further ones are only counted.
MOST_MISMATCHES = 100


class RefusedCounts(NamedTuple):
    """What the recording refused for a while, so that it is withheld: requests, and parts of other requests."""

    requests: int
    parts: int


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
    FORBIDDEN = "a connection led where nothing may be written"


class Verdict(StrEnum):
    """What a replay found. The value stands in reports."""

    EQUAL = "as recorded"
    TOLERATED = "mismatched, as far as allowed"
    MISMATCHED = "mismatched"
    WITHHELD = "too much withheld"
    NOTHING = "nothing sent"
    UNCOMPARED = "nothing compared"
    UNFINISHED = "unfinished"


class Unanswered(StrEnum):
    """Why a request that was sent counts neither as answered nor as lost."""

    SILENT = "acks=0: brokers don't answer it"
    NOT_AWAITED = "the recorded client hung up first, or the replay ended"


class BeforeKind(StrEnum):
    """What is from before the recording, so that the target can't have it. The value stands in reports."""

    RECORDS = "records"
    OFFSET = "offsets"
    MEMBER = "requests of members"
    GENERATION = "requests of generations"
    TRANSACTION = "ends of transactions"
    SESSION = "requests of sessions"
    TOPIC = "parts with topics of unknown names"
    GROUP = "descriptions of groups"
    ASSIGNMENT = "assignments of groups"


@dataclass(frozen=True, slots=True)
class FromBefore:
    """What is from before the recording and not expected of the target.

    `name`: the topic of records and offsets; else the group, transactional id, client or topic id.
    """

    kind: BeforeKind
    name: str
    count: int


@dataclass(frozen=True, slots=True)
class ReachedTarget:
    """The cluster that was played to. `asked`: as given to --to; `nodes`: id -> host:port."""

    asked: str
    cluster_id: str | None = None
    nodes: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Source:
    """The recording that was played: the capture's folder, its sessions, the times of the first and last chosen
    requests.
    """

    capture: str
    sessions: tuple[str, ...] = ()
    first_at_ns: int = 0
    last_at_ns: int = 0

    @property
    def span_ns(self) -> int:
        """Recorded time between the first and the last request."""
        return self.last_at_ns - self.first_at_ns


@dataclass(frozen=True, slots=True)
class Touched:
    """A topic, group or transactional id that a replay touches: the target's name, and how many requests name it.

    `is_written`: the replay produces records, commits offsets or begins transactions; else it only reads.
    """

    name: str
    requests: int
    is_written: bool = False


@dataclass(slots=True)
class Plan:
    """What a replay would do.

    Attributes:
        options: in words, one each.
        requests: those that would be sent, by API.
        sent: those that would be sent, by API and target node. A request that is split counts at each node. None: only
            an answer of the target tells the node.
        withheld: requests by API and reason.
        partitions: parts withheld of requests that would be sent, by reason.
        made: the replay's own requests by purpose, such as creating topics.
        refusals: why the replay would not begin.
        before: what is from before the recording, as far as it is known before anything is sent.
        notes: what people should know.
    """

    source: Source
    target: ReachedTarget
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
    before: tuple[FromBefore, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def refused(self) -> RefusedCounts:
        """What the recording refused: not sent, and played nevertheless."""
        requests = sum(number for (_, reason), number in self.withheld.items() if reason == Reason.REFUSED)
        return RefusedCounts(requests, self.partitions[Reason.REFUSED])

    @property
    def withheld_percent(self) -> float:
        """The share of requests that can't be played, among those that the options choose."""
        by_reason: Counter[str] = Counter()
        for (_, reason), number in self.withheld.items():
            by_reason[reason] += number
        return unplayable_percent(by_reason, self.withheld.total() + self.requests.total())


@dataclass(slots=True)
class Progress:
    """How far a replay is.

    Attributes:
        late: requests that left later than they were due; `behind_ns`: how late the last one left.
        position_ns: recorded time from the first request on, up to which all have left; `span_ns`: to the last one.
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
    """The requests of one API.

    Attributes:
        recorded: those that the options choose: sent, withheld, and what a replay that ended early left over.
        answered: of those sent; `retried`: sent once more, not counted in `sent`.
        uncompared: of those answered: the recorded answer is not in the capture, or not whole.
        lost: sent requests whose answer never came, or that never left though they need none.
        silent: sent requests that need no answer.
        withheld: by reason; `partitions`: parts withheld of requests that were sent, by reason.
        mismatches: answers that differ, by kind as the comparison names it. One answer counts once.
    """

    recorded: int = 0
    sent: int = 0
    answered: int = 0
    uncompared: int = 0
    lost: int = 0
    silent: int = 0
    retried: int = 0
    withheld: Counter[str] = field(default_factory=Counter)
    partitions: Counter[str] = field(default_factory=Counter)
    mismatches: Counter[str] = field(default_factory=Counter)

    def add(self, other: ApiCounts) -> None:
        """Adds the counts of another API."""
        for name in ("recorded", "sent", "answered", "uncompared", "lost", "silent", "retried"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.withheld += other.withheld
        self.partitions += other.partitions
        self.mismatches += other.mismatches

    @property
    def compared(self) -> int:
        """Answers that were compared."""
        return self.answered - self.uncompared

    @property
    def unanswered(self) -> Counter[str]:
        """Sent requests that count neither as answered nor as lost, by reason."""
        others = self.recorded - self.withheld.total() - self.answered - self.lost - self.silent
        return +Counter({Unanswered.SILENT.value: self.silent, Unanswered.NOT_AWAITED.value: others})


@dataclass(slots=True)
class Latency:
    """Times from a request to its whole answer, recorded and replayed, of exchanges that have both.

    They count from the request's last byte as recorded, and from its first byte as replayed. `is_apart`: these answers
    wait on purpose (empty polls), so their times say nothing of either side's speed.
    """

    recorded: Durations = field(default_factory=Durations)
    replayed: Durations = field(default_factory=Durations)
    is_apart: bool = False


@dataclass(slots=True)
class Stream:
    """Records that a consumer fetched of one partition. `reordered`: records that both sides read, in another order.

    `missing`: the target's log ended without them; `unread`: the replay ended before it had read them. `before`: the
    target lacks them, and they are from before the recording.
    """

    consumer: str
    topic: str
    partition: int
    equal: int = 0
    missing: int = 0
    extra: int = 0
    reordered: int = 0
    unread: int = 0
    before: int = 0

    @property
    def differs(self) -> bool:
        """True if both sides read different records, or in another order.

        Records that are unread, or from before the recording, don't count.
        """
        return bool(self.missing or self.extra or self.reordered)


@dataclass(frozen=True, slots=True)
class Assigned:
    """A group whose members, all together, were assigned other partitions or tasks than in the recording.

    `only_recorded`, `only_target`: those that one side alone assigned, for people; the first hundred.
    """

    group: str
    only_recorded: tuple[str, ...] = ()
    only_target: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Difference:
    """One value that differs, as text on both sides ("" if absent).

    `path`: such as `topics[0].partitions[3].error_code`.
    """

    path: str
    recorded: str
    replayed: str


@dataclass(frozen=True, slots=True)
class Frame:
    """The first bytes of a frame, without length and secrets. `size_bytes`: the whole frame's."""

    octets: bytes
    size_bytes: int

    @property
    def is_cut(self) -> bool:
        """True if the end of the frame is not kept."""
        return len(self.octets) < self.size_bytes


@dataclass(frozen=True, slots=True)
class Mismatch:
    """An exchange whose answers differ. `mismatches.of_exchange` makes it.

    Attributes:
        session, connection, exchange: where it is in the capture.
        version: of the request and of the recorded answer; `target_version`: of the replayed answer's frame.
        at_ns: of the request in the recording, since 1970.
        differences: the first ones; `more`: how many further ones there are.
        request: as recorded.
        recorded, replayed: the answers; None if there is none.
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
        ended_why: a sentence that says more than `ending`; mostly empty.
        apis: by name; `made`: the replay's own requests by purpose.
        late: how late each request left, 0 for punctual ones; `lateness`: by cause, the part of it in late ones.
        stood_still_ns: how long nothing moved, by what the replay waited for; it may wait for several things at once.
        latency: by API. Those that are apart have a name of their own: "Fetch, empty polls".
        before: what is from before the recording, so that it was not expected.
        assigned: groups whose assignments differ.
        had_records: topics that the replay produced to and that had records on the target before.
        had_offsets: groups that had offsets on the target before.
        left_open: transactions and members that the replay could not end on the target, by the target's names, and why.
        maybe_twice: records that the target may have twice, by topic. No answer tells whether the recorded log has
            them, so that their client may have sent them again.
        mismatches: the first `MOST_MISMATCHES`.
        max_mismatches: --max-mismatches; `partial`: --partial, in percent.
    """

    source: Source
    target: ReachedTarget
    options: tuple[str, ...] = ()
    started_at_ns: int = 0
    ended_at_ns: int = 0
    position_ns: int = 0
    ending: Ending = Ending.WHOLE
    ended_why: str = ""
    apis: dict[str, ApiCounts] = field(default_factory=dict)
    made: Counter[str] = field(default_factory=Counter)
    late: Durations = field(default_factory=Durations)
    lateness: dict[Cause, Durations] = field(default_factory=dict)
    stood_still_ns: Counter[str] = field(default_factory=Counter)
    latency: dict[str, Latency] = field(default_factory=dict)
    streams: list[Stream] = field(default_factory=list)
    before: tuple[FromBefore, ...] = ()
    assigned: list[Assigned] = field(default_factory=list)
    had_records: tuple[str, ...] = ()
    had_offsets: tuple[str, ...] = ()
    left_open: list[str] = field(default_factory=list)
    maybe_twice: Counter[str] = field(default_factory=Counter)
    mismatches: list[Mismatch] = field(default_factory=list)
    max_mismatches: int = 0
    partial: float = 1.0

    def api(self, name: str) -> ApiCounts:
        """The counts of an API, created on first use."""
        # called several times for each exchange: no object is made in vain
        return self.apis.get(name) or self.apis.setdefault(name, ApiCounts())

    def add_mismatch(self, mismatch: Mismatch) -> None:
        """Counts an answer that differs, and keeps it if there are few yet."""
        self.api(mismatch.api).mismatches[mismatch.kind] += 1
        if len(self.mismatches) < MOST_MISMATCHES:
            self.mismatches.append(mismatch)

    def add_late(self, late_ns: int, parts: Mapping[Cause, int]) -> None:
        """Counts how late a request left, and each cause's part of it."""
        self.late.add(late_ns)
        for cause, part_ns in parts.items():
            if part_ns > 0:
                self.lateness.setdefault(cause, Durations()).add(part_ns)

    def latency_of(self, api: str, apart: str = "") -> Latency:
        """The latencies of an API's exchanges, created on first use.

        `apart`: why they count apart from the API's others, such as "empty polls".
        """
        name = f"{api}, {apart}" if apart else api
        latency = self.latency.get(name)
        if latency is None:
            latency = self.latency[name] = Latency(is_apart=bool(apart))
        return latency

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
        answers = sum(one.mismatches.total() + one.lost for one in self.apis.values())
        return answers + sum(1 for _ in self.differing_streams()) + len(self.assigned)

    def unanswered(self) -> Iterator[tuple[str, Counter[str]]]:
        """Reasons for which requests were sent and have no answer, each with the requests by API."""
        for reason in Unanswered:
            apis = +Counter({name: counts.unanswered[reason] for name, counts in self.apis.items()})
            if apis:
                yield reason.value, apis

    @property
    def refused(self) -> RefusedCounts:
        """What the recording refused: not sent, and played nevertheless."""
        totals = self.totals
        return RefusedCounts(totals.withheld[Reason.REFUSED], totals.partitions[Reason.REFUSED])

    def differing_streams(self) -> Iterator[Stream]:
        """Streams of records that differ."""
        return (stream for stream in self.streams if stream.differs)

    @property
    def withheld_percent(self) -> float:
        """The share of requests that could not be played, among those that the options choose."""
        totals = self.totals
        return unplayable_percent(totals.withheld, totals.recorded)

    @property
    def verdict(self) -> Verdict:
        """The verdict. A replay that ended early is unfinished, whatever else it found."""
        if self.ending is not Ending.WHOLE:
            return Verdict.UNFINISHED
        if self.differences > self.max_mismatches:
            return Verdict.MISMATCHED
        if self.withheld_percent > self.partial:
            return Verdict.WITHHELD
        if not self.totals.sent:
            return Verdict.NOTHING
        if not self.totals.compared and not self.streams:
            return Verdict.UNCOMPARED
        return Verdict.TOLERATED if self.differences else Verdict.EQUAL

    @property
    def exit_code(self) -> int:
        """The exit code of the command."""
        return 0 if self.verdict in (Verdict.EQUAL, Verdict.TOLERATED) else 1
