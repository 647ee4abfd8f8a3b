import threading
import time
from typing import Any

import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics

from proxy.conversation.exchange import Cause, Direction, OpaqueReason
from proxy.conversation.login import Login
from proxy.metrics.collector import (
    ClusterState,
    HeldState,
    NodeListener,
    ProcessNumbers,
    all_families,
    process_registry,
    registry,
    worker_families,
)
from proxy.metrics.nodes import DialFailure
from proxy.metrics.table import LIVE_METRICS, METRICS, RECORDER_COUNTERS, RECORDER_COUNTERS_BY_CAUSE, MetricType
from proxy.metrics.traffic import EXEMPLAR_SECONDS, CountedConnection, Traffic
from proxy.wire.error_reader import NOTHING
from proxy.wire.framing import framed
from recorder.inspect.options import shown_id
from tests.proxy.metrics.exchanges import (
    ASKED_NS,
    MICROSECOND,
    UNKNOWN_API,
    anywhere,
    exchange,
    failed,
    finish,
    laid_out,
    unanswered,
)
from tests.proxy.metrics.scrape import PREFIX, Scrape, families, one, samples
from tests.proxy.metrics.series import sample_names

OWN = [metric for metric in METRICS if metric not in LIVE_METRICS]
NODES = (
    NodeListener(1, "broker-1:9092", "127.0.0.1:9094", True),
    NodeListener(2, "broker-2:9092", "127.0.0.1:40000", False),
)


@pytest.fixture
def traffic() -> Traffic:
    return Traffic()


def busy(traffic: Traffic) -> Traffic:
    done = exchange(latency_ns=300 * MICROSECOND, transfer_ns=50 * MICROSECOND)
    done.previous_last_ns = ASKED_NS + 100 * MICROSECOND
    traffic.opened()
    traffic.finished([done], done.response_last_ns + 20 * MICROSECOND, failed(25), NOTHING, anywhere())
    finish(traffic, exchange(UNKNOWN_API))
    traffic.one_way([unanswered()])
    traffic.opaque([OpaqueReason.UNKNOWN_API])
    traffic.proxied(Direction.RESPONSE, 20 * MICROSECOND)
    traffic.closed(Cause.CLIENT_CLOSED, [unanswered()])
    return traffic


def served(traffic: Traffic, label: str = "1", *, throttle_ms: int = 1500) -> CountedConnection:
    """Counts all that can happen to a node, on one connection that has ended."""
    connection = traffic.connection(7, label, Login(decides=True))
    traffic.connected(connection)
    done = exchange(version=3, latency_ns=300 * MICROSECOND, response=10)
    frame = framed(b"\0\0\0\7" + throttle_ms.to_bytes(4, "big") + b"\0\x19")
    traffic.finished([done], 0, frame, NOTHING, connection)
    connection.node.add_dial_failure(DialFailure.REFUSED)
    connection.node.reach = connection.node.reach.after(1000.5, success=False)
    connection.login.answered(is_refused=False)
    traffic.disconnected(connection, Cause.BROKER_RESET)
    return connection


def recorder_counters() -> dict[str, float]:
    names = [*RECORDER_COUNTERS, *(prefix + "timeout" for prefix in RECORDER_COUNTERS_BY_CAUSE)]
    return {name: float(number) for number, name in enumerate(names, 1)}


def everything(traffic: Traffic):
    (numbers,) = one(busy(traffic), NODES)
    served(traffic)
    state = ClusterState(77, {"tls.certificate": 2_000_000_000.0})
    clusters = [numbers._replace(connection_limit=50, state=lambda: state)]
    process = ProcessNumbers(connection_limit=60, held=lambda: HeldState(5, 2))
    process.loop_delay.add(30 * MICROSECOND)
    return process_registry(
        lambda: [*all_families(clusters, recorder_counters, process), *worker_families(2, 1, {("main", 3): 4})]
    )


def test_a_scrape_shows_the_table_no_more_and_no_less(traffic: Traffic) -> None:
    shown = {
        (sample.name, frozenset(sample.labels)) for family in families(everything(traffic)) for sample in family.samples
    }
    assert shown == {entry for metric in OWN for entry in sample_names(metric).items()}


def test_a_scrape_shows_each_metrics_type_and_help(traffic: Traffic) -> None:
    shown = {family.name: (family.type, family.documentation) for family in families(everything(traffic))}
    assert shown == {
        (metric.name.removesuffix("_total") if metric.kind is MetricType.COUNTER else metric.name): (
            metric.kind,
            metric.help,
        )
        for metric in OWN
    }


