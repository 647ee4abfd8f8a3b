"""Tests of pairs of offsets against a plain list of all pairs."""

from hypothesis import given
from hypothesis import strategies as st

from recorder.replay.consumers.differences import MOST, RECENT, Differences


def plain(pairs: dict[int, int], recorded: int) -> int:
    """Returns the nearest pair at or below, else the first one."""
    below = [offset for offset in pairs if offset <= recorded]
    nearest = max(below) if below else min(pairs)
    return recorded + pairs[nearest] - nearest


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=RECENT),
    st.lists(st.integers(0, 60)),
)
def test_an_offset_moves_by_the_nearest_pair_at_or_below_and_below_all_by_the_first(
    pairs: list[tuple[int, int]], asked: list[int]
) -> None:
    found = Differences()
    for recorded, target in pairs:
        found.add(recorded, target)
    assert [found.target(each) for each in asked] == [plain(dict(pairs), each) for each in asked]


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3)), min_size=1, max_size=400))
def test_in_order_only_pairs_where_the_difference_changes_are_needed(steps: list[tuple[int, int]]) -> None:
    found, pairs, recorded, target = Differences(), dict[int, int](), 0, 0
    for step, more in steps:
        found.add(recorded, target)
        pairs[recorded] = target
        recorded, target = recorded + step, target + step + (more == 3)
    assert all(found.target(each) == plain(pairs, each) for each in range(recorded))
    assert len(found) <= RECENT + 1 + sum(more == 3 for _, more in steps)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=12).flatmap(lambda sizes: st.permutations([*enumerate(sizes)])))
def test_behind_a_boundary_the_target_has_all_that_the_recording_has(batches: list[tuple[int, int]]) -> None:
    in_order = sorted(batches)
    recorded = {number: sum(size for _, size in in_order[:number]) for number, _ in batches}
    target = {number: sum(size for _, size in batches[:at]) for at, (number, _) in enumerate(batches)}
    sizes = dict(batches)
    length = sum(sizes.values())
    found = Differences()
    for number in target:
        found.add(recorded[number], target[number], sizes[number])
    for number, offset in recorded.items():
        assert found.target(offset) == target[number]
        rest = [target[number] + each for each in range(sizes[number])]
        behind = [target[each] for each in range(number + 1, len(batches))]
        assert [found.boundary(offset + each) for each in range(sizes[number])] == [
            min(at, *behind, length) for at in rest
        ]
    assert found.boundary(length) == length


SIZES = st.lists(st.integers(1, 3), min_size=1, max_size=20)


@given(SIZES.flatmap(lambda sizes: st.permutations([*enumerate(sizes)])))
def test_no_record_behind_a_boundary_is_before_it_on_the_target(
    batches: list[tuple[int, int]],
) -> None:
    sizes = dict(sorted(batches))
    recorded = {number: sum(sizes[each] for each in range(number)) for number in sizes}
    target = {number: sum(size for _, size in batches[:at]) for at, (number, _) in enumerate(batches)}
    found = Differences()
    for number, size in sizes.items():
        found.add(recorded[number], target[number], size)
    for number, size in sizes.items():
        for place in range(size):
            behind = [target[number] + place, *(target[each] for each in sizes if each > number)]
            assert found.target(recorded[number] + place) == behind[0]
            assert (found.boundary(recorded[number] + place) or 0) <= min(behind)


def test_a_boundary_inside_a_batch_is_not_behind_its_rest_on_the_target() -> None:
    # recorded: A at 0-2, B at 3-5, C at 6-8; on the target in the order B A C
    found = Differences()
    for recorded, target in ((0, 3), (3, 0), (6, 6)):
        found.add(recorded, target, 3)
    assert [found.boundary(each) for each in (4, 5, 6, 7)] == [1, 2, 6, 7]


def test_the_beginning_stays_a_boundary_whichever_record_came_first() -> None:
    found = Differences((10, 100))
    found.add(10, 102)
    assert (found.target(10), found.boundary(10), found.boundary(7)) == (102, 100, 97)


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3)), min_size=1, max_size=200), st.lists(st.integers(0, 500))
)
def test_a_boundary_in_an_ordered_log_is_at_its_record(steps: list[tuple[int, int]], asked: list[int]) -> None:
    found, recorded, target = Differences(), 0, 0
    for step, more in steps:
        found.add(recorded, target)
        recorded, target = recorded + step, target + step + more
    assert [found.boundary(each) for each in asked] == [found.target(each) for each in asked]


@given(SIZES.flatmap(lambda sizes: st.permutations([*enumerate(sizes)])))
def test_nothing_that_the_recording_has_before_an_offset_is_behind_its_end(batches: list[tuple[int, int]]) -> None:
    sizes = dict(sorted(batches))
    recorded = {number: sum(sizes[each] for each in range(number)) for number in sizes}
    target = {number: sum(size for _, size in batches[:at]) for at, (number, _) in enumerate(batches)}
    found = Differences()
    for number, size in sizes.items():
        found.add(recorded[number], target[number], size)
    for number in sizes:
        before = [target[each] + sizes[each] for each in range(number)]
        assert found.behind_earlier(recorded[number]) == max([target[number], *before])


def test_without_a_pair_there_is_no_counterpart() -> None:
    assert Differences().target(5) is Differences().boundary(5) is Differences().behind_earlier(5) is None


def test_beyond_ten_thousand_pairs_the_oldest_are_sampled_and_the_latest_stay() -> None:
    found = Differences()
    for number in range(3 * MOST):
        found.add(10 * number, 11 * number)
    assert len(found) <= MOST
    latest = 3 * MOST - 1
    assert [found.target(10 * each) for each in range(latest - 100, latest)] == list(
        range(11 * (latest - 100), 11 * latest, 11)
    )
    again = Differences()
    for number in range(3 * MOST):
        again.add(10 * number, 11 * number)
    assert [again.target(each) for each in range(0, 10 * latest, 997)] == [
        found.target(each) for each in range(0, 10 * latest, 997)
    ]
