"""The JSON of log entries, whole as a tap writes it; a test names what matters to it."""

from __future__ import annotations

from typing import Any


def opened(**facts: Any) -> dict[str, Any]:
    """The opening of a connection."""
    told = {"listener": "l:1", "client": "c:1", "node": 2, "upstream": "u:1", "tls": False, "cluster": "main"}
    return told | {"dialect": "kafka", "principal": None, "limits": [(1 << 31) - 1] * 2} | facts


def account(**counted: Any) -> dict[str, Any]:
    """What a tap has counted of a gap."""
    nothing: dict[str, Any] = {name: {} for name in ("requests", "responses", "request_bytes", "response_bytes")}
    return {"reason": "queue_full", "since_ns": 1, "early": [], "early_responses": []} | nothing | counted


def closing(**facts: Any) -> dict[str, Any]:
    """The end of a connection."""
    return {"cause": "drained", "sequence": 0, "offsets": [0, 0]} | facts
