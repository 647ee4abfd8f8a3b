"""Questions to Prometheus, asked of metrics of the table: `per_second(EXCHANGES, "api")`.

Each selector follows the dashboard's variables: those of the target (`job`, `instance`), and those of the metric's
labels that are variables, too. Counters of errors and the like exist from their first event on, and `increase` needs a
sample before it. So `events` also counts the value with which a series begins.
"""

from __future__ import annotations

from proxy.metrics.table import Metric
from proxy.wire.apis import api_name
from proxy.wire.error_codes import ERRORS
from proxy.wire.keys import API_VERSIONS
from proxy.wire.long_polls import LONG_POLLS
from proxy.wire.normal_errors import NORMAL, NORMAL_OF

# the labels of Prometheus' targets, and those of metrics that choices are made by
TARGET_VARIABLES = ("job", "instance")
VARIABLES = ("cluster", "node", "api")

# variables of dashboards that are about these labels, and the matchers that follow them
CHOSEN = {label: f'=~"${label}"' for label in ("topic", "client_id", "group")}

# Grafana's: at least four scrapes, and at least a step of the graph
WINDOW = "$__rate_interval"
RANGE = "$__range"
# a window of its own, for what a single number says of now
LAST_MINUTES = "5m"

# what a client without a client id is called
NAMELESS = "(none)"
MINUTE_MS = 60_000

Matchers = dict[str, str]
# label -> operator and value. An API that waits on purpose says nothing of the broker's speed
NO_LONG_POLLS: Matchers = {"api": f'!~"{"|".join(str(api_name(key)) for key in LONG_POLLS)}"'}
# errors that are no normal step of the protocol, as the alert has them: of all APIs; of the responses of a node
_NORMAL = (*NORMAL, *(code for key, code in NORMAL_OF.items() if key != API_VERSIONS))
NODE_FAULTS: Matchers = {"error": f'!~"{"|".join(ERRORS[code].name for code in _NORMAL)}"'}
FAULTS: Matchers = {"api": f'!="{api_name(API_VERSIONS)}"', **NODE_FAULTS}


def series(metric: Metric, part: str = "", where: Matchers | None = None) -> str:
    """The selector of a metric. `part`: of a histogram: "bucket", "sum" or "count"."""
    name = f"{metric.name}_{part}" if part else metric.name
    followed = [*TARGET_VARIABLES, *(label for label in VARIABLES if label in metric.labels)]
    matchers = [f'{label}=~"${label}"' for label in followed]
    matchers += [f"{label}{matcher}" for label, matcher in (where or {}).items()]
    return f"{name}{{{','.join(matchers)}}}"


def grouped(how: str, expression: str, by: tuple[str, ...]) -> str:
    """Aggregates by labels, or to one number."""
    return f"{how} by ({', '.join(by)}) ({expression})" if by else f"{how}({expression})"


def per_second(metric: Metric, *by: str, part: str = "", window: str = WINDOW, where: Matchers | None = None) -> str:
    """How fast a counter that is always there grows."""
    return grouped("sum", f"rate({series(metric, part, where)}[{window}])", by)


def events(metric: Metric, *by: str, window: str = WINDOW, where: Matchers | None = None) -> str:
    """How often something has happened in the window; series that began in it count from 0."""
    one = series(metric, where=where)
    return grouped("sum", f"({one} unless {one} offset {window}) or increase({one}[{window}])", by)


def per_minute(metric: Metric, *by: str, where: Matchers | None = None) -> str:
    """`events` a minute, whatever the graph's step is. What has ever happened has a line, at 0 while it does not."""
    return f"{events(metric, *by, where=where)} * {MINUTE_MS} / $__rate_interval_ms"


def total_per_minute(metric: Metric, where: Matchers | None = None) -> str:
    """All `events` a minute: 0 if there never were any."""
    return or_zero(per_minute(metric, where=where))


def steadily_per_minute(metric: Metric, *by: str) -> str:
    """How fast a counter grows, a minute, that is there from the start, as `events` may not be."""
    return f"{per_second(metric, *by)} * {MINUTE_MS // 1000}"


def now(metric: Metric, *by: str, how: str = "sum", where: Matchers | None = None) -> str:
    """A gauge's value."""
    return grouped(how, series(metric, where=where), by)


def quantile(share: float, metric: Metric, *by: str, window: str = WINDOW, where: Matchers | None = None) -> str:
    """A histogram's quantile; nothing where nothing was measured."""
    buckets = per_second(metric, "le", *by, part="bucket", window=window, where=where)
    return f"histogram_quantile({share}, {buckets}) >= 0"


def mean(metric: Metric, *by: str, window: str = WINDOW, where: Matchers | None = None) -> str:
    """A histogram's mean."""
    total, number = (per_second(metric, *by, part=part, window=window, where=where) for part in ("sum", "count"))
    return f"{total} / {number}"


def or_zero(expression: str) -> str:
    """0 where there is nothing, so that no trouble looks like none."""
    return f"({expression}) or vector(0)"


def top(expression: str, most: int = 10) -> str:
    """The greatest, so that thousands of names are no thousands of lines."""
    return f"topk({most}, {expression})"


def named(expression: str, label: str) -> str:
    """Gives a name to what has an empty one, which Prometheus does not keep."""
    return f'label_replace({expression}, "{label}", "{NAMELESS}", "{label}", "")'


def most_events(metric: Metric, *by: str, window: str, most: int = 10, where: Matchers | None = None) -> str:
    """What has happened most often in the window, counted: rows of a table."""
    return top(f"round({events(metric, *by, window=window, where=where)}) > 0", most)


def number_of(expression: str) -> str:
    """How many series an expression has: 0 if none."""
    return or_zero(f"count({expression})")
