"""The text of a Prometheus page as OTLP metrics: the same names, labels and numbers.

Counters and histograms are cumulative since the proxy's start. A family of another type is a gauge.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.parser import text_string_to_metric_families

from proxy.version import program_version
from recorder.tracing.spans import resource

# of the process, by prometheus-client, in seconds since 1970
_STARTED = "process_start_time_seconds"
_CUMULATIVE = AggregationTemporality.CUMULATIVE


def metrics_data(text: str, at_ns: int) -> MetricsData:
    """The metrics of a page. `at_ns`: when it was read, in ns since 1970.

    Errors: ValueError for a text that is no page of Prometheus.
    """
    families = [family for family in text_string_to_metric_families(text) if family.samples]
    started = (family.samples[0].value for family in families if family.name == _STARTED)
    times = int(next(started, at_ns / 1e9) * 1e9), at_ns
    metrics = [_metric(family, times) for family in families]
    scope = ScopeMetrics(InstrumentationScope("kafka-wiretap", program_version()), metrics, "")
    return MetricsData([ResourceMetrics(resource(), [scope], "")])


def _metric(family: Family, times: tuple[int, int]) -> Metric:
    if family.type == "histogram":
        return Metric(family.name, family.documentation, "", Histogram([*_histograms(family, times)], _CUMULATIVE))
    points = [NumberDataPoint(sample.labels, *times, sample.value) for sample in family.samples]
    if family.type == "counter":
        return Metric(f"{family.name}_total", family.documentation, "", Sum(points, _CUMULATIVE, is_monotonic=True))
    return Metric(family.name, family.documentation, "", Gauge(points))


def _histograms(family: Family, times: tuple[int, int]) -> Iterator[HistogramDataPoint]:
    """A point for each set of labels. Buckets of Prometheus hold those of smaller bounds, OTLP's do not."""
    parts = defaultdict[tuple[tuple[str, str], ...], list[Any]](list)
    for sample in family.samples:
        labels = tuple(sorted((name, value) for name, value in sample.labels.items() if name != "le"))
        parts[labels].append(sample)
    for labels, samples in parts.items():
        of = {sample.name.removeprefix(family.name): sample.value for sample in samples if "le" not in sample.labels}
        buckets = sorted((float(sample.labels["le"]), sample.value) for sample in samples if "le" in sample.labels)
        counts, bounds = _apart(buckets), [bound for bound, _ in buckets if math.isfinite(bound)]
        # nobody has counted the extremes, which OTLP lets one leave out
        extremes: Any = (None, None)
        yield HistogramDataPoint(dict(labels), *times, int(of["_count"]), of["_sum"], counts, bounds, *extremes)


def _apart(buckets: Sequence[tuple[float, float]]) -> list[int]:
    counts: Iterable[float] = (0, *(count for _, count in buckets))
    return [int(upper - lower) for lower, upper in pairwise(counts)]
