"""Tests that the dashboards are those of the code, and read only metrics of the metrics table."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

from dashboards.__main__ import BOARDS as MADE
from dashboards.__main__ import text
from dashboards.panels import SOURCE
from dashboards.promql import TARGET_VARIABLES
from dashboards.promql import VARIABLES as LABEL_VARIABLES
from proxy.metrics.table import METRICS, MetricType
from tests.dashboards.boards import BOARDS, FOLDER, Target, concrete, graphs, targets, variables
from tests.dashboards.promql import groupings, selectors, stray_names
from tests.proxy.metrics.series import sample_names
from tests.tables import each_row

JOINED_LAG = "kafka_wiretap:group_lag"
CHOICES = (*TARGET_VARIABLES, *LABEL_VARIABLES)
# of dashboards that are about these labels
OWN_CHOICES = {"clients": ("topic", "client_id"), "groups": ("group",)}
# Prometheus adds these to each scraped series
TARGET_LABELS = frozenset(TARGET_VARIABLES)
# Prometheus' own: whether a target could be scraped; the alerts, each with the labels of its expression; what its rules
# record, which is of no single target
OWN = {
    JOINED_LAG: frozenset({"cluster", "group", "topic", "partition"}),
    "up": frozenset[str](),
    "ALERTS": frozenset({"alertname", "alertstate", "severity", "cluster", "node", "api"}),
}
SERIES = OWN | {name: labels for metric in METRICS for name, labels in sample_names(metric).items()}
KINDS = {name: metric.kind for metric in METRICS for name in sample_names(metric)}
TARGETS = {target.name: (target.expression, target.legend) for target in targets()}
EACH = [(name, board) for name, board in BOARDS.items()]


@each_row("name", MADE)
def test_the_files_are_those_of_the_code(name: str) -> None:
    assert (FOLDER / f"{name}.json").read_text() == text(MADE[name]), "`make docs` writes them"


def test_each_file_is_of_a_dashboard() -> None:
    assert BOARDS.keys() == MADE.keys()
    assert len({board["uid"] for board in BOARDS.values()}) == len(BOARDS)


def test_targets_can_be_told_apart() -> None:
    assert len(TARGETS) == len(list(targets()))


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
    # what is matched `on` some labels keeps those of one side
    both = frozenset.union if " on (" in expression else frozenset.intersection
    having = both(*(SERIES[selector.name] for selector in selectors(expression))) | TARGET_LABELS
    assert all(labels <= having for labels in groupings(expression))


@each_row(("expression", "legend"), TARGETS.values())
def test_a_legend_names_labels_that_are_left_after_grouping(expression: str, legend: str) -> None:
    named = set(re.findall(r"\{\{(\w+)\}\}", legend))
    assert all(named <= labels for labels in groupings(expression) or [frozenset()])


# a series that begins with its first event, which `increase` does not count
BEGUN = re.compile(r"\((?P<series>\w+\{[^}]*\}) unless (?P=series) offset (\$__rate_interval|\$__range|5m)\)")


@each_row(("expression", "legend"), TARGETS.values())
def test_counters_are_rated_and_gauges_are_not(expression: str, legend: str) -> None:
    for selector in selectors(BEGUN.sub("", expression)):
        assert selector.ranged == (KINDS.get(selector.name, MetricType.GAUGE) is not MetricType.GAUGE)
        if selector.ranged:
            assert re.search(rf"(rate|increase)\({selector.name}\{{", expression)


@each_row("target", targets())
def test_every_expression_follows_the_variables(target: Target) -> None:
    own = OWN_CHOICES.get(target.board, ())
    for selector in selectors(target.expression):
        assert selector.labels >= TARGET_LABELS or selector.name == JOINED_LAG
        assert selector.name in OWN or selector.labels >= SERIES[selector.name] & {*LABEL_VARIABLES, *own}
    own_times = ("__rate_interval", "__rate_interval_ms", "__range")
    assert set(re.findall(r"\$\{?(\w+)", target.expression)) <= {*CHOICES, *own, *own_times}


def test_percentiles_keep_the_buckets_bounds() -> None:
    for expression, _ in TARGETS.values():
        if "histogram_quantile" in expression:
            assert all("le" in labels for labels in groupings(expression))


def test_every_metric_is_shown_somewhere() -> None:
    shown = {selector.name for expression, _ in TARGETS.values() for selector in selectors(expression)}
    unshown = {metric.name for metric in METRICS if not shown & sample_names(metric).keys()}
    assert not unshown


@each_row(("name", "board"), EACH)
def test_a_dashboard_has_every_variable(name: str, board: dict[str, Any]) -> None:
    assert [*variables(board)] == ["datasource", *CHOICES, *OWN_CHOICES.get(name, ()), "docs"]


@each_row(("name", "board"), EACH)
def test_a_variables_choices_come_from_a_series_that_has_them(name: str, board: dict[str, Any]) -> None:
    choices = (*CHOICES, *OWN_CHOICES.get(name, ()))
    for choice in choices:
        found = re.fullmatch(r"label_values\((\w+)\{(.*)\}, (\w+)\)", variables(board)[choice]["query"]["query"])
        assert found
        assert found[3] == choice
        assert choice in SERIES[found[1]] | TARGET_LABELS
        assert {*re.findall(r"(\w+)=~", found[2])} <= {*choices[: choices.index(choice)]}


@each_row(("name", "board"), EACH)
def test_every_panel_and_variable_uses_the_chosen_data_source(name: str, board: dict[str, Any]) -> None:
    parts = [part for panel in graphs(board) for part in (panel, *panel["targets"])]
    for part in (*(variables(board)[choice] for choice in CHOICES), *parts):
        assert part["datasource"] == SOURCE.to_json()


@each_row(("name", "board"), EACH)
def test_panels_have_titles_units_and_places_of_their_own(name: str, board: dict[str, Any]) -> None:
    panels = board["panels"]
    assert [panel["id"] for panel in panels] == [*range(1, len(panels) + 1)]
    assert len({panel["title"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
    assert all(panel["fieldConfig"]["defaults"]["unit"] for panel in graphs(board))


@each_row(("name", "board"), EACH)
def test_lines_of_panels_are_full(name: str, board: dict[str, Any]) -> None:
    """A line that ends early would leave a hole."""
    filled = sum(panel["gridPos"]["w"] * panel["gridPos"]["h"] for panel in board["panels"])
    assert filled == 24 * max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in board["panels"])


@each_row(("name", "board"), EACH)
def test_a_panel_says_what_to_look_at_or_what_comes_next(name: str, board: dict[str, Any]) -> None:
    for panel in graphs(board):
        assert re.search(r"\b(Look|Next): ", panel["description"]), panel["title"]


@each_row(("name", "board"), EACH)
def test_links_lead_to_dashboards_and_runbooks_that_exist(name: str, board: dict[str, Any]) -> None:
    ours = [link["url"] for panel in graphs(board) for link in panel["links"]]
    ours += [link["url"] for link in board["links"] if link["type"] == "link"]
    for url in ours:
        if page := re.fullmatch(r"\$\{docs\}/(.+\.md)", url):
            assert (FOLDER.parent / "docs" / page[1]).exists(), url
        else:
            (uid,) = re.findall(r"^/d/([\w-]+)\?\$\{__url_time_range\}&\$\{__all_variables\}$", url)
            assert uid in {other["uid"] for other in BOARDS.values()}
    (others,) = [link for link in board["links"] if link["type"] == "dashboards"]
    assert {*others["tags"]} <= {*board["tags"]}
    assert others["keepTime"]
    assert others["includeVars"]


def test_promtool_accepts_every_expression(tmp_path: Path, promtool: str) -> None:
    rules = [
        {"record": f"panel:{n}", "expr": concrete(expression)} for n, (expression, _) in enumerate(TARGETS.values())
    ]
    file = tmp_path / "rules.json"
    file.write_text(json.dumps({"groups": [{"name": "dashboards", "rules": rules}]}))
    done = subprocess.run([promtool, "check", "rules", str(file)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_first_errors_of_a_kind_are_shown_and_later_ones_too(tmp_path: Path, promtool: str) -> None:
    """The series begins with nine errors between two scrapes; two more follow 15 minutes later."""
    panel = "apis: Errors a minute, by API and name"
    total, shown = TARGETS[f"{panel}: A"][0], TARGETS[f"{panel}: B"][0]
    errors, labels = concrete(shown), '{api="x", error="e"}'
    expected = [
        {"expr": expression, "eval_time": at, "exp_samples": [] if value is None else [{"labels": of, "value": value}]}
        for at, expression, of, value in (
            ("8m", errors, labels, None),
            # a minute, of five
            ("12m", errors, labels, 9 / 5),
            ("20m", errors, labels, 0),
            # Prometheus estimates the number
            ("26m", f"({errors}) > bool 0", labels, 1),
            ("40m", errors, labels, 0),
        )
    ]
    expected += [
        {"expr": concrete(total), "eval_time": at, "exp_samples": [{"labels": "{}", "value": value}]}
        for at, value in (("8m", 0), ("12m", 9 / 5), ("40m", 0))
    ]
    series = {"series": 'kafka_wiretap_errors_total{job="x",instance="x",cluster="x",api="x",error="e"}'}
    tests = [{"interval": "1m", "input_series": [series | {"values": "_x9 9x14 11x30"}], "promql_expr_test": expected}]
    file = tmp_path / "tests.json"
    file.write_text(json.dumps({"evaluation_interval": "1m", "tests": tests}))
    done = subprocess.run([promtool, "test", "rules", str(file)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
