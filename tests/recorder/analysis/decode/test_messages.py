"""Tests of any frame as JSON, in the form of `inspect show --json`."""

from __future__ import annotations

import json

from proxy.wire import embedded, records
from recorder.analysis.decode.messages import MESSAGES
from tests.recorder.facts.frames import own, request, response


def test_a_frame_is_json() -> None:
    (row,) = own(MESSAGES, response(3, 12, {"cluster_id": "c1"}))
    assert json.loads(row["body"])["cluster_id"] == "c1"


def test_blobs_are_opened() -> None:
    blob = embedded.encode_blob("ConsumerProtocolSubscription", 0, {"topics": ["logs"]})
    joined = {"group_id": "g", "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": blob}]}
    (row,) = own(MESSAGES, request(11, 5, joined))
    assert '"logs"' in row["body"]


def test_record_batches_are_shown_by_their_headers() -> None:
    data = records.write_batch([records.Record(1, value=b"a secret of the user")])
    values = {"topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": data}]}]}
    (row,) = own(MESSAGES, request(0, 9, values))
    assert "a secret of the user" not in row["body"]
    assert json.loads(row["body"])["topic_data"][0]["partition_data"][0]["records"]


def test_a_masked_value_never_passes_for_a_real_one() -> None:
    row = request(36, 2, {"auth_bytes": b"hunter2"})
    at = row["frame"].index(b"hunter2")
    blank = row["frame"].replace(b"hunter2", bytes(7))
    (found,) = own(MESSAGES, row | {"frame": blank, "masked": [{"start": at, "length": 7}]})
    assert json.loads(found["body"])["auth_bytes"] == {"masked": 7}
