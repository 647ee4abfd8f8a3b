from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio

from proxy.net.sockets.race import HEAD_START, AllLost, race
from proxy.net.sockets.streams import PeerLost

Attempt = Callable[[], Awaitable[str]]


class Runners:
    """Attempts that take a scripted time, and their results."""

    def __init__(self) -> None:
        self.begun: dict[str, float] = {}
        self.cancelled: list[str] = []
        self.lost: list[str] = []

    def takes(self, name: str, seconds: float, fails: bool = False) -> Attempt:
        async def attempt() -> str:
            self.begun[name] = trio.current_time() - self._start
            try:
                await trio.sleep(seconds)
            except trio.Cancelled:
                self.cancelled.append(name)
                raise
            if fails:
                raise PeerLost(f"{name} is lost")
            return name

        return attempt

    async def race(self, *attempts: Attempt) -> str:
        self._start = trio.current_time()
        return await race(attempts, self.lost.append)


@pytest.fixture
def runners() -> Runners:
    return Runners()


async def test_the_first_attempt_wins_where_it_succeeds_within_its_head_start(runners, autojump_clock):
    assert await runners.race(runners.takes("one", HEAD_START / 2), runners.takes("two", 0)) == "one"
    assert runners.begun.keys() == {"one"}


async def test_a_slow_first_attempt_costs_its_head_start(runners, autojump_clock):
    assert await runners.race(runners.takes("one", 100), runners.takes("two", 0)) == "two"
    assert runners.begun == {"one": 0, "two": pytest.approx(HEAD_START)}
    assert runners.cancelled == ["one"]
    assert trio.current_time() - runners._start == pytest.approx(HEAD_START)


async def test_a_slow_attempt_wins_if_no_other_succeeds(runners, autojump_clock):
    slow = runners.takes("one", 5 * HEAD_START)
    assert await runners.race(slow, runners.takes("two", 100), runners.takes("three", 0, fails=True)) == "one"
    assert runners.cancelled == ["two"]


async def test_the_next_attempt_begins_at_once_after_a_failed_one(runners, autojump_clock):
    assert await runners.race(runners.takes("one", HEAD_START / 5, fails=True), runners.takes("two", 1)) == "two"
    assert runners.begun["two"] == pytest.approx(HEAD_START / 5)


async def test_a_lost_race_has_each_attempts_reason(runners, autojump_clock):
    with pytest.raises(AllLost, match="two is lost; one is lost") as lost:
        await runners.race(runners.takes("one", 1, fails=True), runners.takes("two", 0, fails=True))
    assert [str(reason) for reason in lost.value.reasons] == ["two is lost", "one is lost"]


async def test_a_second_winners_result_is_released(runners, autojump_clock):
    both = trio.Event()

    def waits(name: str) -> Attempt:
        async def attempt() -> str:
            await both.wait()
            return name

        return attempt

    async def lets_both_go_on() -> str:
        both.set()
        raise PeerLost("three is lost")

    winner = await runners.race(waits("one"), waits("two"), lets_both_go_on)
    assert sorted([winner, *runners.lost]) == ["one", "two"]


async def test_a_cancelled_race_leaves_no_attempt_running(runners):
    with trio.CancelScope() as scope:

        async def late() -> str:
            scope.cancel()
            return "one"

        await runners.race(late)
        raise AssertionError("it was cancelled")
    assert runners.lost == ["one"]


async def test_a_fault_is_none_that_another_attempt_mends(runners):
    async def fault() -> str:
        raise KeyError("bug")

    with pytest.RaisesGroup(KeyError):
        await runners.race(fault, runners.takes("two", 0))
