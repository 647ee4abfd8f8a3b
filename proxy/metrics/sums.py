"""Adds up the counts of several processes, which workers send to the parent as JSON values.

Every number of `Traffic` is a count that only grows. So the sums only grow too, as long as they include the counts of
processes that have ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from proxy.conversation.exchange import Cause, OpaqueReason
from proxy.metrics.collector import ClusterState, HeldState
from proxy.metrics.durations import Durations
from proxy.metrics.nodes import NodeRow, Reach
from proxy.metrics.traffic import ApiRow, KeptExemplar, Traffic

# the recorder's numbers that are states: they end with their process. All others are counts
STATES = frozenset(
    {
        "queue_bytes",
        "spool_bytes",
        "failed",
        "stopped",
        "room_bytes",
        "folder_bytes",
        "lag_bytes",
        "lag_seconds",
        "live_spool_bytes",
    }
)
# states that are not added up: the total is the largest
WORST = frozenset({"failed", "stopped", "room_bytes", "folder_bytes", "lag_seconds"})

Numbers = dict[str, Any]


def as_json(traffic: Traffic) -> Numbers:
    """Returns all counts as JSON values; see `add`."""
    return {
        "rows": [[*labels, *_values(row)] for labels, row in list(traffic.rows.items())],
        "nodes": [[label, *_values(row)] for label, row in list(traffic.nodes.items())],
        "proxy_time": [durations_as_json(time) for time in traffic.proxy_time],
        "errors": {
            name: [[*labels, count] for labels, count in [*counts.items()]]
            for name, counts in vars(traffic.errors).items()
        },
        "opaque_frames": {reason.value: count for reason, count in traffic.opaque_frames.items()},
        "closes": {cause.value: count for cause, count in traffic.closes.items()},
        "logins": [[*labels, count] for labels, count in [*traffic.logins.items()]],
        "connections_opened": traffic.connections_opened,
    }


def _values(row: ApiRow | NodeRow) -> list[Any]:
    return [getattr(row, name) for name in row.__slots__]


def durations_as_json(durations: Durations) -> list[Any]:
    """Returns counted durations as JSON values; see `add_durations`."""
    return [durations.total_ns, durations.buckets]


def add_durations(durations: Durations, numbers: list[Any]) -> None:
    """Adds the durations that another process has counted (`durations_as_json`)."""
    total_ns, buckets = numbers
    durations.total_ns += total_ns
    durations.buckets = _sum(durations.buckets, buckets)


def add(traffic: Traffic, numbers: Numbers) -> None:
    """Adds the counts of another process (`as_json`) to `traffic`."""
    for api, version, *values in numbers["rows"]:
        _add_values(traffic.rows.setdefault((api, version), ApiRow()), values)
    for label, *values in numbers["nodes"]:
        _add_values(traffic.nodes.setdefault(label, NodeRow()), values)
    for time, durations in zip(traffic.proxy_time, numbers["proxy_time"], strict=True):
        add_durations(time, durations)
    for name, counts in numbers["errors"].items():
        for api, label, count in counts:
            vars(traffic.errors)[name][api, label] += count
    for reason, count in numbers["opaque_frames"].items():
        traffic.opaque_frames[OpaqueReason(reason)] += count
    for cause, count in numbers["closes"].items():
        traffic.closes[Cause(cause)] += count
    for mechanism, outcome, count in numbers["logins"]:
        traffic.logins[mechanism, outcome] += count
    traffic.connections_opened += numbers["connections_opened"]


def _add_values(row: ApiRow | NodeRow, values: list[Any]) -> None:
    for name, value in zip(row.__slots__, values, strict=True):
        setattr(row, name, JOINED.get(name, _sum)(getattr(row, name), value))


def _sum(one: Any, other: Any) -> Any:
    if isinstance(one, dict):
        return {key: one.get(key, 0) + other.get(key, 0) for key in one | other}
    return [a + b for a, b in zip(one, other, strict=True)] if isinstance(one, list) else one + other


def _newest(one: list[KeptExemplar | None], other: list[list[Any] | None]) -> list[KeptExemplar | None]:
    told = (None if exemplar is None else KeptExemplar(*exemplar) for exemplar in other)
    return [a if b is None or (a is not None and a.at > b.at) else b for a, b in zip(one, told, strict=True)]


# the fields of rows that are no counts: how they are put together
JOINED: dict[str, Callable[[Any, Any], Any]] = {
    "exemplars": _newest,
    "reach": lambda one, other: one.joined(Reach(*other)),
}


def cut_off(numbers: Numbers) -> Numbers:
    """Returns the counts of a process that has ended: its open connections count as closed by a fault of the proxy."""
    closes = dict(numbers["closes"])
    closes[Cause.PROXY_FAULT.value] += open_connections(numbers)
    return {**numbers, "closes": closes, "nodes": [_node_cut_off(*node) for node in numbers["nodes"]]}


def _node_cut_off(label: str, *values: Any) -> list[Any]:
    row, cause = NodeRow(), Cause.PROXY_FAULT.value
    _add_values(row, [*values])
    if still_open := row.opened - sum(row.closes.values()):
        row.closes[cause] = row.closes.get(cause, 0) + still_open
    return [label, *_values(row)]


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


def joined_state(states: Iterable[ClusterState]) -> ClusterState:
    """Returns what living processes have of a cluster together. A certificate's end is the earliest that any uses."""
    queued, ends = 0, dict[str, float]()
    for state in states:
        queued += state.queued_bytes
        for setting, end in state.certificate_ends.items():
            ends[setting] = min(end, ends.get(setting, end))
    return ClusterState(queued, ends)


def joined_held(states: Iterable[HeldState]) -> HeldState:
    """Returns what living processes hold together."""
    held = [*states]
    return HeldState(sum(one.held_bytes for one in held), sum(one.waiting for one in held))
