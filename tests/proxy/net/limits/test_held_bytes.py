from collections.abc import Sequence
from typing import NamedTuple

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from proxy.net.limits.held_bytes import COUNTED_ABOVE, HeldBytes, Share

SIZE = COUNTED_ABOVE + 1
SECONDS = 30


class Connection:
    """A connection that holds bytes. `moves`: a byte passes each time that the limit looks."""

    def __init__(self, held: HeldBytes, *, moves: bool = False, waits_for_proxy: bool = False) -> None:
        self.share = Share(held, self)
        self.ended = False
        self._moves = moves
        self._waits_for_proxy = waits_for_proxy
        self._moved = 0

    @property
    def progress(self) -> int | None:
        self._moved += self._moves
        return None if self._waits_for_proxy else self._moved

    def end_as_stalled(self) -> None:
        self.ended = True
        self.share.release()


async def holds(held: HeldBytes, size: int) -> bool:
    """True if so much can be held without waiting."""
    with trio.CancelScope() as scope:
        scope.cancel()
        wanted = Connection(held).share
        await wanted.take(size)
        wanted.release()
        return True
    return False


async def holder(held: HeldBytes, size: int = SIZE, **kind: bool) -> Connection:
    connection = Connection(held, **kind)
    await connection.share.take(size)
    return connection


@pytest.fixture
def held() -> HeldBytes:
    return HeldBytes(3 * SIZE, SECONDS)


async def test_frames_within_the_limit_do_not_wait(held):
    for _ in range(3):
        await holder(held)


async def test_a_frame_over_the_limit_waits_until_another_is_released(held, nursery):
    first, *_ = [await holder(held) for _ in range(3)]
    reserved = trio.Event()

    async def one_more() -> None:
        await holder(held)
        reserved.set()

    nursery.start_soon(one_more)
    await wait_all_tasks_blocked()
    assert not reserved.is_set()
    first.share.release()
    await reserved.wait()


async def test_released_bytes_go_to_one_of_the_waiting_connections(held, nursery):
    first = await holder(held, 3 * SIZE)
    reserved = []

    async def one_more() -> None:
        reserved.append(await holder(held, 2 * SIZE))

    nursery.start_soon(one_more)
    nursery.start_soon(one_more)
    await wait_all_tasks_blocked()
    first.share.release()
    await wait_all_tasks_blocked()
    (second,) = reserved
    second.share.release()
    await wait_all_tasks_blocked()
    assert len(reserved) == 2


async def test_a_frame_that_no_limit_allows_is_let_through_alone(held):
    huge = await holder(held, 100 * SIZE)
    assert not await holds(held, SIZE)
    huge.share.release()
    assert await holds(held, SIZE)


async def test_a_large_frame_is_not_overtaken_by_smaller_ones_that_come_later(held, nursery, autojump_clock: MockClock):
    async def small_ones() -> None:
        while True:
            small = await holder(held, moves=True)
            await trio.sleep(2)
            small.share.release()

    nursery.start_soon(small_ones)
    await trio.sleep(1)
    nursery.start_soon(small_ones)
    await wait_all_tasks_blocked()
    with trio.fail_after(10 * SECONDS):
        await holder(held, 3 * SIZE)
    nursery.cancel_scope.cancel()


async def test_a_connection_that_gives_up_waiting_delays_no_other(held, nursery):
    await holder(held)
    large, small = trio.CancelScope(), trio.Event()

    async def give_up() -> None:
        with large:
            await holder(held, 3 * SIZE)

    async def wait_behind() -> None:
        await holder(held)
        small.set()

    nursery.start_soon(give_up)
    await wait_all_tasks_blocked()
    nursery.start_soon(wait_behind)
    await wait_all_tasks_blocked()
    assert not small.is_set()
    large.cancel()
    await small.wait()


async def test_small_frames_never_wait(held):
    await holder(held, 3 * SIZE)
    small = await holder(held, COUNTED_ABOVE)
    small.share.release()
    assert not await holds(held, SIZE)


async def test_a_connection_that_gives_up_waiting_holds_no_bytes(held):
    first = await holder(held, 3 * SIZE)
    assert not await holds(held, SIZE)
    first.share.release()
    await holder(held, 3 * SIZE)


async def test_a_share_is_given_back_once(held):
    first, second = await holder(held), await holder(held, 2 * SIZE)
    first.share.release()
    first.share.release()
    assert await holds(held, SIZE)
    second.share.release()
    assert await holds(held, 3 * SIZE)


