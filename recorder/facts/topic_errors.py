"""Reads the error codes that answers give to single topics and partitions.

Codes of a whole answer or of a group make no rows here: the table `exchanges` has all codes.
"""

from __future__ import annotations

from collections.abc import Iterator

from proxy.wire import keys
from proxy.wire.budget import Budget
from proxy.wire.places import topics
from recorder.facts.frame import RESPONSE, Frame, opened
from recorder.facts.rows import Decoder, FrameSelector, Group
from recorder.facts.schema import Column
from recorder.facts.topics import PARTITION_APIS, PLACE, named, places

# APIs whose responses have codes of topics; those of PARTITION_APIS have codes of partitions
_TOPIC_APIS = (
    keys.METADATA,
    keys.DESCRIBE_TOPIC_PARTITIONS,
    keys.CREATE_TOPICS,
    keys.DELETE_TOPICS,
    keys.CREATE_PARTITIONS,
)


def read(frame: Frame, budget: Budget) -> Iterator[Group]:
    """The codes of topics and partitions in the answer. Errors: Unreadable."""
    found = (
        (topic, topic.values.get("error_code")) for topic in topics(RESPONSE, frame.api_key, opened(frame, budget))
    )
    of_topics = [(*named(topic), None, code) for topic, code in found if code]
    of_partitions = [(*place.named, place.code) for place in places(frame, budget) if place.code]
    yield Group((), [*of_topics, *of_partitions])


_OWN = (
    *PLACE[:2],
    Column("partition", "int", "its number; null where the code is the topic's"),
    Column("error_code", "smallint", "the code"),
)
TOPIC_ERRORS = Decoder(
    "topic_errors",
    "a code other than 0 that stands at a topic, or at its partition",
    (FrameSelector(RESPONSE, (*PARTITION_APIS, *_TOPIC_APIS)),),
    (),
    _OWN,
    read,
)
# the table `partitions` has the codes of the other answers: none of them has codes of topics
TOPIC_ERROR_FACTS = Decoder(
    "topic_errors",
    "a code other than 0 that stands at a topic, or at its partition in answers about topics",
    (FrameSelector(RESPONSE, _TOPIC_APIS),),
    (),
    _OWN,
    read,
)
