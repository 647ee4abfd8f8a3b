"""Two fake clusters for one recording: clients are recorded with the first, and the replay goes to the second.

Both keep Kafka's rules (`simulated`: producers, transactions, fetch sessions; here: nodes, groups of one member,
committed offsets). `Kafka.like` answers exactly as the recording. `Kafka.other` differs in every value that a cluster
assigns, in its nodes, leaders and coordinators, and in how it divides fetched records.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol, Self

from proxy.wire import records
from proxy.wire.keys import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    HEARTBEAT,
    INIT_PRODUCER_ID,
    JOIN_GROUP,
    LEAVE_GROUP,
    OFFSET_COMMIT,
    PRODUCE,
    SYNC_GROUP,
    TXN_OFFSET_COMMIT,
)
from recorder.replay.cluster import Cluster
from recorder.replay.plan import Exchange
from recorder.replay.prepare import Prepared
from tests.recorder.replay.simulated import TARGET_IDS, TOPIC_IDS, Broker, passed
from tests.recorder.replay.simulation import EVERYTHING, Got, Recording

Values = dict[str, Any]
# The partition of producers with acks=0: nobody knows the order of their records and others'.
SILENT = ("a", 2)
PARTITIONS = 3
PLACES = [(topic, index) for topic in TOPIC_IDS for index in range(PARTITIONS)]
FETCH_BY_NAME, FETCH_BY_ID = 11, 16
# requests that a moody cluster refuses for a while: of producers, transactions, commits and members
WRITES = frozenset({PRODUCE, INIT_PRODUCER_ID, ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN, TXN_OFFSET_COMMIT, END_TXN})
WRITES |= {OFFSET_COMMIT, JOIN_GROUP, SYNC_GROUP, HEARTBEAT, LEAVE_GROUP}
OF_LEADERS, OF_COORDINATORS = (3, 5, 6, 19, 56), (14, 15, 16)
# fields in which only an answer without an error gives a value
NOT_GIVEN = {"base_offset", "producer_id", "producer_epoch", "generation_id"}


@dataclass
class Group:
    """A group of at most one member. `known`: ids that were assigned."""

    generation: int
    known: set[str] = field(default_factory=set)
    member: str | None = None
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)


@dataclass
class Kafka(Broker):
    """A cluster. `homes`: the node of each partition, group and transactional id."""

    nodes: tuple[int, ...] = (1,)
    homes: dict[Any, int] = field(default_factory=dict)
    topic_ids: dict[str, bytes] = field(default_factory=lambda: dict(TOPIC_IDS))
    groups: dict[str, Group] = field(default_factory=dict)
    first_generation: int = 0
    member_name: str = "member"
    members: int = 0
    is_v2: bool = True

    def __post_init__(self) -> None:
        self.topics = {topic_id: name for name, topic_id in self.topic_ids.items()}
        self.has_v2 = self.is_v2

    @classmethod
    def like(cls, *, is_v2: bool) -> Self:
        """Makes a cluster that assigns the same values as all others of its kind."""
        return cls(ids=lambda number: 100 + number, session_ids=lambda number: 1000 + number, is_v2=is_v2)

    @classmethod
    def other(cls, random: Random, *, is_v2: bool) -> Self:
        """Makes a cluster without a value in common with another one."""
        nodes = tuple(range(4, 4 + random.randint(1, 3)))
        ids, sessions = random.sample(range(500, 900), 50), random.sample(range(5000, 9000), 300)
        return cls(
            ids=ids.__getitem__,
            session_ids=sessions.__getitem__,
            first_offset=random.choice([0, 7, 1000]),
            batches_each=random.choice([1, 2, 5]),
            nodes=nodes,
            homes={place: random.choice(nodes) for place in (*PLACES, "g", "h", "t", "u")},
            topic_ids=dict(TARGET_IDS),
            first_generation=random.choice([0, 40]),
            member_name=random.choice(["x", "somebody"]),
            is_v2=is_v2,
        )

    def home(self, what: Any) -> int:
        return self.homes.get(what, self.nodes[0])

    def cluster(self) -> Cluster:
        """The facts that a replay knows of the cluster when it begins."""
        found = Cluster("target", self.nodes[0], {node: ("127.0.0.1", node) for node in self.nodes})
        found.offered = dict.fromkeys(self.nodes, EVERYTHING)
        found.leaders = {place: self.home(place) for place in PLACES}
        found.features = {"transaction.version": 2 if self.is_v2 else 1}
        for name, topic_id in self.topic_ids.items():
            found.name_topic(name, topic_id)
        return found

    def prepared(self) -> Prepared:
        ends = dict.fromkeys(PLACES, self.first_offset)
        return Prepared(starts=dict(ends), ends=ends)

    def values(self) -> dict[tuple[str, int], list[bytes | None]]:
        """The values of all records, in order."""
        return {
            place: [each.value for _, data in log for each in records.read(data)]
            for place, log in self.log.items()
            if log
        }

    def of_replay(self, got: Got) -> Values | None:
        """Answers a replay's request, and asserts that it went to the right node."""
        for name in ("group_id", "transactional_id", "v3_and_below_transactional_id"):
            if got.values.get(name) and got.key not in (0, 22, 24, 25, 26, 28):
                assert got.node == self.home(got.values[name]), f"{name} {got.values[name]} at node {got.node}"
        values = self.answer(got.key, got.version, got.values)
        return None if got.key == 0 and not got.values["acks"] else values

    def behind_records(self, place: tuple[str, int]) -> int:
        """The offset after the last record, before markers that nobody has read yet."""
        if not self.log[place]:
            return self.first_offset
        base, data = self.log[place][-1]
        (batch,) = records.batches(data)
        return base + (batch.count or 0)

    # requests that the simulated broker lacks

    def _metadata(self, version: int, values: Values) -> Values:
        names = self.topic_ids if values["topics"] is None else [topic["name"] for topic in values["topics"]]
        brokers = [{"node_id": node, "host": "127.0.0.1", "port": node, "rack": None} for node in self.nodes]
        topics = [self._described(name) for name in names]
        return {"brokers": brokers, "cluster_id": "c", "controller_id": self.nodes[0], "topics": topics}

    def _described(self, name: str) -> Values:
        partitions = [
            {"error_code": 0, "partition_index": index, "leader_id": self.home((name, index)), "replica_nodes": [1]}
            | {"isr_nodes": [1], "leader_epoch": 0}
            for index in range(PARTITIONS)
        ]
        return {"error_code": 0, "name": name, "topic_id": self.topic_ids[name], "partitions": partitions}

    def _findcoordinator(self, version: int, values: Values) -> Values:
        if version < 4:
            node = self.home(values["key"])
            return {"error_code": 0, "node_id": node, "host": "127.0.0.1", "port": node}
        found = [
            {"key": key, "node_id": self.home(key), "host": "127.0.0.1", "port": self.home(key), "error_code": 0}
            for key in values["coordinator_keys"]
        ]
        return {"coordinators": found}

    def _listoffsets(self, version: int, values: Values) -> Values:
        topics = [
            {"name": topic["name"], "partitions": [self._listed(topic["name"], each) for each in topic["partitions"]]}
            for topic in values["topics"]
        ]
        return {"topics": topics}

    def _listed(self, name: str, asked: Values) -> Values:
        at = self.end((name, asked["partition_index"])) if asked["timestamp"] == -1 else self.first_offset
        return {"partition_index": asked["partition_index"], "error_code": 0, "timestamp": -1, "offset": at}

    def _group(self, name: str) -> Group:
        return self.groups.setdefault(name, Group(self.first_generation))

    def _joingroup(self, version: int, values: Values) -> Values:
        group, member = self._group(values["group_id"]), values["member_id"]
        answer = {"generation_id": -1, "protocol_name": "", "leader": "", "member_id": member, "members": []}
        if not member:
            self.members += 1
            member = f"{self.member_name}-{self.members}"
            group.known.add(member)
            return answer | {"error_code": 79, "member_id": member}
        if member not in group.known:
            return answer | {"error_code": 25}
        group.member, group.generation = member, group.generation + 1
        described = [{"member_id": member, "metadata": values["protocols"][0]["metadata"]}]
        told = {"generation_id": group.generation, "protocol_name": values["protocols"][0]["name"], "leader": member}
        return answer | {"error_code": 0, "members": described} | told

    def _refusal(self, values: Values, generation: str = "generation_id") -> int:
        group = self._group(values["group_id"])
        if values["member_id"] != (group.member or ""):
            return 25
        if group.member is None and values[generation] < 0:
            # a commit of no member, to an empty group
            return 0
        return 0 if values[generation] == group.generation else 22

    def _syncgroup(self, version: int, values: Values) -> Values:
        assigned = {each["member_id"]: each["assignment"] for each in values["assignments"]}
        return {"error_code": self._refusal(values), "assignment": assigned.get(values["member_id"], b"")}

    def _heartbeat(self, version: int, values: Values) -> Values:
        return {"error_code": self._refusal(values)}

    def _leavegroup(self, version: int, values: Values) -> Values:
        group = self._group(values["group_id"])
        told = [
            {"member_id": each["member_id"], "error_code": 0 if each["member_id"] == group.member else 25}
            for each in values["members"]
        ]
        group.member = None
        return {"error_code": 0, "members": told}

    def _offsetcommit(self, version: int, values: Values) -> Values:
        code = self._refusal(values, "generation_id_or_member_epoch")
        topics = []
        for topic in values["topics"]:
            for each in topic["partitions"] if not code else ():
                place = topic["name"], each["partition_index"]
                self._group(values["group_id"]).offsets[place] = each["committed_offset"]
            told = [{"partition_index": each["partition_index"], "error_code": code} for each in topic["partitions"]]
            topics.append({"name": topic["name"], "partitions": told})
        return {"topics": topics}

    def _offsetfetch(self, version: int, values: Values) -> Values:
        offsets = self._group(values["group_id"]).offsets
        topics = []
        for topic in values["topics"]:
            told = [_committed(offsets, topic["name"], index) for index in topic["partition_indexes"]]
            topics.append({"name": topic["name"], "partitions": told})
        return {"topics": topics, "error_code": 0}


