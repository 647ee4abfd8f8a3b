"""Writes each dashboard beside this file, as the JSON that Grafana provisions: `python -m dashboards [FOLDER]`."""

from __future__ import annotations

import sys
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards import apis, capture, clients, groups, nodes, overview

BOARDS = {
    "overview": overview.BOARD,
    "apis": apis.BOARD,
    "nodes": nodes.BOARD,
    "clients": clients.BOARD,
    "groups": groups.BOARD,
    "capture": capture.BOARD,
}


def text(board: Dashboard) -> str:
    """A dashboard's JSON."""
    return JSONEncoder(sort_keys=False, indent=2).encode(board) + "\n"


def main(folder: Path) -> None:
    for name, board in BOARDS.items():
        (folder / f"{name}.json").write_text(text(board))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
