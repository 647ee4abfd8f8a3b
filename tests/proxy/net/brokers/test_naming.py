from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from proxy.net.brokers.naming import Naming

HOUR, MINUTE = 3600.0, 60.0


async def lists(naming: Naming, seconds: float, *named: int, every: float = 5 * MINUTE) -> None:
    """Answers list these nodes for so long."""
    for _ in range(int(seconds / every)):
        await trio.sleep(every)
        naming.count_list()
        for node_id in named:
            naming.name(node_id)


@pytest.fixture
def autojump_clock() -> MockClock:
    """Time jumps at once: nobody waits for a socket here."""
    return MockClock(autojump_threshold=0)


@pytest.fixture
async def naming(autojump_clock) -> Naming:
    naming = Naming(HOUR, [1, 2])
    naming.count_list()
    return naming


async def test_a_node_that_no_answer_names_for_an_hour_is_unnamed(naming, autojump_clock):
    await lists(naming, HOUR - 5 * MINUTE, 1)
    assert naming.unnamed == []
    await lists(naming, 5 * MINUTE, 1)
    assert naming.unnamed == [2]


async def test_a_node_named_in_between_has_another_hour(naming, autojump_clock):
    await lists(naming, HOUR - 5 * MINUTE, 1)
    naming.name(2)
    await lists(naming, HOUR - 5 * MINUTE, 1)
    assert naming.unnamed == []
    await lists(naming, 5 * MINUTE, 1)
    assert naming.unnamed == [2]


async def test_time_without_answers_makes_no_node_unnamed(naming, autojump_clock):
    await trio.sleep(100 * HOUR)
    assert naming.unnamed == []
    # the first answer after the outage
    naming.count_list()
    assert naming.unnamed == []


async def test_of_a_gap_between_answers_no_more_counts_than_ten_minutes(naming, autojump_clock):
    for _ in range(5):
        await lists(naming, 10 * HOUR, 1, every=10 * HOUR)
    assert naming.unnamed == []
    await lists(naming, 10 * HOUR, 1, every=10 * HOUR)
    assert naming.unnamed == [2]


async def test_the_time_around_a_question_without_an_answer_does_not_count(naming, autojump_clock):
    for _ in range(100):
        await trio.sleep(5 * MINUTE)
        naming.count_failure()
        await trio.sleep(5 * MINUTE)
        naming.count_list()
    assert naming.unnamed == []


async def test_the_node_that_was_not_named_for_longest_comes_first(naming, autojump_clock):
    for node_id in (3, 1, 2):
        naming.name(node_id)
    assert naming.longest_unnamed == [3, 1, 2]
    naming.forget(1)
    assert naming.longest_unnamed == [3, 2]


async def test_an_answer_is_due_after_a_twelfth_of_the_time(naming, autojump_clock):
    assert naming.was_listed
    await trio.sleep(5 * MINUTE)
    assert not naming.was_listed
    assert (naming.question_seconds, Naming(2).question_seconds) == (5 * MINUTE, 1.0)


async def test_a_short_time_is_counted_in_full(autojump_clock):
    naming = Naming(2, [1, 2])
    naming.count_list()
    await lists(naming, 2, 1, every=1)
    assert naming.unnamed == [2]
