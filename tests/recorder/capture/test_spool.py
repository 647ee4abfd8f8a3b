"""Tests of the log's format: of a torn log, every whole entry is read, and nothing else."""

import json
import struct
from dataclasses import asdict
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from recorder.capture import spool
from recorder.capture.spool import (
    MAGIC,
    MAX_NUMBER,
    DamagedSegmentError,
    Entry,
    EntryKind,
    SegmentHead,
    UnknownSpoolError,
)
from tests.tables import each_row

HEAD = SegmentHead("20261121T130000Z-abc", 3, 1_700_000_000_000_000_000, 5, 77, "prod", 300, 4000)


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    data = draw(st.binary(max_size=60))
    spans = []
    for _ in range(draw(st.integers(0, 3)) if data else 0):
        start = draw(st.integers(0, len(data) - 1))
        spans.append((start, draw(st.integers(1, len(data) - start))))
    return Entry(
        draw(st.sampled_from(list(EntryKind))),
        draw(st.integers(0, 1)),
        draw(st.integers(-1, 1 << 40)),
        draw(st.integers(-(1 << 31), MAX_NUMBER)),
        draw(st.integers(0, MAX_NUMBER)),
        data,
        tuple(spans),
        draw(st.integers(0, spool.NUMBERS - 1)),
    )


seeds = st.integers(0, (1 << 32) - 1)


def log_of(found: list[Entry], seed: int = 0) -> bytes:
    return b"".join(spool.encoded_entry(entry[:-1], entry.number, seed) for entry in found)


@given(st.lists(entries(), max_size=5), seeds)
def test_entries_are_read_as_they_were_written(written: list[Entry], seed: int) -> None:
    log = log_of(written, seed)
    assert [entry for entry, _ in spool.entries(log, 0, seed)] == written
    assert [end for _, end in spool.entries(log, 0, seed)][-1:] == [len(log)][: len(written)]


@given(st.lists(entries(), min_size=1, max_size=4))
def test_every_whole_entry_of_a_torn_log_is_read(written: list[Entry]) -> None:
    ends = [len(log_of(written[:count])) for count in range(len(written) + 1)]
    log = log_of(written)
    for length in range(len(log) + 1):
        whole = sum(end <= length for end in ends) - 1
        assert [entry for entry, _ in spool.entries(log[:length])] == written[:whole]


