"""Reading a plot's specification as data."""

from __future__ import annotations

from typing import Any


def rows(spec: dict[str, Any], layer: int = 0) -> list[dict[str, Any]]:
    """The data of a layer; of the whole, where its layers share it."""
    data = spec["layer"][layer].get("data") or spec["data"]
    found: list[dict[str, Any]] = data["values"] if "values" in data else spec["datasets"][data["name"]]
    return found
