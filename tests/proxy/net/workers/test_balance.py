from __future__ import annotations

import os

import pytest
import trio

from proxy.net.workers.balance import HESITATION, MOST_PATIENCE, Place, Places


@pytest.fixture
def places() -> Places:
    return Places.made(3)


def begun(places: Places, number: int, connections: int) -> Place:
    place = places.take(number)
    place.begin()
    for _ in range(connections):
        place.opened()
    return place


async def hesitates(place: Place) -> float:
    before = trio.current_time()
    await place.turn()
    return trio.current_time() - before


async def test_who_has_more_than_another_lets_it_go_first(places, autojump_clock):
    more, fewer = begun(places, 0, 2), begun(places, 1, 1)
    assert await hesitates(more) == pytest.approx(MOST_PATIENCE * HESITATION)
    assert await hesitates(fewer) == 0


async def test_equals_go_at_once(places, autojump_clock):
    one, other = begun(places, 0, 2), begun(places, 2, 2)
    assert await hesitates(one) == await hesitates(other) == 0


async def test_connections_that_have_ended_do_not_count(places, autojump_clock):
    one, _ = begun(places, 0, 2), begun(places, 2, 1)
    one.closed()
    assert await hesitates(one) == 0


async def test_nobody_waits_for_a_place_that_nobody_has(places, autojump_clock):
    assert await hesitates(begun(places, 1, 5)) == 0


async def test_nobody_waits_for_one_that_has_ended(places, autojump_clock):
    one, _ = begun(places, 0, 5), begun(places, 1, 1)
    places.vacate(1)
    assert await hesitates(one) == 0


async def test_another_process_sees_the_same_counts(places, autojump_clock):
    there = Places(os.dup(places.descriptor), 3)
    begun(there, 2, 1)
    assert await hesitates(begun(places, 0, 2)) == pytest.approx(MOST_PATIENCE * HESITATION)


async def test_who_waits_in_vain_waits_less_and_less(places, autojump_clock):
    one, _ = begun(places, 0, 5), begun(places, 1, 1)
    waited = [round(await hesitates(one) / HESITATION) for _ in range(7)]
    assert waited == [16, 8, 4, 2, 1, 1, 1]


async def test_one_that_moves_again_is_waited_for_again(places, autojump_clock):
    one, other = begun(places, 0, 5), begun(places, 1, 1)
    for _ in range(3):
        await hesitates(one)
    other.opened()
    assert await hesitates(one) == pytest.approx(MOST_PATIENCE * HESITATION)


async def test_it_goes_on_as_soon_as_the_others_have_as_many(places, autojump_clock, nursery):
    one, other = begun(places, 0, 2), begun(places, 1, 1)

    async def catch_up() -> None:
        await trio.sleep(2.5 * HESITATION)
        other.opened()

    nursery.start_soon(catch_up)
    assert await hesitates(one) == pytest.approx(3 * HESITATION)
