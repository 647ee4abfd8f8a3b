"""Tests of the names of topics and clusters in responses."""

from __future__ import annotations

from proxy.wire import uuid_text
from recorder.facts.names import ANSWERED_NAMES
from tests.recorder.facts.frames import own, response
from tests.tables import each_row

ID, OTHER = bytes(range(16)), bytes(range(16, 32))
NAMED = {"topic": "t", "topic_id": uuid_text(ID)}
MEMBER = {"assignment": {"topic_partitions": [{"topic_id": ID, "topic_name": "t"}]}}


@each_row(
    ("key", "version", "values"),
    [
        (3, 10, {"topics": [{"name": "t", "topic_id": ID}]}),
        (19, 7, {"topics": [{"name": "t", "topic_id": ID}]}),
        (20, 6, {"responses": [{"name": "t", "topic_id": ID}]}),
        (75, 0, {"topics": [{"name": "t", "topic_id": ID}]}),
        (69, 0, {"groups": [{"members": [MEMBER]}]}),
        (77, 0, {"groups": [{"members": [MEMBER]}]}),
        (90, 0, {"groups": [{"topics": [{"topic_name": "t", "topic_id": ID}]}]}),
        (91, 0, {"responses": [{"topic_name": "t", "topic_id": ID}]}),
        (92, 0, {"responses": [{"topic_name": "t", "topic_id": ID}]}),
    ],
    ids=["Metadata", "Create", "Delete", "DescribeTopic", "Consumer", "Share", "Describe", "Alter", "DeleteOffsets"],
)
def test_each_answer_with_ids_and_names_tells_them(key: int, version: int, values: dict[str, object]) -> None:
    assert [row for row in own(ANSWERED_NAMES, response(key, version, values)) if "topic" in row] == [NAMED]


def test_no_topic_has_the_id_of_all_zeros_and_no_id_alone_is_a_name() -> None:
    topics = [{"name": "t"}, {"name": None, "topic_id": OTHER}, {"name": "", "topic_id": OTHER}]
    assert own(ANSWERED_NAMES, response(3, 12, {"topics": topics})) == [{}]


def test_metadata_tells_the_cluster_even_without_topics() -> None:
    assert own(ANSWERED_NAMES, response(3, 2, {"cluster_id": "c1"})) == [{"cluster_id": "c1"}]
    assert own(ANSWERED_NAMES, response(3, 1, {})) == [{}]
