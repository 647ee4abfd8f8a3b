"""Reads the error codes that answers give to single topics and partitions.

Codes of a whole answer or of a group make no rows here: the table `exchanges` has all codes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from proxy.wire import keys
from proxy.wire.budget import Budget
from recorder.analysis.decode.frame import RESPONSE, Frame, opened
from recorder.analysis.decode.rows import Decoder, FrameSelector, Group
from recorder.analysis.decode.topics import PLACE, PLACES, Where, around_topics, id_text, number_of, topic_name
from recorder.analysis.schema import Column

_CODES = ("error_code", "partition_error_code")
# where the answers name their topics, of apis that PLACES lacks
_TOPICS: Mapping[int, Where] = {
    keys.METADATA: Where(("topics",), "partitions"),
    keys.DESCRIBE_TOPIC_PARTITIONS: Where(("topics",), "partitions"),
    keys.CREATE_TOPICS: Where(("topics",), ""),
    keys.DELETE_TOPICS: Where(("responses",), ""),
    keys.CREATE_PARTITIONS: Where(("results",), ""),
}
_WHERE = {key: where for (side, key), where in PLACES.items() if side == RESPONSE} | dict(_TOPICS)


def read(frame: Frame, budget: Budget) -> Iterator[Group]:
    """The codes of topics and partitions in the answer. Errors: Unreadable."""
    where = _WHERE[frame.api_key]
    rows: list[tuple[str | None, str | None, int | None, int]] = []
    for around in around_topics(opened(frame, budget), where):
        topic = around[-1]
        name, topic_id = topic_name(topic), id_text(topic.get("topic_id"))
        if code := _code(topic):
            rows.append((name, topic_id, None, code))
        parts = ((one, _code(one)) for one in topic.get(where.partitions) or ())
        rows.extend((name, topic_id, number_of(one), code) for one, code in parts if code)
    yield Group((), rows)


def _code(values: Mapping[str, Any]) -> int | None:
    return next((values[name] for name in _CODES if name in values), None)


TOPIC_ERRORS = Decoder(
    "topic_errors",
    "a code other than 0 that stands at a topic, or at its partition",
    (FrameSelector(RESPONSE, tuple(_WHERE)),),
    (),
    (
        *PLACE[:2],
        Column("partition", "int", "its number; null where the code is the topic's"),
        Column("error_code", "smallint", "the code"),
    ),
    read,
)
