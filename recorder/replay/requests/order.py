"""Which exchanges a request waits for: those that the recording had answered before its first byte.

What a producer had asked on a connection that ended before the answer counts as answered by then: its next step must
not overtake it.

Each exchange has keys. It *blocks* some: once the recording has answered it, requests that *wait for* such a key wait
until the target has answered it too, or will never do so. All edges point backwards in time, so the earliest request
can always go.

    these block and wait for                                        the key
    all requests                                                    their connection
    requests of a group; SyncGroup only waits, since it may itself  the group
      wait for another member's
    InitProducerId, requests of transactions, DescribeTransactions  the producer: its transactional id, its producer id
    requests that change where a share group begins                 the group
    Produce and DeleteRecords                                       the partition
    requests that read or change settings                           the resource
    CreateTopics, DeleteTopics, CreatePartitions                    the topic

    these wait for                                                  these
    requests that read a partition or commit an offset of it        Produce and DeleteRecords of the partition
    DeleteRecords                                                   such requests
    requests that quote a member of a group                         the member's SyncGroup, on any connection: before it
                                                                      is answered, the member has no assignment
    requests for committed offsets, or for the stable end of a log  EndTxn of any transaction
    ShareFetch, ShareAcknowledge                                    requests of the group
    requests that describe a group                                  the same, and ShareFetch, ShareAcknowledge
    requests that read, write or describe a topic, or add it to a   CreateTopics, DeleteTopics, CreatePartitions of it,
      transaction; heartbeats whose answers may assign it           and these for such requests
    Produce                                                         requests of its producers, and these for a Produce;
                                                                    two Produces of one producer don't wait for each
                                                                    other

So a reader finds what the recorded log had at that moment, at any speed. Membership requests of a group also leave in
recorded order, whether or not earlier ones were answered: so the target forms the same generations. Commits of the
group's offsets leave behind them too, since a rebalance that had begun may refuse them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace

from proxy.wire import places
from proxy.wire.errors import WireError
from proxy.wire.keys import DELETE_RECORDS, END_TXN, INIT_PRODUCER_ID, LIST_OFFSETS, OFFSET_FETCH, SYNC_GROUP
from proxy.wire.primitives import Buffer
from recorder.replay import partitions
from recorder.replay.messages import RememberedRequest, batches
from recorder.replay.plan import Exchange, Values
from recorder.replay.requests.apis import (
    CHANGES_TOPICS,
    COMMITS,
    CONFIG_APIS,
    HEARTBEATS,
    MEMBERSHIP,
    SHARES,
    Trait,
    those,
)

Key = tuple[Hashable, ...]
# an EndTxn doesn't say which groups and partitions its transaction has
ENDED: Key = ("end of transactions",)
# what the table of APIs says of keys
_OF_ONE_GROUP = those(Trait.OF_GROUP, Trait.MOVES_STARTS)
_OF_GROUPS, _OF_PRODUCER = those(Trait.LOOKS_AT_GROUP), those(Trait.OF_PRODUCER)
_LOOKS, _CHANGES_LOG = those(Trait.LOOKS_AT_LOG), those(Trait.CHANGES_LOG)
_READING = those(Trait.USES_TOPICS)
_READING_PARTITIONS = _LOOKS | SHARES
# org.apache.kafka.common.config.ConfigResource.Type
_TOPIC = 2
# A null list of topics names all. Such a request waits for changes of any topic, and blocks changes of each.
_ANY_TOPIC: Key = ("any topic",)
_ALL_TOPICS: Key = ("use of all topics",)
# Requests whose keys are remembered: some 4 MB.
MOST_REQUESTS = 2048


@dataclass(slots=True)
class Keys:
    """The keys of one exchange.

    Attributes:
        waits_for, blocks: the keys that it waits for, and those that it blocks.
        member_of: the group of a membership request, which leaves in recorded order.
        commits_to: the group of a commit, which leaves behind the group's earlier membership requests.
    """

    waits_for: list[Key] = field(default_factory=list)
    blocks: list[Key] = field(default_factory=list)
    member_of: str | None = None
    commits_to: str | None = None

    def add_both(self, key: Key) -> None:
        """Adds a key that the exchange both waits for and blocks."""
        self.waits_for.append(key)
        self.blocks.append(key)

    def with_blocks(self, more: list[Key]) -> Keys:
        """These keys, and more that the exchange blocks."""
        return replace(self, blocks=[*self.blocks, *more])


class Order:
    """The keys of one replay's exchanges. `topic`: the recorded name of a topic, by its name or recorded id.

    Keys depend on a request's bytes alone, so those of requests that repeat are remembered.
    """

    def __init__(self, topic: Callable[[str | bytes], str | None]) -> None:
        self._topic = topic
        self._known: dict[tuple[RememberedRequest, tuple[str, int]], Keys] = {}

    def keys(self, exchange: Exchange) -> Keys:
        """The keys of an exchange, shared: not to be changed."""
        try:
            remembered = exchange.recalled()
        except WireError:
            remembered = None
        if remembered is None:
            return keys(exchange, self._topic)
        name = remembered, exchange.connection
        found = self._known.get(name)
        if found is None:
            if len(self._known) >= MOST_REQUESTS:
                self._known.clear()
            found = self._known[name] = keys(exchange, self._topic)
        return found


def keys(exchange: Exchange, topic: Callable[[str | bytes], str | None]) -> Keys:
    """The keys of an exchange.

    Args:
        topic: the recorded name of a topic, by its name or recorded id.
    """
    found = Keys()
    found.add_both(("connection", *exchange.connection))
    api_key = exchange.api_key
    try:
        values = exchange.request
    except WireError:
        return found
    if api_key in _OF_ONE_GROUP:
        _add_groups(found, api_key, values)
    if api_key in _OF_GROUPS:
        _add_looks_at_groups(found, api_key, values)
    if api_key in _OF_PRODUCER:
        _add_producers(found, api_key, values)
    if api_key == END_TXN:
        found.blocks.append(ENDED)
    if api_key == OFFSET_FETCH or (api_key == LIST_OFFSETS and values.get("isolation_level")):
        found.waits_for.append(ENDED)
    if api_key in _CHANGES_LOG:
        _add_partitions(found, api_key, values, topic)
    if api_key in CHANGES_TOPICS:
        _add_topics(found, api_key, values, topic)
    if api_key in _READING:
        _add_reading(found, api_key, values, topic)
    if api_key in CONFIG_APIS:
        for resource in values["resources"]:
            found.add_both(("settings", resource["resource_type"], resource["resource_name"]))
            if resource["resource_type"] == _TOPIC:
                _use_topic(found, resource["resource_name"])
    # the answer to any heartbeat may assign a topic that an earlier one subscribed to
    if values.get("topics", ()) is None or api_key in HEARTBEATS:
        found.waits_for.append(_ANY_TOPIC)
        found.blocks.append(_ALL_TOPICS)
    return found


def keys_of_answer(exchange: Exchange) -> list[Key]:
    """The keys that a recorded answer adds: the producer id that it gave."""
    answer = exchange.answer if exchange.api_key == INIT_PRODUCER_ID else None
    return [("producer", answer["producer_id"])] if answer and answer["producer_id"] >= 0 else []


def key_of_log(topic: str | None, partition: int) -> Key:
    """The key of the requests that change a partition's log, by its recorded topic."""
    return "partition", topic, partition


