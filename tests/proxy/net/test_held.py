import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from proxy.net.held import SMALL, HeldBytes

SIZE = SMALL + 1


async def holds(held: HeldBytes, size: int) -> bool:
    """Whether so much can be held without waiting."""
    with trio.CancelScope() as scope:
        scope.cancel()
        await held.reserve(size)
        return True
    return False


@pytest.fixture
def held() -> HeldBytes:
    return HeldBytes(3 * SIZE)


async def test_frames_within_the_limit_do_not_wait(held):
    for _ in range(3):
        await held.reserve(SIZE)


async def test_a_frame_over_the_limit_waits_until_another_is_released(held, nursery):
    for _ in range(3):
        await held.reserve(SIZE)
    reserved = trio.Event()

    async def one_more() -> None:
        await held.reserve(SIZE)
        reserved.set()

    nursery.start_soon(one_more)
    await wait_all_tasks_blocked()
    assert not reserved.is_set()
    held.release(SIZE)
    await reserved.wait()


async def test_what_was_released_is_enough_for_one_of_those_who_wait(held, nursery):
    await held.reserve(3 * SIZE)
    reserved = []

    async def one_more(number: int) -> None:
        await held.reserve(2 * SIZE)
        reserved.append(number)

    nursery.start_soon(one_more, 1)
    nursery.start_soon(one_more, 2)
    await wait_all_tasks_blocked()
    held.release(3 * SIZE)
    await wait_all_tasks_blocked()
    assert len(reserved) == 1
    held.release(2 * SIZE)
    await wait_all_tasks_blocked()
    assert sorted(reserved) == [1, 2]


async def test_a_frame_that_no_limit_allows_is_let_through_alone(held):
    await held.reserve(100 * SIZE)
    assert not await holds(held, SIZE)
    held.release(100 * SIZE)
    assert await holds(held, SIZE)


async def test_small_frames_never_wait(held):
    await held.reserve(3 * SIZE)
    await held.reserve(SMALL)
    held.release(SMALL)
    assert not await holds(held, SIZE)


async def test_who_gives_up_waiting_holds_nothing(held):
    await held.reserve(3 * SIZE)
    assert not await holds(held, SIZE)
    held.release(3 * SIZE)
    await held.reserve(3 * SIZE)
