"""Tests of the bytes of a frame's integers by field; with fixed ones, a body has the size that was sent."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.wire import apis
from proxy.wire.headers import request_head, response_head
from proxy.wire.keys import METADATA, SASL_AUTHENTICATE
from recorder.analysis.decode.encodings import FIELD_SIZES
from tests.recorder.facts.frames import request, response, rows
from tests.strategies import KINDS, must_codec, values_of
from tests.tables import each_row

TOPICS = {"topics": [{"name": "t", "partitions": [{"partition_index": 300, "leader_id": 1, "replica_nodes": [1, 2]}]}]}
every_api = each_row("key", apis.api_keys(), ids=lambda key: apis.api_name(key) or str(key))


@every_api
def test_a_body_with_fixed_integers_takes_what_was_sent(key: int) -> None:
    version = apis.versions(key)[-1]
    for side, write in zip(KINDS, (request, response), strict=True):
        frame = write(key, version, values_of(must_codec(side, key, version), "sizes"))
        head = request_head(frame["frame"]) if side == "request" else response_head(frame["frame"], key, version)
        body, *fields = rows(FIELD_SIZES, frame)
        assert body["path"] is None
        assert body["sent_bytes"] == body["fixed_bytes"] == len(frame["frame"]) - head.body
        assert all(row["path"] and row["sent_bytes"] is None for row in fields)
        assert {row["side"] for row in (body, *fields)} == {side}


def test_a_field_has_its_bytes_in_each_encoding() -> None:
    found = {row["path"]: row for row in rows(FIELD_SIZES, response(METADATA, 12, TOPICS))}
    sizes = {
        path: (row["fixed_bytes"], row["signed_bytes"], row["unsigned_bytes"])
        for path, row in found.items()
        if path in ("topics.partitions.partition_index", "topics.partitions.replica_nodes", "controller_id")
    }
    assert sizes == {
        "topics.partitions.partition_index": (4, 2, 2),
        "topics.partitions.replica_nodes": (9, 3, 3),
        # -1, the default
        "controller_id": (4, 1, 5),
    }
    body = found[None]
    assert body["fixed_bytes"] - body["unsigned_bytes"] == sum(
        row["fixed_bytes"] - row["unsigned_bytes"] for path, row in found.items() if path
    )


def test_a_field_that_a_message_lacks_has_no_row() -> None:
    paths = {row["path"] for row in rows(FIELD_SIZES, response(METADATA, 12, {"topics": []}))}
    assert "topics.partitions.leader_id" not in paths
    assert "controller_id" in paths


def test_versions_are_those_of_the_message() -> None:
    """A broker that lacks the version of an ApiVersions request answers with version 0."""
    frame = response(18, 0, {"error_code": 35}) | {"api_version": 4}
    assert {row["api_version"] for row in rows(FIELD_SIZES, frame)} == {0}


@pytest.mark.parametrize(
    ("other", "reason"),
    [({"api_version": 99}, "unknown_version"), ({"masked": [{"start": 0, "length": 9}]}, "masked")],
    ids=["version", "masked"],
)
def test_an_unreadable_frame_is_a_row_with_its_reason(other: dict[str, Any], reason: str) -> None:
    (row,) = rows(FIELD_SIZES, request(SASL_AUTHENTICATE, 2, {"auth_bytes": b"secret"}) | other)
    assert (row["unread"], row["path"], row["fixed_bytes"]) == (reason, None, None)
