"""Tests that the dashboard reads only metrics of the metrics table."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proxy.metrics.table import LIVE_METRICS, METRICS, MetricType
from tests.dashboards.promql import groupings, selectors, stray_names
from tests.proxy.metrics.series import sample_names
from tests.tables import each_row

OVERVIEW = Path(__file__).parents[2] / "dashboards" / "overview.json"
DASHBOARD = json.loads(OVERVIEW.read_text())
VARIABLES = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}

SERIES = {name: labels for metric in METRICS for name, labels in sample_names(metric).items()}
KINDS = {name: metric.kind for metric in METRICS for name in sample_names(metric)}
# Prometheus adds these to each scraped series
TARGET_LABELS = frozenset({"job", "instance"})


def panels() -> Iterator[dict[str, Any]]:
    for panel in DASHBOARD["panels"]:
        yield panel
        yield from panel.get("panels", [])


GRAPHS = [panel for panel in panels() if panel["type"] != "row"]
# expression and legend, by title of the panel and letter
TARGETS: dict[str, tuple[str, str]] = {
    f"{panel['title']}-{target['refId']}": (target["expr"], target["legendFormat"])
    for panel in GRAPHS
    for target in panel["targets"]
}


@each_row(("expression", "legend"), TARGETS.values())
def test_an_expression_reads_series_that_exist_by_labels_that_they_have(expression: str, legend: str) -> None:
    found = list(selectors(expression))
    assert found
    assert not stray_names(expression)
    for selector in found:
        assert selector.name in SERIES
        assert selector.labels <= SERIES[selector.name] | TARGET_LABELS


@each_row(("expression", "legend"), TARGETS.values())
def test_an_expression_groups_by_labels_that_its_series_have(expression: str, legend: str) -> None:
    having = frozenset.intersection(*(SERIES[selector.name] for selector in selectors(expression))) | TARGET_LABELS
    assert all(labels <= having for labels in groupings(expression))


@each_row(("expression", "legend"), TARGETS.values())
def test_a_legend_names_labels_that_are_left_after_grouping(expression: str, legend: str) -> None:
    named = set(re.findall(r"\{\{(\w+)\}\}", legend))
    assert all(named <= labels for labels in groupings(expression) or [frozenset()])


# a series that begins with its first event, which `increase` does not count
BEGUN = re.compile(r"\((?P<series>\w+\{[^}]*\}) unless (?P=series) offset \$__rate_interval\)")


@each_row(("expression", "legend"), TARGETS.values())
def test_counters_are_rated_and_gauges_are_not(expression: str, legend: str) -> None:
    for selector in selectors(BEGUN.sub("", expression)):
        assert selector.ranged == (KINDS[selector.name] is not MetricType.GAUGE)
        if selector.ranged:
            assert re.search(rf"(rate|increase)\({selector.name}\{{", expression)


@each_row(("expression", "legend"), TARGETS.values())
def test_every_expression_follows_the_variables(expression: str, legend: str) -> None:
    for selector in selectors(expression):
        assert "instance" in selector.labels
        assert selector.labels & {"api", "cluster"} == SERIES[selector.name] & {"api", "cluster"}
    assert set(re.findall(r"\$\{?(\w+)", expression)) <= VARIABLES.keys() | {"__rate_interval", "__range"}


def test_percentiles_keep_the_buckets_bounds() -> None:
    for expression, _ in TARGETS.values():
        if "histogram_quantile" in expression:
            assert all("le" in labels for labels in groupings(expression))


# metrics by topic, client and group, and those of the process that counts them, are no part of the overview
OF_LIVE = {metric.name for metric in METRICS if metric in LIVE_METRICS or "_live_" in metric.name}


def test_every_metric_is_shown_somewhere() -> None:
    shown = {selector.name for expression, _ in TARGETS.values() for selector in selectors(expression)}
    unshown = {metric.name for metric in METRICS if not shown & sample_names(metric).keys()}
    assert unshown - OF_LIVE == {"kafka_wiretap_build_info"}


@pytest.mark.parametrize("name", ["datasource", "instance", "cluster", "api"])
def test_the_dashboard_has_each_variable(name: str) -> None:
    assert name in VARIABLES


@pytest.mark.parametrize("name", ["instance", "cluster", "api"])
def test_a_variables_choices_come_from_a_series_that_has_them(name: str) -> None:
    found = re.fullmatch(r"label_values\((\w+)(\{.*\})?, (\w+)\)", VARIABLES[name]["query"]["query"])
    assert found
    assert found[3] in SERIES[found[1]] | TARGET_LABELS


def test_every_panel_and_variable_uses_the_chosen_data_source() -> None:
    asking = [
        VARIABLES["instance"],
        VARIABLES["cluster"],
        VARIABLES["api"],
        *GRAPHS,
        *(part for panel in GRAPHS for part in panel["targets"]),
    ]
    for part in asking:
        assert part["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


def test_panels_have_titles_units_and_places_of_their_own() -> None:
    assert len({panel["id"] for panel in panels()}) == len(list(panels()))
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        assert panel["title"]
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
    assert all(panel["fieldConfig"]["defaults"]["unit"] for panel in GRAPHS)


@each_row(
    "subject", ["Traffic", "Nodes", "Sizes", "Latency", "Errors and closes", "Process", "Capture health", "By API"]
)
def test_each_subject_has_a_row(subject: str) -> None:
    assert subject in [panel["title"] for panel in panels() if panel["type"] == "row"]


def test_promtool_accepts_every_expression(tmp_path: Path, promtool: str) -> None:
    rules = [
        {"record": f"panel:{n}", "expr": concrete(expression)} for n, (expression, _) in enumerate(TARGETS.values())
    ]
    file = tmp_path / "rules.json"
    file.write_text(json.dumps({"groups": [{"name": "overview", "rules": rules}]}))
    done = subprocess.run([promtool, "check", "rules", str(file)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("title", "label"), [("Errors in responses", "error"), ("Responses with error codes", "reason")]
)
def test_the_first_errors_of_a_kind_are_shown_and_later_ones_too(
    title: str, label: str, tmp_path: Path, promtool: str
) -> None:
    """The series begins with nine errors between two scrapes; two more follow 15 minutes later."""
    (found,) = [expression for name, (expression, _) in TARGETS.items() if name.startswith(title)]
    (name,) = {selector.name for selector in selectors(found)}
    errors, labels = concrete(found), f'{{api="x", {label}="e"}}'
    shown = [
        {"expr": expression, "eval_time": at, "exp_samples": [{"labels": labels, "value": value}] if value else []}
        for at, expression, value in (
            ("8m", errors, 0),
            ("12m", errors, 9),
            ("20m", errors, 0),
            # Prometheus estimates the number
            ("26m", f"({errors}) > bool 0", 1),
            ("40m", errors, 0),
        )
    ]
    series = {"series": f'{name}{{instance="x",cluster="x",api="x",{label}="e"}}', "values": "_x9 9x14 11x30"}
    tests = [{"interval": "1m", "input_series": [series], "promql_expr_test": shown}]
    file = tmp_path / "tests.json"
    file.write_text(json.dumps({"evaluation_interval": "1m", "tests": tests}))
    done = subprocess.run([promtool, "test", "rules", str(file)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def concrete(expression: str) -> str:
    """Replaces Grafana's variables by values."""
    return re.sub(r"\$\{?\w+\}?", "x", re.sub(r"\$(__rate_interval|__range)", "5m", expression))
