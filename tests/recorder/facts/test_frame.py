"""Tests of an unreadable frame: it is a row with the reason, and its neighbours are read."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from proxy.wire import records
from recorder.analysis.decode.messages import MESSAGES
from recorder.analysis.decode.record_rows import RECORDS
from recorder.facts.batches import BATCHES
from recorder.facts.names import ANSWERED_NAMES
from recorder.facts.software import OFFERS, SOFTWARE
from recorder.facts.topic_partitions import TOPIC_PARTITIONS
from tests.recorder.facts.frames import own, request, response, rows
from tests.tables import each_row

DECODERS = {one.name: one for one in (BATCHES, MESSAGES, ANSWERED_NAMES, OFFERS, RECORDS, SOFTWARE, TOPIC_PARTITIONS)}
DATA = records.write_batch([records.Record(n, value=b"v" * 40) for n in range(20)])
FETCHED = response(1, 12, {"responses": [{"topic": "t", "partitions": [{"partition_index": 0, "records": DATA}]}]})
WHOLE = FETCHED["frame"]


def but(**other: Any) -> dict[str, Any]:
    return FETCHED | other


@each_row(
    ("row", "reason"),
    [
        (but(frame=WHOLE[:30]), "malformed"),
        (but(frame=WHOLE[:30], note="cut: 9 bytes never came"), "cut"),
        (but(frame=None), "omitted"),
        (but(api_version=99), "unknown_version"),
        (but(api_version=None), "unknown_version"),
        (but(masked=[{"start": 4, "length": 90}]), "masked"),
        (but(masked=[{"start": None, "length": None}]), "masked"),
    ],
    ids=["malformed", "cut", "omitted", "newer", "no-version", "masked", "masked-anywhere"],
)
@each_row("name", ["topic_partitions", "batches", "records", "messages"])
def test_a_frame_that_cannot_be_read_says_why_and_stops_nothing(name: str, row: dict[str, Any], reason: str) -> None:
    decoder = DECODERS[name]
    found = own(decoder, FETCHED, row, FETCHED)
    whole = own(decoder, FETCHED)
    assert found == [*whole, {"unread": reason}, *whole]


@given(st.binary(max_size=200), st.integers(0, 95), st.integers(-1, 20), st.booleans())
def test_any_bytes_become_rows_without_an_exception(frame: bytes, key: int, version: int, is_request: bool) -> None:
    row = {"frame": frame, "size": len(frame), "stored": len(frame), "api_key": key, "api_version": version}
    row["kind"] = "request" if is_request else "response"
    for decoder in DECODERS.values():
        if any(one.side == row["kind"] and key in (one.api_keys or (key,)) for one in decoder.selectors):
            assert isinstance(rows(decoder, FETCHED | row), list)


@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 255))
def test_a_frame_with_a_flipped_byte_is_a_row(at: int, flip: int) -> None:
    frame = WHOLE[:at] + bytes([WHOLE[at] ^ flip]) + WHOLE[at + 1 :]
    for name in ("topic_partitions", "batches", "records", "messages"):
        assert rows(DECODERS[name], but(frame=frame)) is not None


def test_rows_name_their_frame() -> None:
    (row, *_) = rows(RECORDS, FETCHED | {"node": 3, "principal": "me"})
    named = {"session": "s", "connection": 1, "sequence": 0, "exchange": 0, "node": 3, "principal": "me"}
    assert {name: row[name] for name in named} == named
    assert (row["api"], row["api_version"], row["side"]) == ("Fetch", 12, "response")


def test_the_declared_columns_are_those_of_the_rows() -> None:
    for decoder in DECODERS.values():
        kind = decoder.selectors[0]
        asked = {"kind": kind.side, "api_key": (kind.api_keys or (1,))[0]}
        (row, *_) = rows(decoder, FETCHED | {"frame": None} | asked)
        assert [*row] == decoder.table.names


def test_a_client_names_its_software_and_a_broker_its_versions() -> None:
    asked = request(18, 3, {"client_software_name": "lib", "client_software_version": "1.2"})
    assert own(SOFTWARE, asked) == [{"software": "lib", "software_version": "1.2"}]
    offers = [{"api_key": 1, "min_version": 4, "max_version": 17}]
    row = {"offered_key": 1, "offered_from": 4, "offered_to": 17}
    assert own(OFFERS, response(18, 3, {"api_keys": offers})) == [row]


def test_a_refused_question_for_versions_is_answered_in_version_0() -> None:
    refusal = response(18, 0, {"error_code": 35, "api_keys": [{"api_key": 18, "min_version": 0, "max_version": 2}]})
    assert own(OFFERS, refusal | {"api_version": 4}) == [{"offered_key": 18, "offered_from": 0, "offered_to": 2}]