def test_times_are_shown_in_seconds(traffic: Traffic) -> None:
    scrape = Scrape(everything(traffic))
    labels = {"api": "Heartbeat", "version": "4"}
    assert scrape("latency_seconds_sum", **labels) == pytest.approx(300e-6)
    assert scrape("queued_seconds_total", **labels) == pytest.approx(100e-6)
    assert scrape("transfer_seconds_total", **labels) == pytest.approx(50e-6)
    assert scrape("response_proxy_seconds_total", **labels) == pytest.approx(20e-6)
    assert scrape("proxy_seconds_sum", direction="response") == pytest.approx(20e-6)
    assert scrape("proxy_seconds_count", direction="request") == 0


def test_a_nodes_numbers_are_shown_as_counted(traffic: Traffic) -> None:
    scrape = Scrape(everything(traffic))
    assert scrape("node_exchanges_total", node="1") == 1
    assert scrape("node_errors_total", node="1", error="UNKNOWN_MEMBER_ID") == 1
    assert scrape("node_latency_seconds_sum", node="1") == pytest.approx(300e-6)
    assert scrape("node_latency_seconds_bucket", node="1", le="0.0004") == 1
    assert scrape("node_throttle_seconds_total", node="1", api="Heartbeat") == 1.5
    assert scrape("node_throttled_total", node="1", api="Heartbeat") == 1
    assert scrape("node_connections_opened_total", node="1") == 1
    assert scrape("node_connections_closed_total", node="1", cause="broker_reset") == 1
    assert scrape("node_connections", node="1") == 0
    assert scrape("node_dial_failures_total", node="1", cause="refused") == 1
    assert scrape("node_dial_failures_total", node="1", cause="tls") == 0
    assert (scrape("node_up", node="1"), scrape("node_up_since_seconds", node="1")) == (0, 1000.5)
    assert scrape("logins_total", mechanism="other", outcome="refused") == 1


def test_what_a_process_has_now_is_shown(traffic: Traffic) -> None:
    scrape = Scrape(everything(traffic))
    assert scrape("queued_bytes") == 77
    assert scrape("certificate_end_seconds", setting="tls.certificate") == 2_000_000_000
    assert (scrape("connections_limit"), scrape("all_connections_limit")) == (50, 60)
    assert (scrape("held_bytes"), scrape("held_waiting")) == (5, 2)
    assert scrape("event_loop_delay_seconds_sum") == pytest.approx(30e-6)
    assert (scrape("ready"), scrape("upstream_up")) == (1, 1)


def test_a_node_that_nobody_has_dialled_is_neither_up_nor_down(traffic: Traffic) -> None:
    traffic.connection(1, "3", Login(decides=True))
    scrape = Scrape(registry(one(traffic)))
    assert scrape("node_connections", node="3") == 0
    assert scrape("node_up", node="3") is None


def test_a_node_that_is_forgotten_drops_out(traffic: Traffic) -> None:
    for label in ("1", "2", "bootstrap"):
        served(traffic, label)
    traffic.forget_node(1)
    named = Scrape(registry(one(traffic))).named("node_exchanges_total")
    assert named == {frozenset({("node", "2")}): 1, frozenset({("node", "bootstrap")}): 1}


def exemplars(traffic: Traffic) -> dict[str, Any]:
    """Returns (bucket -> exemplar) of a page in OpenMetrics, as a parser of that format reads it."""
    page = openmetrics.generate_latest(registry(one(traffic))).decode()
    return {
        sample.labels["le"]: sample.exemplar
        for family in parse_openmetrics(page)
        for sample in family.samples
        if sample.name == "kafka_wiretap_latency_seconds_bucket" and sample.exemplar
    }


def test_while_traffic_is_recorded_a_slow_exchange_is_named_as_inspect_show_takes_it() -> None:
    traffic = Traffic("20261121T130500Z-abc")
    connection = traffic.connection(7, "1", Login(decides=True))
    for number, latency in ((3, 300), (4, 301), (5, 90_000)):
        done = exchange(latency_ns=latency * MICROSECOND)
        done.number = number
        traffic.finished([done], done.response_last_ns, laid_out([done]), NOTHING, connection)
    found = exemplars(traffic)
    # the second one of a bucket comes too soon after the first
    assert [one.labels["exchange"] for one in found.values()] == [
        "20261121T130500Z-abc/7/e3",
        "20261121T130500Z-abc/7/e5",
    ]
    assert [one.value for one in found.values()] == [pytest.approx(300e-6), pytest.approx(0.09)]
    assert str(shown_id(found["0.0004"].labels["exchange"])) == "20261121T130500Z-abc/7/e3"


