"""The counts of one node: its exchanges, connections and dials. For `traffic.py`.

Connections to a bootstrap listener count as the node `bootstrap`: which broker they reach is the choice of the cluster.
A client may ask for any node id, so ids that the node table lacks count as `other`. A node that is forgotten gives its
row back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import NamedTuple

from proxy.metrics.durations import empty_buckets
from proxy.metrics.table import LATENCY_BOUNDS_NS, OTHER
from proxy.wire.error_reader import Throttled

BOOTSTRAP = "bootstrap"


class DialFailure(StrEnum):
    """Why a broker could not be dialled. The value is the metric's label."""

    REFUSED = "refused"
    TIMEOUT = "timeout"
    UNREACHABLE = "unreachable"
    UNRESOLVED = "unresolved"
    TLS = "tls"
    LEADS_BACK = "leads_back"
    OTHER = "other"


class Reach(NamedTuple):
    """Whether a broker could be reached when it was last dialled. Times are seconds since 1970; 0: never.

    since: the time of the first dial with the present outcome, after the last dial with the other outcome.
    """

    succeeded: float = 0.0
    failed: float = 0.0
    since: float = 0.0

    @property
    def is_known(self) -> bool:
        """False until the first dial."""
        return self.since > 0

    @property
    def is_up(self) -> bool:
        """True if the last dial succeeded."""
        return self.succeeded > self.failed

    def after(self, at: float, *, success: bool) -> Reach:
        """Returns what is known after a dial at this time."""
        since = self.since if self.is_known and self.is_up == success else at
        return Reach(at, self.failed, since) if success else Reach(self.succeeded, at, since)

    def joined(self, other: Reach) -> Reach:
        """Returns what two processes know together."""
        succeeded, failed = max(self.succeeded, other.succeeded), max(self.failed, other.failed)
        is_up = succeeded > failed
        opposite, newest = (failed, succeeded) if is_up else (succeeded, failed)
        begun = [one.since for one in (self, other) if one.is_up == is_up and one.since > opposite]
        return Reach(succeeded, failed, min(begun, default=newest))


NEVER_DIALLED = Reach()


@dataclass(slots=True)
class NodeRow:
    """The counts of one node. Times are nanoseconds, if their names say nothing else.

    closes: by `Cause`. errors: by name. throttle_ms, throttled: milliseconds that its responses have told clients to
    wait, and the number of such responses, by API.
    """

    exchanges: int = 0
    latency_ns: int = 0
    latency_buckets: list[int] = field(default_factory=partial(empty_buckets, LATENCY_BOUNDS_NS))
    opened: int = 0
    closes: dict[str, int] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    throttle_ms: dict[str, int] = field(default_factory=dict)
    throttled: dict[str, int] = field(default_factory=dict)
    dial_failures: dict[str, int] = field(default_factory=lambda: {cause.value: 0 for cause in DialFailure})
    reach: Reach = NEVER_DIALLED

    def add_throttle(self, api: str, throttled: Throttled) -> None:
        """Counts responses that tell their clients to wait, and how long in all."""
        self.throttle_ms[api] = self.throttle_ms.get(api, 0) + throttled.milliseconds
        self.throttled[api] = self.throttled.get(api, 0) + throttled.responses

    def add_dial_failure(self, cause: DialFailure) -> None:
        """Counts a failed dial."""
        self.dial_failures[cause.value] += 1


def node_label(node_id: int | None, is_served: Callable[[int], bool]) -> str:
    """Returns the label `node` for what a client wants. `is_served`: True for the nodes that the proxy stands for."""
    if node_id is None:
        return BOOTSTRAP
    return str(node_id) if is_served(node_id) else OTHER
