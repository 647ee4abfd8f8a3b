"""Tests that decoders that share a pass make the rows that each would make alone."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire import records
from proxy.wire.budget import Budget
from recorder.analysis.decode import packed
from recorder.analysis.report_decoders import OF_REPORT
from recorder.capture.frames import frames_schema
from recorder.facts import frame
from recorder.facts.batches import BATCHES
from recorder.facts.frame import Frame, Unreadable, opened
from recorder.facts.rows import DecoderIndex, decoded_together
from tests.recorder.facts.frames import request, response, rows

DATA = records.write_batch([records.Record(n, value=b"v" * 40) for n in range(20)])
PRODUCED = request(0, 9, {"topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": DATA}]}]})
FETCHED = response(1, 12, {"responses": [{"topic": "t", "partitions": [{"partition_index": 0, "records": DATA}]}]})
WHOLE = [
    PRODUCED,
    FETCHED,
    request(1, 12, {"topics": [{"topic": "t", "partitions": [{"partition": 0}, {"partition": 1}]}]}),
    request(8, 8, {"group_id": "g", "topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}),
    response(8, 8, {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "error_code": 16}]}]}),
    response(3, 12, {"cluster_id": "c", "topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}),
    request(12, 4, {"group_id": "g", "member_id": "m"}),
    request(18, 3, {"client_software_name": "c", "client_software_version": "1"}),
    response(18, 3, {"api_keys": [{"api_key": 0, "min_version": 3, "max_version": 9}]}),
]
SPOILT: list[dict[str, Any]] = [
    {},
    {"frame": None},
    {"api_version": 99},
    {"api_version": None},
    {"masked": [{"start": 4, "length": 90}]},
    {"dialect": "kafka-0.7"},
]


def together(frames: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Returns the rows of each table, unpacked from the packed batches."""
    index = DecoderIndex(OF_REPORT)
    table = pa.Table.from_pylist(frames, frames_schema()).select(index.reads)
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for batch in packed.packed(decoded_together(table.to_batches(), index)):
        (name,) = batch.column(packed.TABLE).to_pylist()
        for own in packed.unpacked([batch]):
            found[name] += own.to_pylist()
    return found


def wanted(frames: list[dict[str, Any]], decoder: Any) -> list[dict[str, Any]]:
    kinds = ((row, (row["kind"], row["dialect"], row["api_key"], row["api_version"])) for row in frames)
    return [row for row, kind in kinds if any(one.has(*kind) for one in decoder.selectors)]


@given(st.lists(st.builds(lambda row, other: row | other, st.sampled_from(WHOLE), st.sampled_from(SPOILT)), max_size=8))
def test_each_table_has_the_rows_that_its_decoder_makes_alone(frames: list[dict[str, Any]]) -> None:
    found = together(frames)
    for decoder in OF_REPORT:
        assert found[decoder.name] == rows(decoder, *wanted(frames, decoder)), decoder.name


@given(st.sampled_from(WHOLE), st.integers(0, 200), st.integers(0, 255))
def test_a_spoilt_frame_spoils_the_same_rows_in_each_table(row: dict[str, Any], at: int, byte: int) -> None:
    frame = bytearray(row["frame"])
    frame[at % len(frame)] = byte
    frames = [row | {"frame": bytes(frame)}, row]
    found = together(frames)
    for decoder in OF_REPORT:
        assert found[decoder.name] == rows(decoder, *wanted(frames, decoder)), decoder.name


def test_the_decoders_of_a_report_make_tables_of_different_names() -> None:
    assert len({decoder.name for decoder in OF_REPORT}) == len(OF_REPORT)


def test_a_frame_is_opened_once_for_all_decoders(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[bytes] = []
    once = frame._opened

    def noted(*told: Any) -> Any:
        opened.append(told[0].data)
        return once(*told)

    monkeypatch.setattr(frame, "_opened", noted)
    assert {name for name, found in together([PRODUCED, FETCHED]).items() if found} > {BATCHES.name}
    assert opened == [PRODUCED["frame"], FETCHED["frame"]]


def test_each_reader_of_an_opened_frame_pays_for_it() -> None:
    one = Frame("response", "kafka", 1, 12, FETCHED["frame"])
    first = Budget()
    values = opened(one, first)
    price = first.values.size - first.values.left
    assert price > 0
    second = Budget(price)
    assert opened(one, second) is values
    assert second.values.left == 0
    with pytest.raises(Unreadable) as error:
        opened(one, Budget(price - 1))
    assert error.value.reason == "too_large"


def test_each_reader_of_a_bad_frame_gets_its_error() -> None:
    one = Frame("response", "kafka", 1, 12, FETCHED["frame"][:20])
    for _ in range(2):
        with pytest.raises(Unreadable) as error:
            opened(one, Budget())
        assert error.value.reason == "malformed"
