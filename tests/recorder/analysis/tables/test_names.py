"""Tests of names of topics and clusters: any response of the capture may give them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from proxy.wire import uuid_text
from recorder.analysis.tables.names import TOPIC_NAMES, named, topic_names
from recorder.facts.topic_partitions import TOPIC_PARTITIONS
from tests.recorder.analysis.conftest import NOON
from tests.recorder.facts.frames import request, response

pytestmark = pytest.mark.real
Build = Callable[..., Any]
NOON_NS = int(NOON.timestamp()) * 10**9
ID, OTHER = bytes(range(16)), bytes(range(16, 32))


@pytest.fixture
def made(request_row: Build) -> Build:
    """A frame of `decode.frames` as a capture's row."""
    return lambda row, **other: request_row(0) | row | other


def metadata(topic: str, topic_id: bytes, cluster: str) -> dict[str, Any]:
    return response(3, 12, {"cluster_id": cluster, "topics": [{"name": topic, "topic_id": topic_id}]})


def fetch(topic_id: bytes) -> dict[str, Any]:
    return request(1, 13, {"topics": [{"topic_id": topic_id, "partitions": [{"partition": 0}]}]})


def test_an_id_that_is_named_later_and_on_another_connection_has_its_name(captured: Build, made: Build) -> None:
    rows = [made(fetch(ID), cluster="main"), made(metadata("t", ID, "c1"), cluster="main", connection=2, sequence=9)]
    (row,) = named(captured(*rows), TOPIC_PARTITIONS).collect()
    assert (row.topic, row.topic_id, row.cluster) == ("t", uuid_text(ID), "c1")


def test_an_id_named_outside_of_the_requested_time_has_its_name(captured: Build, made: Build) -> None:
    rows = [made(fetch(ID), at_ns=NOON_NS + 5), made(metadata("t", ID, "c1"), at_ns=NOON_NS + 900)]
    (row,) = named(captured(*rows, until_ns=NOON_NS + 100), TOPIC_PARTITIONS).collect()
    assert row.topic == "t"


def test_an_id_without_a_name_stays_an_id(captured: Build, made: Build) -> None:
    (row,) = named(captured(made(fetch(OTHER))), TOPIC_PARTITIONS).collect()
    assert (row.topic, row.topic_id) == (None, uuid_text(OTHER))


def test_two_clusters_of_the_same_name_are_two(captured: Build, made: Build) -> None:
    rows = [
        made(metadata("t", ID, "c1"), cluster="main", session="s1"),
        made(metadata("t", OTHER, "c2"), cluster="main", session="s2"),
        made(fetch(ID), cluster="main", session="s2"),
    ]
    found = topic_names(captured(*rows))
    assert sorted(map(tuple, found.collect())) == [("c1", uuid_text(ID), "t"), ("c2", uuid_text(OTHER), "t")]
    assert found.columns == TOPIC_NAMES.names
    (row,) = named(captured(*rows), TOPIC_PARTITIONS).collect()
    assert (row.cluster, row.topic) == ("c2", None)


def test_a_cluster_whose_id_was_not_told_has_its_name_in_the_settings(captured: Build, made: Build) -> None:
    old = response(3, 1, {})
    rows = [made(fetch(ID), cluster="east"), made(old, cluster="east"), made(fetch(ID), cluster=None)]
    assert {row.cluster for row in named(captured(*rows), TOPIC_PARTITIONS).collect()} == {"east", None}
