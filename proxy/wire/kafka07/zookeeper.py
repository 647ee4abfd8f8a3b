"""How brokers, producers and consumers of 0.7 find each other: paths, values and rules of ZooKeeper, as pure functions.

    path                                                   value                        lives as long as
    /brokers/ids/[broker]                                  creator:host:port            the broker's session
    /brokers/topics/[topic]/[broker]                       number of partitions         the broker's session (s)
    /consumers/[group]/ids/[consumer]                      topics and streams, as JSON  the consumer's session
    /consumers/[group]/owners/[topic]/[broker]-[partition] the consumer (s)             the consumer's session (s)
    /consumers/[group]/offsets/[topic]/[broker]-[partition] offset to read next         for ever

Missing nodes above these are created (`parents`), with the creator's id as their value.

A partition belongs to one broker: partition 0 of broker 1 and partition 0 of broker 2 have nothing in common. Broker
ids are integers, not necessarily consecutive, and a broker keeps its id when it comes back under another address. A
broker that has died may stay registered for some seconds.

Clients dial the address in `/brokers/ids/[broker]`, so a proxy must put its own there.
(s): see `proxy.wire.kafka07`. Everything else comes from the page and from brod.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from proxy.wire.errors import Malformed

BROKER_IDS = "/brokers/ids"
BROKER_TOPICS = "/brokers/topics"
CONSUMERS = "/consumers"


class BrokerPartition(NamedTuple):
    """A partition of a topic: the broker, and the partition's number on that broker."""

    broker: int
    partition: int

    def __str__(self) -> str:
        """The form in paths: 0-3."""
        return f"{self.broker}-{self.partition}"


def broker_partition(text: str) -> BrokerPartition:
    """Reads the form in paths. Errors: Malformed."""
    broker, dash, partition = text.partition("-")
    if not dash:
        raise Malformed(f"{text!r} is no broker-partition", api=BROKER_TOPICS)
    return BrokerPartition(_number(broker, BROKER_TOPICS), _number(partition, BROKER_TOPICS))


def broker_path(broker: int) -> str:
    """The path of a broker's `Registration`."""
    return f"{BROKER_IDS}/{broker}"


def topic_path(topic: str) -> str:
    """The path whose children are the brokers that have the topic."""
    return f"{BROKER_TOPICS}/{topic}"


def topic_broker_path(topic: str, broker: int) -> str:
    """The path of a broker's number of partitions of the topic."""
    return f"{topic_path(topic)}/{broker}"


def consumer_ids_path(group: str) -> str:
    """The path whose children are the group's consumers."""
    return f"{CONSUMERS}/{group}/ids"


def consumer_path(group: str, consumer: str) -> str:
    """The path of the topics that a consumer reads."""
    return f"{consumer_ids_path(group)}/{consumer}"


def owner_path(group: str, topic: str, place: BrokerPartition) -> str:
    """The path of the consumer that reads a partition."""
    return f"{CONSUMERS}/{group}/owners/{topic}/{place}"


def offset_path(group: str, topic: str, place: BrokerPartition) -> str:
    """The path of a group's offset, in bytes of the partition's log."""
    return f"{CONSUMERS}/{group}/offsets/{topic}/{place}"


def parents(path: str) -> tuple[str, ...]:
    """The nodes above a path, outermost first; they must exist before the path can be created."""
    names = path.split("/")
    return tuple("/".join(names[:end]) for end in range(2, len(names)))


@dataclass(frozen=True, slots=True)
class Registration:
    """The value of a broker's node. A proxy puts itself there with `dataclasses.replace(…, host=…, port=…)`.

    The creator is usually made of the host, a time and a random number; don't take the host from it.
    """

    creator: str
    host: str
    port: int

    def __str__(self) -> str:
        """The value in ZooKeeper. Errors: Malformed for a colon in creator or host: readers split at colons."""
        if ":" in self.creator + self.host:
            raise Malformed(f"a colon in {self.creator!r} or {self.host!r}", api=BROKER_IDS)
        return f"{self.creator}:{self.host}:{self.port}"


