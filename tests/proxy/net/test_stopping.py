from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from proxy.net import stopping
from proxy.net.brokers.nodes import Nodes
from proxy.net.stopping import EXIT_CUT_OFF, HURRIED_SECONDS, RECORDER_SECONDS, LastResort, Stop, Urgency, exit_now
from tests.proxy.net.peers import PATIENCE
from tests.proxy.net.threads import no_threads


def urgency_of(stop: Stop) -> list[bool]:
    return [event.is_set() for event in (stop.begun, stop.hurried, stop.at_once)]


def test_each_further_request_makes_the_stop_more_urgent():
    stop = Stop()
    for urgency in ([True, False, False], [True, True, False], [True, True, True], [True, True, True]):
        stop.ask()
        assert urgency_of(stop) == urgency


def test_two_callers_of_the_same_stop_are_one_stop():
    stop = Stop()
    for _ in range(2):
        stop.ask(Urgency.DRAIN)
    assert urgency_of(stop) == [True, False, False]
    stop.ask(Urgency.AT_ONCE)
    stop.ask(Urgency.DRAIN)
    assert urgency_of(stop) == [True, True, True]


# the end of the recorder


@pytest.fixture
def hang() -> Iterator[Callable[[], None]]:
    """A call that hangs until the test has ended."""
    ended = threading.Event()

    def hangs() -> None:
        ended.wait()

    yield hangs
    ended.set()


async def test_a_recorder_that_ends_is_waited_for():
    closed: list[bool] = []
    assert await Stop().close_recorder(lambda: closed.append(True))
    assert closed == [True]


async def test_a_recorder_that_ends_is_waited_for_though_all_is_cancelled():
    closed: list[bool] = []
    with trio.CancelScope() as scope:
        scope.cancel()
        assert await Stop().close_recorder(lambda: closed.append(True))
    assert closed == [True]


@pytest.mark.parametrize(("asked", "seconds"), [(1, RECORDER_SECONDS), (2, HURRIED_SECONDS), (3, 0)])
async def test_the_wait_for_a_hanging_recorder_shrinks_with_the_urgency(asked, seconds, hang, jumping_clock):
    stop = Stop()
    for _ in range(asked):
        stop.ask()
    before = trio.current_time()
    assert not await stop.close_recorder(hang)
    assert trio.current_time() - before == pytest.approx(seconds)


async def test_a_stop_while_only_the_recorder_is_awaited_ends_the_wait(hang, nursery, jumping_clock):
    stop = Stop()
    stop.ask()
    before = trio.current_time()

    async def ask() -> None:
        await wait_all_tasks_blocked()
        # another thread has stopped it before
        stop.ask(Urgency.DRAIN)
        await trio.sleep(1)
        stop.ask()

    nursery.start_soon(ask)
    assert not await stop.close_recorder(hang)
    assert trio.current_time() - before == pytest.approx(1)


async def test_without_threads_a_recorder_is_closed_all_the_same():
    closed: list[bool] = []
    with no_threads():
        assert await Stop().close_recorder(lambda: closed.append(True))
    assert closed == [True]


async def test_threads_that_hang_on_other_disks_do_not_keep_the_recorder_from_its_last_words(nursery, hang):
    """As many state files hang as trio has threads in all."""
    hanging = SimpleNamespace(_state_writer=SimpleNamespace(close=hang))
    for _ in range(41):
        nursery.start_soon(Nodes.close_state, hanging)
    await wait_all_tasks_blocked()
    closed: list[bool] = []
    assert await Stop().close_recorder(lambda: closed.append(True))
    assert closed == [True]
    nursery.cancel_scope.cancel()


async def test_a_fault_of_the_recorders_is_heard(autojump_clock):
    def break_off() -> None:
        raise ZeroDivisionError

    with pytest.raises(ExceptionGroup) as caught:
        await Stop().close_recorder(break_off)
    assert caught.value.subgroup(ZeroDivisionError)


# the last resort


@pytest.fixture
def exits(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Collects the codes of exits; the test goes on."""
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    yield codes
    assert os._exit == codes.append


@pytest.fixture
def last_resort(exits: list[int]) -> Iterator[LastResort]:
    last_resort = LastResort()
    yield last_resort
    last_resort.forget()
    assert has_ended(last_resort)


def has_ended(last_resort: LastResort) -> bool:
    """True if it has ended, after some time."""
    assert last_resort._thread is not None
    last_resort._thread.join(PATIENCE)
    return not last_resort._thread.is_alive()


def test_the_last_resort_ends_a_process_that_misses_its_time(last_resort, exits, caplog):
    last_resort.end_within(0)
    assert has_ended(last_resort)
    assert exits == [EXIT_CUT_OFF]
    assert "something hangs" in caplog.text


def test_the_last_resort_needs_no_new_thread(last_resort, exits):
    with no_threads():
        last_resort.end_within(0)
        assert has_ended(last_resort)
    assert exits == [EXIT_CUT_OFF]


def test_a_further_signal_does_not_put_the_end_off(last_resort, exits):
    with last_resort._changes:
        last_resort.end_within(0)
        for seconds in (10, 1e9):
            last_resort.end_within(seconds)
    assert has_ended(last_resort)
    assert exits == [EXIT_CUT_OFF]


def test_a_further_signal_may_bring_the_end_closer(last_resort, exits):
    for seconds in (1e9, 0):
        last_resort.end_within(seconds)
    assert has_ended(last_resort)
    assert exits == [EXIT_CUT_OFF]


@pytest.mark.parametrize("seconds", [1e9, 1e300, float("inf")])
def test_the_last_resort_leaves_a_process_that_ends_in_time(seconds, last_resort, exits):
    last_resort.end_within(seconds)
    assert last_resort._thread.daemon
    last_resort.forget()
    assert has_ended(last_resort)
    assert exits == []


def test_a_proxy_that_starts_without_threads_logs_that_it_has_no_last_resort(exits, caplog):
    with no_threads():
        last_resort = LastResort()
        last_resort.end_within(0)
    last_resort.forget()
    assert "a stop that hangs will not be ended" in caplog.text
    assert exits == []


def test_exit_now_needs_no_thread(exits):
    with no_threads():
        exit_now(7)
    assert exits == [7]


def test_a_log_that_hangs_does_not_keep_the_process(exits, hang, monkeypatch):
    monkeypatch.setattr(stopping, "LOG_SECONDS", 0)
    monkeypatch.setattr(stopping, "log", lambda *_, **__: hang())
    exit_now(7)
    assert exits == [7]
