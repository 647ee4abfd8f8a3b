from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from recorder.tracing.numbers import metrics_data
from tests.hostile_text import TEXT

STARTED, NOW = 1_800_000_000, 1_800_000_060


def page() -> str:
    registry = CollectorRegistry()
    requests = Counter("wiretap_requests_total", "Requests.", ["api"], registry=registry)
    requests.labels("Fetch").inc(7)
    requests.labels(TEXT).inc(2)
    Gauge("wiretap_open", "Open now.", registry=registry).set(2.5)
    Gauge("process_start_time_seconds", "Start.", registry=registry).set(STARTED)
    latency = Histogram("wiretap_latency_seconds", "Latency.", ["api"], buckets=(0.1, 1), registry=registry)
    for seconds in (0.05, 0.05, 0.5, 5):
        latency.labels("Fetch").observe(seconds)
    latency.labels("Produce").observe(1)
    return generate_latest(registry).decode()


def metrics(text: str) -> dict[str, Any]:
    """The metrics that a collector gets, by name."""
    request = encode_metrics(metrics_data(text, NOW * 10**9))
    (of,) = request.resource_metrics
    (scope,) = of.scope_metrics
    return {metric.name: metric for metric in scope.metrics}


def labels(point: Any) -> dict[str, str]:
    return {each.key: each.value.string_value for each in point.attributes}


def test_counters_gauges_and_histograms_keep_names_labels_and_numbers() -> None:
    found = metrics(page())
    counter = found["wiretap_requests_total"].sum
    assert (counter.is_monotonic, counter.aggregation_temporality) == (True, 2)
    assert {labels(point)["api"]: point.as_double for point in counter.data_points} == {"Fetch": 7, TEXT: 2}
    assert [point.as_double for point in found["wiretap_open"].gauge.data_points] == [2.5]
    assert found["wiretap_open"].description == "Open now."
    first, second = found["wiretap_latency_seconds"].histogram.data_points
    assert (labels(first), first.count, first.sum) == ({"api": "Fetch"}, 4, 5.6)
    assert (list(first.bucket_counts), list(first.explicit_bounds)) == ([2, 1, 1], [0.1, 1])
    assert list(second.bucket_counts) == [0, 1, 0]
    assert not first.HasField("min")


def test_counts_begin_at_the_start_of_the_process() -> None:
    (point, _) = metrics(page())["wiretap_requests_total"].sum.data_points
    assert (point.start_time_unix_nano, point.time_unix_nano) == (STARTED * 10**9, NOW * 10**9)


def test_every_sample_of_a_page_arrives() -> None:
    text = page()
    samples = sum(
        sample.name.endswith(("_total", "_count")) or family.type == "gauge"
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    )
    points = [
        point
        for metric in metrics(text).values()
        for kind in (metric.sum, metric.gauge, metric.histogram)
        for point in kind.data_points
    ]
    assert len(points) == samples


def test_a_text_that_is_no_page_is_refused() -> None:
    with pytest.raises(ValueError, match=r".*"):
        metrics_data("<html> {", NOW)
