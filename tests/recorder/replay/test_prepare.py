"""What a replay asks of its target before it begins, and what it says of that."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.wire.keys import DESCRIBE_GROUPS, JOIN_GROUP, METADATA, OFFSET_COMMIT, OFFSET_FETCH
from recorder.replay.cluster import Cluster
from recorder.replay.names import Names
from recorder.replay.options import Options
from recorder.replay.prepare import MOST_NAMED, Preparation, Prepared, listed
from recorder.replay.survey import survey
from tests.recorder.replay.simulation import Recording

Values = dict[str, Any]
COMMIT = {"group_id": "g", "generation_id_or_member_epoch": -1, "member_id": "", "topics": []}
JOIN = {"group_id": "g", "session_timeout_ms": 1, "member_id": "", "protocol_type": "consumer", "protocols": []}


def prepared(recording: Recording, committed: int, options: Options | None = None) -> Prepared:
    """Of a target whose groups have this offset (-1: none)."""
    options, cluster = options or Options(), Cluster()
    found = survey(recording.happenings, lambda _: True, lambda _: None)
    names = Names(options.prefix, found.topic_ids, cluster)
    preparation = Preparation(found, names, cluster, options, may_write=False)
    partition = {"partition_index": 0, "committed_offset": committed, "error_code": 0}
    answers: dict[int, Values] = {
        METADATA: {"brokers": [{"node_id": 1, "host": "h", "port": 1}], "topics": []},
        DESCRIBE_GROUPS: {"groups": []},
        OFFSET_FETCH: {"topics": [{"name": "t", "partitions": [partition]}]},
    }
    script, answer = preparation.run(), None
    try:
        while True:
            made = script.send(answer)
            answer = None if made is None else answers[made.api_key]
    except StopIteration:
        return preparation.found


def committing() -> Recording:
    recording = Recording()
    recording.asks(0, 1, OFFSET_COMMIT, 5, COMMIT)
    return recording


@pytest.mark.parametrize(
    ("committed", "prefix", "named"),
    [(5, "", ["g"]), (0, "p-", ["p-g"]), (-1, "", [])],
    ids=["offsets", "offsets of the prefixed group", "no offsets"],
)
def test_groups_whose_offsets_are_overwritten_are_named(committed: int, prefix: str, named: list[str]) -> None:
    assert prepared(committing(), committed, Options(prefix=prefix)).overwritten == named


def test_a_group_that_commits_nothing_overwrites_nothing() -> None:
    recording = Recording()
    recording.asks(0, 1, JOIN_GROUP, 2, JOIN | {"rebalance_timeout_ms": 1})
    assert prepared(recording, committed=5).overwritten == []


def test_names_are_counted_and_listed_as_far_as_they_fit_a_sentence() -> None:
    assert listed("group", ["b", "a"]) == "2 groups (a, b)"
    assert listed("group", ["a"]) == "1 group (a)"
    many = listed("topic", [f"{number:03}" for number in range(MOST_NAMED + 5)])
    assert many.startswith("25 topics (000, 001,")
    assert many.endswith(", 019 and 5 more)")
