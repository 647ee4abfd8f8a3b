"""Tests of hostile bytes: they raise only the error family, and the memory is bounded by what arrived."""

import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from proxy.wire import catalog
from proxy.wire.errors import Malformed, Truncated, WireError
from proxy.wire.keys import API_VERSIONS, METADATA
from proxy.wire.primitives import uvarint
from tests.strategies import EVERY_MESSAGE, must_codec, values_of
from tests.tables import each_row

# An element of one byte takes most memory as a dict of few fields.
BYTES_PER_BYTE = 400
ALLOWANCE = 200_000

HUGE_VARINT = b"\xff\xff\xff\xff\x0f"
BLOBS = [
    b"\xff" * 300,
    b"\x00" * 300,
    b"\x7f" * 300,
    b"\x80" * 300,
    b"\x01" * 300,
    bytes(range(256)),
    b"\x00\x7f\xff\xff\xff" * 60,
]


def peak_of(run: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        run()
    except WireError:
        pass
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return peak


def metadata(version: int) -> catalog.Codec:
    return must_codec("response", METADATA, version)


@each_row("blob", BLOBS, ids=lambda blob: f"{blob[:4].hex()}...")
def test_a_blob_is_no_message_of_any_kind(blob: bytes) -> None:
    for message in EVERY_MESSAGE:
        codec = must_codec(*message)
        with suppress(WireError):
            assert codec.decode(blob)[1] <= len(blob)


def test_a_huge_count_costs_no_memory() -> None:
    """A Metadata response claims 4 billion brokers, or 2 billion in a classic version."""
    for version, count in [(12, HUGE_VARINT), (8, b"\x7f\xff\xff\xff")]:
        data = bytes(4) + count + bytes(1000)
        codec = metadata(version)
        codec.decode(codec.encode({}))
        assert peak_of(partial(codec.decode, data)) < BYTES_PER_BYTE * len(data) + ALLOWANCE


def test_a_huge_count_of_numbers_costs_no_memory() -> None:
    partition = bytes(2 + 4 + 4 + 4) + HUGE_VARINT
    data = (
        bytes(4)
        + b"\x01"
        + b"\0"
        + bytes(4)
        + b"\x02"
        + bytes(2)
        + b"\x02t"
        + bytes(17)
        + b"\x02"
        + partition
        + bytes(999)
    )
    codec = metadata(12)
    with pytest.raises(Truncated, match="4294967294 elements of 4 bytes"):
        codec.decode(data)
    assert peak_of(lambda: codec.decode(data)) < ALLOWANCE


def test_memory_stays_within_the_input_times_a_constant() -> None:
    for message in EVERY_MESSAGE[::7]:
        codec = must_codec(*message)
        data = codec.encode(values_of(codec, "memory"))
        damaged = data[: len(data) // 2] + HUGE_VARINT + b"\1" * 2000
        codec.decode(data)
        assert peak_of(partial(codec.decode, damaged)) < BYTES_PER_BYTE * len(damaged) + ALLOWANCE


@pytest.mark.parametrize("size", [b"\xff\xfe", b"\x80\x00"])
def test_a_negative_length_is_malformed(size: bytes) -> None:
    data = bytes(4) + b"\0\0\0\1" + bytes(4) + size + bytes(20)
    with pytest.raises(Malformed, match="a length of -"):
        metadata(5).decode(data)


def test_only_minus_one_is_null() -> None:
    data = bytes(4) + bytes(4) + b"\xff\xfb" + bytes(30)
    with pytest.raises(Malformed, match="a length of -5"):
        metadata(5).decode(data)
    assert metadata(5).decode(data.replace(b"\xff\xfb", b"\xff\xff"))[0]["cluster_id"] is None


def test_a_negative_length_never_leads_a_projection_backwards() -> None:
    """A skipped value with a negative length counts as empty."""
    brokers = b"\0\0\0\1" + bytes(4) + b"\x80\x00" + bytes(4) + b"\xff\xff"
    found = metadata(5).project(("controller_id",))(bytes(4) + brokers + b"\xff\xff" + b"\0\0\0\7", 0)
    assert found == {"controller_id": [(7, 22, 26)]}


def test_null_where_none_may_stand_is_malformed() -> None:
    for version, data in [(12, bytes(4) + b"\0" + bytes(30)), (5, bytes(4) + b"\xff" * 4 + bytes(30))]:
        with pytest.raises(Malformed, match="null where a value must stand"):
            metadata(version).decode(data)
    with pytest.raises(Malformed, match="null where a string must stand"):
        metadata(12).decode(bytes(4) + b"\x02" + bytes(4) + b"\x80\0" + bytes(30))


def test_a_varint_of_six_bytes_or_more_than_32_bits_is_malformed() -> None:
    for count in (b"\x80\x80\x80\x80\x80\x01", b"\xff\xff\xff\xff\x1f"):
        with pytest.raises(Malformed, match="a varint of more than"):
            metadata(12).decode(bytes(4) + count + bytes(30))
        with pytest.raises(Malformed, match="a varint of more than"):
            metadata(12).project(("brokers.host",))(bytes(4) + count + bytes(30), 0)
        with pytest.raises(Malformed, match="a varint of more than"):
            metadata(12).walk("controller_id").feed(bytes(4) + count + bytes(30))


def test_a_string_longer_than_kafka_allows_is_malformed() -> None:
    data = bytes(4) + b"\x02" + bytes(4) + uvarint(32769) + b"x" * 32768 + bytes(40)
    with pytest.raises(Malformed, match="a string of 32768 bytes"):
        metadata(12).decode(data)
    assert metadata(12).decode(metadata(12).encode({"cluster_id": "x" * 32767}))[0]["cluster_id"] == "x" * 32767


def test_text_that_is_not_utf8_is_malformed() -> None:
    data = metadata(12).encode({"cluster_id": "abc"}).replace(b"abc", b"a\xffc")
    for read in (metadata(12).decode, lambda data: metadata(12).project(("cluster_id",))(data, 0)):
        with pytest.raises(Malformed, match="not UTF-8"):
            read(data)


def test_a_tagged_field_ends_where_its_size_says() -> None:
    good = must_codec("response", API_VERSIONS, 3).encode({"zk_migration_ready": True})
    assert good.endswith(b"\x01\x03\x01\x01")
    codec = must_codec("response", API_VERSIONS, 3)
    with pytest.raises(Malformed, match="tag 3 says 2 bytes, its value has 1"):
        codec.decode(good[:-2] + b"\x02\x01\x01")
    with pytest.raises(Malformed, match="tag 3 says 0 bytes, its value has 1"):
        codec.project(("zk_migration_ready",))(good[:-2] + b"\x00\x01", 0)
    with pytest.raises(Truncated):
        codec.decode(good[:-2] + b"\x09\x01")


def test_the_byte_before_a_struct_that_may_be_null_is_checked() -> None:
    codec = must_codec("response", 68, 0)
    data = codec.encode({"assignment": None})
    assert data.endswith(b"\xff\0")
    with pytest.raises(Malformed, match="5 before a struct"):
        codec.decode(data[:-2] + b"\x05\0")


def test_values_of_an_error_say_where() -> None:
    with pytest.raises(Truncated) as caught:
        metadata(12).decode(bytes(4) + b"\x02" + bytes(3))
    error: Any = caught.value
    assert str(error).startswith("Metadata v12 at byte ")
    assert (error.api, error.version, error.offset) == ("Metadata", 12, 5)
