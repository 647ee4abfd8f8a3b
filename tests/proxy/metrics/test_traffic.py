from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.conversation import Conversation, Routes07
from proxy.conversation.exchange import Cause, Direction, Exchange, OpaqueReason, timings
from proxy.metrics.table import LATENCY_BOUNDS_NS, SIZE_BOUNDS
from proxy.metrics.traffic import ApiRow, Traffic
from proxy.wire.error_reader import NOTHING
from proxy.wire.keys import HEARTBEAT
from tests.proxy.conversation.script import framed
from tests.proxy.metrics.exchanges import (
    ASKED_NS,
    MICROSECOND,
    UNKNOWN_API,
    UNKNOWN_VERSION,
    anywhere,
    at_once,
    exchange,
    finish,
    laid_out,
    unanswered,
)


@pytest.fixture
def traffic() -> Traffic:
    return Traffic()


def the_row(traffic: Traffic) -> ApiRow:
    (row,) = traffic.rows.values()
    return row


def test_an_exchange_is_counted_with_its_bytes_and_times(traffic: Traffic) -> None:
    done = exchange(latency_ns=300 * MICROSECOND, transfer_ns=50 * MICROSECOND, request=30, response=12)
    done.previous_last_ns = ASKED_NS + 100 * MICROSECOND

    finish(traffic, done, sent_ns=done.response_last_ns + 20 * MICROSECOND)

    row = traffic.rows["Heartbeat", "4"]
    assert (row.exchanges, row.request_bytes, row.response_bytes) == (1, 30, 12)
    assert row.latency_ns == 300 * MICROSECOND
    assert row.queued_ns == 100 * MICROSECOND
    assert row.transfer_ns == 50 * MICROSECOND
    assert row.proxy_ns == 20 * MICROSECOND


def test_each_version_has_numbers_of_its_own(traffic: Traffic) -> None:
    finish(traffic, exchange(version=3), exchange(version=4), exchange(version=4))
    assert {labels: row.exchanges for labels, row in traffic.rows.items()} == {
        ("Heartbeat", "3"): 1,
        ("Heartbeat", "4"): 2,
    }


def test_apis_of_0_7_have_no_version_but_the_dialects(traffic: Traffic) -> None:
    asked = Conversation(Routes07())
    asked.requests(framed(b"\0\1fetch") + framed(b"\0\0produce") + framed(b"\0\x09what"), 1)
    finish(traffic, *asked.responses(framed(b"\0\0"), 2).finished)
    traffic.unanswered(asked.in_flight)
    assert {labels: (row.exchanges, row.unanswered) for labels, row in traffic.rows.items()} == {
        ("0.7/fetch", "0.7"): (1, 0),
        ("other", "other"): (0, 1),
    }


def bucket_by_looking_at_each(bounds: Sequence[int], value: int) -> int:
    for index, bound in enumerate(bounds):
        if value <= bound:
            return index
    return len(bounds)


def in_buckets(bounds: Sequence[int], values: Sequence[int]) -> list[int]:
    counts = [0] * (len(bounds) + 1)
    for value in values:
        counts[bucket_by_looking_at_each(bounds, value)] += 1
    return counts


@given(st.lists(st.integers(0, 100_000_000_000) | st.sampled_from(LATENCY_BOUNDS_NS), min_size=1))
def test_a_latency_falls_into_the_first_bucket_that_holds_it(latencies: list[int]) -> None:
    traffic = Traffic()
    finish(traffic, *(exchange(latency_ns=latency) for latency in latencies))

    assert the_row(traffic).latency_buckets == in_buckets(LATENCY_BOUNDS_NS, latencies)
    assert the_row(traffic).latency_ns == sum(latencies)


