"""Tests of the spellings of names that people may type."""

import pytest

from proxy.tools.names import (
    UnknownName,
    api_key,
    api_of_07,
    api_or_embedded,
    error_code,
    every_name,
    kind,
    note,
    unknown,
)
from proxy.wire import apis, embedded
from proxy.wire.error_codes import ERRORS
from proxy.wire.kafka07 import RequestType
from tests.tables import each_row


@pytest.mark.parametrize("text", ["FindCoordinator", "find_coordinator", "FIND-COORDINATOR", "findcoordinatorresponse"])
def test_a_name_is_found_in_any_spelling(text: str) -> None:
    assert api_key(text) == 10


def test_every_api_is_found_by_its_name_and_its_key() -> None:
    for key in apis.api_keys():
        name = str(apis.api_name(key))
        assert (api_key(name), api_key(name.upper()), api_key(f"{name}Request"), api_key(str(key))) == (key,) * 4


def test_a_name_may_say_which_message_of_the_api_is_meant() -> None:
    assert (kind("MetadataResponse"), kind("metadata_request"), kind("Metadata"), kind("3")) == (
        "response",
        "request",
        None,
        None,
    )
    assert {kind(name) for name in every_name()} == {None}


def test_a_number_within_the_range_of_keys_is_accepted() -> None:
    assert api_key("2000") == 2000
    with pytest.raises(UnknownName, match="an api's key is an int16, which 70000 is not"):
        api_key("70000")


@pytest.mark.parametrize(("text", "near"), [("metdata", "Metadata"), ("find_cordinator", "FindCoordinator")])
def test_a_wrong_name_is_refused_with_the_nearest(text: str, near: str) -> None:
    with pytest.raises(UnknownName, match=f"no API is called '{text}'; near: {near}"):
        api_key(text)


def test_a_name_that_nothing_is_near_is_just_unknown() -> None:
    assert unknown("API", "xyzzy", ["Fetch"]) == "no API is called 'xyzzy'"
    for digits in ("²", "٣"):
        with pytest.raises(UnknownName):
            api_key(digits)


def test_messages_inside_messages_have_names_that_are_no_apis() -> None:
    for name in embedded.names():
        assert api_or_embedded(name.lower()) == name
    assert api_or_embedded("metadata") == 3
    assert len(set(every_name())) == len(every_name())
    with pytest.raises(UnknownName, match="no API or message is called 'ConsumerProtocolAsignment'; near: Consumer"):
        api_or_embedded("ConsumerProtocolAsignment")


@each_row(
    ("text", "key"),
    [("Send", 0), ("Offsets", 2), ("topic-metadata", 3), ("GroupCoordinatorRequest", 10), ("CONSUMER_METADATA", 10)],
)
def test_names_of_the_protocol_guide_and_of_old_releases_lead_to_todays(text: str, key: int) -> None:
    assert api_key(text) == api_or_embedded(text) == key
    assert note(text) == f"{text} is called {apis.api_name(key)} today"


def test_messages_inside_messages_have_other_names_in_the_guide() -> None:
    assert api_or_embedded("MemberAssignment") == "ConsumerProtocolAssignment"
    assert note("MemberAssignment") == "MemberAssignment is called ConsumerProtocolAssignment today"


def test_a_current_name_has_no_note() -> None:
    names = [
        *every_name(),
        *(error.name for error in ERRORS.values()),
        "metadata_request",
        "fetchresponse",
        "3",
        "xyzzy",
    ]
    assert [name for name in names if note(name)] == []


def test_the_apis_of_0_7_have_names_of_their_own() -> None:
    assert {api_of_07(asked.api.upper()) for asked in RequestType} == set(RequestType)
    assert [api_of_07(text) for text in ("fetch", "0.7", "1", "0.7/metadata")] == [None] * 4
    assert set(every_name()) >= {asked.api for asked in RequestType}


@pytest.mark.parametrize("text", ["9999", "-2", "70000"])
def test_a_code_that_kafka_does_not_have_is_no_error(text: str) -> None:
    with pytest.raises(UnknownName, match=f"Kafka has no error of code {text}; its codes are -1 to "):
        error_code(text)


def test_an_error_is_found_by_its_code_and_by_any_name_that_it_ever_had() -> None:
    names = (
        "6",
        "NOT_LEADER_OR_FOLLOWER",
        "not-leader-or-follower",
        "NotLeaderForPartition",
        "NotLeaderForPartitionCode",
    )
    assert {error_code(text) for text in names} == {6}
    assert [error_code(text) for text in ("-1", "unknown")] == [-1, -1]
    with pytest.raises(UnknownName, match="no error is called 'NOT_LEADER_OR_FOLOWER'; near: NOT_LEADER_OR_"):
        error_code("NOT_LEADER_OR_FOLOWER")
