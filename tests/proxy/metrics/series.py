"""Finds a metric's time series by name, as queries do."""

from proxy.metrics.table import Metric, MetricType


def sample_names(metric: Metric) -> dict[str, frozenset[str]]:
    """Returns the time series that queries of a family use, each with its labels."""
    labels = frozenset(metric.labels)
    if metric.kind is not MetricType.HISTOGRAM:
        return {metric.name: labels}
    return {
        f"{metric.name}_bucket": labels | {"le"},
        f"{metric.name}_sum": labels,
        f"{metric.name}_count": labels,
    }
