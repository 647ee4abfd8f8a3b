"""Tests of how much of a property or a sweep a run tries."""

from hypothesis import settings

from proxy.wire import apis
from proxy.wire.keys import METADATA
from tests.strategies import swept_versions
from tests.sweeps import FEWEST, examples, is_thorough, mostly_long


def names_of_marks(case: object) -> list[str]:
    return [mark.name for mark in getattr(case, "marks", ())]


def test_all_cases_but_the_first_are_long() -> None:
    assert [names_of_marks(case) for case in mostly_long("abc", usual=2)] == [[], [], ["long"]]


def test_all_cases_but_the_chosen_are_long() -> None:
    found = mostly_long("abc", usual=lambda case: case == "b")
    assert [names_of_marks(case) for case in found] == [["long"], [], ["long"]]


def test_a_property_of_more_examples_has_the_same_share_of_them() -> None:
    assert examples(400).max_examples == 4 * settings().max_examples
    assert examples(1).max_examples == FEWEST


def test_the_oldest_the_newest_and_both_sides_of_flexible_versions_are_swept() -> None:
    wanted = {*apis.versions(METADATA)} if is_thorough() else {0, 8, 9, apis.versions(METADATA)[-1]}
    assert {*swept_versions(METADATA)} == wanted
