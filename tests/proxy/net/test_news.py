from __future__ import annotations

from logging import DEBUG, WARNING

import trio
from trio.testing import MockClock

from proxy.net.news import MOST, SILENCE, News


async def test_the_same_is_said_once_whatever_is_said_in_between(mock_clock: MockClock):
    news = News()
    assert [news.is_news(what) for what in ("one", "other", "one", "other")] == [True, True, False, False]


async def test_after_a_while_it_is_said_again(mock_clock: MockClock):
    news = News()
    assert news.is_news("one")
    mock_clock.jump(SILENCE - 1)
    assert not news.is_news("one")
    mock_clock.jump(1)
    assert news.is_news("one")
    assert trio.current_time() == SILENCE


async def test_only_so_much_is_said_however_much_differs(mock_clock: MockClock):
    news = News()
    assert sum(news.is_news(str(number)) for number in range(10 * MOST)) == MOST


async def test_news_is_a_warning_and_the_rest_is_for_who_looks_closely(mock_clock: MockClock):
    news = News()
    assert [news.level(what) for what in ("one", "one", "other")] == [WARNING, DEBUG, WARNING]
