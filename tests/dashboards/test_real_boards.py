"""Tests that every panel has data from a real Prometheus, and that trouble looks like trouble: `faulty_run`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import pytest

from tests.brokers.kafka import KafkaCluster
from tests.brokers.waiting import PATIENCE, wait_for
from tests.dashboards.boards import BOARDS, concrete, targets, variables
from tests.dashboards.faulty_run import LOST, STUCK, Run, running
from tests.dashboards.prometheus import Series

pytestmark = [pytest.mark.real, pytest.mark.long]

Panels = dict[str, list[Series]]
TARGETS = list(targets())
# queries that show what is wrong, and say 0 while nothing is
OR_ZERO = [target for target in TARGETS if "or vector(0)" in target.expression]
# of these, what is 0 while all is well, whatever clients do
CALM = {
    "overview: Proxies down: A",
    "overview: Proxies not ready: A",
    "overview: Brokers down: A",
    "overview: Logins a minute: A",
    "nodes: Dials that failed, a minute: A",
    "nodes: Throttled responses a minute: A",
    "nodes: Time that quotas take, by node: A",
    "groups: Members put out: A",
}
# queries whose greatest value must be above 0 once everything has gone wrong
WRONG = {
    "overview: Alerts that fire: A",
    "overview: Brokers down: A",
    "overview: Errors per 100: A",
    "overview: Errors a minute: A",
    "overview: Connections lost: A",
    "overview: Traffic not recorded: A",
    "overview: Logins a minute: B",
    "overview: Clients with errors: A",
    "overview: Topics with errors: A",
    "overview: Groups that are behind: A",
    "overview: Workers: B",
    "apis: Errors a minute, by API and name: B",
    "apis: Lost requests a minute: A",
    "nodes: Dials that failed, a minute: A",
    "nodes: Down for: A",
    "nodes: Throttled responses a minute: A",
    "groups: Partitions that stand still: A",
    "groups: Greatest lag: A",
    "capture: Volume: A",
    "capture: Bytes lost: A",
    "capture: Gaps: A",
    "capture: Bucket: A",
    "capture: Shipping that failed, a minute: A",
}


class Seen(NamedTuple):
    """What all queries answered while all was well, and once everything had gone wrong, by their names."""

    calm: Panels
    wrong: Panels
    run: Run


@pytest.fixture(scope="module")
def seen(kafka_three: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    with running(kafka_three, tmp_path_factory.mktemp("dashboards")) as run:
        run.prometheus.wait_for_scrapes(2)
        calm = _all(run)
        run.gets_a_group()
        run.is_refused()
        run.logs_in()
        run.is_throttled()
        run.loses_a_worker()
        run.loses_a_broker()
        with run.is_slow():
            run.prometheus.wait_for_scrapes()
        run.is_refused()
        # what was seen then is judged: a later look may lack a proxy, whose scrape came too late on a busy machine
        wrong, until = _all(run), time.monotonic() + PATIENCE
        # the tests name what is still missing then
        while not _is_all_seen(wrong) and time.monotonic() < until:
            run.prometheus.wait_for_scrapes()
            wrong = _all(run)
        yield Seen(calm, wrong, run)


def _all(run: Run) -> Panels:
    return {target.name: run.prometheus.shown(target, run.since, time.time()) for target in TARGETS}


def _greatest(series: list[Series]) -> float:
    return max((value for one in series for _, value in one.points), default=0)


def _unseen(panels: Panels) -> list[str]:
    return [name for name, series in panels.items() if not series or (name in WRONG and _greatest(series) <= 0)]


def _is_all_seen(panels: Panels) -> bool:
    return not _unseen(panels) and bool(_standing(panels) & {*STUCK})


def _standing(panels: Panels) -> set[str]:
    """The groups that are shown as stalled or stopped: one whose coordinator is lost may be among them."""
    behind = panels["groups: Groups that are behind: A"]
    return {one.labels["group"] for one in behind if one.labels["state"] in ("stalled", "stopped")}


def test_every_panel_has_data_and_faults_are_seen(seen: Seen) -> None:
    assert _unseen(seen.wrong) == []
    assert seen.wrong.keys() >= WRONG | CALM


def test_what_may_be_wrong_is_0_while_nothing_is_and_never_no_data(seen: Seen) -> None:
    assert [target.name for target in OR_ZERO if not seen.calm[target.name]] == []
    assert {name: _greatest(seen.calm[name]) for name in CALM} == dict.fromkeys(CALM, 0)


def test_the_broker_that_is_down_is_the_only_one_that_looks_so(seen: Seen) -> None:
    (down,) = seen.wrong["overview: Brokers down now: A"]
    assert down.labels == {"cluster": "main", "node": str(LOST)}
    bands = seen.wrong["overview: Which broker is down: A"]
    assert [one.labels["node"] for one in bands if one.points[-1][1] == 0] == [str(LOST)]


def test_the_group_that_stands_still_and_the_clients_with_errors_are_named(seen: Seen) -> None:
    assert _standing(seen.wrong) & {*STUCK}
    assert {one.labels["client_id"] for one in seen.wrong["clients: Clients with errors: A"]} >= {"by hand"}
    assert {one.labels["outcome"] for one in seen.wrong["overview: Logins a minute: B"]} >= {"refused", "succeeded"}


def test_a_series_has_every_label_that_its_legend_names(seen: Seen) -> None:
    for target in TARGETS:
        named = [part.split("}}")[0] for part in target.legend.split("{{")[1:]]
        for one in seen.wrong[target.name]:
            assert {*named} <= one.labels.keys(), target.name


def test_every_variable_offers_choices_and_a_choice_leaves_the_others_out(seen: Seen) -> None:
    for board in BOARDS.values():
        for name, variable in variables(board).items():
            if variable["type"] == "query":
                asked = concrete(variable["query"]["query"])
                assert wait_for(partial(seen.run.prometheus.values, asked), f"{name}'s choices")
    (exchanges,) = [one for one in TARGETS if one.name == "nodes: Exchanges by node: A"]
    asked = concrete(exchanges.expression.replace("$node", "1"))
    shown = wait_for(partial(seen.run.prometheus.now, asked), "exchanges of node 1")
    assert {one.labels["node"] for one in shown} == {"1"}
