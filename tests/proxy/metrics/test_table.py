import re
from itertools import pairwise

import pytest

from proxy.metrics.table import (
    LATENCY_BOUNDS_NS,
    LIVE_METRICS,
    METRICS,
    PROXY_BOUNDS_NS,
    RECORDER_COUNTERS,
    RECORDER_COUNTERS_BY_CAUSE,
    Metric,
    MetricType,
)
from tests.proxy.metrics.series import sample_names
from tests.tables import each_row


@each_row("metric", METRICS, ids=lambda metric: metric.name)
def test_names_follow_prometheus_rules(metric: Metric) -> None:
    assert re.fullmatch(r"kafka_wiretap_[a-z]+(_[a-z]+)*", metric.name)
    assert metric.name.endswith("_total") == (metric.kind is MetricType.COUNTER)
    assert not re.search(r"_(ms|ns|us|milliseconds|kb|mb)(_|$)", metric.name), "base units only"


@each_row("metric", METRICS, ids=lambda metric: metric.name)
def test_every_metric_explains_itself_in_one_sentence(metric: Metric) -> None:
    assert metric.help.endswith(".")
    assert "\n" not in metric.help
    assert metric.question.count("?") == 1
    assert "le" not in metric.labels
    assert len(set(metric.labels)) == len(metric.labels)


def test_no_two_families_share_a_time_series() -> None:
    names = [name for metric in METRICS for name in sample_names(metric)]
    assert len(set(names)) == len(names) > 30


def test_a_histogram_is_queried_by_its_buckets_sum_and_count() -> None:
    metric = Metric("kafka_wiretap_x_seconds", MetricType.HISTOGRAM, ("api",), "X.", "How many?")
    assert sample_names(metric) == {
        "kafka_wiretap_x_seconds_bucket": {"api", "le"},
        "kafka_wiretap_x_seconds_sum": {"api"},
        "kafka_wiretap_x_seconds_count": {"api"},
    }


@pytest.mark.parametrize("bounds", [LATENCY_BOUNDS_NS, PROXY_BOUNDS_NS])
def test_buckets_double(bounds: tuple[int, ...]) -> None:
    assert all(wide == 2 * narrow for narrow, wide in pairwise(bounds))


def test_latency_buckets_reach_from_a_loopback_round_trip_to_a_long_poll() -> None:
    assert LATENCY_BOUNDS_NS[0] <= 100_000
    assert LATENCY_BOUNDS_NS[-1] >= 20e9


def test_the_recorders_metrics_have_a_prefix_of_their_own_and_no_labels() -> None:
    prefixes = ("kafka_wiretap_recorder_", "kafka_wiretap_live_")
    assert all(metric.name.startswith(prefixes) and not metric.labels for metric in RECORDER_COUNTERS.values())
    own = {metric for metric in METRICS if metric.name.startswith(prefixes)}
    by_cause = {*RECORDER_COUNTERS_BY_CAUSE.values()}
    assert {metric.labels for metric in by_cause} == {("cause",)}
    assert {*RECORDER_COUNTERS.values()} == own - {*by_cause, *LIVE_METRICS}
