"""Tests of tests over the rows of a table."""

import inspect

import pytest

from tests.sweeps import mostly_long
from tests.tables import each_row


def test_a_test_runs_for_all_rows_and_keeps_its_fixtures() -> None:
    seen = list[tuple[int, str, str]]()

    @each_row("number, word", [(1, "one"), (2, "two")])
    def test(number: int, word: str, fixture: str) -> None:
        seen.append((number, word, fixture))

    assert [*inspect.signature(test).parameters] == ["fixture"]
    test(fixture="made")
    assert seen == [(1, "one", "made"), (2, "two", "made")]


def test_every_wrong_row_is_told_by_its_name() -> None:
    @each_row("number", range(4))
    def test(number: int) -> None:
        assert number % 2 == 0

    with pytest.raises(ExceptionGroup, match="2 of 4 rows are wrong") as found:
        test()
    assert [error.__notes__ for error in found.value.exceptions] == [["in the row number=1"], ["in the row number=3"]]


def test_what_one_wrong_row_raised_is_raised_as_it_is() -> None:
    @each_row("number", range(4), ids=["zero", "one", "two", "three"])
    def test(number: int) -> None:
        if number == 3:
            raise LookupError("nothing there")

    with pytest.raises(LookupError, match="nothing there") as found:
        test()
    assert found.value.__notes__ == ["in the row three"]


def test_a_row_that_fails_the_test_itself_is_told_too() -> None:
    @each_row("number", range(4))
    def test(number: int) -> None:
        pytest.fail("no") if number == 2 else None

    with pytest.raises(pytest.fail.Exception) as found:
        test()
    assert found.value.__notes__ == ["in the row number=2"]


def test_tables_of_a_table_are_all_pairs() -> None:
    seen = list[tuple[int, str]]()

    @each_row("number", [1, 2])
    @each_row("word", ["a", "b"])
    def test(number: int, word: str) -> None:
        seen.append((number, word))

    test()
    assert seen == [(1, "a"), (1, "b"), (2, "a"), (2, "b")]


def test_long_rows_are_a_test_of_their_own_with_that_mark() -> None:
    seen = list[int]()

    @each_row("number", mostly_long(range(4), usual=1))
    def test(number: int) -> None:
        seen.append(number)

    (groups,) = test.pytestmark  # type: ignore[attr-defined]
    usual, long = groups.args[1]
    assert ([mark.name for mark in usual.marks], [mark.name for mark in long.marks]) == ([], ["long"])
    test(rows=usual.values[0])
    assert seen == [0]
    test(rows=long.values[0])
    assert seen == [0, 1, 2, 3]


def test_a_name_that_is_no_parameter_of_the_test_is_an_error() -> None:
    with pytest.raises(AssertionError, match="numbers are not all parameters"):
        each_row("numbers", [1])(lambda number: None)


def test_a_table_without_rows_is_an_error() -> None:
    with pytest.raises(AssertionError, match="no rows of number"):
        each_row("number", [])
