"""Tests of a full queue and a failing disk: traffic waits only where that is the setting."""

import random
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from proxy.conversation.exchange import Direction
from proxy.net.limits.recorder_backpressure import RecorderBackpressure
from proxy.wire import keys
from recorder.capture.compactor import compact
from recorder.capture.session import WhenFull
from recorder.capture.spool import DATA, MONO_NS, OFFSET
from recorder.capture.tap import Tap
from recorder.capture.writer import ENTRY_COST
from tests.brokers.waiting import PATIENCE
from tests.recorder.capture import traffic
from tests.recorder.capture.bad_disk import stall, wait_for_room
from tests.recorder.capture.looks import assert_holds, frame_rows
from tests.recorder.capture.traffic import Player, Talk, some_talks

TapOf = Callable[..., Tap]


def test_the_limit_is_one_of_memory_however_small_the_chunks(tap_of: TapOf, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(1)
    heartbeats = Talk(1, [traffic.call(rng, keys.HEARTBEAT, number, "c", 5) for number in range(3_000)])
    tap = tap_of(queue=200_000)
    player = Player(tap)
    player.open(heartbeats)
    mend = stall(tap, monkeypatch)
    for at_ns, one in enumerate(heartbeats.calls, 1_000_000_000):
        player.play(1, traffic.Chunk(Direction.REQUEST, one.request, at_ns))
    queue = tap._writer.queue
    # the item, the objects that only it refers to, and its place in the list
    memory = sum(8 + sum(map(sys.getsizeof, (item, item[OFFSET], item[MONO_NS], item[DATA]))) for item in queue)
    assert 150_000 < memory < 201_000
    assert tap.counters()["queue_bytes"] == pytest.approx(memory, rel=0.1)
    bytes_waiting = sum(len(item[DATA]) for item in queue)
    assert tap.counters()["recorded_bytes"] == 0
    mend()
    assert tap.counters()["recorded_bytes"] == bytes_waiting
    assert tap.counters()["queue_bytes"] == 0


def test_with_wait_no_frame_is_lost_and_the_traffic_waits(
    tap_of: TapOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(2)
    (talk,) = some_talks(rng, 1, 60, 500)
    tap = tap_of(queue=1_000, when_full=WhenFull.WAIT)
    player = Player(tap)
    player.open(talk)
    mend = stall(tap, monkeypatch)
    waited = 0
    for chunk in talk.chunks:
        player.play(talk.connection, chunk)
        if tap.must_wait:
            waited += 1
            mend()
            wait_for_room(tap)
            mend = stall(tap, monkeypatch)
    mend()
    assert waited
    player.close(talk.connection)
    tap.close()
    compact(tmp_path)
    assert_holds(frame_rows(tmp_path), traffic.expected(talk))


def test_a_full_queue_waits_only_where_that_is_the_setting(tap_of: TapOf, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(2)
    (talk,) = some_talks(rng, 1, 60, 500)
    for when, full in ((WhenFull.DROP, False), (WhenFull.WAIT, True)):
        tap = tap_of(queue=1_000, when_full=when)
        player = Player(tap)
        player.open(talk)
        mend = stall(tap, monkeypatch)
        for chunk in talk.chunks:
            player.play(talk.connection, chunk)
        assert tap.must_wait is full
        assert (tap.counters()["dropped_bytes"] > 0) is not full
        mend()
        wait_for_room(tap)
        assert not tap.must_wait


async def test_connections_that_end_while_they_wait_for_the_disk_leave_no_thread_behind(
    tap_of: TapOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    (talk,) = some_talks(random.Random(2), 1, 60, 500)
    tap = tap_of(queue=1_000, when_full=WhenFull.WAIT)
    player, room = Player(tap), RecorderBackpressure(tap)
    player.open(talk)
    mend = stall(tap, monkeypatch)
    for chunk in talk.chunks:
        player.play(talk.connection, chunk)
    before = {*threading.enumerate()}
    for _ in range(50):
        async with trio.open_nursery() as connection:
            connection.start_soon(room.wait)
            await wait_all_tasks_blocked()
            connection.cancel_scope.cancel()
    # one of an earlier test may end meanwhile
    assert {*threading.enumerate()} <= before
    mend()
    with trio.fail_after(PATIENCE):
        await room.wait()
    assert not tap.must_wait


def test_a_failing_disk_is_counted_and_traffic_continues(tap_of: TapOf, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(3)
    (talk,) = some_talks(rng, 1, 30, 500)
    tap = tap_of(queue=3_000)
    player = Player(tap)
    player.open(talk)
    mend = stall(tap, monkeypatch)
    for chunk in talk.chunks:
        player.play(talk.connection, chunk)
    tap.flush()
    assert tap.counters()["failed"] == 1
    assert 0 < tap.counters()["queue_bytes"] <= 3_000 + 500 + ENTRY_COST
    mend()
    assert tap.counters()["failed"] == 0
    assert tap.counters()["queue_bytes"] == 0


@pytest.mark.parametrize("when", WhenFull)
def test_without_its_thread_nothing_is_recorded_and_traffic_continues(
    when: WhenFull, tap_of: TapOf, tmp_path: Path
) -> None:
    rng = random.Random(5)
    recorded, lost = some_talks(rng, 2, 60, 500)
    tap = tap_of(queue=200_000, when_full=when)
    player = Player(tap)
    player.all_of([recorded])
    player.open(lost)
    tap.flush()

    def faulty(descriptor: int, buffers: object) -> int:
        raise ValueError("a bug")

    tap._writer.log._writev = faulty
    player.play(lost.connection, lost.chunks[0])
    tap._writer.wait_until(lambda: False)
    for chunk in lost.chunks[1:]:
        player.play(lost.connection, chunk)
        assert not tap.must_wait
        wait_for_room(tap)
    player.open(Talk(77, []))
    player.close(lost.connection)
    counters = tap.counters()
    assert counters["failed"] == 1
    assert counters["queue_bytes"] == 0
    assert counters["dropped_bytes"] == sum(map(len, lost.streams()))
    assert tap._writer.queue == []
    tap.close()
    assert compact(tmp_path).sessions == (tap.session,)
    assert_holds(frame_rows(tmp_path), traffic.expected(recorded))
