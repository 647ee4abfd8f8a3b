import gc

import pytest

from bench.wire_rounds import Ratios, Rounds, measure


def test_a_ratio_is_taken_within_its_round() -> None:
    found = Rounds({"one": (10.0, 30.0, 20.0), "other": (5.0, 10.0, 5.0)})
    assert found.ratios("one", "other").values == (2.0, 3.0, 4.0)
    assert found.median("one") == 20.0


def test_a_ratio_is_printed_as_its_median_and_range() -> None:
    assert str(Ratios((2.0, 4.0, 3.0))) == "3.00 (2.00-4.00)"


def test_every_function_runs_in_every_round_each_round_beginning_with_another() -> None:
    seen: list[str] = []
    found = measure({name: lambda name=name: seen.append(name) for name in "abc"}, rounds=3, seconds=1e-9)
    assert {name: len(values) for name, values in found.ns.items()} == {"a": 3, "b": 3, "c": 3}
    assert "".join(seen[-9:]) == "abcbcacab"


@pytest.mark.real
def test_the_collector_is_as_it_was() -> None:
    measure({"a": lambda: None}, rounds=1, seconds=1e-9)
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