# which connection is ended when others wait


async def test_a_holder_without_progress_is_ended_while_others_wait(held, autojump_clock: MockClock):
    stuck, moving = await holder(held, 2 * SIZE), await holder(held, moves=True)
    await holder(held)
    assert trio.current_time() == pytest.approx(SECONDS)
    assert (stuck.ended, moving.ended) == (True, False)


async def test_a_slow_holder_with_progress_is_not_ended(held, autojump_clock: MockClock):
    slow = await holder(held, 3 * SIZE, moves=True)
    with trio.move_on_after(100 * SECONDS) as patience:
        await holder(held)
    assert patience.cancelled_caught
    assert not slow.ended


async def test_a_holder_that_waits_for_the_proxy_is_not_ended(held, autojump_clock: MockClock):
    recorded = await holder(held, 3 * SIZE, waits_for_proxy=True)
    with trio.move_on_after(10 * SECONDS):
        await holder(held)
    assert not recorded.ended


async def test_a_holder_is_not_ended_while_nobody_waits(held, autojump_clock: MockClock):
    stuck = await holder(held)
    await trio.sleep(100 * SECONDS)
    await holder(held)
    assert not stuck.ended


async def test_a_connection_that_released_its_bytes_is_not_ended(held, nursery, autojump_clock: MockClock):
    done, stuck, wanting = await holder(held), await holder(held, 2 * SIZE), Connection(held)
    nursery.start_soon(wanting.share.take, 3 * SIZE)
    await trio.sleep(SECONDS / 2)
    done.share.release()
    await trio.sleep(SECONDS)
    assert (done.ended, stuck.ended, wanting.share.size) == (False, True, 3 * SIZE)


async def test_a_new_holder_has_the_full_time(held, nursery, autojump_clock: MockClock):
    first, second, third = await holder(held, 3 * SIZE), Connection(held), Connection(held)
    nursery.start_soon(second.share.take, 3 * SIZE)
    await wait_all_tasks_blocked()
    nursery.start_soon(third.share.take, 3 * SIZE)
    await trio.sleep(SECONDS - 1)
    first.share.release()
    await trio.sleep(SECONDS)
    assert second.share.size or third.share.size
    assert not any(one.ended for one in (second, third))
    await trio.sleep(2)
    assert second.ended or third.ended


# any order in which connections come, hold, stand still and give up


FOREVER = float("inf")


class Wish(NamedTuple):
    """A frame that a connection wants to hold: when, how large, for how long, and how long it waits for space."""

    after: float
    size: int
    holds: float
    moves: bool
    patience: float


WISHES = st.lists(
    st.builds(
        Wish,
        after=st.floats(0, 3),
        size=st.integers(1, 5).map(lambda parts: parts * SIZE),
        holds=st.floats(0, 2 * SECONDS),
        moves=st.booleans(),
        patience=st.sampled_from([1.0, SECONDS, FOREVER]),
    ),
    min_size=1,
    max_size=12,
)


class Crowd:
    """Connections with such wishes, and the results. `patient`: those that wait as long as they must."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = HeldBytes(limit, SECONDS)
        self.patient: list[Connection] = []
        self.served: list[Connection] = []

    @property
    def sizes(self) -> list[int]:
        """Returns the bytes that each holding connection holds."""
        return [one.share.size for one in self.served if one.share.size]

    async def run(self, wishes: Sequence[Wish]) -> None:
        async with trio.open_nursery() as nursery:
            for wish in wishes:
                await trio.sleep(wish.after)
                nursery.start_soon(self._fulfil, wish)
                await wait_all_tasks_blocked()

    async def _fulfil(self, wish: Wish) -> None:
        connection = Connection(self.held, moves=wish.moves)
        came_before = list(self.patient)
        if wish.patience == FOREVER:
            self.patient.append(connection)
        with trio.move_on_after(wish.patience):
            await connection.share.take(wish.size)
        if connection.share.size:
            self.served.append(connection)
            assert all(one.share.size or one.ended or one in self.served for one in came_before)
            assert sum(self.sizes) <= self.limit or len(self.sizes) == 1
            await trio.sleep(wish.holds)
            connection.share.release()


@given(WISHES)
def test_all_are_served_in_the_order_in_which_they_came_and_the_bound_is_kept(wishes):
    crowd = Crowd(3 * SIZE)
    trio.run(crowd.run, wishes, clock=MockClock(autojump_threshold=0))
    assert {*crowd.patient} <= {*crowd.served}
    assert crowd.sizes == []
