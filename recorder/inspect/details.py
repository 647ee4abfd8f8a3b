"""Reads the `detail` of an event: a JSON object; in a capture that another program wrote, it may be anything."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from recorder.capture import frames as c


def detail(event: Mapping[str, Any]) -> dict[str, Any]:
    """The members of an event's detail; {} if it is no JSON object."""
    try:
        members = json.loads(event[c.DETAIL] or "{}")
    except (ValueError, RecursionError):
        return {}
    return members if isinstance(members, dict) else {}


def texts(told: Any) -> dict[str, str]:
    """The members of a JSON object that are texts; {} for any other value."""
    members = told.items() if isinstance(told, dict) else ()
    return {name: value for name, value in members if isinstance(value, str)}


def numbers(told: Any) -> dict[str, int]:
    """The members of a JSON object that are counts; {} for any other value."""
    members = told.items() if isinstance(told, dict) else ()
    return {name: value for name, value in members if type(value) is int and 0 <= value <= c.MAX_COUNTED}
