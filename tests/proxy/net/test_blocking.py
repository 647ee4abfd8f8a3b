from __future__ import annotations

import sys
import threading

import pytest
import trio

from proxy.net.blocking import in_thread, in_thread_or_inline, open_process
from proxy.threads import NoThread
from tests.proxy.net.threads import no_threads


async def test_a_blocking_call_runs_in_a_thread():
    assert await in_thread(threading.current_thread) is not threading.current_thread()


async def test_a_missing_thread_raises_no_thread():
    with no_threads(), pytest.raises(NoThread, match="no thread can be had"):
        await in_thread(threading.current_thread)


async def test_a_thread_that_could_not_be_had_takes_no_place():
    one = trio.CapacityLimiter(1)
    with no_threads(), pytest.raises(NoThread):
        await in_thread(threading.current_thread, one)
    assert one.available_tokens == 1


@pytest.mark.parametrize("error", [RuntimeError, ZeroDivisionError, BlockingIOError])
async def test_a_threads_exception_is_raised_unchanged(error):
    def goes_wrong() -> None:
        raise error

    with pytest.raises(error) as caught:
        await in_thread(goes_wrong)
    assert not isinstance(caught.value, NoThread)


async def test_a_stops_work_is_done_inline_without_a_thread():
    done: list[threading.Thread] = []
    await in_thread_or_inline(lambda: done.append(threading.current_thread()))
    with no_threads():
        await in_thread_or_inline(lambda: done.append(threading.current_thread()))
    assert [thread is threading.current_thread() for thread in done] == [False, True]


async def test_hanging_threads_do_not_keep_others_from_getting_one(nursery):
    """trio has only 40 threads for all."""
    goes_on = threading.Event()
    for _ in range(50):
        nursery.start_soon(in_thread, goes_on.wait)
    try:
        assert await in_thread(lambda: "had")
    finally:
        goes_on.set()


async def test_a_process_that_no_thread_can_start_is_an_error_of_the_machines():
    with no_threads(), pytest.raises(NoThread):
        await open_process([sys.executable, "-c", ""])
