"""A fake cluster with a share group (KIP-932), and its clients: producers, and members that acknowledge what they get.

It keeps Kafka's rules: a record is one member's until that member acknowledges it, releases it, or is gone. A new group
begins at its partitions' ends, unless AlterShareGroupOffsets has set where.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from proxy.wire import records
from proxy.wire.keys import SHARE_ACKNOWLEDGE, SHARE_FETCH, SHARE_GROUP_HEARTBEAT
from tests.recorder.replay.fake_kafka import Clients, Kafka, Producer, Steps, Values
from tests.recorder.replay.mid_life import without_beginning
from tests.recorder.replay.simulated import TARGET_IDS
from tests.recorder.replay.simulation import Got, Recording

GROUP, TOPIC = "s", "a"
PLACES = [(TOPIC, 0), (TOPIC, 1)]
ACCEPT, RELEASE, REJECT = 1, 2, 3
# UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH
NO_MEMBER, FENCED, NO_SESSION, OTHER_EPOCH = 25, 110, 122, 123
# GROUP_MAX_SIZE_REACHED
FULL = 81
# The target may be behind: it gives a batch of each partition with each poll.
_LAST_POLLS = 5
Place = tuple[str, int]


@dataclass
class Session:
    """A member's share session. `epoch`: the next one."""

    epoch: int = 1
    places: set[Place] = field(default_factory=set)


