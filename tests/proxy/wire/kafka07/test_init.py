"""Tests of the dialect's own example."""

import doctest

from proxy.wire import kafka07


def test_the_example_of_the_dialect_is_true() -> None:
    result = doctest.testmod(kafka07)
    assert (result.failed, result.attempted > 3) == (0, True)
