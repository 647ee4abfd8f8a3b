"""Metrics of the table as prometheus-client's families."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family

from proxy.metrics.table import Metric, MetricType

Sample = tuple[Sequence[str], float]


def family(metric: Metric, samples: Iterable[Sample]) -> Family:
    """A counter or a gauge with its samples."""
    make = CounterMetricFamily if metric.kind is MetricType.COUNTER else GaugeMetricFamily
    made = make(metric.name, metric.help, labels=metric.labels)
    for labels, value in samples:
        made.add_metric(labels, value)
    return made


def histogram(metric: Metric) -> HistogramMetricFamily:
    """A histogram, still without samples."""
    return HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
