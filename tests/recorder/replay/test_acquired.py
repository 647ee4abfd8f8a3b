"""The k-th acquired offset for the k-th, against lists of all of them."""

from hypothesis import given
from hypothesis import strategies as st

from recorder.replay.acquired import MOST, Acquired, Run

RANGES = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5)), max_size=8)


@given(RANGES, RANGES, st.integers(0, 25), st.integers(0, 25))
def test_each_recorded_offset_has_the_one_that_the_target_acquired_as_the_same(
    recorded: list[tuple[int, int]], target: list[tuple[int, int]], first: int, length: int
) -> None:
    acquired = Acquired()
    theirs, ours = list[int](), list[int]()
    for start, more in recorded:
        acquired.recorded(start, start + more)
        theirs += range(start, start + more + 1)
    for start, more in target:
        acquired.target(start, start + more)
        ours += range(start, start + more + 1)
    # the latest acquisition of an offset is the one that counts
    pairs = {theirs[at]: ours[at] if at < len(ours) else None for at in range(len(theirs))}
    asked = {offset: pairs.get(offset) for offset in range(first, first + length)}
    runs = acquired.runs(first, first + length - 1)
    found = {run.recorded + n: run.target + n for run in runs for n in range(run.length)}
    assert found == {offset: target for offset, target in asked.items() if target is not None}


def test_ranges_of_any_size_cost_no_more_than_small_ones() -> None:
    acquired = Acquired()
    acquired.recorded(0, 2**62)
    acquired.target(5, 2**62)
    assert acquired.runs(1, 2**61) == [Run(1, 6, 2**61)]
    acquired.recorded(9, 3)
    assert acquired.runs(9, 3) == []


def test_only_the_latest_ranges_stay() -> None:
    acquired = Acquired()
    for number in range(3 * MOST):
        acquired.recorded(2 * number, 2 * number)
        acquired.target(3 * number, 3 * number)
    last = 3 * MOST - 1
    assert acquired.runs(2 * last, 2 * last) == [Run(2 * last, 3 * last, 1)]
    assert acquired.runs(0, 0) == []
