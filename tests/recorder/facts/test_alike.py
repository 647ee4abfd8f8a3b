"""Tests that frames that say the same are found, and that each still has the rows that it has alone."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from proxy.wire import keys
from recorder.capture import frames as c
from recorder.capture.frames import frames_schema
from recorder.facts import rows
from recorder.facts.alike import alike
from recorder.facts.rows import DecoderIndex, decoded_together
from recorder.facts.tables import TABLES
from tests.recorder.facts.frames import Row, request, response
from tests.recorder.facts.twins import facts_of

BEAT: dict[str, Any] = {"group_id": "g", "generation_id": 1, "member_id": "m"}


def commit(partitions: int) -> Row:
    told = [{"partition_index": number, "committed_offset": 9 - number} for number in range(partitions)]
    return request(keys.OFFSET_COMMIT, 2, {"group_id": "g", "topics": [{"name": "t", "partitions": told}]})


BEATING = request(keys.HEARTBEAT, 4, BEAT)
LATER = request(keys.HEARTBEAT, 4, BEAT | {"generation_id": 2})
# what is alike in part only, and frames that make no row, one, a few, and more than are kept
FRAMES = [
    BEATING,
    BEATING | {"api_version": 3},
    BEATING | {"kind": None},
    BEATING | {"frame": b"\0\x09" + BEATING["frame"][2:]},
    BEATING | {"masked": [{"start": 12, "length": 3}]},
    BEATING | {"note": c.CUT + "x"},
    BEATING | {"frame": None, "stored": 0},
    LATER,
    response(keys.HEARTBEAT, 4, {}),
    response(keys.HEARTBEAT, 4, {}) | {"api_key": keys.LEAVE_GROUP, "api": "LeaveGroup"},
    response(keys.HEARTBEAT, 4, {"error_code": 27}),
    commit(0),
    commit(3),
    commit(12) | {"kind": "response"},
    commit(12),
    request(keys.OFFSET_COMMIT, 2, {"group_id": "g", "topics": [{"name": "", "partitions": [{}] * 9}] * 2}),
    request(keys.METADATA, 9, {"topics": [{"name": "t" * 400}]}),
]


def numbered(row: Row, number: int) -> Row:
    """The row with a correlation id of its own."""
    data = row["frame"]
    at = 4 if row["kind"] == "request" else 0
    data = data and data[:at] + number.to_bytes(4, "big") + data[at + 4 :]
    return row | {"frame": data, "sequence": number, "connection": number % 3}


@pytest.mark.parametrize("kinds", [2, len(FRAMES)])
def test_each_frame_has_the_rows_that_it_has_alone(kinds: int) -> None:
    chance = Random(kinds)
    many = [numbered(chance.choice(FRAMES[:kinds]), number) for number in range(150)]
    alone = [facts_of([one]) for one in many]
    for name, found in facts_of(many).items():
        assert found == [row for one in alone for row in one[name]], name


def test_frames_are_alike_whose_correlation_ids_alone_differ() -> None:
    beat, answer, large = FRAMES[0], response(keys.HEARTBEAT, 4, {}), FRAMES[-1]
    many = [numbered(row, number) for number, row in enumerate([answer, beat, large, beat, LATER, answer, large])]
    (batch,) = pa.Table.from_pylist(many, frames_schema()).to_batches()
    assert alike(batch) == [0, 1, 2, 1, 4, 0, 6]
    assert alike(batch.slice(2, 1)) == [0]


# few rows a frame, and more than are kept of a frame
@pytest.mark.parametrize("partitions", [12, 20])
def test_rows_of_frames_that_say_the_same_are_bounded_and_in_the_order_of_frames(
    monkeypatch: pytest.MonkeyPatch, partitions: int
) -> None:
    most = 50
    monkeypatch.setattr(rows, "MAX_ROWS", most)
    told = [{"partition_index": number} for number in range(partitions)]
    kinds = [response(keys.OFFSET_COMMIT, 2, {"topics": [{"name": name, "partitions": told}]}) for name in "tu"]
    many = [numbered(kinds[number % 2], number) for number in range(40)]
    index = DecoderIndex(TABLES, for_facts=True)
    (batch,) = pa.Table.from_pylist(many, frames_schema()).select(index.reads).to_batches()
    found: dict[str, list[int]] = defaultdict(list)
    for decoder, made in decoded_together([batch], index):
        assert len(made) < most + partitions, decoder.name
        found[decoder.name] += made["sequence"].to_pylist()
    assert sorted(found) == ["frames", "group_steps", "partitions"]
    for name, sequences in found.items():
        assert sequences == sorted(sequences), name
