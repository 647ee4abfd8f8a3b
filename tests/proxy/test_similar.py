"""Tests of the names that are meant by wrong ones."""

from __future__ import annotations

from proxy.similar import nearest, right_would_be

NAMES = ("frames", "exchanges", "errors")


def test_the_most_similar_name_is_meant() -> None:
    assert nearest("exchange", NAMES) == "exchanges"
    assert right_would_be("error", NAMES) == "did you mean errors? There are frames, exchanges, errors"


def test_of_names_that_are_not_similar_all_are_told() -> None:
    assert nearest("moon", NAMES) is None
    assert right_would_be("moon", NAMES) == "right would be frames, exchanges, errors"
