import socket

import pytest

from proxy.net.workers.calls import Calls
from proxy.net.workers.channel import Channel
from proxy.net.workers.link import Link


@pytest.fixture
def link():
    here, there = socket.socketpair()
    with here, there:
        yield Link(1, Calls(Channel(here), lambda message: True, None))


def told(**recorder: float) -> dict:
    return {"clusters": {}, "recorder": recorder}


async def test_a_recorders_counts_never_go_back(link):
    link.counted(told(compacted_frames=5.0, lag_bytes=9.0))
    link.counted(told(compacted_frames=0.0, lag_bytes=0.0))
    assert link.recorder == {"compacted_frames": 5.0, "lag_bytes": 0.0}


async def test_one_that_has_not_been_started_is_killed_without_a_word(link):
    link.kill()
