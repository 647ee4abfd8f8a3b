"""Tests of a field's best and worst encodings, which are those over the whole capture."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from proxy.wire.integers import Encoding
from proxy.wire.keys import HEARTBEAT, METADATA
from proxy.wire.sizes import BEST, sizes
from recorder.analysis.questions.encodings import answer
from recorder.analysis.tables.encodings import ENCODINGS, SAMPLED, encodings
from tests.recorder.facts.frames import request, response
from tests.strategies import must_codec

pytestmark = pytest.mark.real
Build = Callable[..., Any]
LEADER, EPOCH = "topics.partitions.leader_id", "topics.partitions.leader_epoch"


def metadata(*partitions: dict[str, int]) -> dict[str, Any]:
    return {"topics": [{"name": "t", "partitions": [*partitions]}]}


@pytest.fixture
def made(request_row: Build) -> Build:
    """Frames of `decode.frames` as a capture's rows."""
    return lambda *rows: [request_row(at) | row | {"exchange": at, "sequence": at} for at, row in enumerate(rows)]


def test_the_best_and_the_worst_are_those_over_all_messages_of_a_version(captured: Build, made: Build) -> None:
    bodies = [metadata({"leader_epoch": -1, "leader_id": 5}), metadata({"leader_epoch": 1 << 30, "leader_id": 200})]
    rows = [response(METADATA, 12, body) for body in bodies] + [response(METADATA, 11, bodies[0])]
    found = encodings(captured(*made(*rows)))
    assert found.columns == ENCODINGS.names
    of_12 = {row.path: row for row in found.collect() if row.api_version == 12}
    leader, epoch, whole = of_12[LEADER], of_12[EPOCH], of_12[None]
    assert (leader.messages, leader.fixed_bytes, leader.signed_bytes, leader.unsigned_bytes) == (2, 8, 3, 3)
    # with a tie, unsigned comes before signed
    assert (leader.best, leader.best_bytes, leader.worst, leader.worst_bytes) == ("unsigned", 3, "fixed", 8)
    assert (epoch.fixed_bytes, epoch.signed_bytes, epoch.unsigned_bytes) == (8, 6, 10)
    assert (epoch.best, epoch.worst, epoch.best_bytes, epoch.worst_bytes) == ("signed", "unsigned", 6, 10)
    message = must_codec("response", METADATA, 12).message
    for encoding in Encoding:
        assert whole[f"{encoding.value}_bytes"] == sum(sizes(message, 12, body, encoding).total for body in bodies)
    for name in ("best", "worst"):
        chosen = {path: Encoding(row[name]) for path, row in of_12.items() if path}
        assert whole[f"{name}_bytes"] == sum(with_each(message, body, chosen) for body in bodies)
    assert whole.sent_bytes == whole.fixed_bytes
    assert (whole.best, whole.worst, leader.sent_bytes) == (None, None, None)


def with_each(message: Any, body: dict[str, Any], chosen: dict[str, Encoding]) -> int:
    """Returns the body with these encodings, field by field."""
    fixed = sizes(message, 12, body, "fixed")
    others = {path: sizes(message, 12, body, encoding).fields[path] for path, encoding in chosen.items()}
    return fixed.total + sum(size - fixed.fields[path] for path, size in others.items())


def test_the_best_encoding_of_a_capture_of_one_message_is_that_messages_best(captured: Build, made: Build) -> None:
    body = metadata({"leader_epoch": -1, "leader_id": 1 << 29}, {"leader_epoch": 3, "leader_id": 7})
    (whole,) = (row for row in encodings(captured(*made(response(METADATA, 12, body)))).collect() if row.path is None)
    assert whole.best_bytes == sizes(must_codec("response", METADATA, 12).message, 12, body, BEST).total


def test_frames_that_cant_be_read_are_counted_and_a_sample_of_the_others_is_taken(captured: Build, made: Build) -> None:
    beat = request(HEARTBEAT, 4, {"group_id": "g", "generation_id": 7, "member_id": "m"})
    large = request(METADATA, 12, {"topics": [{"name": "x" * 20_000}] * 2})
    unknown = beat | {"api_version": 99}
    rows = made(*[beat] * (SAMPLED + 5), large, unknown, beat | {"stored": 3})
    found = answer(captured(*rows), since_ns=None, until_ns=None, with_sample=True)
    assert found.unread == {"omitted": 1, "unknown_version": 1}
    bodies = {row["api"]: row["messages"] for row in found.rows if row["path"] is None}
    assert bodies == {"Heartbeat": SAMPLED + 5, "Metadata": 1}
    assert [frame.api_key for frame in found.sample] == [HEARTBEAT] * SAMPLED
    assert {frame.data for frame in found.sample} == {beat["frame"]}