@dataclass
class Sharing(Kafka):
    """A cluster of one node with one share group.

    Attributes:
        begins_at_end: whether the group begins at its partitions' ends; otherwise at their beginnings.
        lost_record: the value of a record that the cluster forgets; `is_full`: whether no member may join.
        begun: where it has begun; `done`: offsets that nobody gets any more; `held`: offset -> member.
    """

    begins_at_end: bool = False
    lost_record: bytes | None = None
    is_full: bool = False
    epochs: dict[str, int] = field(default_factory=dict)
    group_epoch: int = 0
    shares: dict[str, Session] = field(default_factory=dict)
    begun: dict[Place, int] = field(default_factory=dict)
    done: set[tuple[Place, int]] = field(default_factory=set)
    held: dict[tuple[Place, int], str] = field(default_factory=dict)

    def of_replay(self, got: Got) -> Values | None:
        values = self.answer(got.key, got.version, got.values)
        for place, log in self.log.items():
            if log and self.lost_record in [each.value for each in records.read(log[-1][1])]:
                self.ends[place], _ = log.pop()
        return values

    def _sharegroupheartbeat(self, version: int, values: Values) -> Values:
        member, epoch = values["member_id"], values["member_epoch"]
        told = {"error_code": 0, "member_id": member, "member_epoch": epoch, "heartbeat_interval_ms": 5000}
        if epoch == 0 and self.is_full:
            return told | {"error_code": FULL}
        if epoch != 0 and member not in self.epochs:
            return told | {"error_code": NO_MEMBER}
        if epoch > 0 and epoch != self.epochs[member]:
            return told | {"error_code": FENCED}
        if epoch < 0:
            del self.epochs[member]
            self._end(member)
            return told
        if epoch == 0:
            self.group_epoch += 1
            self.epochs[member] = self.group_epoch
            for place in PLACES:
                self._begin(place)
        parts = {"topic_id": self.topic_ids[TOPIC], "partitions": [index for _, index in PLACES]}
        assigned = {"assignment": {"topic_partitions": [parts]}} if epoch == 0 else {}
        return told | {"member_epoch": self.epochs[member]} | assigned

    def _begin(self, place: Place) -> None:
        self.begun.setdefault(place, self.end(place) if self.begins_at_end else self.first_offset)

    def _altersharegroupoffsets(self, version: int, values: Values) -> Values:
        told = []
        for topic in values["topics"]:
            for each in topic["partitions"]:
                self.begun[topic["topic_name"], each["partition_index"]] = each["start_offset"]
            done = [{"partition_index": each["partition_index"], "error_code": 0} for each in topic["partitions"]]
            topic_id = self.topic_ids[topic["topic_name"]]
            told.append({"topic_name": topic["topic_name"], "topic_id": topic_id, "partitions": done})
        return {"error_code": 0, "responses": told}

    def _sharefetch(self, version: int, values: Values) -> Values:
        member, session = values["member_id"], self._session(values)
        if isinstance(session, int):
            return {"error_code": session, "responses": []}
        self._acknowledge(values)
        if values["share_session_epoch"] < 0:
            self._end(member)
            return {"error_code": 0, "responses": self._told(values, {})}
        # partitions that are named for their acknowledgements alone are forgotten in the same request
        session.places |= self._places(values)
        for topic in values["forgotten_topics_data"]:
            session.places -= {(self.topics[topic["topic_id"]], index) for index in topic["partitions"]}
        return {"error_code": 0, "responses": self._told(values, self._acquired(member, session))}

    def _session(self, values: Values) -> Session | int:
        member, epoch = values["member_id"], values["share_session_epoch"]
        if epoch == 0:
            self._end(member)
            self.shares[member] = Session()
            return self.shares[member]
        found = self.shares.get(member)
        if found is None:
            return NO_SESSION
        if epoch > 0 and epoch != found.epoch:
            return OTHER_EPOCH
        found.epoch += 1
        return found

    def _acquired(self, member: str, session: Session) -> dict[Place, list[tuple[int, bytes]]]:
        """The next batch with records that nobody has, of each partition."""
        found: dict[Place, list[tuple[int, bytes]]] = {}
        for place in sorted(session.places):
            self._begin(place)
            for base, data in self.log[place]:
                (batch,) = records.batches(data)
                free = [
                    offset
                    for offset in range(max(base, self.begun[place]), base + (batch.count or 0))
                    if (place, offset) not in self.done and (place, offset) not in self.held
                ]
                if free:
                    self.held |= {(place, offset): member for offset in free}
                    found[place] = [(offset, records.with_base_offset(data, base)) for offset in free]
                    break
        return found

    def _places(self, values: Values) -> set[Place]:
        return {
            (self.topics[topic["topic_id"]], each["partition_index"])
            for topic in values["topics"]
            for each in topic["partitions"]
        }

    def _told(self, values: Values, given: dict[Place, list[tuple[int, bytes]]]) -> list[Values]:
        asked = self._places(values)
        topics: dict[str, list[Values]] = {}
        for name, index in sorted(asked | given.keys()):
            acquired = given.get((name, index), [])
            ranges = [{"first_offset": at, "last_offset": at, "delivery_count": 1} for at, _ in acquired]
            part = {"partition_index": index, "error_code": 0, "records": acquired[0][1] if acquired else b""}
            topics.setdefault(name, []).append(part | {"acquired_records": ranges})
        return [{"topic_id": self.topic_ids[name], "partitions": parts} for name, parts in topics.items()]

    def _shareacknowledge(self, version: int, values: Values) -> Values:
        session = self._session(values)
        if isinstance(session, int):
            return {"error_code": session, "responses": []}
        self._acknowledge(values)
        if values["share_session_epoch"] < 0:
            self._end(values["member_id"])
        topics = [
            {
                "topic_id": topic["topic_id"],
                "partitions": [
                    {"partition_index": each["partition_index"], "error_code": 0} for each in topic["partitions"]
                ],
            }
            for topic in values["topics"]
        ]
        return {"error_code": 0, "responses": topics}

    def _acknowledge(self, values: Values) -> None:
        for topic in values["topics"]:
            for each in topic["partitions"]:
                for batch in each["acknowledgement_batches"]:
                    for at, offset in enumerate(range(batch["first_offset"], batch["last_offset"] + 1)):
                        kinds = batch["acknowledge_types"]
                        key = (self.topics[topic["topic_id"]], each["partition_index"]), offset
                        assert self.held.pop(key, None) == values["member_id"]
                        if kinds[at if len(kinds) > 1 else 0] != RELEASE:
                            self.done.add(key)

    def _end(self, member: str) -> None:
        self.shares.pop(member, None)
        self.held = {key: holder for key, holder in self.held.items() if holder != member}


def other_cluster(random: Random) -> Sharing:
    """Makes a cluster with other ids and epochs, whose group begins at the ends."""
    first, epoch = random.choice([0, 7, 1000]), random.choice([0, 40])
    return Sharing(first_offset=first, topic_ids=dict(TARGET_IDS), begins_at_end=True, group_epoch=epoch, nodes=(4,))


