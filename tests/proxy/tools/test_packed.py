"""Tests of record batches as text."""

import tracemalloc
from typing import Any

import lz4.frame
from crc32c import crc32c

from proxy.tools.packed import log_record, opened_records
from proxy.wire import embedded, records
from proxy.wire.budget import Budget


def sides(key: bytes | None, value: bytes | None, _control: bool) -> dict[str, Any]:
    return {"key": key, "value": value}


def batch(count: int, first: int = 0, **more: Any) -> bytes:
    found = [records.Record(first + number, 1000 + number, b"k", b"v" * 50) for number in range(count)]
    return records.write_batch(found, **more)


def test_only_the_requested_number_of_records_is_shown() -> None:
    for most in range(7):
        told = opened_records(batch(3) + batch(3, first=3), most, sides, Budget())
        assert sum(len(one["records"]) for one in told) == most
        assert sum(one.get("more_records", 0) for one in told) == 6 - most


def test_a_shown_batch_header_has_only_the_fields_that_are_set() -> None:
    (told,) = opened_records(batch(2, codec=records.Compression.GZIP), 0, sides, Budget())
    assert (told["magic"], told["codec"], told["count"]) == (2, "gzip", 2)
    assert not {"producer_id", "transactional", "control", "base_sequence"} & told.keys()


def test_a_cut_or_damaged_batch_has_its_reason() -> None:
    whole = batch(1)
    first, cut = opened_records(whole + whole[:-1], 5, sides, Budget())
    assert len(first["records"]) == 1
    assert cut == {"why": "a batch that is cut", "bytes": whole[:-1]}
    damaged = bytes([*whole[:-1], whole[-1] ^ 1])
    *_, wrong = opened_records(whole + damaged, 5, sides, Budget())
    assert wrong["why"].startswith("can't be read: ")
    assert "CRC-32C" in wrong["why"]
    assert wrong["bytes"] == damaged


def test_a_batch_that_kafka_reads_although_its_lz4_checksum_is_wrong_is_shown_with_a_note() -> None:
    summed = lz4.frame.compress(records.decompress(records.Compression.NONE, batch(2)[HEAD:]), content_checksum=True)
    for end, has_note in ((summed[-1], False), (summed[-1] ^ 1, True)):
        (told,) = opened_records(packed(summed[:-1] + bytes([end])), 5, sides, Budget())
        assert [one["key"] for one in told["records"]] == [b"k", b"k"]
        assert ("Kafka reads the records all the same" in told.get("note", "")) is has_note


def test_records_that_are_shown_are_not_said_to_be_unreadable_as_nothing_is_left_to_check_them() -> None:
    found = [records.Record(0, 0, b"k", bytes(20_000))]
    (told,) = opened_records(records.write_batch(found, codec=records.Compression.LZ4), 5, sides, Budget(30_000))
    assert [one["key"] for one in told["records"]] == [b"k"]


# the bytes of a batch before its records, and before what its checksum covers
HEAD, CRC_FROM = 61, 21


def packed(payload: bytes) -> bytes:
    """A batch of two records with this payload, as lz4."""
    found = bytearray(batch(2, codec=records.Compression.LZ4)[:HEAD] + payload)
    found[8:12] = (len(found) - 12).to_bytes(4, "big")
    found[17:CRC_FROM] = crc32c(bytes(found[CRC_FROM:])).to_bytes(4, "big")
    return bytes(found)


def test_a_marker_of_a_transaction_is_opened() -> None:
    told = log_record("t", b"\0\0\0\1", b"\0\0\0\0\0\7", True, Budget())
    assert isinstance(told["value"], embedded.Embedded)
    assert told["value"].values == {"coordinator_epoch": 7}


def test_a_bad_record_of_an_internal_topic_stays_bytes_with_a_reason() -> None:
    told = log_record("__consumer_offsets", b"\0\1\0", b"\0\1", False, Budget())
    assert (told["key"], told["value"]) == (b"\0\1\0", b"\0\1")
    assert told["why"].startswith("can't be read: ")
    assert log_record("__consumer_offsets", b"\0\x63", None, False, Budget()) == {"key": b"\0\x63", "value": None}


def test_no_more_is_unfolded_than_is_shown() -> None:
    """Only the beginning of the first batch is unfolded, and nothing of the later ones."""
    value = b"v" * 10_000
    one = records.write_batch([records.Record(n, value=value) for n in range(1000)], codec=records.Compression.ZSTD)
    for most, unfolded in ((0, 0), (5, 1 << 20)):
        budget = Budget()
        told = opened_records(one * 3, most, sides, budget)
        assert [batch.get("more_records", 0) for batch in told] == [1000 - most, 1000, 1000]
        assert budget.size - budget.unfolded.left <= unfolded


def test_records_before_the_end_of_the_budget_are_shown() -> None:
    one = records.write_batch(
        [records.Record(n, value=b"v" * 400_000) for n in range(9)], codec=records.Compression.GZIP
    )
    told = opened_records(one * 2, 20, sides, Budget(1 << 20))
    assert [len(batch["records"]) for batch in told[:-1]] == [2]
    assert told[-1]["why"].endswith("in gzip records: unfolding makes more than 1048576 bytes")
    assert told[-1]["bytes"] == one * 2


def test_batches_and_records_are_charged() -> None:
    small = records.write_batch([records.Record(n) for n in range(10)])
    for data, most in ((records.write_batch([]) * 100, 0), (small, 10)):
        budget = Budget(5000)
        told = opened_records(data, most, sides, budget)
        assert "decoding makes more than" in told[-1]["why"]
        assert budget.used_up == ["decoding"]


def test_shown_batches_take_no_more_memory_than_the_budget_was_charged() -> None:
    many = [records.Record(n, headers=(("", b""),) * 3) for n in range(500)]
    for data, most in ((records.write_batch([]) * 500, 0), (records.write_batch(many), 500)):
        opened_records(data, most, sides, Budget())
        budget = Budget()
        tracemalloc.start()
        try:
            told = opened_records(data, most, sides, budget)
            assert tracemalloc.get_traced_memory()[0] <= budget.size - budget.values.left
        finally:
            tracemalloc.stop()
        assert told