def test_an_exemplar_makes_way_for_a_newer_one_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    traffic = Traffic("session")
    connection = traffic.connection(7, "1", Login(decides=True))
    for number, now in ((1, 1000.0), (2, 1000.0 + EXEMPLAR_SECONDS - 1), (3, 1000.0 + EXEMPLAR_SECONDS)):
        monkeypatch.setattr(time, "time", lambda now=now: now)
        done = exchange()
        done.number = number
        traffic.finished([done], done.response_last_ns, laid_out([done]), NOTHING, connection)
        names = [one.labels["exchange"] for one in exemplars(traffic).values()]
        assert names == ["session/7/e3" if number == 3 else "session/7/e1"]


def test_without_a_recording_there_are_no_exemplars(traffic: Traffic) -> None:
    done = exchange()
    finish(traffic, done, sent_ns=done.response_last_ns)
    assert exemplars(traffic) == {}


def test_sizes_and_counts_are_shown_as_counted(traffic: Traffic) -> None:
    scrape = Scrape(everything(traffic))
    labels = {"api": "Heartbeat", "version": "4"}
    assert scrape("exchanges_total", **labels) == 1
    assert scrape("request_size_bytes_sum", **labels) == 60
    assert scrape("request_size_bytes_count", **labels) == 2
    assert scrape("response_size_bytes_sum", **labels) == 12
    assert scrape("errors_total", api="Heartbeat", error="UNKNOWN_MEMBER_ID") == 2
    assert scrape("errors_unread_total", api="other", reason="unknown_version") == 1
    assert scrape("one_way_total", **labels) == 1
    assert scrape("unanswered_total", **labels) == 1
    assert scrape("opaque_frames_total", reason="unknown_api") == 1


def test_buckets_are_cumulative_and_named_by_their_upper_bound(traffic: Traffic) -> None:
    scrape = Scrape(everything(traffic))
    labels = {"api": "Heartbeat", "version": "4"}
    assert scrape("latency_seconds_bucket", le="5e-05", **labels) == 0
    assert scrape("latency_seconds_bucket", le="0.0002", **labels) == 0
    assert scrape("latency_seconds_bucket", le="0.0004", **labels) == 1
    assert scrape("latency_seconds_bucket", le="+Inf", **labels) == 1
    assert scrape("request_size_bytes_bucket", le="64", **labels) == 2
    assert scrape("request_size_bytes_bucket", le="67108864", **labels) == 2
    assert scrape("latency_seconds_count", **labels) == 1


def test_open_connections_are_those_opened_and_not_closed(traffic: Traffic) -> None:
    for _ in range(5):
        traffic.opened()
    traffic.closed(Cause.CLIENT_CLOSED)
    traffic.closed(Cause.DRAINED)
    scrape = Scrape(registry(one(traffic)))
    assert scrape("connections") == 3
    assert scrape("connections_opened_total") == 5


def test_every_cause_and_reason_is_there_before_it_first_happens(traffic: Traffic) -> None:
    scrape = Scrape(registry(one(traffic)))
    assert set(scrape.named("connections_closed_total").values()) == {0}
    assert len(scrape.named("connections_closed_total")) == len(Cause)
    assert len(scrape.named("opaque_frames_total")) == len(OpaqueReason)


def test_the_recorders_numbers_are_there_only_while_something_is_recorded(traffic: Traffic) -> None:
    assert not [family for family in families(registry(one(traffic))) if "_recorder_" in family.name]
    scrape = Scrape(registry(one(traffic), recorder_counters))
    counters = recorder_counters()
    for prefix, metric in RECORDER_COUNTERS_BY_CAUSE.items():
        assert scrape(metric.name.removeprefix(PREFIX), cause="timeout") == counters.pop(prefix + "timeout")
    for name, value in counters.items():
        assert scrape(RECORDER_COUNTERS[name].name.removeprefix(PREFIX)) == value


