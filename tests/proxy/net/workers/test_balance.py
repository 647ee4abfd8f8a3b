from __future__ import annotations

import os

import pytest
import trio

from proxy.net.workers.balance import HESITATION, MAX_HESITATIONS, ConnectionCounts, OwnCount


@pytest.fixture
def counts() -> ConnectionCounts:
    return ConnectionCounts.create(3)


def begun(counts: ConnectionCounts, number: int, connections: int) -> OwnCount:
    count = counts.of(number)
    count.begin()
    for _ in range(connections):
        count.opened()
    return count


async def hesitates(count: OwnCount) -> float:
    before = trio.current_time()
    await count.wait_turn()
    return trio.current_time() - before


async def test_who_has_more_than_another_lets_it_go_first(counts, autojump_clock):
    more, fewer = begun(counts, 0, 2), begun(counts, 1, 1)
    assert await hesitates(more) == pytest.approx(MAX_HESITATIONS * HESITATION)
    assert await hesitates(fewer) == 0


async def test_equals_go_at_once(counts, autojump_clock):
    one, other = begun(counts, 0, 2), begun(counts, 2, 2)
    assert await hesitates(one) == await hesitates(other) == 0


async def test_connections_that_have_ended_do_not_count(counts, autojump_clock):
    one, _ = begun(counts, 0, 2), begun(counts, 2, 1)
    one.closed()
    assert await hesitates(one) == 0


async def test_nobody_waits_for_a_place_that_nobody_has(counts, autojump_clock):
    assert await hesitates(begun(counts, 1, 5)) == 0


async def test_nobody_waits_for_one_that_has_ended(counts, autojump_clock):
    one, _ = begun(counts, 0, 5), begun(counts, 1, 1)
    counts.vacate(1)
    assert await hesitates(one) == 0


async def test_another_process_sees_the_same_counts(counts, autojump_clock):
    there = ConnectionCounts(os.dup(counts.descriptor), 3)
    begun(there, 2, 1)
    assert await hesitates(begun(counts, 0, 2)) == pytest.approx(MAX_HESITATIONS * HESITATION)


async def test_who_waits_in_vain_waits_less_and_less(counts, autojump_clock):
    one, _ = begun(counts, 0, 5), begun(counts, 1, 1)
    waited = [round(await hesitates(one) / HESITATION) for _ in range(7)]
    assert waited == [16, 8, 4, 2, 1, 1, 1]


async def test_one_that_moves_again_is_waited_for_again(counts, autojump_clock):
    one, other = begun(counts, 0, 5), begun(counts, 1, 1)
    for _ in range(3):
        await hesitates(one)
    other.opened()
    assert await hesitates(one) == pytest.approx(MAX_HESITATIONS * HESITATION)


async def test_it_goes_on_as_soon_as_the_others_have_as_many(counts, autojump_clock, nursery):
    one, other = begun(counts, 0, 2), begun(counts, 1, 1)

    async def catch_up() -> None:
        await trio.sleep(2.5 * HESITATION)
        other.opened()

    nursery.start_soon(catch_up)
    assert await hesitates(one) == pytest.approx(3 * HESITATION)