def _groups(api_key: int, values: Values) -> dict[str, None]:
    return dict.fromkeys(places.named("request", api_key, values, "group_id"))


def _add_groups(found: Keys, api_key: int, values: Values) -> None:
    for name in _groups(api_key, values):
        found.waits_for.append(("group", name))
        if api_key != SYNC_GROUP:
            found.blocks.append(("group", name))
        members = [
            ("sync of", name, member) for member in places.named("request", api_key, values, "member_id") if member
        ]
        (found.blocks if api_key == SYNC_GROUP else found.waits_for).extend(members)
        if api_key in MEMBERSHIP:
            found.member_of = name
        if api_key in COMMITS:
            found.commits_to = name


def _add_looks_at_groups(found: Keys, api_key: int, values: Values) -> None:
    for name in _groups(api_key, values):
        found.waits_for.append(("group", name))
        shares = found.blocks if api_key in SHARES else found.waits_for
        shares.append(("shares of group", name))


def _add_producers(found: Keys, api_key: int, values: Values) -> None:
    for mark in ("transactional_id", "producer_id"):
        for value in places.named("request", api_key, values, mark):
            if value not in ("", -1):
                found.add_both(("producer", value))
                found.waits_for.append(("data of producer", value))


def _add_partitions(found: Keys, api_key: int, values: Values, topic: Callable[[str | bytes], str | None]) -> None:
    for each in partitions.in_request(api_key, values):
        name = topic(each.topic)
        found.add_both(key_of_log(name, each.partition))
        _use_topic(found, name)
        if api_key == DELETE_RECORDS:
            found.waits_for.append(("look at partition", name, each.partition))
        for producer in producers(each.values.get("records")):
            found.waits_for.append(("producer", producer))
            found.blocks.append(("data of producer", producer))
    for transactional_id in places.named("request", api_key, values, "transactional_id"):
        found.waits_for.append(("producer", transactional_id))
        found.blocks.append(("data of producer", transactional_id))


def _add_reading(found: Keys, api_key: int, values: Values, topic: Callable[[str | bytes], str | None]) -> None:
    for each in places.topics("request", api_key, values):
        _use_topic(found, topic(each.key))
    if api_key not in _READING_PARTITIONS:
        return
    for partition in partitions.in_request(api_key, values):
        where = topic(partition.topic), partition.partition
        # where records stand on the target is known once the target has answered what wrote them
        if api_key in _LOOKS or partition.values["acknowledgement_batches"]:
            found.waits_for.append(key_of_log(*where))
        if api_key in _LOOKS:
            found.blocks.append(("look at partition", *where))


def producers(data: Buffer | None) -> set[int]:
    """The producer ids of record batches; none if the batches can't be read."""
    try:
        return {batch.producer_id for batch in batches(data) if batch.producer_id >= 0}
    except WireError:
        return set()


def _add_topics(found: Keys, api_key: int, values: Values, topic: Callable[[str | bytes], str | None]) -> None:
    for each in places.topics("request", api_key, values):
        name = topic(each.key)
        found.add_both(("topic", name))
        found.waits_for += [("use of topic", name), _ALL_TOPICS]
        found.blocks.append(_ANY_TOPIC)


def _use_topic(found: Keys, name: str | None) -> None:
    found.waits_for.append(("topic", name))
    found.blocks.append(("use of topic", name))