class ShareMember:
    """A member of the share group."""

    def __init__(self, clients: Clients, connection: int) -> None:
        self.clients, self.connection = clients, connection
        self.lives, self.epoch, self.session = 0, 0, 0
        self.has: list[tuple[int, int]] = []

    def _ask(self, key: int, values: Values) -> Values:
        named = {"group_id": GROUP, "member_id": f"member-{self.connection}-{self.lives}"}
        return self.clients.ask(self.connection, key, 1, named | values)

    def step(self) -> None:
        choices = [self._beat, self._fetch, self._fetch, self._fetch, self._acknowledge, self._leave]
        (self.clients.random.choice(choices) if self.epoch else self._join)()

    def _join(self) -> None:
        self.lives, self.session, self.has = self.lives + 1, 0, []
        answer = self._ask(SHARE_GROUP_HEARTBEAT, {"member_epoch": 0, "subscribed_topic_names": [TOPIC]})
        self.epoch = answer["member_epoch"]

    def _beat(self) -> None:
        self._ask(SHARE_GROUP_HEARTBEAT, {"member_epoch": self.epoch})

    def _decided(self, *, takes_all: bool = False) -> list[Values]:
        """Acknowledges some of the records that the member has, or accepts all."""
        decided = [each for each in self.has if takes_all or self.clients.random.random() < 0.7]
        self.has = [each for each in self.has if each not in decided]
        parts: dict[int, list[Values]] = {}
        for index, offset in decided:
            kind = ACCEPT if takes_all else self.clients.random.choice([ACCEPT, ACCEPT, RELEASE, REJECT])
            batch = {"first_offset": offset, "last_offset": offset, "acknowledge_types": [kind]}
            parts.setdefault(index, []).append(batch)
        return self._named(parts)

    def _named(self, parts: dict[int, list[Values]]) -> list[Values]:
        topic_id = self.clients.kafka.topic_ids[TOPIC]
        named = [{"partition_index": index, "acknowledgement_batches": each} for index, each in sorted(parts.items())]
        return [{"topic_id": topic_id, "partitions": named}] if named else []

    def _fetch(self, *, takes_all: bool = False) -> None:
        topics = self._decided(takes_all=takes_all) if self.session else self._named({index: [] for _, index in PLACES})
        values = {"share_session_epoch": self.session, "max_wait_ms": 500, "min_bytes": 1, "topics": topics}
        answer = self._ask(SHARE_FETCH, values | {"max_records": 500, "batch_size": 500, "forgotten_topics_data": []})
        self.session += 1
        for topic in answer["responses"]:
            for each in topic["partitions"]:
                self.has += [(each["partition_index"], one["first_offset"]) for one in each["acquired_records"]]

    def _acknowledge(self) -> None:
        topics = self._decided() if self.session else []
        if topics:
            self._ask(SHARE_ACKNOWLEDGE, {"share_session_epoch": self.session, "topics": topics})
            self.session += 1

    def read_all(self) -> None:
        """Joins, and takes all that is left."""
        self._join()
        self._fetch()
        while self.has:
            self._fetch(takes_all=True)
        for _ in range(_LAST_POLLS):
            self._fetch()

    def leave(self) -> None:
        """Leaves the group, if the member is in it."""
        if self.epoch:
            self._leave()

    def _leave(self) -> None:
        if self.session:
            self._ask(SHARE_ACKNOWLEDGE, {"share_session_epoch": -1, "topics": self._decided()})
        self._ask(SHARE_GROUP_HEARTBEAT, {"member_epoch": -1})
        self.epoch = 0


class SharedProducer(Producer):
    """A producer without an id, to the partitions that the group reads."""

    def step(self) -> None:
        self._write(self.clients.random.choice(PLACES))


class Namer:
    """A client that requests metadata, whose answers alone name the topic's id."""

    def __init__(self, clients: Clients, connection: int) -> None:
        self.clients, self.connection = clients, connection

    def step(self) -> None:
        self.clients.ask(self.connection, 3, 12, {"topics": None, "allow_auto_topic_creation": False})


def recorded(random: Random, steps: int, *, written: int = 0) -> Recording:
    """Records two members, a producer, and a client that names the topic, in any order. In the end all is read.

    `written`: how many batches were written before the recording; if there are any, none are written in it.
    """
    clients = Clients(Sharing(), random, is_timed=True)
    members, producer = [ShareMember(clients, connection) for connection in (2, 3)], SharedProducer(clients, 1, "plain")
    for _ in range(written):
        producer.step()
    without_beginning(clients.recording, 2 * written)
    everybody: list[Steps] = [*members, *members, Namer(clients, 9), *([] if written else [producer])]
    for _ in range(steps):
        random.choice(everybody).step()
    for each in members:
        each.leave()
    members[0].read_all()
    return clients.recording
