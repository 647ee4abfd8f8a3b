"""Groups with changing members while records keep coming: some member reads each record, at least once."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import IO, Protocol

from confluent_kafka import Consumer, KafkaException

from tests.brokers import children
from tests.brokers.jars import class_path, java
from tests.brokers.kafka import JVM, KafkaCluster
from tests.brokers.waiting import PATIENCE, wait_for
from tests.clients.workloads import confluent, fresh
from tests.clients.workloads.programs import share_group

MEMBERS = Path(__file__).parents[2] / "java" / "Members.java"
PARTITIONS = 6
# records that are sent whenever a member joins or leaves
EACH_TIME = 60


class Members(Protocol):
    """A group's members, by name. `read`: values with their counts; `partitions`: how many a member has, if any."""

    read: Counter[str]
    partitions: dict[str, int]

    def join(self, name: str) -> None: ...

    def leave(self, name: str) -> None:
        """Makes a member leave; then `partitions` no longer has it."""


def changes_its_members(bootstrap: str, folder: Path) -> None:
    """A consumer group (KIP-848) of Java clients and librdkafka's: the partitions are always spread evenly."""
    topic, group = confluent.create_topic(bootstrap, "members", PARTITIONS), fresh("group")
    with java_members(bootstrap, topic, group, "consumer", folder) as java, librdkafkas(bootstrap, topic, group) as c:
        team: dict[str, Members] = {}
        for name, members in (("java-1", java), ("c-1", c), ("java-2", java), ("java-1", java), ("c-1", c)):
            if name in team:
                team.pop(name).leave(name)
            else:
                members.join(name)
                team[name] = members
            sent = send(bootstrap, topic, f"{name} and {len(team)} members")
            java.wait_for(partial(have_read, sent, java, c), "all to be read")
            even = [PARTITIONS // len(team)] * len(team)
            java.wait_for(partial(is_spread, team, even), f"{even} partitions of {sorted(team)}")


def have_read(sent: Iterable[str], *members: Members) -> bool:
    """True if any of them has read each."""
    return all(any(one in each.read for each in members) for one in sent)


def has_read_twice(members: Members, sent: Iterable[str]) -> bool:
    return all(members.read[one] > 1 for one in sent)


def is_spread(team: dict[str, Members], even: list[int]) -> bool:
    return _spread(team) == even


def shares_with_members_that_change(cluster: KafkaCluster, bootstrap: str, folder: Path) -> None:
    """A share group (KIP-932): any member may read again what another one gave back."""
    topic, group = confluent.create_topic(bootstrap, "sharing", PARTITIONS), share_group(cluster, bootstrap)
    with java_members(bootstrap, topic, group, "share", folder) as members:
        for number, (do, name) in enumerate((("join", 1), ("join", 2), ("join", 3), ("leave", 1), ("leave", 2))):
            getattr(members, do)(str(name))
            sent = send(bootstrap, topic, f"once {number}") | send(bootstrap, topic, f"never {number}")
            twice = send(bootstrap, topic, f"again {number}")
            members.wait_for(partial(have_read, sent, members), "all to be read")
            members.wait_for(partial(has_read_twice, members, twice), "the second time")


def send(bootstrap: str, topic: str, label: str) -> set[str]:
    """Sends to all partitions; returns the values."""
    sent = [f"{label}, {number}" for number in range(EACH_TIME)]
    confluent.produce(bootstrap, topic, map(str.encode, sent), partitions=PARTITIONS)
    return set(sent)


def _spread(team: Mapping[str, Members]) -> list[int]:
    return sorted(members.partitions.get(name, 0) for name, members in team.items())


@contextmanager
def java_members(bootstrap: str, topic: str, group: str, kind: str, folder: Path) -> Iterator["JavaMembers"]:
    """Runs the members in a JVM. All leave at the end."""
    members = JavaMembers([bootstrap, topic, group, kind], folder / "members.log")
    try:
        yield members
        members.finish()
    finally:
        members.stop()


class JavaMembers:
    """See `Members`; "consumer" or "share" is the program's last argument."""

    def __init__(self, arguments: Sequence[str], log: Path) -> None:
        self.read: Counter[str] = Counter()
        self.partitions: dict[str, int] = {}
        self._log = log
        command = [java(), *JVM, "-cp", class_path(), str(MEMBERS), *arguments]
        with log.open("wb") as failures:
            self._child, self._pipe, events = children.spoken_with(command, stderr=failures, bufsize=1)
        self._reader = Thread(target=self._follow, args=(events,))
        self._reader.start()

    def join(self, name: str) -> None:
        self._pipe.write(f"join {name}\n")

    def leave(self, name: str) -> None:
        self._pipe.write(f"leave {name}\n")

    def wait_for(self, question: Callable[[], bool], what: str) -> None:
        wait_for(question, what, hopeless=self._death)

    def finish(self) -> None:
        """All members leave, and the program ends without an error."""
        self._pipe.close()
        assert self._child.wait(PATIENCE) == 0, self._death()

    def stop(self) -> None:
        with suppress(BrokenPipeError):
            self._pipe.close()
        children.stop(self._child)
        self._reader.join()
        children.close_pipes(self._child)

    def _death(self) -> str | None:
        return None if self._child.poll() is None else f"the JVM has ended:\n{self._log.read_text()[-3000:]}"

    def _follow(self, events: IO[str]) -> None:
        for line in events:
            name, event, *rest = line.rstrip("\n").split(" ", 2)
            if event == "read":
                self.read[rest[0]] += 1
            elif event == "has":
                self.partitions[name] = int(rest[0])
            else:
                self.partitions.pop(name, None)


@contextmanager
def librdkafkas(bootstrap: str, topic: str, group: str) -> Iterator["LibrdkafkasMembers"]:
    """Runs the members in this process. All leave at the end."""
    members = LibrdkafkasMembers(bootstrap, topic, group)
    try:
        yield members
    finally:
        members.finish()
    assert not members.failures


class LibrdkafkasMembers:
    """See `Members`."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self.read: Counter[str] = Counter()
        self.partitions: dict[str, int] = {}
        self.failures: list[str] = []
        self._bootstrap, self._topic, self._group = bootstrap, topic, group
        self._threads: dict[str, tuple[Thread, Event]] = {}

    def join(self, name: str) -> None:
        leaving = Event()
        thread = Thread(target=self._work, args=(name, leaving.is_set))
        self._threads[name] = thread, leaving
        thread.start()

    def leave(self, name: str) -> None:
        self._threads[name][1].set()

    def finish(self) -> None:
        for thread, leaving in self._threads.values():
            leaving.set()
            thread.join()

    def _work(self, name: str, is_leaving: Callable[[], bool]) -> None:
        settings = {"group.id": self._group, "group.protocol": "consumer", "auto.offset.reset": "earliest"}
        with closing(confluent.consumer(self._bootstrap, **settings)) as member:
            member.subscribe([self._topic])
            while not is_leaving():
                self._poll(name, member)
        self.partitions.pop(name, None)

    def _poll(self, name: str, member: Consumer) -> None:
        for message in member.consume(100, 0.2):
            if message.error():
                self.failures.append(str(message.error()))
            else:
                self.read[confluent.value_of(message).decode()] += 1
        # records that can no longer be committed are read again by the partition's next owner
        with suppress(KafkaException):
            member.commit(asynchronous=False)
        self.partitions[name] = len(member.assignment())
