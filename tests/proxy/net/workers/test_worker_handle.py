import socket
from typing import Any

import pytest

from proxy.metrics import sums
from proxy.metrics.collector import HeldState
from proxy.metrics.durations import Durations
from proxy.net.workers.calls import Calls
from proxy.net.workers.channel import Channel, ChannelMessage
from proxy.net.workers.worker_handle import WorkerHandle


async def not_asked(message: ChannelMessage) -> None:
    raise AssertionError("the worker asks nothing")


@pytest.fixture
def worker():
    here, there = socket.socketpair()
    with here, there:
        yield WorkerHandle(1, Calls(Channel(here), lambda message: True, not_asked))


def told(**recorder: float) -> dict[str, Any]:
    nothing = {"states": {}, "held": HeldState(), "loop_delay": sums.durations_as_json(Durations())}
    return {"clusters": {}, "recorder": recorder, "nodes": {}, **nothing}


async def test_a_recorders_counts_never_go_back(worker):
    worker.counted(told(compacted_frames=5.0, lag_bytes=9.0))
    worker.counted(told(compacted_frames=0.0, lag_bytes=0.0))
    assert worker.recorder == {"compacted_frames": 5.0, "lag_bytes": 0.0}


async def test_killing_a_worker_that_was_never_started_raises_nothing(worker):
    worker.kill()
