"""Tests of exchanges as JSON: as a filter takes their values, masked, cut."""

from __future__ import annotations

import json
from typing import Any

from proxy.wire.keys import OFFSET_COMMIT, SASL_AUTHENTICATE
from recorder.capture import frames as c
from recorder.capture.reader import ALL
from recorder.page import shown
from recorder.page.recent import Recent
from recorder.query.language import parse
from recorder.query.syntax import EVERYTHING, resolved
from recorder.reading.exchanges import Pair, pairs
from tests.hostile_text import TEXT
from tests.recorder.page.traffic import exchange, fetch, heartbeat, produce, recent
from tests.recorder.small_capture import masked, request, response


def whole(pair: Pair) -> dict[str, Any]:
    kept = recent(pair)
    ((_, found),) = kept.newest(EVERYTHING, 1).found
    told = shown.whole(found, kept.head(found), kept.elements(found))
    assert json.loads(json.dumps(told)) == told
    return told


def passing(kept: Recent, where: str) -> list[int]:
    """The numbers of exchanges that pass a filter."""
    return [number for number, _ in kept.newest(resolved(parse(where), kept.newest_ns), 10).found]


def texts(told: dict[str, Any]) -> str:
    return "\n".join(line["text"] for frame in told["frames"] for line in frame["lines"])


def test_each_value_of_an_exchange_is_one_that_a_filter_passes_it_by() -> None:
    pair = produce(3, "orders", client_id='sh"op', code=3)
    kept = recent(pair, *map(heartbeat, (4, 5)))
    told = whole(pair)
    for field, value in told["head"]:
        text = str(value).replace("\\", "\\\\").replace('"', '\\"')
        operator = ">=" if field == "at" else "=="
        assert 0 in passing(kept, f'{field} {operator} "{text}"'), field
    for row in told["elements"]:
        for field, value in zip(told["fields"], row, strict=True):
            assert passing(kept, f'{field} == "{value}"')[-1:] == [0], field


def test_records_are_decoded() -> None:
    found = texts(whole(produce(1, key=b"4711", value=b"hello")))
    assert "key: 4 bytes: '4711'" in found
    assert "value: 5 bytes: 'hello'" in found


def test_a_secret_is_masked() -> None:
    rows = [
        masked(request(1, 1, 0, SASL_AUTHENTICATE, 2, values={"auth_bytes": b"\0me\0hunter2"}), b"\0me\0hunter2"),
        response(1.1, 1, 1, SASL_AUTHENTICATE, 2),
    ]
    (pair,) = pairs((dict.fromkeys(ALL) | row for row in rows), with_bodies=True)
    found = texts(whole(pair))
    assert "auth_bytes: masked, 11 bytes" in found


def test_records_that_a_rule_left_out_are_named_so() -> None:
    pair = produce(1, value=bytes(50))
    assert pair.request
    told = whole(pair._replace(request=pair.request | {c.RECORDS: c.DROP}))
    assert "by a rule of the recording" in " ".join(told["frames"][0]["notes"])


def test_numbers_that_javascript_can_not_hold_are_texts() -> None:
    told = whole(fetch(1, "orders", (1 << 60) + 1))
    found = dict(zip(told["fields"], told["elements"][0], strict=True))
    assert found["high_watermark"] == str((1 << 60) + 1)


def test_lines_are_indented_by_their_depth() -> None:
    (frame, _) = whole(produce(1, "orders"))["frames"]
    depths = {line["text"]: line["depth"] for line in frame["lines"]}
    assert depths["topic_data:"] == 0
    assert depths["- name: orders"] == 1


def test_a_body_of_very_many_lines_is_cut_and_says_so() -> None:
    partitions = [{"partition_index": number, "committed_offset": number} for number in range(3000)]
    asked = {"group_id": "g", "topics": [{"name": "t", "partitions": partitions}]}
    (frame,) = whole(exchange(1, OFFSET_COMMIT, asked, None))["frames"]
    assert len(frame["lines"]) == 5000
    assert any("not all is shown" in note for note in frame["notes"])


def test_hostile_names_are_data_in_a_line_and_printable_in_a_body() -> None:
    pair = produce(1, TEXT, client_id=TEXT)
    kept = recent(pair)
    line = shown.line(0, pair, kept.head(pair), kept.elements(kept.with_sides(pair)))
    assert line["client_id"] == TEXT
    assert line["topic"] == {"names": [TEXT], "more": 0}
    assert "\x1b" not in texts(whole(pair))
