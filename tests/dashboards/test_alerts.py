"""Tests of the example alerts: promtool plays time series to them and reports the firing ones."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from proxy.metrics.table import METRICS, MetricType
from proxy.wire.apis import api_name
from proxy.wire.error_codes import ERRORS
from proxy.wire.keys import API_VERSIONS
from proxy.wire.long_polls import LONG_POLLS
from proxy.wire.normal_errors import NORMAL, NORMAL_OF
from tests.proxy.metrics.series import sample_names

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "dashboards" / "alerts.yml"
RUNBOOKS = ROOT / "docs" / "runbooks"
TEXT = ALERTS.read_text()
# name, and the rest of its rule
RULES = dict(re.findall(r"- alert: (\w+)\n(.*?)(?=\n      - alert:|\Z)", TEXT, re.DOTALL))
PAGES = {name: re.findall(r"runbook_url: (\S+)", rule) for name, rule in RULES.items()}
KINDS = {name: metric.kind for metric in METRICS for name in sample_names(metric)}
PARTS = ["What it means", "What to look at", "What to do", "False alarms"]
# minutes of a step: an alert that looks a day back would take long in single minutes
STEP = {"Slow": 5}
DAY = 24 * 60 // STEP["Slow"]


class Case(NamedTuple):
    """Time series that are played to an alert, a value a step in promtool's notation.

    fires, clears: the first steps looked at in which the alert fires, and is silent again; None: it never does.
    """

    alert: str
    series: dict[str, str]
    fires: int | None = None
    clears: int | None = None


API = 'cluster="main",api="Produce"'
LATENCY_SUM, LATENCY_COUNT = (f"latency_seconds_{part}{{{API}}}" for part in ("sum", "count"))
PARTITION = 'cluster="main",topic="orders",partition="0"'
PLACE = f'{PARTITION},group="billing"'
NODE = 'node_up{cluster="main",node="3"}'
CASES = {
    "dead": Case("Down", {'up{job="kafka-wiretap-eu"}': "1 0x9 1x9"}, 5, 12),
    "another job": Case("Down", {'up{job="node"}': "0x20"}),
    "not ready": Case("NotReady", {"ready": "1 0x9 1x9"}, 5, 12),
    "stopping": Case("NotReady", {"ready": "1 0 0 1x9"}),
    "no broker": Case("UpstreamDown", {'upstream_up{cluster="main"}': "1 0x9 1x9"}, 5, 12),
    "a broker restarts": Case("UpstreamDown", {'upstream_up{cluster="main"}': "1 0 1x9"}),
    "node down": Case("NodeDown", {NODE: "1 0x9 1x9"}, 5, 12),
    "node forgotten": Case("NodeDown", {NODE: "1 0x9 stale"}, 5, 12),
    "node restarts": Case("NodeDown", {NODE: "1 0 0 1x9"}),
    "errors": Case(
        "Errors",
        {
            f'errors_total{{{API},error="NOT_LEADER_OR_FOLLOWER"}}': "0+12x30 360x30",
            f'exchanges_total{{{API},version="9"}}': "0+100x60",
        },
        25,
        45,
    ),
    "few errors": Case(
        "Errors",
        {
            f'errors_total{{{API},error="NOT_LEADER_OR_FOLLOWER"}}': "0+8x30",
            f'exchanges_total{{{API},version="9"}}': "0+100x30",
        },
    ),
    "a rebalance": Case(
        "Errors",
        {
            'errors_total{cluster="main",api="Heartbeat",error="REBALANCE_IN_PROGRESS"}': "0+90x30",
            'exchanges_total{cluster="main",api="Heartbeat",version="4"}': "0+100x30",
        },
    ),
    # 5 ms for a day, then 30 ms for an hour, then 5 ms again
    "slow": Case(
        "Slow",
        {LATENCY_SUM: f"0+0.5x{DAY} {DAY * 0.5 + 3}+3x10 {DAY * 0.5 + 33}+0.5x20", LATENCY_COUNT: "0+100x320"},
        DAY + 8,
        DAY + 17,
    ),
    "always slow": Case("Slow", {LATENCY_SUM: "0+3x320", LATENCY_COUNT: "0+100x320"}),
    "slow, and still fast": Case(
        "Slow", {LATENCY_SUM: f"0+0.05x{DAY} {DAY * 0.05 + 0.5}+0.5x20", LATENCY_COUNT: "0+100x320"}
    ),
    "many connections": Case(
        "ConnectionsNearLimit",
        {'connections{cluster="main"}': "81x12 80x9", 'connections_limit{cluster="main"}': "100x20"},
        8,
        15,
    ),
    "many in all": Case(
        "ConnectionsNearLimit",
        {
            'connections{cluster="a"}': "50x12 0x9",
            'connections{cluster="b"}': "40x20",
            "all_connections_limit": "100x20",
        },
        8,
        15,
    ),
    "few connections": Case(
        "ConnectionsNearLimit",
        {
            'connections{cluster="main"}': "80x20",
            'connections_limit{cluster="main"}': "100x20",
            "all_connections_limit": "100x20",
        },
    ),
    # 14 days are 1,209,600 seconds; promtool's clock begins at 0
    "certificate ends, and is renewed": Case(
        "CertificateEnds",
        {'certificate_end_seconds{cluster="main",setting="tls.certificate"}': "1209900x9 9999999x9"},
        6,
        12,
    ),
    "disk floor": Case(
        "DiskFloorNear", {"recorder_room_bytes": "40x15 900x9", "recorder_folder_bytes": "1000x30"}, 12, 18
    ),
    "disk floor, and the retention works": Case(
        "DiskFloorNear",
        {
            "recorder_room_bytes": "40x20",
            "recorder_folder_bytes": "1000x20",
            "recorder_removed_files_total": "0+1x20",
        },
    ),
    "disk full": Case("NotRecording", {"recorder_failed": "0 0 1x9 0x9"}, 10, 13),
    "disk full for a moment": Case("NotRecording", {"recorder_failed": "0 0 1 0x20"}),
    "volume full": Case("VolumeFull", {"recorder_stopped": "0 0 1x9 0x9"}, 10, 13),
    "volume full for a moment": Case("VolumeFull", {"recorder_stopped": "0 1 0x20"}),
    "dropped": Case("Dropping", {"recorder_dropped_bytes_total": "0 0+1000x9 9000x20"}, 8, 20),
    "nothing dropped": Case("Dropping", {"recorder_dropped_bytes_total": "5000x20"}),
    "compactor dead": Case("CompactorBehind", {"recorder_lag_seconds": "0+60x17 1x9"}, 15, 20),
    "compactor well": Case("CompactorBehind", {"recorder_lag_seconds": "1x20"}),
    "a burst": Case("CompactorBehind", {"recorder_lag_seconds": "0 400 400 0x20"}),
    "crash loop": Case("CompactorRestarts", {"recorder_compactor_restarts_total": "0+1x12 12x30"}, 10, 30),
    "killed once": Case("CompactorRestarts", {"recorder_compactor_restarts_total": "0 0 1x20"}),
    "store hangs": Case("ShippingLate", {"recorder_ship_lag_seconds": "0+120x16 1x9"}, 14, 20),
    "store was away": Case("ShippingLate", {"recorder_ship_lag_seconds": "0 600 1200 0x20"}),
    "shipped in time": Case("ShippingLate", {"recorder_ship_lag_seconds": "60x20"}),
    "many nodes": Case(
        "NodeListeners",
        {'node_listeners{cluster="main"}': "10 80 81x9 80x9", 'node_listeners_limit{cluster="main"}': "100x30"},
        10,
        14,
    ),
    # one proxy sees the log's end, the other one the commits
    "a group gets nowhere, and goes on": Case(
        "LagStalled",
        {
            f'partition_log_end_offset{{{PARTITION},instance="proxy-2"}}': "100+10x40",
            f"group_committed_offset{{{PLACE}}}": "90+10x5 140x18 300+10x20",
            f"group_committed_timestamp_seconds{{{PLACE}}}": "0+60x40",
        },
        21,
        26,
    ),
    "a group that falls behind gets on": Case(
        "LagStalled",
        {
            f"partition_log_end_offset{{{PARTITION}}}": "100+10x40",
            f"group_committed_offset{{{PLACE}}}": "90+1x40",
            f"group_committed_timestamp_seconds{{{PLACE}}}": "0+60x40",
        },
    ),
    "a group has nothing to read": Case(
        "LagStalled",
        {
            f"partition_log_end_offset{{{PARTITION}}}": "100x40",
            f"group_committed_offset{{{PLACE}}}": "100x40",
            f"group_committed_timestamp_seconds{{{PLACE}}}": "0x40",
        },
    ),
    # the first proxy has seen an earlier commit, before the offset was set back
    "what an earlier commit says is not the lag": Case(
        "LagStalled",
        {
            f"partition_log_end_offset{{{PARTITION}}}": "100x40",
            f"group_committed_offset{{{PLACE}}}": "100x40",
            f"group_committed_timestamp_seconds{{{PLACE}}}": "0x40",
            f'group_committed_offset{{{PLACE},instance="proxy-2"}}': "100x2 50x22 100x20",
            f'group_committed_timestamp_seconds{{{PLACE},instance="proxy-2"}}': "60x2 120+60x40",
        },
        20,
        28,
    ),
    "few nodes": Case(
        "NodeListeners",
        {'node_listeners{cluster="main"}': "10 80x20", 'node_listeners_limit{cluster="main"}': "100x30"},
    ),
}


def test_each_alert_reads_metrics_that_exist_and_rates_counters_alone() -> None:
    for rule in RULES.values():
        for call, name in re.findall(r"(\w*)\(?(kafka_wiretap_\w+)", rule.split("annotations:")[0]):
            assert (KINDS[name] is not MetricType.GAUGE) == (call in ("rate", "increase"))


def test_what_an_alert_says_names_metrics_that_exist() -> None:
    names = {metric.name for metric in METRICS}
    for text in (TEXT, *(page.read_text() for page in RUNBOOKS.glob("*.md"))):
        for name in re.findall(r"kafka_wiretap_\w+", text):
            assert name in KINDS or name in names


def test_errors_and_waits_that_are_normal_ring_no_alert() -> None:
    (errors,) = re.findall(r'error!~"([^"]*)"', RULES["KafkaWiretapErrors"])
    normal = {code for key, code in NORMAL_OF.items() if key != API_VERSIONS} | {*NORMAL}
    assert {*errors.split("|")} == {ERRORS[code].name for code in normal}
    assert f'api!="{api_name(API_VERSIONS)}"' in RULES["KafkaWiretapErrors"]
    for apis in re.findall(r'api!~"([^"]*)"', RULES["KafkaWiretapSlow"]):
        assert {*apis.split("|")} == {api_name(key) for key in LONG_POLLS}


@pytest.mark.parametrize("alert", RULES)
def test_each_alert_has_a_runbook(alert: str) -> None:
    (page,) = PAGES[alert]
    text = (ROOT / "docs" / page).read_text()
    assert alert in text
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == PARTS
    assert f"`{alert}`" in (RUNBOOKS / "README.md").read_text()


def test_each_runbook_is_of_an_alert_and_its_links_lead_somewhere() -> None:
    pages = {page.name for page in RUNBOOKS.glob("*.md")} - {"README.md"}
    assert pages == {Path(page).name for (page,) in PAGES.values()}
    for page in RUNBOOKS.glob("*.md"):
        for link in re.findall(r"\]\(([^)#]+)", page.read_text()):
            assert (RUNBOOKS / link).exists()


def test_each_alert_is_seen_to_fire_and_to_clear() -> None:
    assert {f"KafkaWiretap{case.alert}" for case in CASES.values() if case.clears is not None} == {*RULES}


@pytest.mark.real
def test_the_alerts_fire_exactly_when_they_should(promtool: str, tmp_path: Path) -> None:
    files = [_tests_of(alert, tmp_path) for alert in sorted({case.alert for case in CASES.values()})]
    done = subprocess.run([promtool, "test", "rules", *map(str, files)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def _tests_of(alert: str, folder: Path) -> Path:
    """A file with the cases of one alert, beside one with its rule: promtool evaluates all of a file at every step."""
    (group,) = yaml.safe_load(TEXT)["groups"]
    kept = [rule for rule in group["rules"] if rule.get("alert", f"KafkaWiretap{alert}") == f"KafkaWiretap{alert}"]
    rules, tests, step = folder / f"{alert}.rules.yml", folder / f"{alert}.yml", STEP.get(alert, 1)
    # JSON is YAML too
    rules.write_text(json.dumps({"groups": [group | {"rules": kept}]}))
    cases = [_test(name, case, step) for name, case in CASES.items() if case.alert == alert]
    tests.write_text(json.dumps({"rule_files": [str(rules)], "evaluation_interval": f"{step}m", "tests": cases}))
    return tests


def _test(name: str, case: Case, step: int) -> dict[str, Any]:
    """Tests that the alert fires in that step and not before, and is silent again in the other."""
    late = (10, 20) if step == 1 else (DAY + 9,)
    steps = {0: False} | ({case.fires: True} if case.fires is not None else dict.fromkeys(late, False))
    if case.clears is not None:
        steps[case.clears] = False
    return {
        "name": name,
        "interval": f"{step}m",
        "input_series": [{"series": _named(series), "values": values} for series, values in case.series.items()],
        "promql_expr_test": [
            {
                "expr": f'count(ALERTS{{alertname="KafkaWiretap{case.alert}",alertstate="firing"}}) or vector(0)',
                "eval_time": f"{at * step}m",
                "exp_samples": [{"labels": "{}", "value": int(is_firing)}],
            }
            for at, is_firing in steps.items()
        ],
    }


def _named(series: str) -> str:
    """A series with its prefix, and with the labels that Prometheus adds."""
    name, _, labels = series.rstrip("}").partition("{")
    prefix = "" if name == "up" else "kafka_wiretap_"
    return f"{prefix}{name}{{{labels}}}" if "instance=" in labels else f'{prefix}{name}{{instance="proxy-1",{labels}}}'
