from __future__ import annotations

import time

from proxy.conversation import Conversation
from proxy.metrics.nodes import BOOTSTRAP
from proxy.metrics.traffic import Traffic
from proxy.net.cluster import routes
from proxy.net.connection.exchange_counter import ExchangeCounter
from proxy.wire.framing import FrameLimits
from tests.proxy.conversation.script import produce
from tests.proxy.net.frames import api_versions_newer, ping, pong


class Counting:
    def __init__(self) -> None:
        self.talk, self.traffic = Conversation(routes(), FrameLimits()), Traffic()
        self.counter = ExchangeCounter(self.traffic, self.traffic.connection(1, BOOTSTRAP, self.talk.login), self.talk)

    def row(self, api: str) -> tuple[int, int, int]:
        row = self.traffic.rows[api, "3"]
        return row.exchanges, row.one_way, row.unanswered


def test_an_exchange_is_counted_once_its_response_has_been_sent():
    it = Counting()
    at_ns = time.monotonic_ns()
    it.counter.request_sent(it.talk.requests(ping(1), at_ns), at_ns)
    step = it.talk.responses(pong(1), at_ns)
    it.counter.unsent_finished = step.finished
    it.counter.response_sent(step, at_ns)
    it.counter.close()
    assert it.row("Heartbeat") == (1, 0, 0)


def test_a_response_that_the_client_has_not_got_when_the_connection_ends_is_no_answer():
    it = Counting()
    it.counter.request_sent(it.talk.requests(ping(1), 1), 1)
    it.counter.unsent_finished = it.talk.responses(pong(1), 2).finished
    it.counter.close()
    assert it.row("Heartbeat") == (0, 0, 1)


def test_the_proxys_time_is_that_of_chunks_of_which_bytes_are_sent():
    it = Counting()

    def chunks_timed() -> list[int]:
        return [sum(time.buckets) for time in it.traffic.proxy_time]

    for chunk in (api_versions_newer(2)[:-3], api_versions_newer(2)[-3:], ping(3)[:6]):
        it.counter.request_sent(it.talk.requests(chunk, 1), 1)
    it.counter.response_sent(it.talk.own_answers_due(1), 1)
    assert chunks_timed() == [0, 0]
    it.counter.request_sent(it.talk.requests(ping(3)[6:] + api_versions_newer(4), 1), 1)
    it.counter.response_sent(it.talk.responses(pong(3), 1), 1)
    assert chunks_timed() == [1, 1]


def test_a_one_way_request_is_counted_once_whether_it_was_sent_or_not():
    it = Counting()
    for is_sent in (True, False):
        step = it.talk.requests(produce(3, 2, acks=0, tail=b"first"), 1)
        it.counter.unsent_one_way = step.one_way
        if is_sent:
            it.counter.request_sent(step, 1)
    it.counter.close()
    assert it.row("Produce") == (0, 2, 0)
