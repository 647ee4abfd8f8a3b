"""Plays a run with faults, and draws every dashboard of it: `python -m tests.dashboards.pictures FOLDER [MINUTES]`.

FOLDER gets an HTML page and a PNG for each dashboard of the calm first part, and of the whole. It is for looking at:
nothing is asserted.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.brokers.kafka import KafkaCluster
from tests.dashboards.boards import BOARDS
from tests.dashboards.drawing import CELL_HEIGHT, CELL_WIDTH, page
from tests.dashboards.faulty_run import LOST, running

SECONDS = 60


def main(folder: Path, seconds: float) -> None:
    """Each part of the run takes so many seconds."""
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as name,
        KafkaCluster(3, folder=Path(name, "kafka")) as cluster,
        running(cluster, Path(name, "run")) as run,
    ):
        prometheus, scrapes = run.prometheus, round(seconds)
        prometheus.wait_for_scrapes(scrapes)
        _draw(folder / "calm", lambda board: page(board, prometheus, run.since, time.time()))
        run.gets_a_group()
        run.logs_in()
        run.is_refused()
        run.is_throttled()
        prometheus.wait_for_scrapes(scrapes // 3)
        with run.is_slow():
            prometheus.wait_for_scrapes(3)
        run.loses_a_worker()
        run.loses_a_broker()
        cluster.stop_node(LOST, kill=True)
        for _ in range(5):
            run.is_refused()
            prometheus.wait_for_scrapes(scrapes // 5)
        _draw(folder / "faulty", lambda board: page(board, prometheus, run.since, time.time()))


def _draw(folder: Path, made: Callable[[str], str]) -> None:
    folder.mkdir(exist_ok=True)
    for board, content in BOARDS.items():
        path = folder / f"{board}.html"
        path.write_text(made(board))
        lines = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in content["panels"])
        _photograph(path, (24 * CELL_WIDTH + 30, lines * CELL_HEIGHT + 60))


def _photograph(path: Path, size: tuple[int, int]) -> None:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    assert chromium, "no Chromium: `make setup` installs it"
    seen = ["--headless", "--no-sandbox", "--hide-scrollbars", f"--window-size={size[0]},{size[1]}"]
    subprocess.run(
        [chromium, *seen, f"--screenshot={path.with_suffix('.png')}", path.as_uri()], check=True, capture_output=True
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), 60 * float(sys.argv[2]) if len(sys.argv) > 2 else SECONDS)
