from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from proxy.net.sockets import polling, reactor
from proxy.net.sockets.reactor import NOTHING, READ, WatchedSocket
from tests.proxy.net.peers import PATIENCE, connected

Ends = tuple[socket.socket, socket.socket, WatchedSocket]


@pytest.fixture
def ends() -> Iterator[Ends]:
    """A socket, its peer, and the watch of the first."""
    one, other = connected(buffers=64 * 1024)
    one.setblocking(False)
    with one, other:
        yield one, other, WatchedSocket(one.fileno())


async def waited_for(condition) -> None:
    with trio.fail_after(PATIENCE):
        while not condition():
            await trio.sleep(0.001)


async def test_arriving_data_is_handled_without_waking_the_reading_task(ends: Ends, nursery):
    one, other, watch = ends
    seen = []
    nursery.start_soon(watch.read, lambda: seen.append(one.recv(10)))
    await wait_all_tasks_blocked()
    [reader] = (task for task in nursery.child_tasks)
    steps = reader._schedule_points
    for piece in (b"one", b"two"):
        other.send(piece)
        await waited_for(lambda piece=piece: piece in seen)
    assert seen == [b"one", b"two"]
    assert reader._schedule_points == steps
    nursery.cancel_scope.cancel()


async def test_a_callbacks_result_ends_the_wait(ends: Ends):
    one, other, watch = ends
    other.send(b"found")
    assert await watch.read(lambda: one.recv(10)) == b"found"
    assert watch.on_readable is None