def registration(text: str) -> Registration:
    """Reads a broker's node: creator, host and port between colons; later elements are ignored. Errors: Malformed."""
    match text.split(":"):
        case [creator, host, port, *_] if host:
            return Registration(creator, host, _number(port, BROKER_IDS, 1, 65535))
        case _:
            raise Malformed(f"{text!r} is not creator:host:port", api=BROKER_IDS)


def partition_count(text: str) -> int:
    """Reads the value of `/brokers/topics/[topic]/[broker]`. Errors: Malformed."""
    return _number(text, BROKER_TOPICS)


def _number(text: str, api: str, smallest: int = 0, largest: int = 2**31 - 1) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 10 or not smallest <= int(text) <= largest:
        raise Malformed(f"{text!r} is no number from {smallest} to {largest}", api=api)
    return int(text)


def producer_watches(topic: str) -> tuple[str, ...]:
    """The nodes whose children a producer watches: the brokers that have the topic, and all brokers."""
    return topic_path(topic), BROKER_IDS


def consumer_watches(group: str, topic: str) -> tuple[str, ...]:
    """The nodes whose children a consumer watches; with each change the partitions are split again.

    They are the group's members, the brokers, the topics, and the brokers of this topic, as in brod (the page lacks the
    passage). 0.7's own consumer watches only the first and the last of them (s). The last node does not exist before
    the topic does, hence the watch on the topics.
    """
    return consumer_ids_path(group), BROKER_IDS, BROKER_TOPICS, topic_path(topic)


def producer_pool(brokers: Iterable[int], partitions: Mapping[int, int]) -> tuple[BrokerPartition, ...]:
    """All partitions to which a producer may send a topic's messages, sorted by broker and partition.

    Producers choose one at random, or use a hash as the index into this order.

    `brokers`: the children of `/brokers/ids`. `partitions`: for each child of `/brokers/topics/[topic]` its number of
    partitions. A broker without the topic counts with partition 0, which every broker has: on the first message it
    creates the topic and publishes its number of partitions. A broker that is registered only for the topic has no
    address, and is left out.

    brod applies this rule to each broker, as the page says; 0.7's own producer takes partition 0 of all brokers, but
    only while none of them has the topic (s).
    """
    return tuple(
        BrokerPartition(broker, partition)
        for broker in sorted(set(brokers))
        for partition in range(partitions.get(broker, 1))
    )


class Order(Enum):
    """The order of partitions before they are split. The two orders differ from ten brokers or partitions on.

    All consumers of a group must use the same order. NUMBER is that of brod and of the page's examples (0-2 before
    0-10), TEXT that of 0.7's own consumer (0-10 before 0-2; s).
    """

    NUMBER = "number"
    TEXT = "text"


def consumer_split(
    places: Iterable[BrokerPartition], consumers: Iterable[str], order: Order = Order.NUMBER
) -> dict[str, tuple[BrokerPartition, ...]]:
    """The partitions of one topic that each consumer of a group reads: each partition has one reader.

    Consumers sorted by their ids take consecutive chunks of the sorted partitions, so that most of a chunk is on one
    broker. If the chunks can't be even, the earlier consumers take one more: 5-5-4-4, never 4-5-4-4. If there are more
    consumers than partitions, the last ones read nothing. `consumers`: the members that read this topic, one entry a
    stream.
    """
    ordered = sorted(set(places), key=str if order is Order.TEXT else None)
    members = sorted(set(consumers))
    if not members:
        return {}
    size, extra = divmod(len(ordered), len(members))
    starts = [n * size + min(n, extra) for n in range(len(members) + 1)]
    return {member: tuple(ordered[starts[n] : starts[n + 1]]) for n, member in enumerate(members)}
