"""Tests that the short cut of a comparison gives the result of the full walk."""

from __future__ import annotations

import copy
from collections.abc import Hashable
from random import Random

import pytest
from hypothesis import given

from proxy.wire.keys import FETCH, HEARTBEAT, PRODUCE
from recorder.replay.comparison.compare import answer_verdict
from recorder.replay.comparison.unchanged import is_its_own_counterpart
from recorder.replay.mapping import ValueKind
from tests.recorder.replay.comparison.test_compare import Pairs, Unchanged, a_full_response, other, responses, seeds
from tests.recorder.replay.simple import PRODUCE_VERSION, produced

NAMES = frozenset(
    {ValueKind.TOPIC_NAME, ValueKind.GROUP, ValueKind.TRANSACTION, ValueKind.INSTANCE, ValueKind.COORDINATOR_KEY}
)


class Drawn:
    """A random mapping: most values are equal, some differ, some are unknown. `same`: kinds that are all equal."""

    def __init__(self, seed: int, same: frozenset[ValueKind]) -> None:
        self._seed, self.same = seed, same

    def expected(self, what: ValueKind, scope: Hashable, recorded: Hashable) -> Hashable | None:
        drawn = Random(f"{self._seed} {what} {recorded!r}").randrange(20)
        if what in self.same or drawn > 1:
            return recorded
        changed: Hashable = moved(recorded)
        return changed if drawn else None


def moved(value: Hashable) -> Hashable:
    """Another value of the same kind."""
    return (other(value[0]), *value[1:]) if isinstance(value, tuple) else other(value)


@pytest.mark.parametrize("same", [frozenset[ValueKind](), NAMES], ids=["none-the-same", "names-the-same"])
@given(response=responses, seed=seeds)
def test_an_answer_in_the_recorded_bytes_is_found_as_one_of_equal_values(
    same: frozenset[ValueKind], response: tuple[int, int], seed: int
) -> None:
    values, known = a_full_response(*response, seed), Drawn(seed, same)
    assert answer_verdict(*response, values, values, known) == answer_verdict(
        *response, values, copy.deepcopy(values), known
    )


def test_an_answer_that_names_nothing_is_not_walked() -> None:
    assert is_its_own_counterpart(HEARTBEAT, 4, {"throttle_time_ms": 0, "error_code": 0}, Pairs({}))


def test_an_offset_that_stands_elsewhere_on_the_target_is_walked_to() -> None:
    answer = produced()
    place = answer["responses"][0]["name"], answer["responses"][0]["partition_responses"][0]["index"]
    elsewhere = Pairs({(ValueKind.OFFSET, place, 0): 5})
    assert is_its_own_counterpart(PRODUCE, PRODUCE_VERSION, answer, Unchanged())
    assert not is_its_own_counterpart(PRODUCE, PRODUCE_VERSION, answer, elsewhere)


def test_fields_that_are_not_compared_are_not_mapped() -> None:
    partition = {"partition_index": 0, "error_code": 0, "high_watermark": 9, "records": b""}
    answer = {"error_code": 0, "responses": [{"topic": "a", "partitions": [partition]}]}
    assert is_its_own_counterpart(FETCH, 12, answer, Pairs({}))