@given(st.lists(entries(), min_size=1, max_size=3), st.data())
def test_a_flipped_bit_is_never_read(written: list[Entry], data: st.DataObject) -> None:
    log = bytearray(log_of(written))
    at = data.draw(st.integers(0, len(log) * 8 - 1))
    log[at // 8] ^= 1 << at % 8
    ends = [len(log_of(written[:count])) for count in range(1, len(written) + 1)]
    before = sum(end <= at // 8 for end in ends)
    assert [entry for entry, _ in spool.entries(bytes(log))] == written[:before]


@given(entries(), seeds, seeds)
def test_an_entry_of_another_segment_is_not_read(written: Entry, seed: int, other: int) -> None:
    assert bool(list(spool.entries(log_of([written], seed), 0, other))) == (seed == other)


SENSIBLE = Entry(EntryKind.BYTES, 0, 1, 0, 1, b"abc", (), 0)


@each_row(
    "wrong",
    [
        {"kind": 0},
        {"kind": max(EntryKind) + 1},
        {"direction": 2},
        {"direction": 7},
        {"connection": -2},
        {"offset": -(1 << 63)},
        {"offset": 1 << 62},
        {"mono_ns": -1},
        {"mono_ns": (1 << 63) - 1},
        {"spans": ((0, 4),)},
        {"spans": ((4, 0),)},
        {"spans": ((1 << 31, 1 << 31),)},
    ],
    ids=lambda wrong: "-".join(f"{name}-{value}" for name, value in wrong.items()),
)
def test_an_impossible_entry_is_not_read_though_its_checksum_fits(wrong: dict[str, Any]) -> None:
    assert list(spool.entries(log_of([SENSIBLE, SENSIBLE._replace(**wrong), SENSIBLE]))) == [(SENSIBLE, 43)]


def test_an_entry_with_spans_beyond_its_end_is_not_read() -> None:
    log = bytearray(log_of([SENSIBLE]))
    # 2**32 - 1 spans
    log[12:16] = b"\xff" * 4
    log[:4] = crc32c(bytes(log[8:])).to_bytes(4, "big")
    assert list(spool.entries(bytes(log))) == []


def test_a_head_is_read_as_it_was_written() -> None:
    encoded, seed = spool.encode_head(HEAD)
    assert spool.decode_head(encoded + b"more") == (HEAD, len(encoded), seed)


def test_a_torn_segment_head_is_damaged_wherever_it_ends() -> None:
    encoded, _ = spool.encode_head(HEAD)
    for length in range(len(encoded)):
        with pytest.raises(DamagedSegmentError):
            spool.decode_head(encoded[:length])


def test_a_flipped_bit_of_a_head_is_damage_and_never_another_format() -> None:
    encoded, _ = spool.encode_head(HEAD)
    for at in range(len(encoded) * 8):
        flipped = bytearray(encoded)
        flipped[at // 8] ^= 1 << at % 8
        with pytest.raises(DamagedSegmentError):
            spool.decode_head(bytes(flipped))


def head_of(told: bytes, number: int = spool.SPOOL_FORMAT) -> bytes:
    """Makes a head with a valid checksum."""
    head = struct.pack(">8sHI", MAGIC, number, len(told)) + told
    return head + crc32c(head).to_bytes(4, "big")


@pytest.mark.parametrize("number", [0, 4, 9, 65535])
def test_another_format_is_refused_by_its_number(number: int) -> None:
    with pytest.raises(UnknownSpoolError, match=f"spool format {number}, this program knows only 3"):
        spool.decode_head(head_of(b"whatever stands there then", number))


@each_row(
    "wrong",
    [
        b"[]",
        b"{}",
        b"[" * 50_000,
        json.dumps(asdict(HEAD) | {"more": 1}).encode(),
        *(
            json.dumps({**asdict(HEAD), name: value}).encode()
            for name, value in (
                ("session", 1),
                ("cluster", []),
                ("number", True),
                ("number", -1),
                ("clock_ns", 1 << 63),
                ("mono_ns", -1),
                ("previous_end", 1.5),
                ("log_bytes", []),
            )
        ),
    ],
    ids=[
        "list",
        "empty",
        "deep",
        "more",
        "name",
        "cluster",
        "bool",
        "below",
        "clock",
        "time",
        "float",
        "list-of-bytes",
    ],
)
def test_a_head_that_says_what_none_says_is_damaged_whatever_its_checksum(wrong: bytes) -> None:
    with pytest.raises(DamagedSegmentError):
        spool.decode_head(head_of(wrong))


def format_1(head: SegmentHead) -> bytes:
    """Makes a head of format 1, whose checksum covers the JSON alone."""
    told = asdict(head)
    del told["log_bytes"]
    text = json.dumps(told).encode()
    return struct.pack(">8sHI", MAGIC, 1, len(text)) + text + crc32c(text).to_bytes(4, "big")


def test_a_log_of_format_1_is_refused_with_the_name_of_what_compacts_it() -> None:
    with pytest.raises(UnknownSpoolError, match=r"^spool format 1 is read no more: kafka-wiretap 0\.1\.0 compacts it$"):
        spool.decode_head(format_1(HEAD))


def test_a_head_of_format_1_whose_number_is_flipped_is_damaged() -> None:
    for number in (0, 2, 3, 4, 65):
        encoded = bytearray(format_1(HEAD))
        encoded[8:10] = number.to_bytes(2, "big")
        with pytest.raises(DamagedSegmentError):
            spool.decode_head(bytes(encoded))
