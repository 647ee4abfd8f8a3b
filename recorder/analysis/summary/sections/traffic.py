"""Exchanges and bytes by API."""

from __future__ import annotations

from dataclasses import dataclass, field

from recorder.analysis.summary.bounds import Section, Series, Top


@dataclass(frozen=True, slots=True)
class TrafficOfApi:
    """Exchanges and bytes of an API."""

    api: str
    requests: int
    responses: int
    unanswered: int = 0
    errors: int | None = None
    request_bytes: int = 0
    response_bytes: int = 0

    @property
    def bytes(self) -> int:
        """The bytes in both directions."""
        return self.request_bytes + self.response_bytes


@dataclass(frozen=True, slots=True)
class Traffic(Section):
    """Traffic by API. `bytes_over_time`: the bytes of both directions."""

    apis: Top[TrafficOfApi] = field(default_factory=Top)
    bytes_over_time: Top[Series] = field(default_factory=Top)
