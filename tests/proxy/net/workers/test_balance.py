from __future__ import annotations

import os

import pytest
import trio

from proxy.net.workers import balance
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


async def test_a_worker_with_more_connections_lets_another_accept_first(counts, autojump_clock):
    more, fewer = begun(counts, 0, 2), begun(counts, 1, 1)
    assert await hesitates(more) == pytest.approx(MAX_HESITATIONS * HESITATION)
    assert await hesitates(fewer) == 0


async def test_workers_with_equally_many_connections_do_not_hesitate(counts, autojump_clock):
    one, other = begun(counts, 0, 2), begun(counts, 2, 2)
    assert await hesitates(one) == await hesitates(other) == 0


async def test_connections_that_have_ended_do_not_count(counts, autojump_clock):
    one, _ = begun(counts, 0, 2), begun(counts, 2, 1)
    one.closed()
    assert await hesitates(one) == 0


async def test_a_worker_does_not_hesitate_for_an_empty_slot(counts, autojump_clock):
    assert await hesitates(begun(counts, 1, 5)) == 0


async def test_a_worker_does_not_hesitate_for_an_ended_one(counts, autojump_clock):
    one, _ = begun(counts, 0, 5), begun(counts, 1, 1)
    counts.vacate(1)
    assert await hesitates(one) == 0


async def test_a_worker_does_not_hesitate_for_one_that_drains(counts, autojump_clock):
    one, other = begun(counts, 0, 5), begun(counts, 1, 2)
    other.end()
    other.closed()
    assert await hesitates(one) == 0


async def test_another_process_sees_the_same_counts(counts, autojump_clock):
    there = ConnectionCounts(os.dup(counts.descriptor), 3)
    begun(there, 2, 1)
    assert await hesitates(begun(counts, 0, 2)) == pytest.approx(MAX_HESITATIONS * HESITATION)


async def test_a_worker_that_hesitates_in_vain_hesitates_less_and_less(counts, autojump_clock):
    one, _ = begun(counts, 0, 5), begun(counts, 1, 1)
    waited = [round(await hesitates(one) / HESITATION) for _ in range(7)]
    assert waited == [16, 8, 4, 2, 1, 1, 1]


async def test_a_worker_that_was_only_slow_is_waited_for_again_after_a_while(counts, autojump_clock, monkeypatch):
    recovery = 50 * HESITATION
    monkeypatch.setattr(balance, "RECOVERY", recovery)
    one, _ = begun(counts, 0, 5), begun(counts, 1, 0)
    for _ in range(2):
        waited: list[float] = []
        while sum(waited) < recovery:
            waited.append(await hesitates(one))
        assert [round(seconds / HESITATION) for seconds in waited[:6]] == [16, 8, 4, 2, 1, 1]


async def test_a_worker_that_accepts_again_is_waited_for_again(counts, autojump_clock):
    one, other = begun(counts, 0, 5), begun(counts, 1, 1)
    for _ in range(3):
        await hesitates(one)
    other.opened()
    assert await hesitates(one) == pytest.approx(MAX_HESITATIONS * HESITATION)


async def test_a_worker_stops_hesitating_once_the_others_have_as_many_connections(counts, autojump_clock, nursery):
    one, other = begun(counts, 0, 2), begun(counts, 1, 1)

    async def catch_up() -> None:
        await trio.sleep(2.5 * HESITATION)
        other.opened()

    nursery.start_soon(catch_up)
    assert await hesitates(one) == pytest.approx(3 * HESITATION)
