"""Makes docs/metrics.md from the table of metrics: `kafka-wiretap config metrics > docs/metrics.md`."""

from __future__ import annotations

from proxy.metrics.table import METRICS, Metric

HEAD = """# Metrics
`kafka-wiretap config metrics` writes this page from the table in the code; don't edit it.

`/metrics` has these, in Prometheus' text format or in OpenMetrics, as the scraper asks. A metric without a condition
is always there. [Dashboards](dashboards.md) show them, [alerts](../dashboards/alerts.yml) watch
them, and each alert has a page in [runbooks](runbooks/README.md).

- `node` is a node's id; `bootstrap` for connections to a bootstrap listener; `other` for ids that the cluster has not
  named. A node that is forgotten (`timeouts.forget_node`) drops out.
- `api`, `version`, `error` and `mechanism` are `other` where the proxy does not know them, so that no peer can invent
  time series.
- With several workers, counts are the sums over all of them.
- While traffic is recorded, buckets of `latency_seconds` have exemplars in OpenMetrics: the label `exchange` is an id
  for `kafka-wiretap inspect show FOLDER ID`. A bucket gets a new one after 15 s. If a sample is recorded, the exchange
  may be missing.

A histogram `x` has the series `x_bucket`, `x_sum` and `x_count`.

| name | type | labels | what it is | the question that it answers |
|---|---|---|---|---|"""


def reference() -> str:
    """The text of docs/metrics.md."""
    return "\n".join([HEAD, *map(_row, METRICS)]) + "\n"


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} | {metric.question} |"
