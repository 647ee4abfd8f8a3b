from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from proxy.conversation.exchange import Cause, Direction, OpaqueReason
from proxy.conversation.login import Login
from proxy.metrics import sums
from proxy.metrics.collector import ClusterState, HeldState, registry
from proxy.metrics.nodes import DialFailure
from proxy.metrics.traffic import KeptExemplar, Traffic
from proxy.wire.error_reader import NOTHING, Throttled
from proxy.wire.keys import HEARTBEAT
from tests.proxy.metrics.exchanges import MICROSECOND, UNKNOWN_API, anywhere, exchange, failed, finish, unanswered
from tests.proxy.metrics.scrape import one, samples
from tests.tables import each_row

EVENTS = st.one_of(
    st.tuples(st.just("opened")),
    st.tuples(st.just("closed"), st.sampled_from(Cause)),
    st.tuples(st.just("opaque"), st.sampled_from(OpaqueReason)),
    st.tuples(st.just("proxied"), st.sampled_from(Direction), st.integers(0, 10**10)),
    st.tuples(st.just("finished"), st.sampled_from([HEARTBEAT, 3, UNKNOWN_API]), st.integers(0, 10**11)),
    st.tuples(st.just("failed"), st.sampled_from([25, 27, -1, 9999])),
    st.tuples(st.just("one_way"), st.sampled_from([0, UNKNOWN_API])),
    st.tuples(st.just("unanswered"), st.sampled_from([0, UNKNOWN_API])),
    st.tuples(st.just("node"), st.sampled_from(["1", "2", "bootstrap"]), st.sampled_from(Cause), st.integers(0, 1000)),
)


def count(traffic: Traffic, event: tuple[Any, ...]) -> None:
    name, *facts = event
    if name == "node":
        label, cause, milliseconds = facts
        connection = traffic.connection(1, label, Login(decides=True))
        traffic.connected(connection)
        traffic.finished([exchange()], 0, failed(25), NOTHING, connection)
        connection.node.add_throttle("Fetch", Throttled(milliseconds, 1))
        connection.node.add_dial_failure(DialFailure.TIMEOUT)
        connection.login.answered(is_refused=False)
        traffic.disconnected(connection, cause)
    elif name == "finished":
        done = exchange(facts[0], latency_ns=facts[1], transfer_ns=MICROSECOND)
        finish(traffic, done, sent_ns=done.response_last_ns + MICROSECOND)
    elif name == "failed":
        traffic.finished([exchange()], 0, failed(facts[0]), NOTHING, anywhere())
    elif name in ("one_way", "unanswered"):
        getattr(traffic, name)([unanswered(facts[0])])
    elif name == "opaque":
        traffic.opaque(facts)
    else:
        getattr(traffic, name)(*facts)


def scraped(traffic: Traffic) -> dict[Any, float]:
    return samples(registry(one(traffic)))


@given(st.lists(st.tuples(st.integers(0, 2), EVENTS), max_size=30))
def test_the_sum_of_several_processes_is_what_one_would_have_counted(events):
    parts, whole, total = [Traffic() for _ in range(3)], Traffic(), Traffic()
    for index, event in events:
        count(parts[index], event)
        count(whole, event)
    for part in parts:
        sums.add(total, json.loads(json.dumps(sums.as_json(part))))
    assert scraped(total) == scraped(whole)


def test_the_counts_as_json_have_every_counter():
    assert {*sums.as_json(Traffic())} == {name for name in vars(Traffic()) if not name.startswith("_")}


def test_adding_counts_leaves_the_added_ones_unchanged():
    told, total = sums.as_json(Traffic()), Traffic()
    for _ in range(2):
        sums.add(total, told)
    total.proxied(Direction.REQUEST, 1)
    assert told == sums.as_json(Traffic())


def test_the_newest_exemplar_of_all_processes_is_shown():
    total = Traffic()
    for session, at in (("a", 20.0), ("b", 30.0), ("c", 10.0)):
        part = Traffic()
        finish(part, exchange())
        (row,) = part.rows.values()
        row.exemplars[1] = KeptExemplar(f"{session}/1/e2", 100_000, at)
        sums.add(total, json.loads(json.dumps(sums.as_json(part))))
    (row,) = total.rows.values()
    assert [one for one in row.exemplars if one is not None] == [KeptExemplar("b/1/e2", 100_000, 30.0)]


def test_states_of_living_processes_are_put_together():
    states = [ClusterState(3, {"tls.certificate": 20.0}), ClusterState(4, {"tls.certificate": 10.0})]
    assert sums.joined_state(states) == ClusterState(7, {"tls.certificate": 10.0})
    assert sums.joined_held([HeldState(1, 2), HeldState(10, 20)]) == HeldState(11, 22)


def test_a_node_has_no_open_connection_of_a_process_that_has_ended():
    traffic, total = Traffic(), Traffic()
    for label in ("1", "2"):
        traffic.connected(traffic.connection(1, label, Login(decides=True)))
    traffic.disconnected(traffic.connection(2, "2", Login(decides=True)), Cause.CLIENT_CLOSED)
    sums.add(total, sums.cut_off(sums.as_json(traffic)))
    assert {label: row.closes for label, row in total.nodes.items()} == {
        "1": {"proxy_fault": 1},
        "2": {"client_closed": 1},
    }


def test_no_connection_of_a_process_that_has_ended_is_open():
    traffic, total = Traffic(), Traffic()
    for _ in range(3):
        traffic.opened()
    traffic.closed(Cause.CLIENT_CLOSED)
    sums.add(total, sums.cut_off(sums.as_json(traffic)))
    scrape = scraped(total)
    assert scrape["connections", frozenset({("cluster", "main")})] == 0
    assert total.closes[Cause.PROXY_FAULT] == 2
    assert traffic.closes[Cause.PROXY_FAULT] == 0


@each_row(
    ("name", "whole"),
    [("gaps", 1 + 2 + 4), ("recorded_bytes", 1 + 2 + 4), ("queue_bytes", 1 + 2), ("lag_seconds", 2), ("failed", 2)],
)
def test_recorders_counts_are_added_and_states_end_with_their_process(name, whole):
    assert sums.recorded([{name: 1.0}, {name: 2.0}], [{name: 4.0}])[name] == whole


def test_a_state_metric_of_ended_workers_is_0():
    assert sums.recorded([], [{"failed": 1.0, "gaps": 2.0}]) == {"failed": 0.0, "gaps": 2.0}


def test_sums_without_recorders_are_empty():
    assert sums.recorded([{}], [{}]) == {}
