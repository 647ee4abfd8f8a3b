"""A target, and requests that name partitions, for tests of several rooms."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import strategies as st

from proxy.wire.keys import (
    DELETE_RECORDS,
    DESCRIBE_PRODUCERS,
    FETCH,
    LIST_OFFSETS,
    OFFSET_FOR_LEADER_EPOCH,
    PRODUCE,
    SHARE_ACKNOWLEDGE,
    SHARE_FETCH,
)
from recorder.replay.cluster import Cluster
from recorder.replay.plan import Exchange, Origin, Peer, Values

TOPICS = ("a", "b", "c")
PARTITIONS = 4
# in place of a field: the request has plain numbers
BARE = "-"


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b"\1")


def cluster(nodes: int, *, leaders: dict[tuple[str, int], int] | None = None) -> Cluster:
    """Nodes 10, 11, ... Partition p of each topic is led by the node p mod `nodes`, unless `leaders` says otherwise."""
    found = Cluster(controller=10, nodes={10 + i: ("h", i) for i in range(nodes)})
    for name in TOPICS:
        found.name_topic(name, topic_id(name))
        found.leaders.update({(name, p): 10 + p % nodes for p in range(PARTITIONS)})
    found.leaders.update(leaders or {})
    return found


def asked(api_key: int, version: int, node: int | None = 1, *, awaits: bool = True) -> Exchange:
    return Exchange(Origin("s", 1, 1), api_key, version, b"", 0, 0, Peer("h", "c"), node, awaits=awaits)


class Shape(NamedTuple):
    """An API's fields for partitions in its request (`index_field` BARE: plain numbers) and in its response."""

    api_key: int
    version: int
    topics: str
    topic: str
    partitions: str
    index_field: str
    answered: str
    answered_topic: str
    answered_partitions: str
    answered_index: str

    def request(self, wanted: list[tuple[str, list[int]]]) -> Values:
        """A request for partitions; each entry carries its position."""
        return {self.topics: [self._topic(*each) for each in wanted], "beside": "the same everywhere"}

    def _topic(self, name: str, wanted: list[int]) -> Values:
        entries = [{self.index_field: p, "mine": (name, p)} for p in wanted] if self.index_field != BARE else wanted
        return {self.topic: topic_id(name) if self.topic == "topic_id" else name, self.partitions: entries}

    def named(self, values: Values) -> list[tuple[Any, int]]:
        """Returns the partitions that a request names, in order."""
        return [
            (topic[self.topic], each[self.index_field] if self.index_field != BARE else each)
            for topic in values[self.topics]
            for each in topic[self.partitions]
        ]

    def answer(self, values: Values, code: int = 0) -> Values:
        """A broker's response to a request: its topics and partitions in reverse order."""
        topics = [
            {
                self.answered_topic: topic[self.topic],
                self.answered_partitions: [
                    {
                        self.answered_index: each[self.index_field] if self.index_field != BARE else each,
                        "error_code": code,
                    }
                    for each in reversed(topic[self.partitions])
                ],
            }
            for topic in reversed(values[self.topics])
        ]
        return {"throttle_time_ms": code, "error_code": 0, self.answered: topics}

    def answers(self, answer: Values) -> list[tuple[Any, int]]:
        """Returns the partitions that a response names, in order."""
        return [
            (topic[self.answered_topic], each[self.answered_index])
            for topic in answer[self.answered]
            for each in topic[self.answered_partitions]
        ]


_SHAPES = (
    (PRODUCE, 9, "topic_data name partition_data index", "responses name partition_responses index"),
    (PRODUCE, 13, "topic_data topic_id partition_data index", "responses topic_id partition_responses index"),
    (FETCH, 11, "topics topic partitions partition", "responses topic partitions partition_index"),
    (FETCH, 13, "topics topic_id partitions partition", "responses topic_id partitions partition_index"),
    (LIST_OFFSETS, 5, "topics name partitions partition_index", "topics name partitions partition_index"),
    (DELETE_RECORDS, 2, "topics name partitions partition_index", "topics name partitions partition_index"),
    (OFFSET_FOR_LEADER_EPOCH, 3, "topics topic partitions partition", "topics topic partitions partition"),
    (DESCRIBE_PRODUCERS, 0, f"topics name partition_indexes {BARE}", "topics name partitions partition_index"),
    (SHARE_FETCH, 1, "topics topic_id partitions partition_index", "responses topic_id partitions partition_index"),
    (
        SHARE_ACKNOWLEDGE,
        1,
        "topics topic_id partitions partition_index",
        "responses topic_id partitions partition_index",
    ),
)
SHAPES = [Shape(key, version, *request.split(), *response.split()) for key, version, request, response in _SHAPES]
shapes = st.sampled_from(SHAPES)
wanted = st.lists(
    st.tuples(st.sampled_from(TOPICS), st.lists(st.integers(0, PARTITIONS - 1), min_size=1, unique=True)),
    min_size=1,
    unique_by=lambda each: each[0],
)
