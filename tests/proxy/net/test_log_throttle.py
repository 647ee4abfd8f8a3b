from __future__ import annotations

from logging import DEBUG, WARNING

import trio
from trio.testing import MockClock

from proxy.net.log_throttle import MAX_EVENTS, SILENCE, LogThrottle


async def test_the_same_is_said_once_whatever_is_said_in_between(mock_clock: MockClock):
    throttle = LogThrottle()
    assert [throttle.level(what) for what in ("one", "other", "one", "other")] == [WARNING, WARNING, DEBUG, DEBUG]


async def test_after_a_while_it_is_said_again(mock_clock: MockClock):
    throttle = LogThrottle()
    assert throttle.level("one") == WARNING
    mock_clock.jump(SILENCE - 1)
    assert throttle.level("one") == DEBUG
    mock_clock.jump(1)
    assert throttle.level("one") == WARNING
    assert trio.current_time() == SILENCE


async def test_only_so_much_is_said_however_much_differs(mock_clock: MockClock):
    throttle = LogThrottle()
    levels = [throttle.level(str(number)) for number in range(10 * MAX_EVENTS)]
    assert levels.count(WARNING) == MAX_EVENTS


async def test_what_is_let_through_is_a_warning_and_the_rest_is_for_who_looks_closely(mock_clock: MockClock):
    throttle = LogThrottle()
    assert [throttle.level(what) for what in ("one", "one", "other")] == [WARNING, DEBUG, WARNING]
