"""Questions to the target before a replay begins, and reasons to refuse it: a script of requests and answers.

The script is a generator. It yields a made request, and is sent the answer's values or None if there is no answer; it
yields None for a pause. It asks for nodes and topics, creates topics, asks for the ends of logs, and for groups and
transactions that the replay would disturb. It writes nothing but topics, and those only with `--create-topics`.
Questions may write, too: Metadata before version 4 creates the topics that it names, and FindCoordinator Kafka's own
topics. So an old broker is asked for all its topics, and for coordinators only if it has these, or may be written to.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from proxy.terminal import printable
from proxy.wire.error_codes import kafka_error
from proxy.wire.keys import (
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DESCRIBE_GROUPS,
    DESCRIBE_TRANSACTIONS,
    LIST_OFFSETS,
    METADATA,
    OFFSET_FETCH,
)
from recorder.replay.cluster import GROUP, TRANSACTION, Cluster, about_topics, newest
from recorder.replay.names import Names
from recorder.replay.options import Options
from recorder.replay.plan import MadeRequest, To, ToCoordinator, ToNode, Values
from recorder.replay.requests.apis import DESCRIBES_GROUPS
from recorder.replay.survey import Survey
from recorder.replay.versions.choosing import FIRST_METADATA_WITHOUT_CREATION
from recorder.terminal import count

# None: a pause
Script = Generator[MadeRequest | None, Values | None, Any]
# timestamps of ListOffsets that mean the first offset and the next one
EARLIEST, LATEST = -2, -1
# errors that mean that there is no such group, or none of that kind: none, GROUP_ID_NOT_FOUND, UNSUPPORTED_VERSION
_NO_GROUP = frozenset({0, 69, 35})
TRANSACTIONAL_ID_NOT_FOUND, TOPIC_ALREADY_EXISTS = 105, 36
# tries until all brokers know new topics
_TRIES = 200
PURPOSE = "to know the target"
# names in one sentence
MOST_NAMED = 20
CREATION = "topics created"
# Kafka's own topics, which FindCoordinator creates -> what they hold
_OF_COORDINATORS = {GROUP: "__consumer_offsets", TRANSACTION: "__transaction_state"}


@dataclass(slots=True)
class Prepared:
    """The findings of the script.

    Attributes:
        refusals: why the replay may not begin, in sentences that say what would be right.
        notes: what people should know before they say yes.
        overwritten: groups of the target whose offsets the replay overwrites.
        filled: topics that the replay produces to and that have records already, by the target's names.
        starts, ends: (target topic, partition) -> first and next offset of its log.
        absent_groups: groups that are played and that the target does not have, by the target's names.
        lacking: topics to create or extend first -> the partitions that they need, by the target's names.
        created: topics that were created.
        shift_ms: how much later than its recording the replay began.
    """

    refusals: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    overwritten: list[str] = field(default_factory=list)
    filled: list[str] = field(default_factory=list)
    starts: dict[tuple[str, int], int] = field(default_factory=dict)
    ends: dict[tuple[str, int], int] = field(default_factory=dict)
    absent_groups: set[str] = field(default_factory=set)
    lacking: dict[str, int] = field(default_factory=dict)
    created: list[str] = field(default_factory=list)
    shift_ms: int = 0


def ask_for_nodes(cluster: Cluster) -> Script:
    """A script that asks for the nodes alone. It writes nothing."""
    answer = yield MadeRequest(METADATA, about_topics(()), ToNode(), PURPOSE, lambda _: None)
    if answer is not None:
        cluster.learn_metadata(answer)


class Preparation:
    """One run of the script. `may_write`: False for `--dry-run`, which creates nothing."""

    def __init__(self, survey: Survey, names: Names, cluster: Cluster, options: Options, *, may_write: bool) -> None:
        self._survey, self._names, self._cluster, self._options = survey, names, cluster, options
        self._may_write = may_write
        # all topics of the target, where they were asked for
        self._existing: set[str] = set()
        self.findings = Prepared()

    def run(self) -> Script:
        """The whole script."""
        yield from self._metadata()
        self._check_cluster()
        yield from self._topics()
        for node, places in sorted(self._led().items()):
            yield from self._ends(node, places)
        self._find_records()
        for topic, index in self._survey.first_offsets:
            if topic in self._survey.created:
                # its log will be empty
                self.findings.starts.setdefault((self._names.target_topic(topic), index), 0)
                self.findings.ends.setdefault((self._names.target_topic(topic), index), 0)
        yield from self._groups()
        yield from self._transactions()

    def _ask(self, api_key: int, values: Values, to: To, purpose: str = PURPOSE) -> Script:
        answer = yield MadeRequest(api_key, values, to, purpose, lambda _: None)
        return answer

    def _wanted(self) -> dict[str, int]:
        """The topics that are used, by the target's names -> how many partitions they must have."""
        survey, topics = self._survey, self._survey.topics
        # Kafka creates its own topics by itself
        made = self._names.is_kafkas
        used = [name for name in survey.used_topics() if not made(name) and name not in survey.created]
        return {self._names.target_topic(name): max(topics.get(name, 1), 1) for name in used}

    def _metadata(self, creates: bool = False) -> Script:
        wanted = self._wanted()
        if creates or (self._may_write and self._oldest_metadata() >= FIRST_METADATA_WITHOUT_CREATION):
            answer = yield from self._ask(METADATA, about_topics(sorted(wanted), creates=creates), ToNode())
        else:
            answer = yield from self._all_topics()
            self._cluster.absent.update(wanted.keys() - self._existing)
        if answer is not None:
            self._cluster.learn_metadata(answer)

    def _all_topics(self) -> Script:
        """Asks for all topics, which creates none. Returns the answer with those that are used."""
        # version 0 has no null, and its empty list means all
        is_first = self._oldest_metadata() == 0
        values = about_topics(()) if is_first else about_topics(()) | {"topics": None}
        newest_version = 0 if is_first else None
        answer = yield MadeRequest(METADATA, values, ToNode(), PURPOSE, lambda _: None, newest=newest_version)
        if answer is None:
            return None
        self._existing = {topic["name"] for topic in answer["topics"]}
        wanted = self._wanted()
        return answer | {"topics": [topic for topic in answer["topics"] if topic["name"] in wanted]}

    def _oldest_metadata(self) -> int:
        """The oldest among the versions of Metadata in which nodes are asked."""
        versions = [newest(METADATA, each) for each in self._cluster.offered.values()]
        return min((each for each in versions if each is not None), default=FIRST_METADATA_WITHOUT_CREATION)

    def _creates_nothing(self, kind: int) -> bool:
        """True if coordinators of a kind may be asked for: that creates no topic, or people have agreed."""
        return self._may_write or _OF_COORDINATORS[kind] in self._existing

    def _check_cluster(self) -> None:
        if not self._cluster.nodes:
            self.findings.refusals.append("the target does not answer Metadata: right would be a broker that does")
            return
        lacking = sorted({*self._options.nodes.values()} - self._cluster.nodes.keys())
        if lacking:
            self.findings.refusals.append(
                f"the target has no node {lacking[0]}: right for --node would be one of {sorted(self._cluster.nodes)}"
            )

    def _topics(self) -> Script:
        lacking = self.findings.lacking = self._lacking()
        if not lacking:
            return
        if not self._options.create_topics:
            self.findings.refusals += self._sentences(lacking)
            return
        if not self._may_write or self.findings.refusals:
            return
        yield from self._create(lacking)
        if self.findings.refusals:
            return
        for _ in range(_TRIES):
            yield from self._metadata(creates=not self._creates_topics())
            if not self._lacking():
                return
            yield None
        self.findings.refusals += self._sentences(self._lacking())

    def _lacking(self) -> dict[str, int]:
        leaders: dict[str, int] = defaultdict(int)
        for (name, _), leader in self._cluster.leaders.items():
            leaders[name] += leader >= 0
        return {name: count for name, count in self._wanted().items() if leaders[name] < count}

    def _sentences(self, lacking: dict[str, int]) -> Iterator[str]:
        has = {name: self._cluster.partitions(name) for name in lacking}
        absent = [f"{name}: {count(lacking[name], 'partition')}" for name in lacking if not has[name]]
        short = [f"{name}: {has[name]} of {lacking[name]}" for name in lacking if has[name]]
        if absent:
            yield f"the target lacks {listed('topic', absent)}: right would be to make them, or --create-topics"
        if short:
            topics = listed("topic", short)
            yield f"the target lacks partitions of {topics}: right would be to add them, or --create-topics"

    def _creates_topics(self) -> bool:
        return CREATE_TOPICS in self._cluster.any_offered()

    def _create(self, lacking: dict[str, int]) -> Script:
        if not self._creates_topics():
            # a broker without CreateTopics creates a topic when Metadata asks for it
            self.findings.created = sorted(name for name in lacking if not self._cluster.partitions(name))
            yield from self._metadata(creates=True)
            return
        to = ToNode(self._cluster.controller if self._cluster.controller in self._cluster.nodes else None)
        new = {name: count for name, count in lacking.items() if not self._cluster.partitions(name)}
        topics = [
            {"name": name, "num_partitions": count, "replication_factor": -1 if self._has_defaults() else 1}
            for name, count in sorted(new.items())
        ]
        if topics:
            answer = yield from self._ask(CREATE_TOPICS, {"topics": topics, "timeout_ms": 30_000}, to, CREATION)
            self.findings.created = self._made("make", (answer or {}).get("topics", ()))
        # null: brokers choose the replicas; an empty list would be a wrong one
        grown = [
            {"name": name, "count": count, "assignments": None}
            for name, count in sorted(lacking.items())
            if name not in new
        ]
        if grown:
            answer = yield from self._ask(CREATE_PARTITIONS, {"topics": grown, "timeout_ms": 30_000}, to, CREATION)
            self._made("give more partitions to", (answer or {}).get("results", ()))

    def _made(self, verb: str, told: Iterable[Values]) -> list[str]:
        """The topics that the target has created or extended.

        Errors become refusals, unless the topic exists already.
        """
        made = []
        for answer in told:
            if not answer["error_code"]:
                made.append(answer["name"])
            elif answer["error_code"] != TOPIC_ALREADY_EXISTS:
                said = f" ({printable(answer['error_message'])})" if answer.get("error_message") else ""
                why = kafka_error(answer["error_code"]).name + said
                self.findings.refusals.append(f"the target does not {verb} topic {answer['name']}: {why}")
        return sorted(made)

    def _has_defaults(self) -> bool:
        """True if the target takes -1 for its default replication factor (2.4 and later)."""
        has = self._cluster.any_offered().get(CREATE_TOPICS)
        return has is not None and has.stop > 4

    def _led(self) -> dict[int, list[tuple[str, int]]]:
        """The partitions that are used, by their leaders."""
        wanted, found = self._wanted(), defaultdict[int, list[tuple[str, int]]](list)
        for where, leader in self._cluster.leaders.items():
            if where[0] in wanted and leader >= 0:
                found[leader].append(where)
        return found

    def _ends(self, node: int, places: list[tuple[str, int]]) -> Script:
        for stamp, known in ((EARLIEST, self.findings.starts), (LATEST, self.findings.ends)):
            topics: dict[str, list[Values]] = {}
            for name, index in sorted(places):
                asked = {"partition_index": index, "timestamp": stamp, "max_num_offsets": 1, "current_leader_epoch": -1}
                topics.setdefault(name, []).append(asked)
            every = [{"name": name, "partitions": partitions} for name, partitions in topics.items()]
            answer = yield from self._ask(LIST_OFFSETS, {"replica_id": -1, "topics": every}, ToNode(node))
            for topic in (answer or {}).get("topics", ()):
                for found in topic["partitions"]:
                    offsets = found.get("old_style_offsets") or [found.get("offset", -1)]
                    if not found["error_code"] and offsets[0] >= 0:
                        known[topic["name"], found["partition_index"]] = offsets[0]

    def _find_records(self) -> None:
        found, topics = self.findings, self._survey.used_topics()
        produced = {self._names.target_topic(name) for name, use in topics.items() if use.is_produced}
        filled = {place[0] for place, end in found.ends.items() if end > found.starts.get(place, end)}
        found.filled = sorted(filled & produced)
        if found.filled:
            prefix = "another --prefix" if self._options.prefix else "--prefix"
            found.notes.append(
                f"the target already has records in {listed('topic', found.filled)}: consumers may read them, too; "
                f"{prefix} with --create-topics gives the replay topics of its own"
            )

    def _groups(self) -> Script:
        written = [name for name, found in self._survey.groups.items() if found.is_written]
        if self._options.read_only or self._options.produce_only:
            return
        if not self._creates_nothing(GROUP):
            # without the topic that holds groups there is none
            self.findings.absent_groups.update(map(self._names.target, written))
            return
        for group in sorted(map(self._names.target, written)):
            to = ToCoordinator(GROUP, group)
            described, unknown = yield from self._described(group, to)
            if unknown and not self._is_apart():
                self.findings.refusals.append(
                    f"the target does not say whether group {group} has members ({unknown}): right would be --fence"
                )
            if any(found["members"] for found in described) and not self._is_apart():
                self.findings.refusals.append(
                    f"group {group} has members on the target: right would be to stop them, --prefix, or --fence"
                )
            if not described and not unknown:
                self.findings.absent_groups.add(group)
            elif self._survey.first_acquired.get(self._names.recorded(group)):
                self.findings.overwritten.append(group)
            if self._names.recorded(group) in self._survey.committing:
                values = {"group_id": group, "topics": None, "groups": [{"group_id": group, "topics": None}]}
                answer = yield from self._ask(OFFSET_FETCH, values, to)
                if answer is not None and _has_offsets(answer):
                    self.findings.overwritten.append(group)
                    self.findings.absent_groups.discard(group)

    def _is_apart(self) -> bool:
        """True where names are the replay's alone, or others may be disturbed."""
        return self._options.fence or bool(self._options.prefix)

    def _described(self, group: str, to: To) -> Script:
        """The target's descriptions of a group, of all kinds, and why it may not have told all."""
        described: list[Values] = []
        unknown = ""
        for api_key in sorted(DESCRIBES_GROUPS):
            if api_key in self._cluster.any_offered():
                values = {"groups" if api_key == DESCRIBE_GROUPS else "group_ids": [group]}
                answer = yield from self._ask(api_key, values, to)
                found = (answer or {}).get("groups", ())
                described += [each for each in found if not each["error_code"] and each["group_state"] != "Dead"]
                errors = [f"error {each['error_code']}" for each in found if each["error_code"] not in _NO_GROUP]
                unknown = unknown or next(iter(errors), "" if found else "no answer")
        return described, unknown

    def _transactions(self) -> Script:
        used = sorted(self._names.target(name) for name, found in self._survey.transactions.items() if found.is_written)
        used = [name for name in used if not self._is_apart()]
        if not used or self._options.read_only:
            return
        if DESCRIBE_TRANSACTIONS not in self._cluster.any_offered():
            self.findings.notes.append(
                f"the target can't tell whether somebody uses {len(used)} transactional ids: their producers are fenced"
            )
            return
        if not self._creates_nothing(TRANSACTION):
            return
        known: list[str] = []
        untold: list[str] = []
        for name in used:
            values = {"transactional_ids": [name]}
            answer = yield from self._ask(DESCRIBE_TRANSACTIONS, values, ToCoordinator(TRANSACTION, name))
            states = (answer or {}).get("transaction_states", ())
            codes = [found["error_code"] for found in states] or [None]
            if 0 in codes:
                known.append(name)
            elif set(codes) != {TRANSACTIONAL_ID_NOT_FOUND}:
                untold.append(name)
        if known:
            self.findings.refusals.append(
                f"producers would be fenced, for the target knows {listed('transactional id', known)}: "
                "right would be --prefix or --fence"
            )
        if untold:
            self.findings.refusals.append(
                f"the target does not say whether it knows {listed('transactional id', untold)}: right would be --fence"
            )


def listed(what: str, names: Iterable[str]) -> str:
    """The number of things, and the first names."""
    every = sorted(names)
    more = f" and {count(len(every) - MOST_NAMED)} more" if len(every) > MOST_NAMED else ""
    return f"{count(len(every), what)} ({', '.join(map(printable, every[:MOST_NAMED]))}{more})"


def _has_offsets(answer: Values) -> bool:
    groups = answer.get("groups") or [answer]
    return any(
        partition["committed_offset"] >= 0
        for group in groups
        for topic in group.get("topics") or ()
        for partition in topic["partitions"]
    )
