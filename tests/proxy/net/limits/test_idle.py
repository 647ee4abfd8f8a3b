from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from proxy.net.limits.idle import CHECKS_PER_PERIOD, end_idle

SECONDS = 80.0


class Connection:
    def __init__(self, *, quiet: bool = True, waits_for_proxy: bool = False) -> None:
        self.is_quiet = quiet
        self.moved = 0
        self.ended_at: float | None = None
        self._waits_for_proxy = waits_for_proxy

    @property
    def progress(self) -> int | None:
        return None if self._waits_for_proxy else self.moved

    def end_as_idle(self) -> None:
        self.ended_at = self.ended_at or trio.current_time()


@pytest.fixture
def connections(nursery: trio.Nursery) -> set[Connection]:
    watched: set[Connection] = set()
    nursery.start_soon(end_idle, watched, SECONDS)
    return watched


async def test_a_connection_on_which_nothing_moves_is_ended(connections, autojump_clock: MockClock):
    idle = Connection()
    connections.add(idle)
    await trio.sleep(2 * SECONDS)
    assert idle.ended_at is not None
    assert SECONDS <= idle.ended_at <= SECONDS * (1 + 1 / CHECKS_PER_PERIOD)


async def test_a_connection_has_the_full_idle_time_whenever_it_opened(connections, autojump_clock: MockClock):
    await trio.sleep(SECONDS * 1.3)
    late = Connection()
    connections.add(late)
    await trio.sleep(SECONDS)
    assert late.ended_at is None
    await trio.sleep(SECONDS / CHECKS_PER_PERIOD)
    assert late.ended_at is not None


async def test_a_connection_with_a_byte_now_and_then_is_not_idle(connections, autojump_clock: MockClock):
    slow = Connection()
    connections.add(slow)
    for _ in range(10):
        await trio.sleep(SECONDS * 0.9)
        slow.moved += 1
    assert slow.ended_at is None


async def test_a_connection_that_waits_for_an_answer_is_not_idle(connections, autojump_clock: MockClock):
    polling = Connection(quiet=False)
    connections.add(polling)
    await trio.sleep(10 * SECONDS)
    assert polling.ended_at is None
    # nor right after the response: the client may be about to send again
    polling.is_quiet = True
    await trio.sleep(SECONDS / 2)
    assert polling.ended_at is None


async def test_a_connection_that_waits_for_the_proxy_is_not_idle(connections, autojump_clock: MockClock):
    recorded = Connection(waits_for_proxy=True)
    connections.add(recorded)
    await trio.sleep(10 * SECONDS)
    assert recorded.ended_at is None


async def test_a_removed_connection_is_never_ended(connections, autojump_clock: MockClock):
    gone = Connection()
    connections.add(gone)
    await trio.sleep(SECONDS / 2)
    connections.remove(gone)
    await trio.sleep(2 * SECONDS)
    assert gone.ended_at is None
