from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from proxy.net.limits.age import end_aged

SECONDS = 100.0


class Connection:
    def __init__(self, *, in_login: bool = False) -> None:
        self.began_at = trio.current_time()
        self.in_login = in_login
        self.ended_at: float | None = None

    def end_as_aged(self) -> None:
        if self.ended_at is None and not self.in_login:
            self.ended_at = trio.current_time()

    @property
    def age(self) -> float:
        assert self.ended_at is not None
        return self.ended_at - self.began_at


@pytest.fixture
def connections(nursery: trio.Nursery) -> set[Connection]:
    watched: set[Connection] = set()
    nursery.start_soon(end_aged, watched, SECONDS)
    return watched


@pytest.mark.real
async def test_each_connection_ends_at_the_age_give_or_take_a_tenth(connections, autojump_clock: MockClock):
    crowd = []
    for number in range(300):
        crowd.append(Connection())
        connections.add(crowd[-1])
        # at other times than those of the checks
        await trio.sleep(number % 7 / 10)
    await trio.sleep(1.1 * SECONDS)
    ages = [each.age for each in crowd]
    assert 0.9 * SECONDS <= min(ages) < 0.95 * SECONDS
    assert 1.05 * SECONDS < max(ages) <= 1.1 * SECONDS


async def test_a_crowd_that_came_at_once_does_not_end_at_once(connections, autojump_clock: MockClock):
    crowd = [Connection() for _ in range(100)]
    connections.update(crowd)
    await trio.sleep(1.1 * SECONDS)
    assert len({each.ended_at for each in crowd}) > 5


async def test_a_connection_that_may_not_end_yet_is_asked_again(connections, autojump_clock: MockClock):
    late = Connection(in_login=True)
    connections.add(late)
    await trio.sleep(2 * SECONDS)
    assert late.ended_at is None
    late.in_login = False
    await trio.sleep(0.1 * SECONDS)
    assert late.ended_at is not None


async def test_a_connection_that_is_gone_is_left_alone(connections, autojump_clock: MockClock):
    gone = Connection()
    connections.add(gone)
    await trio.sleep(0.8 * SECONDS)
    connections.remove(gone)
    await trio.sleep(SECONDS)
    assert gone.ended_at is None


async def test_connections_that_are_open_when_the_limit_is_set_count_as_new(nursery, autojump_clock: MockClock):
    old = Connection()
    await trio.sleep(10 * SECONDS)
    nursery.start_soon(end_aged, {old}, SECONDS)
    await trio.sleep(1.1 * SECONDS)
    assert 10.9 * SECONDS <= old.age <= 11.1 * SECONDS
