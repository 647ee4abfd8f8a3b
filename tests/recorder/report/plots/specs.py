"""Reads a plot's specification as data."""

from __future__ import annotations

from typing import Any


def rows(spec: dict[str, Any], layer: int = 0) -> list[dict[str, Any]]:
    """Returns the data of a layer."""
    found: list[dict[str, Any]] = spec["datasets"][f"rows{layer}"]
    return found
