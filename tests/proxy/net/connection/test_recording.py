from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from proxy.conversation import Direction, Step
from proxy.net.connection.recording import Recording
from proxy.net.limits.recorder_backpressure import RecorderBackpressure
from tests.proxy.net.peers import PATIENCE
from tests.proxy.net.relays import Watcher

STEP = Step(b"chunk", 0)


def test_no_chunk_waits_without_a_recorder():
    recording = Recording(7, None, None)
    assert not recording.arrived(Direction.REQUEST, b"chunk", 1, STEP)
    recording.half_closed(Direction.REQUEST)


@pytest.mark.parametrize(("full", "has_room", "waits"), [(0, 1, 0), (1, 0, 0), (1, 1, 1)], ids=["room", "drop", "wait"])
def test_a_chunk_waits_where_the_recorder_is_full_and_is_to_be_waited_for(full, has_room, waits):
    watcher = Watcher()
    watcher.must_wait = bool(full)
    recording = Recording(7, watcher, RecorderBackpressure(watcher) if has_room else None)
    assert recording.arrived(Direction.REQUEST, b"chunk", 1, STEP) == bool(waits)


def test_an_end_of_stream_is_recorded_with_its_direction():
    watcher = Watcher()
    Recording(7, watcher, None).half_closed(Direction.RESPONSE)
    assert watcher.seen("half_closed") == [("half_closed", Direction.RESPONSE)]


async def test_while_a_chunk_waits_for_the_recorder_that_is_known(nursery):
    watcher = Watcher()
    watcher.must_wait = True
    recording = Recording(7, watcher, RecorderBackpressure(watcher))
    nursery.start_soon(recording.until_recorder_ready)
    await wait_all_tasks_blocked()
    assert recording.is_waiting
    watcher.make_room()
    with trio.fail_after(PATIENCE):
        while recording.is_waiting:
            await trio.lowlevel.checkpoint()


async def test_the_connection_waits_until_the_chunks_of_both_directions_are_taken(nursery):
    watcher, resumed = Watcher(), 0
    watcher.must_wait = True
    recording = Recording(7, watcher, RecorderBackpressure(watcher))

    async def one_direction() -> None:
        nonlocal resumed
        await recording.until_recorder_ready()
        # its chunks fill the recorder before the other direction has its turn
        watcher.must_wait, resumed = True, resumed + 1

    nursery.start_soon(one_direction)
    nursery.start_soon(one_direction)
    for done in 1, 2:
        await wait_all_tasks_blocked()
        watcher.make_room()
        await wait_all_tasks_blocked(0.01)
        assert (resumed, recording.is_waiting) == (done, done < 2)
