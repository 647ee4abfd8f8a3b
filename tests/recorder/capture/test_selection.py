"""Tests of the settings that choose what is recorded."""

import pytest

from proxy.schema.errors import InvalidValue
from recorder.capture.selection import APIS, BODIES, PATTERNS, Patterns, Selection, SelectionSettings
from recorder.capture.session import RecordSettings


@pytest.mark.parametrize(
    ("patterns", "name", "taken"),
    [
        ((), "anything", True),
        (("a",), "a", True),
        (("a",), "ab", False),
        (("a",), "A", False),
        (("a*", "!ab*"), "ac", True),
        (("a*", "!ab*"), "abc", False),
        (("!ab*", "a*"), "abc", False),
        (("!a",), "b", True),
        (("!a",), "a", False),
        (("*",), "", True),
        (("a",), "", False),
        (("?[xy]",), "ax", True),
        (("a.c",), "abc", False),
        (("a", "b"), "b", True),
        (("a*",), "a\nb", True),
    ],
)
def test_a_list_keeps_what_it_names_but_for_what_it_leaves_out(patterns, name, taken):
    chosen = Patterns(patterns)
    assert chosen.matches(name) is taken
    assert chosen.matches(name) is taken


def test_apis_of_0_7_have_names_of_their_own():
    assert APIS.read(["0.7/fetch", "!0.7/Multi*"]) == ("0.7/fetch", "!0.7/Multi*")
    with pytest.raises(InvalidValue, match=r"'0\.7/fetsh', which is no API, but 0\.7/fetch is"):
        APIS.read(["0.7/fetsh"])


def test_names_that_peers_choose_do_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr("recorder.capture.selection.MAX_REMEMBERED", 2)
    chosen = Patterns(("1*",))
    assert [chosen.matches(str(number)) for number in range(20)] == [str(number)[0] == "1" for number in range(20)]
    assert len(chosen._cache) == 2


def test_names_that_are_longer_than_any_are_not_remembered():
    chosen = Patterns(("1*",))
    assert chosen.matches("1" * 257)
    assert chosen._cache == {}


def test_apis_are_called_as_in_the_catalog_whatever_their_letters():
    assert APIS.read("produce, *Offset*,!listoffsets,other") == ("produce", "*Offset*", "!listoffsets", "other")
    chosen = Selection(SelectionSettings(apis=("produce", "*offset*", "!ListOffsets"))).apis
    assert [chosen.matches(name) for name in ("Produce", "OffsetCommit", "ListOffsets", "Fetch")] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("kind", "raw", "reason"),
    [
        (APIS, ["Metadta"], "has 'Metadta', which is no API, but Metadata is"),
        (APIS, ["!Fetsch"], "has 'Fetsch', which is no API, but Fetch is"),
        (APIS, ["Xyzzy*"], "has 'Xyzzy*', which is no API: `kafka-wiretap wire list` has them all"),
        (APIS, "Fetch,,Produce", "has '', which is empty"),
        (PATTERNS, ["a", ""], "has '', which is empty"),
        (PATTERNS, ["!"], "has '!', which leaves out nothing"),
        (PATTERNS, [7], "has 7, which is no text"),
        (PATTERNS, [7, "a", "!"], "has 7, which is no text, and has '!', which leaves out nothing"),
        (APIS, [7, "Fetch", "Fetsch"], "has 7, which is no text, and has 'Fetsch', which is no API, but Fetch is"),
        (PATTERNS, [], "names nothing"),
        (PATTERNS, 7, "is no list of patterns"),
        (BODIES, "whole", 'is neither "full" nor "head" nor a size'),
        (BODIES, -1, 'is neither "full" nor "head" nor a size'),
    ],
)
def test_an_unknown_name_in_a_selection_is_refused_with_the_nearest(kind, raw, reason):
    with pytest.raises(InvalidValue) as error:
        kind.read(raw)
    assert str(error.value) == reason


@pytest.mark.parametrize(("raw", "most"), [("full", None), ("head", 0), ("4KiB", 4096), (100, 100), ("0", 0), (0, 0)])
def test_bodies_limits_the_stored_bytes_of_a_frame(raw, most):
    value = BODIES.read(raw)
    assert Selection(SelectionSettings(bodies=value)).body_limit == most
    assert BODIES.read(BODIES.written(value)) == value


def test_everything_is_kept_unless_said_otherwise():
    chosen = Selection(RecordSettings())
    assert chosen.selects_everything
    assert chosen.selects("east", "127.0.0.1:9092")


def test_connections_are_chosen_by_cluster_and_listener():
    chosen = Selection(SelectionSettings(clusters=("east",), listeners=("*:91*",)))
    assert chosen.selects_everything
    assert [chosen.selects(*where) for where in (("east", "a:9100"), ("west", "a:9100"), ("east", "a:9092"))] == [
        True,
        False,
        False,
    ]