def _committed(offsets: dict[tuple[str, int], int], name: str, index: int) -> Values:
    found = {"partition_index": index, "committed_offset": offsets.get((name, index), -1), "metadata": ""}
    return found | {"committed_leader_epoch": -1, "error_code": 0}


class Clients:
    """Clients of a cluster, and the recording of their exchanges: one after the other, so nothing depends on chance."""

    def __init__(self, kafka: Kafka, random: Random, *, is_timed: bool, moods: Random | None = None) -> None:
        self.kafka, self.random, self.is_timed, self.moods = kafka, random, is_timed, moods
        self.recording, self.at, self.written = Recording(), 0.0, 0

    def ask(self, connection: int, key: int, version: int, values: Values) -> Values:
        awaits = not (key == 0 and values["acks"] == 0)
        tries = [self._try(connection, key, version, values, awaits=awaits)]
        while awaits and key in WRITES and self.moods is not None and self.moods.random() < 0.2:
            tries.append(self._try(connection, key, version, values))
        *refused, (_, exchange) = tries
        answer = self.kafka.answer(key, version, exchange.decoded())
        for at, each in refused:
            assert self.moods is not None
            code = self.moods.choice(OF_LEADERS if key == 0 else OF_COORDINATORS)
            self.recording.answers(at + 1, each, refusing(passed(key, version, answer), code))
        if awaits:
            self.recording.answers(self.at + 1, exchange, answer)
        return passed(key, version, answer)

    def _try(
        self, connection: int, key: int, version: int, values: Values, *, awaits: bool = True
    ) -> tuple[float, Exchange]:
        self.at += 5
        return self.at, self.recording.asks(self.at, connection, key, version, values, awaits=awaits)

    def data(self, **producer: Any) -> bytes:
        """A batch of records that no other batch has."""
        count = self.random.randint(1, 3)
        self.written += count
        made = [records.Record(n, 5, b"k", b"%d" % (self.written - count + n)) for n in range(count)]
        return records.write_batch(made, **producer)


