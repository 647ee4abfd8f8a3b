"""A group coordinator by Kafka's rules, in virtual time: classic groups (KIP-345, 394), consumer groups (KIP-848).

It follows Kafka's `GroupMetadataManager`, `ClassicGroup` and `CurrentAssignmentBuilder`. `ids` makes its member ids,
`elect` chooses the leader of a classic group among those that joined, `initial_delay` is how long an empty group waits
for more members (`group.initial.rebalance.delay.ms`). A response is a call of the given function,
perhaps later. The tests assert which responses a client must never get; this module does not.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from proxy.wire.keys import (
    CONSUMER_GROUP_HEARTBEAT,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    OFFSET_COMMIT,
    SYNC_GROUP,
)

Values = dict[str, Any]
Answer = Callable[[Values], None]
MILLISECOND, SECOND = 10**6, 10**9
INITIAL_DELAY = 3 * SECOND


class Clock:
    """Calls at later times."""

    def __init__(self) -> None:
        self.now = 0
        self._calls: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = count()

    def at(self, when: int, call: Callable[[], None]) -> None:
        heapq.heappush(self._calls, (max(when, self.now), next(self._numbers), call))

    def after(self, delay: int, call: Callable[[], None]) -> None:
        self.at(self.now + delay, call)

    def run(self, until: int) -> None:
        while self._calls and self._calls[0][0] <= until:
            self.now, _, call = heapq.heappop(self._calls)
            call()
        self.now = until

    def step(self) -> bool:
        if not self._calls:
            return False
        self.run(self._calls[0][0])
        return True


@dataclass(eq=False)
class Joined:
    """A member. `join`, `sync`: its requests that wait for a response."""

    id: str
    instance: str | None
    protocols: list[Values]
    session: int
    rebalance: int
    version: int
    join: Answer | None = None
    sync: Answer | None = None
    assignment: bytes = b""
    deadline: int = 0


@dataclass(eq=False)
class ClassicGroup:
    state: str = "empty"
    was_empty: bool = True
    generation: int = 0
    leader: str = ""
    protocol_type: str = ""
    members: dict[str, Joined] = field(default_factory=dict)
    pending: dict[str, int] = field(default_factory=dict)
    statics: dict[str, str] = field(default_factory=dict)
    synced: set[str] = field(default_factory=set)
    newcomer: bool = False
    timer: int = 0


class Coordinator:
    """Classic groups. `handle` takes a request, and calls `answer` with the values of its response."""

    def __init__(
        self,
        clock: Clock,
        ids: Iterator[str],
        elect: Callable[[list[str]], str] = lambda ids: ids[0],
        initial_delay: int = INITIAL_DELAY,
    ) -> None:
        self.clock, self.ids, self.elect, self.initial_delay = clock, ids, elect, initial_delay
        self.groups: dict[str, ClassicGroup] = {}
        self.offsets: dict[tuple[str, str, int], int] = {}

    def handle(self, api_key: int, version: int, values: Values, answer: Answer) -> None:
        group = self.groups.setdefault(values["group_id"], ClassicGroup())
        if api_key == JOIN_GROUP:
            self._join(group, version, values, answer)
        elif api_key == SYNC_GROUP:
            self._sync(group, values, answer)
        elif api_key == HEARTBEAT:
            answer({"error_code": self._heartbeat(group, values)})
        elif api_key == LEAVE_GROUP:
            self._leave(group, values, answer)
        elif api_key == OFFSET_COMMIT:
            self._commit(group, values, answer)

    # -- joins ------------------------------------------------------------------------------------------------------

    def _join(self, group: ClassicGroup, version: int, values: Values, answer: Answer) -> None:
        member, instance = values["member_id"], values.get("group_instance_id")
        if not member:
            self._join_new(group, version, values, answer)
        elif member in group.pending:
            del group.pending[member]
            self._add(group, member, version, values, answer)
        elif error := self._validate(group, member, instance):
            answer(_not_joined(error, member))
        else:
            self._join_known(group, group.members[member], values, answer)

    def _join_new(self, group: ClassicGroup, version: int, values: Values, answer: Answer) -> None:
        member, instance = next(self.ids), values.get("group_instance_id")
        if instance is not None and instance in group.statics:
            self._replace(group, member, version, values, answer)
        elif instance is None and version >= 4:
            group.pending[member] = self.clock.now
            self.clock.after(values["session_timeout_ms"] * MILLISECOND, lambda: self._expire_pending(group, member))
            answer(_not_joined(79, member))
        else:
            self._add(group, member, version, values, answer)

    def _add(self, group: ClassicGroup, member: str, version: int, values: Values, answer: Answer) -> None:
        if group.state == "preparing" and group.was_empty:
            group.newcomer = True
        found = Joined(member, values.get("group_instance_id"), [], 0, 0, version)
        group.members[member] = found
        if found.instance is not None:
            group.statics[found.instance] = member
        group.leader = group.leader or member
        group.protocol_type = values["protocol_type"]
        self._update(found, values, answer)
        self._rebalance(group)

    def _replace(self, group: ClassicGroup, member: str, version: int, values: Values, answer: Answer) -> None:
        """Replaces a static member, which is back with a new id (KIP-345)."""
        old = group.members.pop(group.statics[values["group_instance_id"]])
        group.statics[values["group_instance_id"]] = member
        for waiting in (old.join, old.sync):
            if waiting:
                waiting(_not_joined(82, old.id) if waiting is old.join else {"error_code": 82, "assignment": b""})
        was_leader, old_leader = group.leader == old.id, group.leader
        group.leader = member if was_leader else group.leader
        new = Joined(member, old.instance, [], 0, 0, version, assignment=old.assignment)
        group.members[member] = new
        self._update(new, values, answer)
        self._beat(group, new)
        if group.state == "stable":
            self._answer_join(group, new, skip=was_leader and version >= 9, leader=None if version >= 9 else old_leader)
        elif group.state == "completing":
            self._prepare(group)
        else:
            self._maybe_complete(group)

    def _join_known(self, group: ClassicGroup, member: Joined, values: Values, answer: Answer) -> None:
        same = member.protocols == values["protocols"]
        present = group.state == "completing" and same
        if present or (group.state == "stable" and same and group.leader != member.id):
            member.join = answer
            self._answer_join(group, member)
        elif group.state == "empty":
            answer(_not_joined(25, member.id))
        else:
            self._update(member, values, answer)
            self._rebalance(group)

    @staticmethod
    def _update(member: Joined, values: Values, answer: Answer) -> None:
        member.protocols, member.join = values["protocols"], answer
        member.session = values["session_timeout_ms"] * MILLISECOND
        member.rebalance = max(values.get("rebalance_timeout_ms", -1), 1) * MILLISECOND

    def _rebalance(self, group: ClassicGroup) -> None:
        if group.state in ("empty", "completing", "stable"):
            self._prepare(group)
        else:
            self._maybe_complete(group)

    def _prepare(self, group: ClassicGroup) -> None:
        if group.state == "completing":
            for member in group.members.values():
                member.assignment = b""
                self._answer_sync(group, member, 27)
        group.was_empty = group.state == "empty"
        group.state, group.synced = "preparing", set()
        group.timer += 1
        if group.was_empty:
            self._initial(group, group.timer, self.initial_delay)
        elif self._all_joined(group):
            self._complete(group)
        else:
            timer = group.timer
            timeout = max((member.rebalance for member in group.members.values()), default=0)

            def over() -> None:
                if group.timer == timer:
                    self._complete(group)

            self.clock.after(timeout, over)

    def _initial(self, group: ClassicGroup, timer: int, remaining: int) -> None:
        def over() -> None:
            if group.timer != timer:
                return
            if group.newcomer and remaining > 0:
                group.newcomer = False
                self._initial(group, timer, remaining - self.initial_delay)
            else:
                self._complete(group)

        self.clock.after(self.initial_delay, over)

    @staticmethod
    def _all_joined(group: ClassicGroup) -> bool:
        return not group.pending and all(member.join for member in group.members.values())

    def _maybe_complete(self, group: ClassicGroup) -> None:
        if group.state == "preparing" and not group.was_empty and self._all_joined(group):
            self._complete(group)

    def _complete(self, group: ClassicGroup) -> None:
        group.timer += 1
        for member in [one for one in group.members.values() if not one.join and one.instance is None]:
            self._drop(group, member)
        group.generation += 1
        joined = [member.id for member in group.members.values() if member.join]
        if not group.members:
            group.state, group.leader = "empty", ""
            return
        if group.was_empty or group.leader not in joined:
            group.leader = self.elect(joined or list(group.members))
        group.state, group.was_empty = "completing", False
        timer = group.timer
        timeout = max(member.rebalance for member in group.members.values())

        def over() -> None:
            if group.timer == timer:
                self._expire_syncs(group)

        self.clock.after(timeout, over)
        for member in list(group.members.values()):
            self._answer_join(group, member)
            self._beat(group, member)

    def _answer_join(self, group: ClassicGroup, member: Joined, skip: bool = False, leader: str | None = None) -> None:
        answer, member.join = member.join, None
        if not answer:
            return
        name = group_protocol(group)
        elected = leader or group.leader
        members = [self._described(one, name) for one in group.members.values()] if elected == member.id else []
        answer(
            _not_joined(0, member.id)
            | {"generation_id": group.generation, "protocol_type": group.protocol_type, "protocol_name": name}
            | {"leader": elected, "skip_assignment": skip, "members": members}
        )

    @staticmethod
    def _described(member: Joined, name: str) -> Values:
        metadata = next(one["metadata"] for one in member.protocols if one["name"] == name)
        return {"member_id": member.id, "group_instance_id": member.instance, "metadata": metadata}

    # -- syncs, heartbeats, departures ------------------------------------------------------------------------------

    def _validate(self, group: ClassicGroup, member: str, instance: str | None) -> int:
        if instance is not None:
            known = group.statics.get(instance)
            return 25 if known is None else 82 if known != member else 0
        return 0 if member in group.members else 25

    def _quoted(self, group: ClassicGroup, values: Values) -> int:
        error = self._validate(group, values["member_id"], values.get("group_instance_id"))
        return error or (22 if values["generation_id"] != group.generation else 0)

    def _sync(self, group: ClassicGroup, values: Values, answer: Answer) -> None:
        error = self._quoted(group, values) or (27 if group.state == "preparing" else 0)
        if error:
            answer({"error_code": error, "assignment": b""})
            return
        member = group.members[values["member_id"]]
        group.synced.add(member.id)
        member.sync = answer
        if group.state == "stable":
            self._answer_sync(group, member)
        elif group.leader == member.id:
            given = {entry["member_id"]: entry["assignment"] for entry in values["assignments"]}
            group.state = "stable"
            for one in list(group.members.values()):
                one.assignment = given.get(one.id, b"")
                self._answer_sync(group, one)

    def _answer_sync(self, group: ClassicGroup, member: Joined, error: int = 0) -> None:
        answer, member.sync = member.sync, None
        if answer:
            self._beat(group, member)
            names = {"protocol_type": group.protocol_type, "protocol_name": group_protocol(group)}
            answer({"error_code": error, "assignment": member.assignment} | names)

    def _heartbeat(self, group: ClassicGroup, values: Values) -> int:
        error = self._quoted(group, values)
        if error:
            return error
        self._beat(group, group.members[values["member_id"]])
        return 27 if group.state == "preparing" else 0

    def _beat(self, group: ClassicGroup, member: Joined) -> None:
        member.deadline = self.clock.now + member.session
        self.clock.at(member.deadline, lambda: self._expire(group, member))

    def _expire(self, group: ClassicGroup, member: Joined) -> None:
        alive = self.clock.now < member.deadline or member.join or member.sync
        if group.members.get(member.id) is member and not alive:
            self._remove(group, member)

    def _expire_pending(self, group: ClassicGroup, member: str) -> None:
        if group.pending.pop(member, None) is not None:
            self._maybe_complete(group)

    def _expire_syncs(self, group: ClassicGroup) -> None:
        late = [member for member in group.members.values() if member.id not in group.synced]
        for member in late:
            self._drop(group, member)
        if late:
            self._prepare(group)

    def _drop(self, group: ClassicGroup, member: Joined) -> None:
        del group.members[member.id]
        if member.instance is not None:
            del group.statics[member.instance]
        if group.leader == member.id:
            group.leader = next(iter(group.members), "")

    def _remove(self, group: ClassicGroup, member: Joined) -> None:
        waiting, member.join = member.join, None
        if waiting:
            waiting(_not_joined(25, ""))
        self._drop(group, member)
        if group.state in ("stable", "completing"):
            self._prepare(group)
        else:
            self._maybe_complete(group)

    def _leave(self, group: ClassicGroup, values: Values, answer: Answer) -> None:
        entries = values.get("members") or [{"member_id": values["member_id"], "group_instance_id": None}]
        named = ("member_id", "group_instance_id")
        answers = [
            {name: entry[name] for name in named} | {"error_code": self._left(group, entry)} for entry in entries
        ]
        answer({"error_code": 0 if "members" in values else answers[0]["error_code"], "members": answers})

    def _left(self, group: ClassicGroup, entry: Values) -> int:
        member = entry["member_id"] or group.statics.get(entry["group_instance_id"], "")
        if group.pending.pop(member, None) is not None:
            self._maybe_complete(group)
            return 0
        error = self._validate(group, member, entry.get("group_instance_id"))
        if not error:
            self._remove(group, group.members[member])
        return error

    def _commit(self, group: ClassicGroup, values: Values, answer: Answer) -> None:
        anonymous = values["generation_id_or_member_epoch"] < 0 and group.state == "empty"
        error = (
            0 if anonymous else self._quoted(group, values | {"generation_id": values["generation_id_or_member_epoch"]})
        )
        error = error or (27 if group.state == "completing" else 0)
        partitions = [{"partition_index": 0, "error_code": error}]
        answer({"topics": [{"name": topic["name"], "partitions": partitions} for topic in values["topics"]]})


def group_protocol(group: ClassicGroup) -> str:
    """Returns the first protocol of the first member that all members have."""
    offered = [[one["name"] for one in member.protocols] for member in group.members.values()]
    return next((name for name in offered[0] if all(name in names for names in offered)), "") if offered else ""


def _not_joined(error: int, member: str) -> Values:
    return {
        "error_code": error,
        "generation_id": -1,
        "protocol_type": None,
        "protocol_name": "",
        "leader": "",
        "skip_assignment": False,
        "member_id": member,
        "members": [],
    }


@dataclass(eq=False)
class Consumer:
    """A member of a consumer group. `pending`: partitions that it has yet to revoke."""

    id: str
    instance: str | None = None
    epoch: int = 0
    previous: int = 0
    topics: list[str] = field(default_factory=list)
    assigned: set[tuple[str, int]] = field(default_factory=set)
    pending: set[tuple[str, int]] = field(default_factory=set)
    told: set[tuple[str, int]] | None = None
    session: int = 45 * SECOND
    deadline: int = 0


class ConsumerCoordinator:
    """Consumer groups: the server assigns, round robin over the members in the order of `rank`.

    `topics`: name -> topic id and number of partitions.
    """

    def __init__(
        self, clock: Clock, ids: Iterator[str], topics: dict[str, bytes], rank: Callable[[str], Any], first: int = 0
    ) -> None:
        self.clock, self.ids, self.topics, self.rank = clock, ids, topics, rank
        self.epoch = first
        self.members: dict[str, Consumer] = {}

    def handle(self, api_key: int, version: int, values: Values, answer: Answer) -> None:
        assert api_key == CONSUMER_GROUP_HEARTBEAT
        error = self._refusal(values)
        if error:
            answer(_beat(error, values["member_id"] or None, 0))
        elif values["member_epoch"] < 0:
            self._drop(self.members[values["member_id"]])
            answer(_beat(0, values["member_id"], values["member_epoch"]))
        else:
            answer(self._beat(values))

    def _refusal(self, values: Values) -> int:
        epoch, owned = values["member_epoch"], values["topic_partitions"]
        member = self.members.get(values["member_id"])
        if epoch == 0:
            full = values["rebalance_timeout_ms"] > 0 and values["subscribed_topic_names"] and owned == []
            return 42 if not full else 110 if member and member.epoch > 0 else 0
        if member is None:
            return 25
        previous = epoch == member.previous and self._owned(owned) <= member.assigned and owned is not None
        return 0 if epoch in (-1, -2, member.epoch) or previous else 110

    def _owned(self, owned: list[Values] | None) -> set[tuple[str, int]]:
        names = {topic_id: name for name, topic_id in self.topics.items()}
        return {(names[entry["topic_id"]], one) for entry in owned or () for one in entry["partitions"]}

    def _beat(self, values: Values) -> Values:
        member = self.members.get(values["member_id"])
        if member is None:
            member = Consumer(values["member_id"] or next(self.ids), values["instance_id"])
            self.members[member.id] = member
            self.epoch += 1
        if values["subscribed_topic_names"] is not None and values["subscribed_topic_names"] != member.topics:
            self.epoch += member.topics != []
            member.topics = values["subscribed_topic_names"]
        self._reconcile(member, values)
        member.deadline = self.clock.now + member.session
        self.clock.at(member.deadline, lambda: self._expire(member))
        answer = _beat(0, member.id, member.epoch)
        full = values["member_epoch"] == 0
        if full or member.told != member.assigned:
            member.told = set(member.assigned)
            answer["assignment"] = {"topic_partitions": self._by_topic(member.assigned)}
        return answer

    def _reconcile(self, member: Consumer, values: Values) -> None:
        target = self.target()[member.id]
        if member.pending:
            if values["topic_partitions"] is None or self._owned(values["topic_partitions"]) & member.pending:
                return
            member.pending = set()
        if member.assigned - target:
            member.pending, member.assigned = member.assigned - target, member.assigned & target
            return
        taken = {
            one for other in self.members.values() if other is not member for one in other.assigned | other.pending
        }
        member.assigned |= target - taken
        if member.epoch != self.epoch:
            member.previous, member.epoch = member.epoch, self.epoch

    def target(self) -> dict[str, set[tuple[str, int]]]:
        ranked = sorted(self.members, key=self.rank)
        out: dict[str, set[tuple[str, int]]] = {member: set() for member in ranked}
        for topic in sorted(self.topics):
            wanting = [member for member in ranked if topic in self.members[member].topics]
            for partition in range(PARTITIONS if wanting else 0):
                out[wanting[partition % len(wanting)]].add((topic, partition))
        return out

    def _by_topic(self, partitions: set[tuple[str, int]]) -> list[Values]:
        names = sorted({topic for topic, _ in partitions})
        return [
            {"topic_id": self.topics[name], "partitions": sorted(one for topic, one in partitions if topic == name)}
            for name in names
        ]

    def _drop(self, member: Consumer) -> None:
        del self.members[member.id]
        self.epoch += 1

    def _expire(self, member: Consumer) -> None:
        if self.members.get(member.id) is member and self.clock.now >= member.deadline:
            self._drop(member)


PARTITIONS = 6


def _beat(error: int, member: str | None, epoch: int) -> Values:
    return {
        "throttle_time_ms": 0,
        "error_code": error,
        "error_message": None,
        "member_id": member,
        "member_epoch": epoch,
        "heartbeat_interval_ms": 5000,
        "assignment": None,
    }
