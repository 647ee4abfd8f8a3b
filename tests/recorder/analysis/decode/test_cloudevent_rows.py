"""Tests of CloudEvents as rows; an unreadable batch is a row with the reason."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from proxy.wire import records
from proxy.wire.records import Compression, ControlType, Record
from recorder.analysis.decode.cloudevent_rows import CLOUDEVENTS, MOST_EXTENSIONS
from tests.recorder.facts.frames import Row, own, request, response, rows

FOUR = (("ce_id", b"1"), ("ce_source", b"/here"), ("ce_specversion", b"1.0"), ("ce_type", b"t"))
JSON = b'{"id":"2","source":"/here","specversion":"1.0","type":"t","partitionkey":"k","data":[1]}'
TOLD = {"source": "/here", "specversion": "1.0", "type": "t"}


def fetched(data: bytes, **partition: Any) -> Row:
    return response(
        1, 12, {"responses": [{"topic": "t", "partitions": [{"partition_index": 3, "records": data, **partition}]}]}
    )


def produced(data: bytes, version: int = 9) -> Row:
    return request(0, version, {"topic_data": [{"name": "t", "partition_data": [{"index": 3, "records": data}]}]})


def test_only_records_with_events_are_rows() -> None:
    found = [
        Record(0, 1000, b"k", b"plain"),
        Record(1, 1001, b"k", b"data", (*FOUR, ("ce_subject", b"s"), ("ce_partitionkey", b"other"))),
        Record(2, 1002, b"k", None, FOUR),
        Record(3, 1003, None, JSON, (("content-type", b"application/cloudevents+json"),)),
    ]
    binary, tombstone, structured = own(CLOUDEVENTS, fetched(records.write_batch(found)))
    place = {"topic": "t", "partition": 3}
    none: dict[str, list[str]] = {"violations": [], "reasons": []}
    assert binary == place | TOLD | none | {
        "offset": 1, "timestamp_ms": 1001, "mode": "binary", "id": "1", "subject": "s", "data_bytes": 4, "key": b"k",
        "extensions": [("partitionkey", "other")], "is_tombstone": False, "key_is_partitionkey": False,
    }  # fmt: skip
    assert tombstone == place | TOLD | none | {
        "offset": 2, "timestamp_ms": 1002, "mode": "binary", "id": "1", "key": b"k",
        "extensions": [], "is_tombstone": True,
    }  # fmt: skip
    assert structured == place | TOLD | none | {
        "offset": 3, "timestamp_ms": 1003, "mode": "structured", "format": "json", "id": "2", "data_bytes": 3,
        "extensions": [("partitionkey", "k")], "is_tombstone": False, "key_is_partitionkey": False,
    }  # fmt: skip


def test_only_the_first_of_many_extensions_are_rows() -> None:
    many = {f"x{number}": "1" for number in range(MOST_EXTENSIONS + 5)}
    value = json.dumps(json.loads(JSON) | many | {"partitionkey": "k"}).encode()
    (row,) = own(CLOUDEVENTS, fetched(records.write_batch([Record(0, 1000, b"k", value)])))
    assert row["extensions"] == [("partitionkey", "k"), *many.items()][:MOST_EXTENSIONS]
    assert (row["id"], row["key_is_partitionkey"], row["violations"]) == ("2", True, [])


@pytest.mark.parametrize("key", [b"k", b"\xff", None], ids=["equal", "other", "none"])
def test_a_key_of_the_partitionkey_mapper_is_the_attribute_as_it_is(key: bytes | None) -> None:
    (row,) = own(CLOUDEVENTS, fetched(records.write_batch([Record(0, 1000, key, JSON)])))
    assert row["key_is_partitionkey"] == (key == b"k")


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP], ids=["plain", "gzip"])
def test_messages_of_before_headers_hold_structured_events(magic: int, codec: Compression) -> None:
    data = records.write_message_set([Record(0, value=JSON), Record(1, value=b"{}")], magic=magic, codec=codec)
    (row,) = own(CLOUDEVENTS, produced(data, 2))
    assert (row["mode"], row["id"], row["violations"]) == ("structured", "2", [])


def test_violations_stand_in_the_order_of_their_clauses_each_with_its_reason() -> None:
    headers = (("ce-id", b"1"), *FOUR[1:3], ("ce_data", b"x"))
    (row,) = own(CLOUDEVENTS, fetched(records.write_batch([Record(0, headers=headers)])))
    assert row["mode"] == "incomplete"
    told = [("3", "no type"), ("3.2.2", "header ce_data"), ("3.2.3.1", "header ce-id")]
    assert [*zip(row["violations"], row["reasons"], strict=True)] == told


def test_a_broker_writes_no_events() -> None:
    end = records.end_marker_batch(
        ControlType.COMMIT, offset=0, timestamp=1000, producer_id=1, producer_epoch=0, coordinator_epoch=0
    )
    assert rows(CLOUDEVENTS, fetched(end)) == []


def test_an_unreadable_batch_is_a_row_with_its_reason() -> None:
    first, second = (records.write_batch([Record(number, 1000, headers=FOUR)]) for number in (1, 2))
    found = own(CLOUDEVENTS, fetched(first[:-3] + b"?" + first[-2:] + second))
    assert [(row.get("unread"), row.get("id")) for row in found] == [("bad_crc", None), (None, "1")]


def test_events_that_a_rule_left_out_are_a_row_that_says_so() -> None:
    first, second = (records.write_batch([Record(number, 1000, headers=FOUR)]) for number in (1, 2))
    blank = first[:61] + bytes(len(first) - 61)
    frame = fetched(blank + second)
    at = frame["frame"].index(first[:61]) + 61
    found = own(CLOUDEVENTS, frame | {"records": "drop", "dropped": [{"start": at, "length": len(first) - 61}]})
    assert [(row.get("unread"), row.get("id")) for row in found] == [("not_kept", None), (None, "1")]


def test_a_json_event_is_an_unread_row_without_a_json_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's executors need only pyarrow."""
    monkeypatch.setitem(sys.modules, "msgspec", None)
    binary, structured = (records.write_batch([one]) for one in (Record(0, headers=FOUR), Record(1, value=JSON)))
    found = own(CLOUDEVENTS, fetched(binary + structured))
    assert [(row.get("unread"), row.get("id")) for row in found] == [(None, "1"), ("no_codec", None)]
