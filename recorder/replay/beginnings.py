"""What is from before the recording, as far as the capture proves it: the target can't have it.

The recording begins with the first request that the options choose. From before it are

    a record               below the first end of its partition that the recording tells: the lowest base offset of its
                           Produces or, without any, the first high watermark of a Fetch. Without that, all that share
                           groups read: their answers tell no end of the log, and nobody has recorded the records
    a committed offset     that an OffsetFetch finds before the recording has a commit of its group and partition
    a member               whose joining is not in the recording
    a generation           that no answer to a join tells, or whose leader's SyncGroup is not in the recording
    a transaction          whose end is the first request of its transactional id
    a session              that the first request of its connection, or share member, does not begin
    a topic's id           that no answer names

Nobody tells the offsets of a Produce with acks 0. So an end that is told behind it counts less the records that it may
have written. A Produce without an answer may have written any number, so that no later end of its partition proves
anything; one that can't be read may have written to all partitions. A base offset below an end that was told before the
Produce began is that of an earlier try, from before; unless the recording deletes topics, whose logs begin anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from proxy.wire.error_codes import MEMBER_ID_REQUIRED
from proxy.wire.errors import WireError
from proxy.wire.keys import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    DELETE_TOPICS,
    END_TXN,
    FETCH,
    INIT_PRODUCER_ID,
    PRODUCE,
    SYNC_GROUP,
    TXN_OFFSET_COMMIT,
)
from proxy.wire.places import Partition
from recorder.replay import partitions
from recorder.replay.messages import batches, record_count
from recorder.replay.outcome import BeforeKind
from recorder.replay.partitions import LARGEST_OFFSET, Topic, TopicPartition
from recorder.replay.plan import Exchange, Origin, Reason, Values
from recorder.replay.requests.apis import COMMITS, HEARTBEATS, JOIN_EPOCH, JOINING, LONG_POLLS, SHARES

# requests of a transactional id, beside Produce, whose field begins with this
_BELOW_4 = "v3_and_below_"
_IN_TRANSACTIONS = {
    INIT_PRODUCER_ID: "transactional_id",
    ADD_PARTITIONS_TO_TXN: f"{_BELOW_4}transactional_id",
    ADD_OFFSETS_TO_TXN: "transactional_id",
    TXN_OFFSET_COMMIT: "transactional_id",
    END_TXN: "transactional_id",
}
READ = COMMITS | JOINING | LONG_POLLS | SHARES | {*_IN_TRANSACTIONS, SYNC_GROUP, DELETE_TOPICS}
ANSWERED = JOINING | LONG_POLLS | {PRODUCE}
# Errors after which a Produce's records may be in the log: unknown error, timeout, network error, too few replicas.
_MAYBE_WRITTEN = frozenset({-1, 7, 13, 20})
_NEVER = LARGEST_OFFSET

# Produces with acks 0 that are remembered of a partition; behind more of them no end proves anything.
_MOST_SILENT = 1_000

Place = tuple[Topic, int]


class Before(NamedTuple):
    """Something from before the recording. `name`: of its topic, group, transactional id or client."""

    kind: BeforeKind
    name: str


class _ToldEnd(NamedTuple):
    """An end of a log. `at_ns`: the recorded time at which an answer told it."""

    end: int
    at_ns: int


class Beginnings:
    """What began in one recording, and when. Memory grows with names, partitions, members and generations."""

    def __init__(self, names: Mapping[bytes, str] | None = None) -> None:
        """`names`: topic id -> recorded name, as far as the survey knows it by now."""
        self._names = {} if names is None else names
        self._first_ends: dict[Place, _ToldEnd] = {}
        # partitions of which a Fetch has told the high watermark
        self._fetched: set[Place] = set()
        self._lowest_bases: dict[Place, _ToldEnd] = {}
        # the highest end told so far, and when
        self._ends: dict[Place, _ToldEnd] = {}
        self._deletes_topics = False
        # when a Produce began whose offsets no answer tells; None: of any partition
        self._unknown: dict[Place | None, int] = {}
        # Produces with acks 0: when each began, and its records
        self._silent: dict[Place, list[tuple[int, int]]] = {}
        self._producing: dict[Origin, tuple[int, tuple[Place, ...]]] = {}
        self._commits: dict[tuple[str, Place], int] = {}
        self._members: dict[tuple[str, str], int] = {}
        # when an answer to a join first told of a generation
        self._generations: dict[tuple[str, int], int] = {}
        # generations whose leader's SyncGroup is in the recording
        self._assigned: set[tuple[str, int]] = set()
        # the group, and the id by which its member joins; None: the member has joined before
        self._joining: dict[Origin, tuple[str, str | None]] = {}
        self._transactions: dict[str, int] = {}
        # whether the first request goes on with a session, or closes it
        self._fetching: dict[tuple[str, int], bool] = {}
        self._sharing: dict[tuple[str, str], bool] = {}
        # what `end` has found since the recording was over
        self._proven_ends: dict[TopicPartition, int] = {}
        # API -> when its first request began that can't be read
        self._unreadable: dict[int, int] = {}

    # the survey

    def add_silent(self, exchange: Exchange) -> None:
        """Adds a Produce with acks 0."""
        try:
            for each in partitions.in_request(PRODUCE, exchange.request):
                written = self._silent.setdefault(self._place(each), [])
                written.append((exchange.first_ns, record_count(each.values["records"])))
                if len(written) > _MOST_SILENT:
                    self._write_unknown([self._place(each)], written.pop()[0])
        except WireError:
            self._write_unknown(None, exchange.first_ns)
        exchange.forget_values()

    def add_produce(self, exchange: Exchange, places: Iterable[Place] | None, transactional_id: str | None) -> None:
        """Adds a Produce that awaits an answer. `places`: the partitions that it writes to; None: it can't be read."""
        begun = exchange.first_ns
        if transactional_id:
            self._transactions.setdefault(transactional_id, begun)
        if places is None:
            self._write_unknown(None, begun)
        else:
            self._producing[exchange.origin] = begun, tuple(dict.fromkeys(map(self._named, places)))

    def is_adding(self, origin: Origin) -> bool:
        """True for a Produce whose answer is not added yet."""
        return origin in self._producing

    def add_request(self, exchange: Exchange) -> None:
        """Adds a request of another API of `READ`."""
        # most requests are Fetches, of which the first of a connection tells all
        if exchange.api_key == FETCH and exchange.connection in self._fetching:
            return
        try:
            self._add_request(exchange, exchange.request)
        except WireError:
            self._unreadable.setdefault(exchange.api_key, exchange.first_ns)
        exchange.forget_values()

    def _add_request(self, exchange: Exchange, values: Values) -> None:
        key, begun = exchange.api_key, exchange.first_ns
        self._deletes_topics |= key == DELETE_TOPICS
        if key in COMMITS:
            for each in partitions.in_request(key, values):
                self._commits.setdefault((values["group_id"], self._place(each)), begun)
        elif key in JOINING:
            joins = values.get("member_epoch", JOIN_EPOCH) == JOIN_EPOCH
            self._joining[exchange.origin] = values["group_id"], values["member_id"] if joins else None
        elif key == SYNC_GROUP:
            if values["assignments"]:
                self._assigned.add((values["group_id"], values["generation_id"]))
        elif key == FETCH:
            is_closed = values.get("session_id", 0) != 0 and values["session_epoch"] < 0
            self._fetching[exchange.connection] = is_closed or values.get("session_epoch", -1) > 0
        elif key in SHARES:
            member = values["group_id"] or "", values["member_id"] or ""
            self._sharing.setdefault(member, values["share_session_epoch"] != 0)
        transactional_id = values.get(_IN_TRANSACTIONS.get(key, ""))
        if transactional_id:
            self._transactions.setdefault(transactional_id, begun)

    def add_answer(self, origin: Origin, api_key: int, at_ns: int, values: Values) -> None:
        """Adds an answer to an API of `ANSWERED`."""
        if api_key == PRODUCE:
            self._produced(origin, at_ns, values)
        elif api_key in LONG_POLLS:
            for each in partitions.in_answer(api_key, values):
                end = each.values["high_watermark"] if api_key == FETCH else _end(each.values)
                if end >= 0:
                    place, told = self._place(each), _ToldEnd(end, at_ns)
                    if api_key == FETCH:
                        self._fetched.add(place)
                    self._first_ends.setdefault(place, told)
                    self._tell(place, told)
        elif origin in self._joining:
            self._joined(*self._joining.pop(origin), at_ns, values)

    def _joined(self, group: str, asked_as: str | None, at_ns: int, values: Values) -> None:
        generation: int = values["generation_id"] if "generation_id" in values else values["member_epoch"]
        if not values["error_code"] and generation > 0:
            self._generations.setdefault((group, generation), at_ns)
        member = values.get("member_id") or asked_as
        # until the answer, a member that joins again is still the one from before
        if asked_as is not None and member and values["error_code"] in (0, MEMBER_ID_REQUIRED):
            self._members.setdefault((group, member), at_ns)

    def _produced(self, origin: Origin, at_ns: int, values: Values) -> None:
        begun, places = self._producing.pop(origin, (_NEVER, ()))
        told = {self._place(each): each.values for each in partitions.in_answer(PRODUCE, values)}
        for place in places:
            code, base = (told[place]["error_code"], told[place]["base_offset"]) if place in told else (-1, -1)
            if not code and base >= 0:
                known, told_before = self._lowest_bases.get(place), self._ends.get(place)
                is_retry = told_before is not None and told_before.at_ns < begun and base < told_before.end
                if (known is None or base < known.end) and (self._deletes_topics or not is_retry):
                    self._lowest_bases[place] = _ToldEnd(base, at_ns)
                self._tell(place, _ToldEnd(base, at_ns))
            elif not code or code in _MAYBE_WRITTEN:
                self._write_unknown([place], begun)

    def _place(self, each: Partition) -> Place:
        return self._named((each.topic, each.partition))

    def _named(self, place: Place) -> Place:
        """A partition by its topic's name, if that is known by now."""
        topic, index = place
        return (self._names.get(topic, topic), index) if isinstance(topic, bytes) else place

    def _tell(self, place: Place, told: _ToldEnd) -> None:
        if place not in self._ends or self._ends[place].end < told.end:
            self._ends[place] = told

    def _write_unknown(self, places: Iterable[Place] | None, at_ns: int) -> None:
        for place in [None] if places is None else places:
            self._unknown[place] = min(at_ns, self._unknown.get(place, _NEVER))

    def close(self) -> None:
        """The recording is over: no answer comes any more. Topics whose names were told late have them from now on."""
        for begun, places in self._producing.values():
            self._write_unknown(places, begun)
        self._producing.clear()
        self._joining.clear()
        self._proven_ends.clear()
        named = self._named

        def merged(told: Mapping[Place, _ToldEnd], number: int) -> dict[Place, _ToldEnd]:
            found: dict[Place, _ToldEnd] = {}
            for place, each in told.items():
                found[named(place)] = min(each, found.get(named(place), each), key=lambda one: one[number])
            return found

        self._first_ends, self._lowest_bases = merged(self._first_ends, 1), merged(self._lowest_bases, 0)
        ends, self._ends = self._ends, {}
        for place, each in ends.items():
            self._tell(named(place), each)
        self._fetched = {named(place) for place in self._fetched}
        unknown, commits = self._unknown, self._commits
        self._unknown, self._commits = {}, {}
        for where, at_ns in unknown.items():
            self._write_unknown(None if where is None else [named(where)], at_ns)
        silent, self._silent = self._silent, {}
        for place, written in silent.items():
            self._silent.setdefault(named(place), []).extend(written)
        for (group, place), at_ns in commits.items():
            key = group, named(place)
            self._commits[key] = min(at_ns, self._commits.get(key, _NEVER))

    # the replay

    def end(self, topic: str, partition: int) -> int:
        """The offset below which the records of a partition are from before; 0: none are, as far as is known."""
        place = topic, partition
        found = self._proven_ends.get(place)
        if found is None:
            found = self._proven_ends[place] = self._find_end(place)
        return found

    def _find_end(self, place: TopicPartition) -> int:
        unknown = min(self._unknown.get(place, _NEVER), self._unknown.get(None, _NEVER))
        written, told = self._lowest_bases.get(place), self._first_ends.get(place)
        is_written = written is not None or place in self._silent or unknown < _NEVER
        if told is not None and not (is_written or place in self._fetched):
            return self._ends[place].end
        proven = [self._proven(place, each) for each in (written, told) if each is not None and each.at_ns < unknown]
        return min(max(proven, default=0), LARGEST_OFFSET if written is None else written.end)

    def silent_ends(self) -> dict[TopicPartition, int]:
        """The ends, where known, of partitions that only Produces with acks 0 write to: they tell no offset."""
        places = [(topic, index) for topic, index in self._silent if isinstance(topic, str)]
        ends = {place: self.end(*place) for place in places if place not in self._lowest_bases}
        return {place: end for place, end in ends.items() if end}

    def _proven(self, place: TopicPartition, told: _ToldEnd) -> int:
        """The end when the recording began, at least: without what its Produces with acks 0 may have written."""
        return max(told.end - sum(count for begun, count in self._silent.get(place, ()) if begun < told.at_ns), 0)

    def is_commit(self, group: str, place: TopicPartition, at_ns: int) -> bool:
        """True for a committed offset from before that an answer of that time tells."""
        begun = min(self._commits.get((group, place), _NEVER), *self._unreadable_since(COMMITS))
        return begun >= at_ns

    def is_member(self, group: str, member: str, at_ns: int) -> bool:
        """True for a member from before, at a time of the recording."""
        begun = min(self._members.get((group, member), _NEVER), *self._unreadable_since(JOINING))
        return begun > at_ns

    def is_generation(self, group: str, generation: int, at_ns: int) -> bool:
        """True for a generation that no answer tells before that time of the recording."""
        begun = min(self._generations.get((group, generation), _NEVER), *self._unreadable_since(JOINING))
        return begun >= at_ns

    def _unreadable_since(self, api_keys: Iterable[int]) -> Iterator[int]:
        return (self._unreadable.get(key, _NEVER) for key in api_keys)

    def is_unassigned(self, group: str, generation: int) -> bool:
        """True for a generation of a classic group whose leader sent its assignment before the recording, or never."""
        return not self._unreadable.keys() & {SYNC_GROUP} and (group, generation) not in self._assigned

    def is_session(self, connection: tuple[str, int]) -> bool:
        """True if a connection's first fetch session is from before."""
        return self._fetching.get(connection, False)

    def of_withheld(self, exchange: Exchange, reason: Reason) -> Before | None:
        """What a withheld request lacks, if that is from before."""
        with suppress(WireError):
            if reason in (Reason.NO_MEMBER, Reason.NO_GENERATION):
                return self._of_member(exchange)
            if reason is Reason.NO_LEADER and exchange.api_key == SYNC_GROUP and not _error(exchange.answer):
                group = exchange.request["group_id"]
                is_from_before = self.is_unassigned(group, exchange.request["generation_id"])
                return Before(BeforeKind.GENERATION, group) if is_from_before else None
            if reason is Reason.NO_TRANSACTION and exchange.api_key == END_TXN:
                name = exchange.request["transactional_id"]
                is_first = self._transactions.get(name, _NEVER) >= exchange.first_ns
                return Before(BeforeKind.TRANSACTION, name) if is_first else None
            if reason is Reason.NO_SESSION:
                return self._of_session(exchange)
        return None

    def _of_member(self, exchange: Exchange) -> Before | None:
        if exchange.api_key in HEARTBEATS and exchange.request["member_epoch"] == JOIN_EPOCH:
            return None
        for group, member, generation in _quoted(exchange.request):
            if self.is_member(group, member, exchange.first_ns):
                return Before(BeforeKind.MEMBER, group)
            if generation > 0 and (group, generation) not in self._generations:
                return Before(BeforeKind.GENERATION, group)
        return None

    def _of_session(self, exchange: Exchange) -> Before | None:
        if exchange.api_key == FETCH:
            return Before(BeforeKind.SESSION, str(exchange.peer)) if self.is_session(exchange.connection) else None
        member = exchange.request["group_id"] or "", exchange.request["member_id"] or ""
        is_from_before = self._sharing.get(member) or self.is_member(*member, exchange.first_ns)
        return Before(BeforeKind.SESSION, member[0]) if is_from_before else None


def _error(answer: Values | None) -> int:
    """The error of a whole answer; -1 without an answer."""
    return -1 if answer is None else answer["error_code"]


def _quoted(values: Values) -> Iterator[tuple[str, str, int]]:
    """Each member that a request quotes, with its group and generation; -1: it quotes none."""
    for part in values.get("groups") or [values]:
        group = part.get("group_id") or ""
        for each in values.get("members") or [part]:
            generation = next((each[name] for name in _GENERATIONS if name in each), -1)
            if each.get("member_id"):
                yield group, each["member_id"], generation


_GENERATIONS = ("generation_id", "generation_id_or_member_epoch", "member_epoch")


def _end(partition: Values) -> int:
    """The end of the records in an answer; -1: it has none."""
    with suppress(WireError):
        return max((batch.last_offset + 1 for batch in batches(partition.get("records"))), default=-1)
    return -1
