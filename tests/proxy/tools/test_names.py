"""People type names as they like."""

import pytest

from proxy.tools.names import UnknownName, api_key, api_or_embedded, every_name, kind, unknown
from proxy.wire import catalog, embedded


@pytest.mark.parametrize("text", ["FindCoordinator", "find_coordinator", "FIND-COORDINATOR", "findcoordinatorresponse"])
def test_a_name_is_found_in_any_spelling(text: str) -> None:
    assert api_key(text) == 10


def test_every_api_is_found_by_its_name_and_its_key() -> None:
    for key in catalog.api_keys():
        name = str(catalog.api_name(key))
        assert (api_key(name), api_key(name.upper()), api_key(f"{name}Request"), api_key(str(key))) == (key,) * 4


def test_a_name_may_say_which_message_of_the_api_is_meant() -> None:
    assert (kind("MetadataResponse"), kind("metadata_request"), kind("Metadata"), kind("3")) == (
        "response",
        "request",
        None,
        None,
    )
    assert {kind(name) for name in every_name()} == {None}


def test_a_number_that_can_be_a_key_is_taken_as_it_is() -> None:
    assert api_key("2000") == 2000
    with pytest.raises(UnknownName, match="an api's key is an int16, which 70000 is not"):
        api_key("70000")


@pytest.mark.parametrize(("text", "near"), [("metdata", "Metadata"), ("find_cordinator", "FindCoordinator")])
def test_a_wrong_name_is_told_what_is_near(text: str, near: str) -> None:
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