async def test_a_callbacks_exception_reaches_the_reading_task(ends: Ends):
    _, other, watch = ends
    other.send(b"x")
    with pytest.raises(ZeroDivisionError):
        await watch.read(lambda: 1 // 0)
    assert watch.on_readable is None


async def test_a_cancelled_wait_looks_no_more_and_leaves_the_data(ends: Ends):
    one, other, watch = ends
    with trio.move_on_after(0.001):
        await watch.read(lambda: one.recv(10))
    other.send(b"kept")
    await trio.sleep(0.005)
    assert await watch.read(lambda: one.recv(10)) == b"kept"


async def test_a_reader_that_its_own_callback_cancels_is_cancelled(ends: Ends):
    one, other, watch = ends
    other.send(b"x")
    with trio.CancelScope() as scope:

        def look() -> bytes:
            scope.cancel()
            return one.recv(10)

        await watch.read(look)
    assert scope.cancelled_caught


async def test_unread_data_does_not_keep_the_processor_busy(ends: Ends):
    one, other, watch = ends
    other.send(b"first")
    await watch.read(lambda: one.recv(10))
    other.send(b"second")
    await waited_for(lambda: watch.interest == NOTHING)
    assert await watch.read(lambda: one.recv(10)) == b"second"
    assert watch.interest == READ


async def test_a_broken_connection_without_a_reader_does_not_keep_the_processor_busy(ends: Ends):
    one, other, watch = ends
    other.send(b"first")
    await watch.read(lambda: one.recv(10))
    one.send(b"unread, so that it is reset")
    other.close()
    await waited_for(lambda: watch.interest == NOTHING)
    with pytest.raises(ConnectionResetError):
        await watch.read(lambda: one.recv(10))


async def test_a_writer_that_waits_for_room_does_not_disturb_the_reader(nursery):
    # not TCP, whose kernel may find space whenever an acknowledgement arrives
    one, other = socket.socketpair()
    one.setblocking(False)
    other.setblocking(False)
    watch, looks, room = WatchedSocket(one.fileno()), [], trio.Event()
    nursery.start_soon(watch.read, lambda: looks.append(one.recv(10)))
    with suppress(BlockingIOError):
        while one.send(bytes(1 << 16)):
            pass

    async def write() -> None:
        await watch.write()
        room.set()

    nursery.start_soon(write)
    await wait_all_tasks_blocked()
    other.send(b"read")
    await waited_for(lambda: looks)
    await wait_all_tasks_blocked()
    assert not room.is_set()
    with suppress(BlockingIOError):
        while other.recv(1 << 20):
            pass
    with trio.fail_after(PATIENCE):
        await room.wait()
    other.send(b"still read")
    await waited_for(lambda: len(looks) > 1)
    assert looks == [b"read", b"still read"]
    nursery.cancel_scope.cancel()
    one.close()
    other.close()


async def test_closing_a_watched_socket_ends_its_waits(ends: Ends, nursery):
    _, _, watch = ends
    told = []

    async def told_by(wait) -> None:
        try:
            await wait
        except OSError as error:
            told.append(str(error))

    nursery.start_soon(told_by, watch.read(lambda: None))
    await wait_all_tasks_blocked()
    watch.close(OSError("closed"))
    await wait_all_tasks_blocked()
    assert told == ["closed"]
    assert watch.interest == NOTHING


@pytest.mark.parametrize("wait", ["read", "write"])
async def test_a_socket_that_the_kernel_does_not_watch_leaves_nothing_behind(ends: Ends, monkeypatch, wait):
    one, other, watch = ends
    held = reactor.reactor()

    class Full:
        closed = False

        def register(self, descriptor: int, flags: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(held, "_epoll", Full())
        with pytest.raises(OSError, match="No space"):
            await (watch.read(lambda: b"") if wait == "read" else watch.write())
    assert (watch.interest, held._watches) == (NOTHING, {})
    watch.close(Exception("closed"))
    # once there is space, the socket is watched
    other.send(b"found")
    assert await watch.read(lambda: one.recv(10)) == b"found"


async def test_a_socket_closed_by_anothers_callback_is_not_read(nursery):
    pairs = [connected(), connected()]
    watches = [WatchedSocket(one.fileno()) for one, _ in pairs]
    looks = []

    def look(which: int) -> None:
        pairs[which][0].recv(10)
        looks.append(which)
        watches[1 - which].close(OSError("closed"))

    async def read(which: int) -> None:
        with suppress(OSError):
            await watches[which].read(lambda: look(which))

    for which in (0, 1):
        nursery.start_soon(read, which)
    await wait_all_tasks_blocked()
    for _, other in pairs:
        other.send(b"x")
    await waited_for(lambda: looks)
    await wait_all_tasks_blocked()
    assert len(looks) == 1
    nursery.cancel_scope.cancel()
    for one, other in pairs:
        one.close()
        other.close()


async def test_other_tasks_have_their_turn_while_bytes_keep_coming(ends: Ends, nursery):
    one, other, watch = ends
    other.send(b"x")

    def look() -> None:
        # the bytes that were read are there again at once
        other.send(one.recv(10))

    nursery.start_soon(watch.read, look)
    with trio.fail_after(PATIENCE):
        for _ in range(20):
            await trio.sleep(0.001)
    nursery.cancel_scope.cancel()


async def test_a_woken_reader_runs_though_more_data_arrives(ends: Ends):
    one, other, watch = ends
    patience: list[float] = []

    def noted(seconds: float, most: int) -> polling.Events:
        """Notes how long other tasks wait for their turn."""
        patience.append(seconds)
        return poll(seconds, most)

    def look() -> bytes:
        patience.clear()
        return one.recv(10)

    other.send(b"x")
    await watch.read(lambda: one.recv(10))
    # they run by now
    ours = reactor.reactor().polling
    ours.busy = False
    poll, ours._poll = ours._poll, noted
    for _ in range(20):
        other.send(b"x")
        await watch.read(look)
        await waited_for(lambda: patience)
        assert patience[0] == 0


def test_each_run_of_trio_has_its_own():
    async def own() -> reactor.Reactor:
        assert reactor.reactor() is reactor.reactor()
        return reactor.reactor()

    assert trio.run(own) is not trio.run(own)


def test_after_the_run_a_socket_may_still_be_closed(ends: Ends):
    one, other, watch = ends

    async def read() -> bytes:
        other.send(b"x")
        return await watch.read(lambda: one.recv(10))

    assert trio.run(read) == b"x"
    watch.close(OSError("closed"))
