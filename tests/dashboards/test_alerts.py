"""Tests of the example alerts: promtool plays time series to them and reports the firing ones."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

from proxy.metrics.table import METRICS, MetricType

ALERTS = Path(__file__).parents[2] / "dashboards" / "alerts.yml"
NAMES = re.findall(r"alert: (\w+)", ALERTS.read_text())
KINDS = {metric.name: metric.kind for metric in METRICS}

# an alert, the metric, its value by minute (promtool's notation), and the minute in which it fires (None: never)
CASES = {
    "disk full": ("KafkaWiretapNotRecording", "recorder_failed", "0 0 1x20", 10),
    "disk full for a moment": ("KafkaWiretapNotRecording", "recorder_failed", "0 0 1 0x20", None),
    "volume full": ("KafkaWiretapVolumeFull", "recorder_stopped", "0 0 1x20", 10),
    "volume full for a moment": ("KafkaWiretapVolumeFull", "recorder_stopped", "0 1 0x20", None),
    "dropped": ("KafkaWiretapDropping", "recorder_dropped_bytes_total", "0 0+1000x20", 10),
    "nothing dropped": ("KafkaWiretapDropping", "recorder_dropped_bytes_total", "5000x20", None),
    "compactor dead": ("KafkaWiretapCompactorBehind", "recorder_lag_seconds", "0+60x20", 15),
    "compactor well": ("KafkaWiretapCompactorBehind", "recorder_lag_seconds", "1x20", None),
    "a burst": ("KafkaWiretapCompactorBehind", "recorder_lag_seconds", "0 400 400 0x20", None),
    "crash loop": ("KafkaWiretapCompactorRestarts", "recorder_compactor_restarts_total", "0+1x20", 10),
    "store hangs": ("KafkaWiretapShippingLate", "recorder_ship_lag_seconds", "0+120x20", 14),
    "store was away": ("KafkaWiretapShippingLate", "recorder_ship_lag_seconds", "0 600 1200 0x20", None),
    "shipped in time": ("KafkaWiretapShippingLate", "recorder_ship_lag_seconds", "60x20", None),
    "many nodes": ("KafkaWiretapNodeListeners", "node_listeners", "10 80 81x20", 10),
    "few nodes": ("KafkaWiretapNodeListeners", "node_listeners", "10 80x20", None),
    "killed once": ("KafkaWiretapCompactorRestarts", "recorder_compactor_restarts_total", "0 0 1x20", None),
}


def test_each_alert_reads_metrics_that_exist_and_rates_counters_alone() -> None:
    for expression in re.findall(r"expr: (.*)", ALERTS.read_text()):
        for name in re.findall(r"kafka_wiretap_\w+", expression):
            assert (KINDS[name] is MetricType.COUNTER) == (f"({name}[" in expression)


def test_each_alert_is_tried() -> None:
    assert {alert for alert, *_ in CASES.values()} == {*NAMES}


def test_the_alerts_fire_exactly_when_they_should(promtool: str, tmp_path: Path) -> None:
    tests = [tried for case in CASES.values() for tried in _tests(*case)]
    # JSON is YAML too
    file = tmp_path / "tests.yml"
    file.write_text(json.dumps({"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": tests}))
    done = subprocess.run([promtool, "test", "rules", str(file)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def _tests(alert: str, metric: str, values: str, rings: int | None) -> list[dict[str, Any]]:
    """Tests that an alert fires in that minute and not before, or that it never fires."""
    series = [
        {"series": f'kafka_wiretap_{name}{{instance="proxy-1",cluster="main"}}', "values": told}
        for name, told in ((metric, values), ("node_listeners_limit", "100x20"))
    ]
    minutes = range(20) if rings is None else (0, rings)
    return [
        {
            "interval": "1m",
            "input_series": series,
            "promql_expr_test": [
                {
                    "expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) or vector(0)',
                    "eval_time": f"{minute}m",
                    "exp_samples": [{"labels": "{}", "value": int(minute == rings)}],
                }
                for minute in minutes
            ],
        }
    ]