def test_a_number_that_the_recorder_does_not_have_yet_is_left_out(traffic: Traffic) -> None:
    scrape = Scrape(registry(one(traffic), lambda: {"recorded_bytes": 7, "unheard_of": 1}))
    assert scrape("recorder_bytes_total") == 7
    assert scrape("recorder_lag_bytes") is None


def test_a_node_that_did_not_get_its_usual_port_is_named(traffic: Traffic) -> None:
    scrape = Scrape(registry(one(traffic, NODES)))
    assert scrape("node_info", node="1", upstream="broker-1:9092", listener="127.0.0.1:9094", usual_port="yes") == 1
    assert scrape("node_info", node="2", upstream="broker-2:9092", listener="127.0.0.1:40000", usual_port="no") == 1


@pytest.mark.real
def test_a_scrape_sees_a_whole_histogram_while_exchanges_are_counted(traffic: Traffic) -> None:
    registered = registry(one(traffic))
    batch = [exchange(latency_ns=latency, request=latency) for latency in (1, 10**6, 10**9)]
    stop = threading.Event()

    def count() -> None:
        while not stop.is_set():
            finish(traffic, *batch)

    thread = threading.Thread(target=count)
    thread.start()
    try:
        scrapes = [Scrape(registered) for _ in range(50)]
    finally:
        stop.set()
        thread.join()

    labels = {"api": "Heartbeat", "version": "4"}
    for name in ("latency_seconds", "request_size_bytes", "response_size_bytes"):
        counts = [scrape(f"{name}_count", **labels) or 0 for scrape in scrapes]
        assert counts == [scrape(f"{name}_bucket", le="+Inf", **labels) or 0 for scrape in scrapes]
        assert counts == sorted(counts)


def test_an_api_and_version_takes_58_series_and_an_error_one(traffic: Traffic) -> None:
    """docs/proxy/watch.md says so."""
    before = len(samples(registry(one(traffic))))
    finish(traffic, exchange(version=4))
    assert len(samples(registry(one(traffic)))) == before + 58
    traffic.finished([exchange(version=4)], 0, failed(25), NOTHING, anywhere())
    assert len(samples(registry(one(traffic)))) == before + 59


HOSTILE = 'x"} 1\nkafka_wiretap_ready 0\n\\'


def test_hostile_names_of_brokers_and_mechanisms_are_text(traffic: Traffic) -> None:
    login = Login(decides=True)
    login.mechanism = HOSTILE * 1000
    connection = traffic.connection(1, "1", login)
    connection.login.answered(is_refused=False)
    traffic.disconnected(connection, Cause.BROKER_CLOSED)
    scrape = Scrape(registry(one(traffic, [NodeListener(1, f"{HOSTILE}:9092", "127.0.0.1:9094", True)])))
    assert scrape("ready") == 1
    labels = {"node": "1", "upstream": f"{HOSTILE}:9092", "listener": "127.0.0.1:9094", "usual_port": "yes"}
    assert scrape("node_info", **labels) == 1
    assert scrape("logins_total", mechanism="other", outcome="refused") == 1


def test_a_node_takes_35_series(traffic: Traffic) -> None:
    """docs/proxy/watch.md says so."""
    before = len(samples(registry(one(traffic))))
    node = traffic.connection(1, "1", Login(decides=True)).node
    node.reach = node.reach.after(1, success=True)
    assert len(samples(registry(one(traffic)))) == before + 35


def test_the_process_itself_is_shown_too(traffic: Traffic) -> None:
    assert b"process_resident_memory_bytes" in generate_latest(registry(one(traffic)))


def test_each_cluster_has_numbers_of_its_own(traffic: Traffic) -> None:
    registered = registry([*one(busy(traffic), NODES[:1], "east"), *one(Traffic(), NODES[1:], "west")])
    east, west = Scrape(registered, "east"), Scrape(registered, "west")
    labels = {"api": "Heartbeat", "version": "4"}
    assert (east("exchanges_total", **labels), west("exchanges_total", **labels)) == (1, None)
    assert (east("connections_opened_total"), west("connections_opened_total")) == (1, 0)
    assert (east("opaque_frames_total", reason="unknown_api"), west("opaque_frames_total", reason="unknown_api")) == (
        1,
        0,
    )
    assert east("proxy_seconds_count", direction="response") == 1
    assert west("proxy_seconds_count", direction="response") == 0
    assert [len(scrape.named("node_info")) for scrape in (east, west)] == [1, 1]
