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


def test_what_comes_soon_is_looked_out_for(world, subject):
    world.comes = lambda waited: waited > MAX_SPIN_SECONDS / 2
    for _ in range(100):
        assert world.wait(subject) == (COMES, len(world.asked))


def test_what_does_not_come_soon_is_slept_for(world, subject):
    events, looks = world.wait(subject)
    assert events == []
    assert world.asked[-1] == SECONDS
    assert 1 < looks <= MAX_SPIN_SECONDS / A_LOOK + 1


def test_a_pause_lasts_for_as_many_waits_as_it_says(world, subject):
    world.wait(subject)
    tried = [world.wait(subject)[1] > 0 for _ in range(WAITS_WITHOUT_SPINNING + 1)]
    assert tried == [False] * WAITS_WITHOUT_SPINNING + [True]


def test_where_it_is_in_vain_it_is_tried_rarely(world, subject):
    tried = sum(world.wait(subject)[1] > 0 for _ in range(10 * WAITS_WITHOUT_SPINNING))
    assert 1 < tried <= 11


def test_after_good_times_it_gives_up_soon(world, subject):
    world.comes = lambda waited: waited > MAX_SPIN_SECONDS / 2
    for _ in range(100):
        world.wait(subject)
    world.comes = lambda waited: False
    assert 1 < sum(world.wait(subject)[1] > 0 for _ in range(WAITS_WITHOUT_SPINNING)) <= VAIN_AT_MOST


def test_it_begins_again_once_it_pays_again(world, subject):
    world.wait(subject)
    world.comes = lambda waited: waited > MAX_SPIN_SECONDS / 2
    for _ in range(WAITS_WITHOUT_SPINNING + 1):
        world.wait(subject)
    assert all(world.wait(subject)[1] for _ in range(100))


def test_half_of_the_time_is_too_rarely(world, subject):
    seldom = 0
    for number in range(20 * WAITS_WITHOUT_SPINNING):
        soon = number % 2
        world.comes = lambda waited, soon=soon: bool(soon) and waited > MAX_SPIN_SECONDS / 2
        seldom += world.wait(subject)[1] > 0
    assert seldom < 20 * 4


def test_what_is_there_already_says_nothing_of_what_will_come(world, subject):
    world.comes = lambda waited: True
    for _ in range(100):
        assert world.wait(subject) == (COMES, 1)
    world.comes = lambda waited: False
    assert sum(world.wait(subject)[1] > 1 for _ in range(WAITS_WITHOUT_SPINNING)) == 1


def test_who_does_not_want_to_wait_looks_once(world, subject):
    assert world.wait(subject, 0) == ([], 1)
    assert world.asked == [0]


def test_it_can_be_forbidden(world, subject):
    subject.busy = False
    world.wait(subject)
    assert world.asked == [SECONDS]


def test_what_comes_while_others_have_the_processor_is_no_gain(world, subject):
    world.kept = 20 * MAX_SPIN_SECONDS
    world.comes = lambda waited: waited > MAX_SPIN_SECONDS / 2
    found = [world.wait(subject) for _ in range(10 * WAITS_WITHOUT_SPINNING)]
    assert all(events == COMES for events, _ in found)
    assert sum(looks > 0 for _, looks in found) <= 11