def refusing(answer: Any, code: int) -> Any:
    """An answer with an error in place of each, and of what it would have given."""
    if isinstance(answer, list):
        return [refusing(each, code) for each in answer]
    if not isinstance(answer, dict):
        return answer
    nothing = dict.fromkeys(NOT_GIVEN & answer.keys(), -1)
    codes = {name: code for name in answer if name.endswith("error_code")}
    return {name: refusing(value, code) for name, value in answer.items()} | nothing | codes


class Steps(Protocol):
    """A client that does something at each step."""

    def step(self) -> None: ...


class Producer:
    """A producer: without a producer id, idempotent, or transactional."""

    def __init__(self, clients: Clients, connection: int, kind: str, name: str | None = None) -> None:
        self.clients, self.connection, self.kind, self.name = clients, connection, kind, name
        self.pair: tuple[int, int] | None = None
        self.sequences: dict[tuple[str, int], int] = {}
        self.begun: set[tuple[str, int]] = set()
        self.last: tuple[tuple[str, int], bytes] | None = None

    def _ask(self, key: int, version: int, values: Values) -> Values:
        return self.clients.ask(self.connection, key, version, values)

    def step(self) -> None:
        random = self.clients.random
        if self.kind != "plain" and self.pair is None:
            answer = self._ask(22, 4, {"transactional_id": self.name, "transaction_timeout_ms": 60_000})
            self.pair = answer["producer_id"], answer["producer_epoch"]
        elif self.begun and random.random() < 0.4:
            self.end(random.random() < 0.7)
        elif self.last and random.random() < 0.1 and self.kind == "idempotent":
            self._produce(*self.last)
        else:
            is_silent = self.kind == "plain" and random.random() < 0.2
            self._write(SILENT if is_silent else random.choice([place for place in PLACES if place != SILENT]))

    def _write(self, place: tuple[str, int]) -> None:
        facts: Values = {}
        if self.pair is not None:
            facts = {"producer_id": self.pair[0], "producer_epoch": self.pair[1]}
            facts |= {"base_sequence": self.sequences.get(place, 0), "transactional": self.name is not None}
            if self.name is not None and place not in self.begun and not self.clients.kafka.is_v2:
                self._join(place)
        data = self.clients.data(**facts)
        (batch,) = records.batches(data)
        self.sequences[place] = self.sequences.get(place, 0) + (batch.count or 0)
        if self.name is not None:
            self.begun.add(place)
        self.last = place, data
        self._produce(place, data)

    def _join(self, place: tuple[str, int]) -> None:
        assert self.pair is not None
        quoted = {"v3_and_below_transactional_id": self.name, "v3_and_below_producer_id": self.pair[0]}
        quoted |= {"v3_and_below_producer_epoch": self.pair[1]}
        self._ask(24, 3, quoted | {"v3_and_below_topics": [{"name": place[0], "partitions": [place[1]]}]})

    def _produce(self, place: tuple[str, int], data: bytes) -> None:
        version = 12 if self.name is not None and self.clients.kafka.is_v2 else 9
        acks = 0 if place == SILENT else -1
        topics = [{"name": place[0], "partition_data": [{"index": place[1], "records": data}]}]
        values = {"transactional_id": self.name, "acks": acks, "timeout_ms": 1000, "topic_data": topics}
        self._ask(0, version, values)

    def end(self, committed: bool) -> None:
        if not self.begun or self.pair is None:
            return
        quoted = {"transactional_id": self.name, "producer_id": self.pair[0], "producer_epoch": self.pair[1]}
        answer = self._ask(26, 5 if self.clients.kafka.is_v2 else 3, quoted | {"committed": committed})
        if self.clients.kafka.is_v2:
            self.pair = answer["producer_id"], answer["producer_epoch"]
            self.sequences = {}
        self.begun = set()


