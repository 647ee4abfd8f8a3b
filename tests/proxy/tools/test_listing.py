"""Tests of the catalog as a table."""

from proxy.tools.listing import (
    PLACES,
    TITLES,
    as_json,
    as_lines,
    as_markdown,
    embedded_rows,
    error_rows,
    errors_json,
    flexible,
    listed,
    rows_07,
    span,
)
from proxy.wire import apis, embedded
from proxy.wire.embedded.logs import LOGS
from proxy.wire.error_codes import ERRORS
from proxy.wire.kafka07 import RequestType
from proxy.wire.language import OPEN_END, parse


def test_every_api_is_listed_once_with_all_its_versions() -> None:
    rows = as_json()["apis"]
    assert [row["key"] for row in rows] == list(apis.api_keys())
    for row in rows:
        known = apis.versions(row["key"])
        assert (row["first"], row["last"], row["name"]) == (known[0], known[-1], apis.api_name(row["key"]))
        flexible = [version for version in known if apis.is_flexible(row["key"], version)]
        assert row["first_flexible"] == (flexible[0] if flexible else None)


def test_every_message_inside_messages_is_listed_once() -> None:
    told = as_json()["embedded"]
    assert sorted(row["name"] for row in told) == sorted(embedded.names()) == sorted(row[0] for row in embedded_rows())
    for row in told:
        known = embedded.versions(row["name"])
        assert (row["first"], row["last"]) == (known[0], known[-1])


def test_requests_of_0_7_are_listed_with_their_types() -> None:
    assert [row[:2] for row in rows_07()] == list(enumerate(asked.api for asked in RequestType))
    for row, told in zip(rows_07(), as_json()["kafka_07"], strict=True):
        assert told == {"type": row[0], "name": row[1], "answered": row[2] == "yes"}
    assert [row[2] for row in rows_07()] == ["never", "yes", "yes", "never", "yes"]


def test_every_error_is_listed_or_those_that_were_requested() -> None:
    assert [row[0] for row in error_rows(())] == list(ERRORS)
    (row,) = error_rows((6,))
    assert row[:3] == (6, "NOT_LEADER_OR_FOLLOWER", "yes")
    for (code, name, retriable, message), told in zip(error_rows(()), errors_json(()), strict=True):
        assert told == {"code": code, "name": name, "retriable": retriable == "yes", "message": message}
    assert error_rows((9999, 0)) == [(9999, "ERROR_9999", "", ""), (0, "NONE", "", "")]


def test_each_place_is_that_of_a_file() -> None:
    places = {row[3] for row in embedded_rows()}
    assert set(PLACES.values()) <= places
    topics = {place.removeprefix("the topic ") for place in places - set(PLACES.values())}
    assert topics == set(LOGS)


def test_facts_that_kafkas_protocol_guide_states() -> None:
    rows = {row.name: row for row in listed()}
    assert rows["Metadata"] == (3, "Metadata", "0-13", "9+", "")
    assert rows["SaslHandshake"].flexible == "never"
    assert rows["SaslAuthenticate"].secrets == "request, response"


def test_versions_are_written_as_in_the_message_language() -> None:
    assert [span(one) for one in (range(3, 8), range(4, 5), range(9, OPEN_END))] == ["3-7", "4", "9+"]


def test_flexible_is_counted_from_the_first_version_that_is_there() -> None:
    heads = ("versions 2-3  flexible 0+", "versions 0-3  flexible never", "versions 0-3  flexible 2+")
    found = [parse(f"XRequest  key 200  {head}\n  a: int8\n")[0] for head in heads]
    assert [flexible(message) for message in found] == ["2+", "never", "2+"]


def test_numbers_stand_to_the_right_and_lines_have_no_end_of_blanks() -> None:
    assert list(as_lines(("n", "name"), [(1, "a"), (22, "bb")])) == [" n  name", " 1  a", "22  bb"]


def test_a_table_of_a_page_has_a_line_for_each_row() -> None:
    rows = listed()
    lines = list(as_markdown(TITLES, rows))
    assert len(lines) == len(rows) + 2
    assert "| 3 | Metadata | 0-13 | 9+ |  |" in lines
