"""Tests of regular expressions under a prefix: they match the prefixed names of the recorded matches."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from recorder.replay.names import BeyondPrefix
from recorder.replay.requests.patterns import prefixed
from tests.tables import each_row

PATTERNS = {
    "plain": "orders",
    "several": "orders|payments",
    "anchors": "^orders$",
    "anchored alternatives": "^orders|^pay.*",
    "anchored group": "(^orders|(?:^pay(ments)?))$",
    "flags": "(?i)^ORDERS",
    "start of text": r"\Aorders",
    "class": "[^o]+|[]^o]rders|[a^]x",
    "posix-like": "[[:alpha:]^]rders",
    "escapes": r"\^orders|orders\$",
    "named": "(?P<name>^orders)",
    "nothing": "",
    "open class": "[^",
}
NAMES = ("orders", "ORDERS", "payments", "pay", "^orders", "ax", "^x", "", "rders", "x-orders", "orders$", "payments2")


def meets(pattern: str, name: str) -> bool | None:
    """Returns whether an expression matches; None if this engine does not accept it."""
    try:
        return re.fullmatch(pattern, name) is not None
    except re.error:
        return None


@each_row("pattern", [pytest.param(pattern, id=name) for name, pattern in PATTERNS.items()])
@each_row("prefix", ["p-", "p.", "a_b"])
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_a_name_is_met_behind_the_prefix_as_it_was_without(pattern: str, prefix: str) -> None:
    behind = prefixed(pattern.removeprefix("(?i)"), prefix)
    for name in NAMES:
        assert meets(behind, prefix + name) == meets(pattern.removeprefix("(?i)"), name), name


def test_no_name_without_the_prefix_is_met() -> None:
    assert not meets(prefixed(".*", "p."), "pxorders")
    assert not meets(prefixed("a|b", "p-"), "b")


def test_flags_stay_within_the_expression_and_the_anchor_behind_them_goes() -> None:
    assert prefixed("(?i)^orders", "p-") == r"p\-(?:(?i)orders)"


def test_quoted_text_is_no_anchor() -> None:
    assert prefixed(r"\Q^a|^\E|^b", "p") == r"p(?:\Q^a|^\E|b)"


@given(st.text(max_size=20))
def test_without_a_prefix_an_expression_stays(pattern: str) -> None:
    assert prefixed(pattern, "") == pattern


ODD = st.text(alphabet="^|(?:i)[]\\QEAa-$*", max_size=30)


@given(ODD)
def test_nothing_but_anchors_is_taken_out(pattern: str) -> None:
    try:
        behind = prefixed(pattern, "p")
    except BeyondPrefix:
        return
    assert behind.startswith("p(?:")
    kept = behind[4:-1].replace("^", "").replace("\\A", "")
    assert kept in (pattern.replace("^", "").replace("\\A", "") + end for end in ("", "\\E"))


@given(ODD.filter(lambda pattern: "\\" not in pattern), st.sampled_from(NAMES))
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
@example("orders)|(?:.*", "x")
def test_no_expression_meets_a_name_without_the_prefix(pattern: str, name: str) -> None:
    try:
        behind = prefixed(pattern, "replay-")
    except BeyondPrefix:
        return
    assert not meets(behind, name)


@pytest.mark.parametrize("pattern", ["orders)|(?:.*", ")", "(a)|b)|(c", r"\Q(\E)|(.*"])
def test_an_expression_with_a_bracket_too_many_reaches_beyond_the_prefix(pattern: str) -> None:
    with pytest.raises(BeyondPrefix):
        prefixed(pattern, "p-")


@each_row("pattern", [r"\)|a", "[)]|a", "[]^)]|a", r"\Q)\E|a", "(?i)a|(b)"])
def test_brackets_that_close_nothing_are_no_bracket_too_many(pattern: str) -> None:
    assert prefixed(pattern, "p-") == rf"p\-(?:{pattern})"


def test_quoted_text_without_an_end_gets_one() -> None:
    assert prefixed(r"\Qa|b)", "p") == r"p(?:\Qa|b)\E)"
