"""Debian's Prometheus as a child process, and the questions that Grafana asks it for a dashboard."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.brokers import children
from tests.brokers.waiting import PATIENCE, wait_for
from tests.dashboards.boards import FOLDER, Target, concrete
from tests.programs import program

# seconds from one scrape to the next
EVERY = 1
# Grafana takes four scrapes at least
INTERVAL = 4 * EVERY


class Series(NamedTuple):
    """Labels, and (time, value) of each point."""

    labels: dict[str, str]
    points: list[tuple[float, float]]


class Prometheus:
    """A Prometheus that scrapes targets within `with`, and has the project's alerts as rules.

    Args:
        targets: job -> "host:port" of its only target.
    """

    def __init__(self, targets: Mapping[str, str], folder: Path) -> None:
        self._folder = folder
        jobs = [{"job_name": job, "static_configs": [{"targets": [at]}]} for job, at in targets.items()]
        self._config = {
            "global": {
                "scrape_interval": f"{EVERY}s",
                "scrape_timeout": f"{EVERY}s",
                "evaluation_interval": f"{EVERY}s",
            },
            "rule_files": [str(FOLDER / "alerts.yml")],
            "scrape_configs": jobs,
        }

    def __enter__(self) -> Prometheus:
        self._folder.mkdir(parents=True)
        config, log = self._folder / "prometheus.yml", self._folder / "prometheus.log"
        config.write_text(json.dumps(self._config))  # JSON is YAML, too
        listen = ["--web.listen-address=127.0.0.1:0", f"--storage.tsdb.path={self._folder / 'data'}"]
        self._child = children.spawn(
            [program("prometheus"), f"--config.file={config}", *listen, "--log.format=json"], output=log
        )
        said = wait_for(
            lambda: re.search(r'"address":"(127\.0\.0\.1:[1-9]\d*)"', log.read_text()),
            "Prometheus to listen",
            hopeless=lambda: log.read_text()[-3000:] if self._child.poll() is not None else None,
        )
        self.address = f"http://{said[1]}"
        wait_for(self._is_ready, "Prometheus to be ready")
        return self

    def __exit__(self, *_: object) -> None:
        children.stop(self._child)

    def _is_ready(self) -> bool:
        try:
            return bool(self.number("count(up)"))
        except urllib.error.URLError:
            return False

    def _ask(self, path: str, **parameters: object) -> list[Any]:
        url = f"{self.address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            result: list[Any] = json.load(answer)["data"]["result"]
        return result

    def now(self, expression: str) -> list[Series]:
        """The values now."""
        found = self._ask("query", query=expression)
        return [Series(one["metric"], [(float(one["value"][0]), float(one["value"][1]))]) for one in found]

    def over(self, expression: str, since: float, until: float, step: int = EVERY) -> list[Series]:
        """The values of a stretch of time, in seconds since 1970."""
        found = self._ask("query_range", query=expression, start=since, end=until, step=step)
        return [Series(one["metric"], [(float(at), float(of)) for at, of in one["values"]]) for one in found]

    def values(self, query: str) -> set[str]:
        """The choices of a variable: the values of `label_values(selector, label)`."""
        found = re.fullmatch(r"label_values\((.+), (\w+)\)", query)
        assert found, query
        return {of for one in self.now(f"count by ({found[2]}) ({found[1]})") if (of := one.labels.get(found[2]))}

    def number(self, expression: str) -> float:
        """The only value now; 0 without one."""
        return next((one.points[0][1] for one in self.now(expression)), 0.0)

    def shown(self, target: Target, since: float, until: float) -> list[Series]:
        """What Grafana shows of a query on a dashboard of this stretch of time."""
        if target.is_instant:
            return self.now(concrete(target.expression, interval=INTERVAL, shown=round(until - since)))
        return self.over(concrete(target.expression, interval=INTERVAL, shown=round(until - since)), since, until)

    def wait_for_scrapes(self, number: int = 1) -> None:
        """Waits until each target has been scraped, or tried, so many times more."""
        asked = "min(timestamp(up))"
        begun = self.number(asked)
        wait_for(lambda: self.number(asked) >= begun + number * EVERY, "scrapes")
