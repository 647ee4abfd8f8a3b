"""Reads the committed dashboards as Grafana does: panels, their queries, and variables' values in them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parents[2] / "dashboards"
BOARDS: dict[str, dict[str, Any]] = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}


class Target(NamedTuple):
    """One query of a panel."""

    board: str
    panel: str
    letter: str
    expression: str
    legend: str
    is_instant: bool

    @property
    def name(self) -> str:
        return f"{self.board}: {self.panel}: {self.letter}"


def graphs(board: dict[str, Any]) -> list[dict[str, Any]]:
    """The panels that are no rows."""
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def targets() -> Iterator[Target]:
    for name, board in BOARDS.items():
        for panel in graphs(board):
            for target in panel["targets"]:
                is_instant = bool(target.get("instant"))
                yield Target(name, panel["title"], target["refId"], target["expr"], target["legendFormat"], is_instant)


def variables(board: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {variable["name"]: variable for variable in board["templating"]["list"]}


def concrete(expression: str, *, interval: int = 300, shown: int = 300, chosen: str = ".*") -> str:
    """Replaces Grafana's variables by values: seconds of the rate interval, of the time shown, and a pattern."""
    times = {"__rate_interval_ms": str(interval * 1000), "__rate_interval": f"{interval}s", "__range": f"{shown}s"}
    return re.sub(r"\$\{?(\w+)\}?", lambda found: times.get(found[1], chosen), expression)
