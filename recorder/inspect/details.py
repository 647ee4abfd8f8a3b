"""What the `detail` of an event says: a JSON object, or whatever somebody else has put there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from recorder.capture import frames as c


def detail(event: Mapping[str, Any]) -> dict[str, Any]:
    """Its members; none where it is no JSON object."""
    try:
        told = json.loads(event[c.DETAIL] or "{}")
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}


def numbers(told: Any) -> dict[str, int]:
    """Those of the members that count something."""
    members = told.items() if isinstance(told, dict) else ()
    return {name: value for name, value in members if type(value) is int and 0 <= value <= c.MOST_COUNTED}
