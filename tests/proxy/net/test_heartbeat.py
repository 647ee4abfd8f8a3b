import threading

import pytest
import trio

from proxy.net import heartbeat
from proxy.net.heartbeat import Heartbeat


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
