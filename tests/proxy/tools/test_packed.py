"""Record batches as people see them."""

from typing import Any

from proxy.tools.packed import log_record, opened_records
from proxy.wire import embedded, records


def sides(key: bytes | None, value: bytes | None, _control: bool) -> dict[str, Any]:
    return {"key": key, "value": value}


def batch(count: int, first: int = 0, **more: Any) -> bytes:
    found = [records.Record(first + number, 1000 + number, b"k", b"v" * 50) for number in range(count)]
    return records.write_batch(found, **more)


def test_only_as_many_records_are_told_as_were_asked_for() -> None:
    for most in range(7):
        told = opened_records(batch(3) + batch(3, first=3), most, sides)
        assert sum(len(one["records"]) for one in told) == most
        assert sum(one.get("more_records", 0) for one in told) == 6 - most


def test_headers_tell_what_there_is_and_nothing_that_there_is_not() -> None:
    (told,) = opened_records(batch(2, codec=records.Compression.GZIP), 0, sides)
    assert (told["magic"], told["codec"], told["count"]) == (2, "gzip", 2)
    assert not {"producer_id", "transactional", "control", "base_sequence"} & told.keys()


def test_what_is_cut_or_damaged_says_why() -> None:
    whole = batch(1)
    first, cut = opened_records(whole + whole[:-1], 5, sides)
    assert len(first["records"]) == 1
    assert cut == {"why": "a batch that is cut", "bytes": whole[:-1]}
    damaged = bytes([*whole[:-1], whole[-1] ^ 1])
    *_, wrong = opened_records(whole + damaged, 5, sides)
    assert wrong["why"].startswith("can't be read: ")
    assert "CRC-32C" in wrong["why"]
    assert wrong["bytes"] == damaged


def test_a_marker_of_a_transaction_is_opened() -> None:
    told = log_record("t", b"\0\0\0\1", b"\0\0\0\0\0\7", True)
    assert isinstance(told["value"], embedded.Embedded)
    assert told["value"].values == {"coordinator_epoch": 7}


def test_a_record_of_a_log_that_is_none_stays_bytes_and_says_why() -> None:
    told = log_record("__consumer_offsets", b"\0\1\0", b"\0\1", False)
    assert (told["key"], told["value"]) == (b"\0\1\0", b"\0\1")
    assert told["why"].startswith("can't be read: ")
    assert log_record("__consumer_offsets", b"\0\x63", None, False) == {"key": b"\0\x63", "value": None}
