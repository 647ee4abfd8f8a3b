"""Tests of an exchange's timings."""

from __future__ import annotations

import pytest

from proxy.conversation import Exchange, Routes, timings
from proxy.conversation.exchange import NOT_ARRIVED, TIME_UNKNOWN
from proxy.wire.framing import pack_api_and_version
from tests.tables import each_row


def exchange(request_last_ns: int, first: int, last: int, previous_last_ns: int = 0) -> Exchange:
    asked = Exchange(0, Routes().of(pack_api_and_version(12, 3)), 1, 20, 5, request_last_ns)
    asked.response_first_ns, asked.response_last_ns, asked.previous_last_ns = first, last, previous_last_ns
    return asked


@each_row(
    ("asked", "latency", "queued", "transfer"),
    [
        pytest.param(exchange(100, 150, 170), 50, 0, 20, id="alone"),
        pytest.param(exchange(100, 150, 150, previous_last_ns=130), 50, 30, 0, id="behind another response"),
        pytest.param(exchange(100, 150, 150, previous_last_ns=150), 50, 50, 0, id="in one chunk with the one before"),
        pytest.param(exchange(100, 150, 150, previous_last_ns=90), 50, 0, 0, id="the one before was complete already"),
        pytest.param(exchange(200, 150, 170), 0, 0, 20, id="answered before the request was complete"),
        pytest.param(exchange(NOT_ARRIVED, 150, 170), 0, 0, 20, id="answered, and the request is not complete yet"),
        pytest.param(exchange(TIME_UNKNOWN, 150, 170), None, None, 20, id="a gap hid the end of the request"),
        pytest.param(exchange(100, 0, 0), None, None, None, id="never answered"),
    ],
)
def test_an_exchanges_latency_queueing_and_transfer_times_are_right(
    asked: Exchange, latency: int | None, queued: int | None, transfer: int | None
) -> None:
    assert timings(asked) == (latency, queued, transfer)


def test_an_exchange_that_the_proxy_answers_has_no_timings() -> None:
    asked = exchange(100, 150, 170)
    asked.own_answer = b"ours"
    assert timings(asked) == (None, None, None)
    assert asked.by_proxy


def test_an_exchange_says_its_api() -> None:
    asked = exchange(1, 2, 3)
    assert (asked.api_key, asked.api_version, asked.api) == (12, 3, "Heartbeat")
