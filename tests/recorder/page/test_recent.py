"""Tests of what is kept in memory: bounded, found, and passing the same filters as a capture."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from recorder.capture import frames as c
from recorder.page.recent import Recent
from recorder.query.language import parse
from recorder.query.syntax import EVERYTHING
from recorder.reading.exchanges import LARGEST_KEPT
from tests.recorder.page.traffic import SESSION, heartbeat, produce, recent
from tests.tables import each_row


def numbers(kept: Recent, where: str = "", **how: Any) -> list[int]:
    """The numbers of exchanges that pass a filter."""
    page = kept.newest(parse(where) if where else EVERYTHING, how.pop("limit", 100), **how)
    return [pair.head[c.EXCHANGE] for _, pair in page.found]


def test_the_newest_come_first_page_by_page() -> None:
    kept = recent(*map(heartbeat, range(10)))
    first = kept.newest(EVERYTHING, 4)
    assert [number for number, _ in first.found] == [9, 8, 7, 6]
    assert numbers(kept, limit=4, before=first.next) == [5, 4, 3, 2]
    assert kept.newest(EVERYTHING, 4, before=2).next is None


def test_an_exchange_is_the_one_that_was_taken() -> None:
    pair = produce(3, "orders", client_id="shop")
    found = recent(pair).find(SESSION, 1, 3)
    assert found is not None
    for kept, taken in ((found.request, pair.request), (found.response, pair.response)):
        assert kept == {name: value for name, value in (taken or {}).items() if name != c.AT}
    assert (found.reading, found.outcome) == (pair.reading, pair.outcome)


def test_the_oldest_go_once_there_are_too_many() -> None:
    kept = recent(*map(heartbeat, range(10)), most_exchanges=3)
    assert numbers(kept) == [9, 8, 7]
    assert kept.find(SESSION, 1, 2) is None
    assert kept.held[0] == 3


def test_the_oldest_go_once_bodies_take_too_much_memory() -> None:
    kept = recent(*(produce(number, value=bytes(10_000)) for number in range(100)), most_bytes=150_000)
    assert 5 < kept.held[0] < 15
    assert kept.held[1] <= 150_000


@pytest.mark.real
def test_the_counted_memory_is_about_what_python_takes() -> None:
    pairs = [*map(heartbeat, range(300)), *(produce(number, f"t{number}") for number in range(300, 600))]
    kept = recent(pairs[0], pairs[300])
    before = kept.held[1]
    tracemalloc.start()
    for pair in pairs:
        # the caller keeps its rows, which are no part of this
        kept.take(pair)
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    bodies = sum(len(row[c.FRAME]) for pair in pairs for row in (pair.request, pair.response) if row)
    assert 0.5 * taken < kept.held[1] - before - bodies < 3 * taken


def test_a_body_that_is_too_large_is_not_kept_but_what_it_says_is() -> None:
    kept = recent(produce(0, "large", value=bytes(LARGEST_KEPT)), produce(1, "small"))
    assert kept.held[1] < 20_000
    assert numbers(kept, "topic == large") == [0]


@each_row(
    "where, passing",
    [
        ("api == Produce", [2, 1]),
        ("topic == orders", [1]),
        ('topic ~ "pay*"', [2]),
        ("group == billing", [3]),
        ("error", [2]),
        ("error == REBALANCE_IN_PROGRESS", [3]),
        ("not error == REBALANCE_IN_PROGRESS", [2, 1]),
        # what only the unfolded batches tell
        ("key == 4711", [1]),
        ('value ~ "hel*"', [1]),
        ("codec == none", [2, 1]),
        ("client_id == shop", [1]),
    ],
)
def test_a_filter_passes_what_meets_it(where: str, passing: list[int]) -> None:
    kept = recent(
        produce(1, "orders", key=b"4711", value=b"hello", client_id="shop"),
        produce(2, "payments", code=3),
        heartbeat(3, "billing", 27),
    )
    assert numbers(kept, where) == passing


def test_what_nobody_can_tell_is_counted() -> None:
    pair = produce(1)
    assert pair.request is not None
    cut = pair.request | {c.OMITTED: [{"start": 20, "length": 10}], c.FRAME: None}
    kept = recent(pair._replace(request=cut))
    assert kept.newest(parse("key == x"), 10).unsure.unread.total() == 1


def test_a_search_ends_in_time_and_goes_on_from_there() -> None:
    kept = recent(*map(heartbeat, range(600)))
    wanted = parse("group == other")
    page = kept.newest(wanted, 10, seconds=0)
    places = []
    while page.next is not None:
        places.append(page.next)
        page = kept.newest(wanted, 10, before=page.next, seconds=0)
    assert places == [512, 256]


def test_news_are_what_came_since_a_number_and_passes() -> None:
    kept = recent(*(heartbeat(number, "ab"[number % 2]) for number in range(10)))
    news = kept.after(parse("group == a"), 3, limit=10)
    assert [number for number, _ in news.found] == [4, 6, 8]
    assert (news.last, news.passed_over) == (9, 0)
    assert kept.after(EVERYTHING, 9, limit=10).found == []


def test_news_that_are_too_many_or_gone_are_counted() -> None:
    kept = recent(*map(heartbeat, range(10)), most_exchanges=6)
    news = kept.after(EVERYTHING, 1, limit=2)
    assert [number for number, _ in news.found] == [8, 9]
    # 2 and 3 have gone, 4 to 7 are too many
    assert news.passed_over == 6


def test_missed_frames_are_counted_by_reason_within_bounds() -> None:
    kept = recent()
    for number in range(1000):
        kept.missed(f"reason {number}", 2)
    kept.missed("reason 3", None)
    assert sum(kept.losses.values()) == 2000
    assert len(kept.losses) < 200
