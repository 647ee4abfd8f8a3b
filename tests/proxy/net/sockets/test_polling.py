from __future__ import annotations

from collections.abc import Callable

import pytest

from proxy.net.sockets import polling
from proxy.net.sockets.polling import MAX_CREDIT, MAX_SPIN_SECONDS, MISS_COST, WAITS_WITHOUT_SPINNING, Events, Polling

COMES: Events = [(7, 1)]
A_LOOK = MAX_SPIN_SECONDS / 10
SECONDS = 0.001
VAIN_AT_MOST = 1 + MAX_CREDIT // MISS_COST


class World:
    """A clock that moves with each look. An event comes whenever `comes` returns True for the length of this wait."""

    def __init__(self) -> None:
        self.now = self.began = 0.0
        self.asked: list[float] = []
        self.comes: Callable[[float], bool] = lambda waited: False
        # how long others keep the processor when they get it
        self.kept = 0.0
        self.yields = 0

    def others(self) -> None:
        self.yields += 1
        self.now += self.kept

    def poll(self, seconds: float, most: int) -> Events:
        assert most == 5
        self.asked.append(seconds)
        self.now += seconds or A_LOOK
        return COMES if self.comes(self.now - self.began) else []

    def wait(self, subject: Polling, seconds: float = SECONDS) -> tuple[Events, int]:
        """Returns the events, and how often they were polled for without sleeping."""
        self.began = self.now
        self.asked.clear()
        return subject.wait(seconds, 5), self.asked.count(0)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()
    monkeypatch.setattr(polling, "clock", lambda: world.now)
    monkeypatch.setattr("proxy.net.sockets.polling.os.sched_yield", world.others)
    return world


@pytest.fixture
def subject(world: World) -> Polling:
    return Polling(world.poll)


def test_the_loop_polls_while_events_come_soon(world, subject):
    world.comes = lambda waited: waited > MAX_SPIN_SECONDS / 2
    for _ in range(100):
        assert world.wait(subject) == (COMES, len(world.asked))


def test_the_loop_sleeps_if_no_event_comes_soon(world, subject):
    events, looks = world.wait(subject)
    assert events == []
    assert world.asked[-1] == SECONDS
    assert 1 < looks <= MAX_SPIN_SECONDS / A_LOOK + 1


def test_a_pause_lasts_for_as_many_waits_as_it_says(world, subject):
    world.wait(subject)
    tried = [world.wait(subject)[1] > 0 for _ in range(WAITS_WITHOUT_SPINNING + 1)]
    assert tried == [False] * WAITS_WITHOUT_SPINNING + [True]


def test_polling_in_vain_is_tried_rarely(world, subject):
    tried = sum(world.wait(subject)[1] > 0 for _ in range(10 * WAITS_WITHOUT_SPINNING))
    assert 1 < tried <= 11


def test_polling_stops_soon_when_events_stop_coming_soon(world, subject):
    world.comes = lambda waited: waited > MAX_SPIN_SECONDS / 2
    for _ in range(100):
        world.wait(subject)
    world.comes = lambda waited: False
    assert 1 < sum(world.wait(subject)[1] > 0 for _ in range(WAITS_WITHOUT_SPINNING)) <= VAIN_AT_MOST


def test_polling_resumes_once_events_come_soon_again(world, subject):
    world.wait(subject)
    world.comes = lambda waited: waited > MAX_SPIN_SECONDS / 2
    for _ in range(WAITS_WITHOUT_SPINNING + 1):
        world.wait(subject)
    assert all(world.wait(subject)[1] for _ in range(100))


def test_events_that_come_soon_half_of_the_time_do_not_encourage_polling(world, subject):
    seldom = 0
    for number in range(20 * WAITS_WITHOUT_SPINNING):
        soon = number % 2
        world.comes = lambda waited, soon=soon: bool(soon) and waited > MAX_SPIN_SECONDS / 2
        seldom += world.wait(subject)[1] > 0
    assert seldom < 20 * 4


def test_an_event_that_is_ready_at_once_does_not_encourage_polling(world, subject):
    world.comes = lambda waited: True
    for _ in range(100):
        assert world.wait(subject) == (COMES, 1)
    world.comes = lambda waited: False
    assert sum(world.wait(subject)[1] > 1 for _ in range(WAITS_WITHOUT_SPINNING)) == 1


def test_a_wait_of_no_time_polls_once(world, subject):
    assert world.wait(subject, 0) == ([], 1)
    assert world.asked == [0]


def test_polling_can_be_turned_off(world, subject):
    subject.busy = False
    world.wait(subject)
    assert world.asked == [SECONDS]


def test_an_event_that_comes_while_the_processor_is_taken_does_not_encourage_polling(world, subject):
    world.kept = 20 * MAX_SPIN_SECONDS
    world.comes = lambda waited: waited > MAX_SPIN_SECONDS / 2
    found = [world.wait(subject) for _ in range(10 * WAITS_WITHOUT_SPINNING)]
    assert all(events == COMES for events, _ in found)
    assert sum(looks > 0 for _, looks in found) <= 11
