from __future__ import annotations

import trio
from trio.testing import wait_all_tasks_blocked

from proxy.net.limits.recorder_backpressure import RecorderBackpressure
from tests.proxy.net.peers import PATIENCE
from tests.proxy.net.relays import Watcher


async def test_one_query_of_the_recorder_serves_all_waiting_connections(nursery):
    watcher = Watcher()
    watcher.must_wait = True
    waiting, done = RecorderBackpressure(watcher), []

    async def socket(number: int) -> None:
        await waiting.wait()
        done.append(number)

    for number in range(5):
        nursery.start_soon(socket, number)
    await wait_all_tasks_blocked()
    assert done == []
    assert len(watcher.waiting) == 1
    watcher.make_room()
    with trio.fail_after(PATIENCE):
        while len(done) < 5:
            await trio.lowlevel.checkpoint()


async def test_room_that_others_took_is_waited_for_again(nursery):
    watcher, done = Watcher(), trio.Event()
    watcher.must_wait = True

    async def socket() -> None:
        await RecorderBackpressure(watcher).wait()
        done.set()

    nursery.start_soon(socket)
    await wait_all_tasks_blocked()
    watcher.make_room()
    watcher.must_wait = True
    with trio.fail_after(PATIENCE):
        while not watcher.waiting:
            await trio.lowlevel.checkpoint()
    assert not done.is_set()
    watcher.make_room()
    with trio.fail_after(PATIENCE):
        await done.wait()


async def test_a_cancelled_wait_leaves_the_others_waiting(nursery):
    watcher = Watcher()
    watcher.must_wait = True
    waiting, done = RecorderBackpressure(watcher), trio.Event()

    async def socket() -> None:
        await waiting.wait()
        done.set()

    for _ in range(50):
        async with trio.open_nursery() as connection:
            connection.start_soon(waiting.wait)
            await wait_all_tasks_blocked()
            connection.cancel_scope.cancel()
    nursery.start_soon(socket)
    await wait_all_tasks_blocked()
    assert len(watcher.waiting) == 1
    watcher.make_room()
    with trio.fail_after(PATIENCE):
        await done.wait()


def test_room_that_there_is_only_once_the_proxy_has_ended_is_nobodys():
    watcher = Watcher()
    watcher.must_wait = True

    async def main() -> None:
        async with trio.open_nursery() as connection:
            connection.start_soon(RecorderBackpressure(watcher).wait)
            await wait_all_tasks_blocked()
            connection.cancel_scope.cancel()

    trio.run(main)
    watcher.make_room()