class Fetcher:
    """A consumer that reads all partitions from their beginning, in a fetch session."""

    def __init__(self, clients: Clients, connection: int, version: int) -> None:
        self.clients, self.connection, self.version = clients, connection, version
        self.session = self.epoch = 0
        self.offsets = dict.fromkeys(PLACES, clients.kafka.first_offset)
        self.moved = set(PLACES)

    def step(self) -> None:
        random = self.clients.random
        if self.clients.is_timed and random.random() < 0.1:
            place = random.choice(PLACES)
            self.offsets[place] = self.clients.kafka.first_offset
            self.moved.add(place)
        if random.random() < 0.05:
            self.session = self.epoch = 0
        asked = self.moved if self.epoch else set(PLACES)
        values: Values = {
            "replica_id": -1,
            "max_wait_ms": 500,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "isolation_level": 0,
        }
        values |= {"session_id": self.session, "session_epoch": self.epoch, "forgotten_topics_data": []}
        answer = self.clients.ask(self.connection, 1, self.version, values | {"topics": self._named(asked)})
        self.session, self.epoch, self.moved = answer["session_id"], self.epoch + 1, set()
        for topic in answer["responses"]:
            name = topic.get("topic") or self.clients.kafka.topics[topic["topic_id"]]
            for each in topic["partitions"]:
                self._take((name, each["partition_index"]), each["records"] or b"")

    def _named(self, places: set[tuple[str, int]]) -> list[Values]:
        found = []
        for name in sorted({place[0] for place in places}):
            parts = [
                {"partition": index, "fetch_offset": self.offsets[name, index], "partition_max_bytes": 1 << 20}
                for topic, index in sorted(places)
                if topic == name
            ]
            key = {"topic": name} if self.version < 13 else {"topic_id": self.clients.kafka.topic_ids[name]}
            found.append(key | {"partitions": parts})
        return found

    def _take(self, place: tuple[str, int], data: bytes) -> None:
        for batch in records.batches(data):
            self.offsets[place] = batch.last_offset + 1
            self.moved.add(place)


