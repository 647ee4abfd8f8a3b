import time

import trio

from proxy.metrics.durations import Durations
from proxy.net.loop_delay import INTERVAL_SECONDS, measure_loop_delay

BLOCKED_SECONDS = 0.05


async def test_a_loop_that_nothing_blocks_is_never_late(autojump_clock):
    delays = Durations()
    with trio.move_on_after(10.5 * INTERVAL_SECONDS):
        await measure_loop_delay(delays)
    assert (sum(delays.buckets), delays.buckets[0]) == (10, 10)


async def test_a_loop_that_something_blocks_is_late():
    delays = Durations()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(measure_loop_delay, delays)
        await trio.sleep(INTERVAL_SECONDS / 2)
        # until after the time at which the measuring task wants to wake
        until = time.monotonic() + INTERVAL_SECONDS / 2 + BLOCKED_SECONDS
        while time.monotonic() < until:
            pass
        while not sum(delays.buckets):
            await trio.sleep(0)
        nursery.cancel_scope.cancel()
    assert delays.total_ns > BLOCKED_SECONDS * 1e9 / 2
