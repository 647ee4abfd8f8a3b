"""Adds up the counts of several processes, which workers send to the parent as JSON values.

Every number of `Traffic` is a count that only grows. So the sums only grow too, as long as they include the counts of
processes that have ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from proxy.conversation.exchange import Cause, OpaqueReason
from proxy.metrics.traffic import ApiRow, Traffic

# the recorder's numbers that are states: they end with their process. All others are counts
STATES = frozenset({"queue_bytes", "spool_bytes", "failed", "stopped", "folder_bytes", "lag_bytes", "lag_seconds"})
# states that are not added up: the total is the largest
WORST = frozenset({"failed", "stopped", "folder_bytes", "lag_seconds"})

Numbers = dict[str, Any]


def as_json(traffic: Traffic) -> Numbers:
    """Returns all counts as JSON values; see `add`."""
    return {
        "rows": [
            [*labels, *(getattr(row, name) for name in ApiRow.__slots__)] for labels, row in list(traffic.rows.items())
        ],
        "proxy_time": [[time.total_ns, time.buckets] for time in traffic.proxy_time],
        "errors": {
            name: [[*labels, count] for labels, count in [*counts.items()]]
            for name, counts in vars(traffic.errors).items()
        },
        "opaque_frames": {reason.value: count for reason, count in traffic.opaque_frames.items()},
        "closes": {cause.value: count for cause, count in traffic.closes.items()},
        "connections_opened": traffic.connections_opened,
    }


def add(traffic: Traffic, numbers: Numbers) -> None:
    """Adds the counts of another process (`as_json`) to `traffic`."""
    for api, version, *values in numbers["rows"]:
        row = traffic.rows.setdefault((api, version), ApiRow())
        for name, value in zip(ApiRow.__slots__, values, strict=True):
            setattr(row, name, _sum(getattr(row, name), value))
    for time, (total_ns, buckets) in zip(traffic.proxy_time, numbers["proxy_time"], strict=True):
        time.total_ns += total_ns
        time.buckets = _sum(time.buckets, buckets)
    for name, counts in numbers["errors"].items():
        for api, label, count in counts:
            vars(traffic.errors)[name][api, label] += count
    for reason, count in numbers["opaque_frames"].items():
        traffic.opaque_frames[OpaqueReason(reason)] += count
    for cause, count in numbers["closes"].items():
        traffic.closes[Cause(cause)] += count
    traffic.connections_opened += numbers["connections_opened"]


def _sum(one: Any, other: Any) -> Any:
    return [a + b for a, b in zip(one, other, strict=True)] if isinstance(one, list) else one + other


def cut_off(numbers: Numbers) -> Numbers:
    """Returns the counts of a process that has ended: its open connections count as closed by a fault of the proxy."""
    closes = dict(numbers["closes"])
    closes[Cause.PROXY_FAULT.value] += open_connections(numbers)
    return {**numbers, "closes": closes}


def open_connections(numbers: Numbers) -> int:
    """Returns how many connections a process had open when it sent these counts."""
    return int(numbers["connections_opened"] - sum(numbers["closes"].values()))


def recorded(living: Iterable[Mapping[str, float]], ended: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Returns the totals of the recorders' numbers. `ended`: those of ended processes, whose counts stay."""
    total: dict[str, float] = {}
    for numbers in living:
        for name, value in numbers.items():
            before = total.get(name, 0)
            total[name] = max(before, value) if name in WORST else before + value
    for numbers in ended:
        for name, value in numbers.items():
            total[name] = total.get(name, 0) + (0 if name in STATES else value)
    return total