def test_size_buckets_reach_from_64_bytes_to_64_mebibytes_by_factors_of_4() -> None:
    assert (SIZE_BOUNDS[0], SIZE_BOUNDS[-1]) == (64, 64 << 20)
    assert {larger // smaller for smaller, larger in pairwise(SIZE_BOUNDS)} == {4}


sizes = st.integers(8, 1 << 27) | st.sampled_from([edge + more for edge in SIZE_BOUNDS for more in (-1, 0, 1)])


@given(st.lists(st.tuples(sizes, sizes), min_size=1))
def test_a_size_falls_into_the_first_bucket_that_holds_it(pairs: list[tuple[int, int]]) -> None:
    """Takes exchanges that were answered at once, one by one, and requests that get no response."""
    traffic = Traffic()
    done, burst = (
        [exchange(UNKNOWN_API, request=request, response=response) for request, response in pairs] for _ in range(2)
    )
    one_way = [unanswered(UNKNOWN_API, request=request) for request, _ in pairs]

    traffic.finished(done, 0, b"", NOTHING, anywhere())
    traffic.finished(at_once(*burst), 0, b"", NOTHING, anywhere())
    traffic.one_way(one_way)

    row, (requests, responses) = the_row(traffic), zip(*pairs, strict=True)
    assert row.request_buckets == in_buckets(SIZE_BOUNDS, requests * 3)
    assert row.response_buckets == in_buckets(SIZE_BOUNDS, responses * 2)
    assert (row.request_bytes, row.response_bytes) == (3 * sum(requests), 2 * sum(responses))


@given(asked=st.integers(1, 50), first=st.integers(1, 50), more=st.integers(0, 50), previous=st.integers(0, 99))
def test_times_are_those_of_the_one_function_that_the_capture_uses_too(
    asked: int, first: int, more: int, previous: int
) -> None:
    done = exchange()
    done.request_last_ns, done.response_first_ns, done.response_last_ns = asked, first, first + more
    done.previous_last_ns = previous
    traffic = Traffic()

    finish(traffic, done, sent_ns=first + more)

    row = the_row(traffic)
    assert (row.latency_ns, row.queued_ns, row.transfer_ns) == timings(done)


def numbers(traffic: Traffic) -> tuple[object, ...]:
    rows = {labels: {name: getattr(row, name) for name in ApiRow.__slots__} for labels, row in traffic.rows.items()}
    return rows, traffic.errors.named, traffic.errors.unread


TIMES = {"request_last_ns": 1, "previous_last_ns": 2, "response_first_ns": 3, "response_last_ns": 4}
CHANGES = (
    st.tuples(st.sampled_from(sorted(TIMES)), st.sampled_from([10**12, 2 * 10**12, 3 * 10**12]))
    | st.tuples(st.just("own_answer"), st.sampled_from([None, b"answer"]))
    | st.tuples(st.just("route"), st.sampled_from([exchange(version=version).route for version in (3, 4)]))
)


SIZES = st.sampled_from([30, 30, 30, 31, 99])


@st.composite
def neighbours(draw: st.DrawFn) -> tuple[list[Exchange], bytes]:
    """Exchanges that each differ from the previous one in at most one value, apart from sizes and error.

    Also their responses, some of which are invalid.
    """
    facts: dict[str, object] = {name: time * 10**12 for name, time in TIMES.items()}
    exchanges = []
    for change in draw(st.lists(st.none() | CHANGES, min_size=1, max_size=20)):
        facts.update([change] if change else [])
        exchanges.append(exchange(request=draw(SIZES), response=draw(SIZES)))
        for name, value in facts.items():
            setattr(exchanges[-1], name, value)
    data = bytearray(laid_out(exchanges))
    for at in draw(st.lists(st.integers(0, len(data) - 1), max_size=8)):
        data[at] = 1
    return exchanges, bytes(data)


@given(neighbours())
def test_exchanges_counted_together_give_the_same_numbers_as_one_by_one(drawn: tuple[list[Exchange], bytes]) -> None:
    (exchanges, data), together, one_by_one = drawn, Traffic(), Traffic()
    together.finished(exchanges, 5 * 10**12, data, NOTHING, anywhere())
    for one in exchanges:
        one_by_one.finished([one], 5 * 10**12, data, NOTHING, anywhere())
    assert numbers(together) == numbers(one_by_one)


def test_an_exchange_answered_by_the_proxy_has_no_latency(traffic: Traffic) -> None:
    own = exchange()
    own.own_answer = b"answer"
    finish(traffic, own)

    row = the_row(traffic)
    assert (row.exchanges, row.by_proxy, sum(row.latency_buckets), row.proxy_ns) == (1, 1, 0, 0)


def test_an_exchange_whose_request_fell_into_a_gap_has_a_transfer_but_no_latency(traffic: Traffic) -> None:
    done = exchange(transfer_ns=5)
    done.request_last_ns = -1
    finish(traffic, done, sent_ns=done.response_last_ns)

    row = the_row(traffic)
    assert (row.exchanges, row.by_proxy, sum(row.latency_buckets), row.transfer_ns) == (1, 0, 0, 5)


def test_a_request_without_an_answer_counts_its_bytes_only(traffic: Traffic) -> None:
    traffic.one_way([unanswered(request=900)])
    row = the_row(traffic)
    assert (row.one_way, row.request_bytes, row.exchanges, row.unanswered) == (1, 900, 0, 0)


@pytest.mark.parametrize(
    ("api_key", "version", "labels"),
    [
        (HEARTBEAT, UNKNOWN_VERSION, ("Heartbeat", "other")),
        (UNKNOWN_API, 3, ("other", "other")),
        (-3, -3, ("other", "other")),
    ],
)
def test_an_unknown_api_or_version_has_the_label_other(
    traffic: Traffic, api_key: int, version: int, labels: tuple[str, ...]
) -> None:
    finish(traffic, exchange(api_key, version))
    finish(traffic, exchange(api_key, version))
    assert {found: row.exchanges for found, row in traffic.rows.items()} == {labels: 2}


def test_a_peer_cannot_invent_time_series_or_fill_the_memory(traffic: Traffic) -> None:
    finish(traffic, *(exchange(api_key, 0) for api_key in range(20_000, 21_000)))
    assert the_row(traffic).exchanges == 1_000
    assert not traffic._meter_of_version


def test_connections_are_counted_by_cause_with_what_was_still_in_flight(traffic: Traffic) -> None:
    traffic.opened()
    traffic.opened()
    traffic.closed(Cause.BROKER_RESET, [unanswered(), unanswered()])
    assert traffic.connections_opened == 2
    assert traffic.closes[Cause.BROKER_RESET] == 1
    assert sum(traffic.closes.values()) == 1
    assert the_row(traffic).unanswered == 2


def test_opaque_frames_are_counted_by_reason(traffic: Traffic) -> None:
    traffic.opaque([OpaqueReason.UNKNOWN_API, OpaqueReason.UNREADABLE, OpaqueReason.UNKNOWN_API])
    assert traffic.opaque_frames[OpaqueReason.UNKNOWN_API] == 2
    assert sum(traffic.opaque_frames.values()) == 3


def test_the_proxys_own_time_is_kept_for_each_direction(traffic: Traffic) -> None:
    traffic.proxied(Direction.REQUEST, 10 * MICROSECOND)
    traffic.proxied(Direction.REQUEST, 11 * MICROSECOND)
    traffic.proxied(Direction.RESPONSE, 10**12)
    requests, responses = traffic.proxy_time
    assert requests.total_ns == 21 * MICROSECOND
    assert requests.buckets[:2] == [1, 1]
    assert responses.buckets[-1] == 1
