from __future__ import annotations

from logging import DEBUG, WARNING

import trio
from trio.testing import MockClock

from proxy.net.log_throttle import MAX_EVENTS, SILENCE, LogThrottle


async def test_an_event_is_a_warning_once_whatever_comes_in_between(mock_clock: MockClock):
    throttle = LogThrottle()
    assert [throttle.level(what) for what in ("one", "other", "one", "other")] == [WARNING, WARNING, DEBUG, DEBUG]


async def test_an_event_is_a_warning_again_after_a_while(mock_clock: MockClock):
    throttle = LogThrottle()
    assert throttle.level("one") == WARNING
    mock_clock.jump(SILENCE - 1)
    assert throttle.level("one") == DEBUG
    mock_clock.jump(1)
    assert throttle.level("one") == WARNING
    assert trio.current_time() == SILENCE


async def test_the_throttle_passes_a_bounded_number_of_different_events(mock_clock: MockClock):
    throttle = LogThrottle()
    levels = [throttle.level(str(number)) for number in range(10 * MAX_EVENTS)]
    assert levels.count(WARNING) == MAX_EVENTS


async def test_the_first_of_equal_events_is_a_warning_and_the_others_are_debug(mock_clock: MockClock):
    throttle = LogThrottle()
    assert [throttle.level(what) for what in ("one", "one", "other")] == [WARNING, DEBUG, WARNING]
