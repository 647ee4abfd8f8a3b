import threading

import pytest
import trio

from proxy.net import pulse
from proxy.net.pulse import Pulse


async def test_a_loop_that_runs_is_alive():
    assert await trio.to_thread.run_sync(Pulse().feel) == (True, "alive")


async def test_a_loop_that_is_stuck_is_not(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pulse, "PATIENCE", 0.02)
    felt: list[tuple[bool, str]] = []
    feel = Pulse().feel
    probe = threading.Thread(target=lambda: felt.append(feel()))
    probe.start()
    # the loop does nothing else until it has been found stuck
    probe.join()
    assert felt == [(False, "the event loop has not answered for 0.02 s")]
    assert await trio.to_thread.run_sync(feel) == (True, "alive")


def test_a_loop_that_has_ended_is_not():
    async def make() -> Pulse:
        return Pulse()

    assert trio.run(make).feel() == (False, "the event loop has ended")
