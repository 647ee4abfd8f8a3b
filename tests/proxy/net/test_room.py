import threading

import trio
from trio.testing import wait_all_tasks_blocked

from proxy.net.room import Room
from tests.proxy.net.relays import Watcher


async def test_many_wait_and_one_thread_asks(nursery):
    watcher, room = Watcher(), threading.Event()
    watcher.full = True
    asking = 0
    done = []

    def wait() -> None:
        nonlocal asking
        asking += 1
        room.wait(20)
        watcher.full = False

    async def socket(number: int) -> None:
        await waiting.wait()
        done.append(number)

    watcher.waits = wait
    waiting = Room(watcher)
    for number in range(5):
        nursery.start_soon(socket, number)
    await wait_all_tasks_blocked(0.01)
    assert done == []
    room.set()
    with trio.fail_after(20):
        while len(done) < 5:
            await trio.lowlevel.checkpoint()
    assert asking == 1


async def test_room_that_others_took_is_waited_for_again():
    watcher, answers = Watcher(), [True, False]
    watcher.full = True

    def wait() -> None:
        watcher.full = answers.pop(0)

    watcher.waits = wait
    await Room(watcher).wait()
    assert answers == []


async def test_waiting_can_be_cancelled_while_the_disk_stands_still(autojump_clock):
    watcher, room = Watcher(), threading.Event()
    watcher.full = True
    watcher.waits = lambda: room.wait(20)
    with trio.move_on_after(0.01) as deadline:
        await Room(watcher).wait()
    room.set()
    assert deadline.cancelled_caught