class Member:
    """The only member of a group: it joins, commits any offsets, fetches them, and leaves."""

    def __init__(self, clients: Clients, connection: int, group: str) -> None:
        self.clients, self.connection, self.group = clients, connection, group
        self.id, self.generation = "", -1

    def _ask(self, key: int, version: int, values: Values) -> Values:
        return self.clients.ask(self.connection, key, version, {"group_id": self.group} | values)

    def step(self) -> None:
        choices = [self._beat, self._commit, self._fetch, self._leave, self._join]
        self._join() if self.generation < 0 else self.clients.random.choice(choices)()

    def _quoted(self) -> Values:
        return {"generation_id": self.generation, "member_id": self.id, "group_instance_id": None}

    def _join(self) -> None:
        values: Values = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 30_000, "group_instance_id": None}
        values |= {"protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b"m"}]}
        answer = self._ask(11, 5, values | {"member_id": self.id})
        if answer["error_code"] == 79:
            self.id = answer["member_id"]
            answer = self._ask(11, 5, values | {"member_id": self.id})
        self.generation = answer["generation_id"]
        self._ask(14, 3, self._quoted() | {"assignments": [{"member_id": self.id, "assignment": b"all"}]})

    def _beat(self) -> None:
        self._ask(12, 3, self._quoted())

    def _commit(self) -> None:
        name, index = self.clients.random.choice(PLACES)
        partition: Values = {
            "partition_index": index,
            "committed_offset": self.clients.kafka.behind_records((name, index)),
        }
        values = {"generation_id_or_member_epoch": self.generation, "member_id": self.id, "group_instance_id": None}
        partition |= {"committed_leader_epoch": -1, "committed_metadata": ""}
        self._ask(8, 7, values | {"topics": [{"name": name, "partitions": [partition]}]})

    def _fetch(self) -> None:
        self._ask(9, 5, {"topics": [{"name": name, "partition_indexes": [0, 1]} for name in TOPIC_IDS]})

    def _leave(self) -> None:
        self._ask(13, 4, {"members": [{"member_id": self.id, "group_instance_id": None}]})
        self.id, self.generation = "", -1


class Looker:
    """A client that requests metadata, coordinators, and the ends of logs."""

    def __init__(self, clients: Clients, connection: int) -> None:
        self.clients, self.connection = clients, connection

    def step(self) -> None:
        # no response tells the offsets of batches with acks=0
        name, index = self.clients.random.choice([place for place in PLACES if place != SILENT])
        stamp = self.clients.random.choice([-1, -2]) if self.clients.is_timed else -2
        partition = {"partition_index": index, "timestamp": stamp, "current_leader_epoch": -1}
        asked = [
            (3, 12, {"topics": [{"name": name, "topic_id": bytes(16)}], "allow_auto_topic_creation": False}),
            (2, 5, {"replica_id": -1, "isolation_level": 0, "topics": [{"name": name, "partitions": [partition]}]}),
            (10, 3, {"key": "g", "key_type": 0}),
        ]
        self.clients.ask(self.connection, *self.clients.random.choice(asked))


def recorded(random: Random, kafka: Kafka, steps: int, *, is_timed: bool, moods: Random | None = None) -> Recording:
    """Records clients of every kind with a cluster, in any order.

    Args:
        moods: makes the cluster refuse some requests that write, once or several times; None: it refuses none.
        is_timed: True if the replay will keep the recorded times. Otherwise no client requests what depends on others'
            speed: the ends of logs, and records that were read before.
    """
    clients = Clients(kafka, random, is_timed=is_timed, moods=moods)
    # ids of topics are known from metadata
    clients.ask(9, 3, 12, {"topics": None, "allow_auto_topic_creation": False})
    everybody: list[Steps] = [
        Producer(clients, 1, "plain"),
        Producer(clients, 2, "idempotent"),
        Producer(clients, 3, "transactional", "t"),
        Producer(clients, 4, "transactional", "u"),
        Fetcher(clients, 5, FETCH_BY_NAME),
        Fetcher(clients, 6, FETCH_BY_ID),
        Member(clients, 7, "g"),
        Member(clients, 8, "h"),
        Looker(clients, 9),
    ]
    for _ in range(steps):
        random.choice(everybody).step()
    for each in everybody:
        if isinstance(each, Producer):
            each.end(committed=True)
    return clients.recording
