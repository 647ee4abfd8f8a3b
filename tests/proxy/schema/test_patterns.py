"""Tests of the matcher of names and patterns."""

import weakref

from hypothesis import given
from hypothesis import strategies as st

from proxy.schema.patterns import Patterns, matching_nothing
from tests.tables import each_row


class Name(str):
    """A name that can be watched."""


NAMES = st.text(st.sampled_from("ab1[]*?!:-ü"), min_size=1, max_size=9)


@each_row(
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
        (("worker[1]",), "worker[1]", True),
        (("worker[1]",), "worker1", False),
        (("worker[12]",), "worker[12]", True),
        (("worker[12]",), "worker2", True),
        (("!worker[1]",), "worker[1]", False),
        (("!worker[1]",), "worker1", True),
        (("worker[1]-*",), "worker[1]-x", True),
        (("worker[[]1]",), "worker[1]", True),
        (("[!a]",), "b", True),
        (("[::1]:19092",), "[::1]:19092", True),
        (("[::1]:19092",), "1:19092", False),
        (("![::1]:19092",), "[::1]:19092", False),
        (("[fe80::1%eth0]:*",), "[fe80::1%eth0]:9092", True),
    ],
)
def test_a_list_selects_the_names_it_means_but_for_those_it_excludes(patterns, name, taken):
    chosen = Patterns(patterns)
    assert chosen.matches(name) is taken
    assert chosen.matches(name) is taken


@given(name=NAMES, others=st.lists(NAMES, max_size=2))
def test_a_name_means_itself_whatever_its_letters(name: str, others: list[str]) -> None:
    wanted = [other for other in others if not other.startswith("!")]
    assert Patterns(["!" + name, *others]).matches(name) is False
    if not name.startswith("!"):
        assert Patterns([name, *wanted]).matches(name)


@each_row(
    ("pattern", "listener", "taken"),
    [
        ("[::1]:19092", "[::1]:19092", True),
        ("[0:0::1]:19092", "[::1]:19092", True),
        ("::1", "[::1]:19092", True),
        ("[::1]", "[::1]:19092", True),
        ("[::1]:*", "[::1]:19092", True),
        ("[::1]:19093", "[::1]:19092", False),
        ("127.0.0.1", "127.0.0.1:19092", True),
        ("127.0.0.1", "127.0.0.10:19092", False),
        ("*:19092", "[::1]:19092", True),
    ],
)
def test_listeners_may_be_spelled_in_every_way_of_an_address(pattern, listener, taken):
    assert Patterns([pattern], addresses=True).matches(listener) is taken
    assert Patterns(["!" + pattern], addresses=True).matches(listener) is not taken


def test_names_that_peers_choose_do_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr("proxy.schema.patterns.MAX_REMEMBERED", 2)
    chosen, alive = Patterns(("1*",)), weakref.WeakSet[Name]()
    for number in range(20):
        name = Name(number)
        alive.add(name)
        assert chosen.matches(name) is name.startswith("1")
    del name
    assert sorted(alive) == ["0", "1"]


def test_names_that_are_longer_than_any_are_not_remembered():
    chosen, name = Patterns(("1*",)), Name("1" * 257)
    alive = weakref.ref(name)
    assert chosen.matches(name)
    del name
    assert alive() is None


@each_row(
    ("patterns", "idle"),
    [
        (["a", "!b"], []),
        (["a", "a*", "!a*"], ["a"]),
        (["worker[1]", "!worker*"], ["worker[1]"]),
        (["a", "b*", "!*"], ["a", "b*"]),
        (["!*"], ["!*"]),
        (["A", "!a"], []),
    ],
)
def test_names_that_a_list_excludes_again_match_nothing(patterns, idle):
    assert matching_nothing(patterns) == idle


def test_in_lists_of_addresses_a_name_is_excluded_by_any_spelling():
    patterns = ["[::1]:19092", "!0:0:0:0:0:0:0:1"]
    assert matching_nothing(patterns, addresses=True) == ["[::1]:19092"]


def test_in_lists_without_case_a_name_is_excluded_by_any_spelling():
    assert matching_nothing(["Fetch", "!fetch"], ignore_case=True) == ["Fetch"]
