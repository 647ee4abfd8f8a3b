"""Tests of streams: each byte becomes a row once, however often entries repeat it; missing bytes break the record."""

import json
import random
from pathlib import Path

import pytest

from proxy.wire import keys
from recorder.capture import storage
from recorder.capture.assembly import Assembly
from recorder.capture.ranges import RangeFiles
from recorder.capture.spool import Entry, EntryKind, Spans
from tests.recorder.capture import traffic
from tests.recorder.capture.logged import opened
from tests.recorder.capture.looks import event_rows, frame_rows

RNG = random.Random(1)
CALLS = [traffic.call(RNG, keys.METADATA, number, "c", 60) for number in range(6)]
STREAM = b"".join(call.request for call in CALLS)


class Fed:
    """Feeds one connection's requests to an assembly."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files = RangeFiles(folder, "s", 1, None)
        self._assembly = Assembly()
        self._assembly.begin_range(self._files, 1_000)
        self._assembly.feed(Entry(EntryKind.OPENED, 0, 1, 0, 1, json.dumps(opened()).encode()))
        self._count = 1

    def stored(self, start: int, stop: int, spans: Spans = ()) -> None:
        self._feed(EntryKind.BYTES, start, STREAM[start:stop], spans)

    def omitted(self, start: int, length: int) -> None:
        self._feed(EntryKind.OMITTED, start, json.dumps({"length": length}).encode())

    def _feed(self, kind: EntryKind, start: int, data: bytes, spans: Spans = ()) -> None:
        self._assembly.feed(Entry(kind, 0, 1, start, 2, data, spans, self._count))
        self._count += 1

    def rows(self) -> list[dict[str, object]]:
        self._assembly.finish()
        storage.publish(self._files.finish(), storage.ignore_step)
        return frame_rows(self.folder)


@pytest.fixture
def fed(tmp_path: Path) -> Fed:
    return Fed(tmp_path)


@pytest.mark.parametrize("seed", range(10))
def test_repeated_bytes_are_skipped(fed: Fed, seed: int) -> None:
    rng = random.Random(seed)
    reached = 0
    while reached < len(STREAM):
        start = rng.randint(max(0, reached - 90), reached)
        stop = min(start + rng.randint(1, 120), len(STREAM))
        fed.stored(start, stop)
        reached = max(reached, stop)
    assert [row["frame"] for row in fed.rows()] == [call.request[4:] for call in CALLS]
    assert event_rows(fed.folder, "gap") == []


def test_a_masked_span_of_repeated_bytes_is_recorded_once(fed: Fed) -> None:
    length = len(CALLS[0].request)
    fed.stored(0, 40, ((30, 10),))
    fed.stored(20, length, ((10, 10), (25, 5)))
    (row,) = fed.rows()
    assert row["masked"] == [(26, 10), (41, 5)]


def test_a_connections_record_breaks_off_at_missing_bytes(fed: Fed) -> None:
    length = len(CALLS[0].request)
    fed.stored(0, length + 20)
    fed.stored(length + 21, len(STREAM))
    assert [row["frame"] for row in fed.rows()] == [CALLS[0].request[4:]]
    (gap,) = event_rows(fed.folder, "gap")
    # up to the end of the stream that was seen
    assert (gap["cause"], gap["frames"], gap["bytes"]) == ("spool_damaged", None, len(STREAM) - length)


def test_omitted_bytes_that_arrive_later_are_skipped(fed: Fed) -> None:
    length = len(CALLS[0].request)
    fed.stored(0, 40)
    fed.omitted(35, length - 35)
    fed.stored(30, length)
    (row,) = fed.rows()
    assert (row["size"], row["frame"]) == (length - 4, CALLS[0].request[4:40])
    assert row["omitted"] == [(36, length - 40)]


@pytest.mark.parametrize("length", [0, 1, 500])
def test_an_omitted_span_lies_within_one_frame(fed: Fed, length: int) -> None:
    """Stretches that were left out lie within frames: between frames, zeros would read as frames of no bytes."""
    begin = len(CALLS[0].request)
    fed.stored(0, begin)
    fed.omitted(begin, length)
    fed.stored(begin + length, len(STREAM))
    assert len(fed.rows()) == (len(CALLS) if not length else 1)
