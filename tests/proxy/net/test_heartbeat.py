import threading
import time

import pytest
import trio

from proxy.metrics.durations import Durations
from proxy.net import heartbeat
from proxy.net.heartbeat import INTERVAL_SECONDS, Heartbeat, measure_loop_delay

BLOCKED_SECONDS = 0.05


async def test_a_running_event_loop_is_alive():
    assert await trio.to_thread.run_sync(Heartbeat().probe) == (True, "alive")


async def test_a_stuck_event_loop_is_not_alive(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(heartbeat, "PROBE_SECONDS", 0.02)
    found: list[tuple[bool, str]] = []
    probe = Heartbeat().probe
    prober = threading.Thread(target=lambda: found.append(probe()))
    prober.start()
    # the loop is blocked until the prober finds it stuck
    prober.join()
    assert found == [(False, "the event loop has not answered for 0.02 s")]
    assert await trio.to_thread.run_sync(probe) == (True, "alive")


def test_an_ended_event_loop_is_not_alive():
    async def make() -> Heartbeat:
        return Heartbeat()

    assert trio.run(make).probe() == (False, "the event loop has ended")


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
