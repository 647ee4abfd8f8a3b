"""A dashboard's frame, which is the same for all: variables, links to the others, rows of panels.

Dashboards are found by their tag; a link to another keeps choices and time. They are written in the classic schema,
which every Grafana in use reads; the SDK prefers the one that came with Grafana 12.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import dashboard as models

from dashboards.panels import SOURCE
from dashboards.promql import TARGET_VARIABLES, VARIABLES
from proxy.metrics.table import (
    BUILD,
    CLIENT_REQUESTS,
    COMMITTED,
    CONNECTIONS,
    EXCHANGES,
    NODE_UP,
    TOPIC_PRODUCED_BYTES,
    Metric,
)

TAG = "kafka-wiretap"
# RFC 2606 keeps the name for examples: whoever has the docs somewhere puts that address here
DOCS = "https://docs.example"

# variable -> what it is called, and the metric whose label it is
_CHOICES: Mapping[str, tuple[str, Metric]] = {
    "job": ("Job", BUILD),
    "instance": ("Proxy", BUILD),
    "cluster": ("Cluster", CONNECTIONS),
    "node": ("Node", NODE_UP),
    "api": ("API", EXCHANGES),
    "topic": ("Topic", TOPIC_PRODUCED_BYTES),
    "client_id": ("Client", CLIENT_REQUESTS),
    "group": ("Group", COMMITTED),
}

Rows = Mapping[str, Sequence[Builder[models.Panel]]]


def board(name: str, title: str, says: str, rows: Rows, *, also: Sequence[str] = ()) -> models.Dashboard:
    """A dashboard.

    Args:
        rows: title -> panels, which flow from left to right; a panel without room on its line begins the next.
        also: labels that are variables of this dashboard alone.
    """
    made = (
        builders.Dashboard(f"kafka-wiretap: {title}")
        .uid(f"kafka-wiretap-{name}")
        .description(says)
        .tags(["kafka", TAG])
        .time("now-1h", "now")
        .refresh("30s")
        .timezone("browser")
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .links([_others(), _docs()])
        .variables([_source(), *map(_choice, (*TARGET_VARIABLES, *VARIABLES, *also)), _docs_address()])
    )
    for row, panels in rows.items():
        made = made.with_row(builders.Row(row))
        for panel in panels:
            made = made.with_panel(panel)
    return _numbered(made.build())


def _numbered(made: models.Dashboard) -> models.Dashboard:
    """Gives panels the ids by which a link names them, and links a place where they are seen."""
    for number, panel in enumerate(made.panels or [], 1):
        panel.id_val = number
    for link in made.links or []:
        link.placement = ""
    return made


def _others() -> builders.DashboardLink:
    link = builders.DashboardLink("Dashboards").type(models.DashboardLinkType.DASHBOARDS).tags([TAG])
    return link.include_vars(True).keep_time(True)


def _docs() -> builders.DashboardLink:
    link = builders.DashboardLink("Runbooks").type(models.DashboardLinkType.LINK)
    return link.url("${docs}/runbooks/README.md").icon("doc").target_blank(True)


def _source() -> builders.DatasourceVariable:
    return builders.DatasourceVariable("datasource").label("Prometheus").type("prometheus")


def _docs_address() -> builders.TextBoxVariable:
    says = "Where docs/ of kafka-wiretap stands, for links to runbooks"
    return builders.TextBoxVariable("docs").label("Docs").description(says).default_value(DOCS)


def _choice(name: str) -> builders.QueryVariable:
    """A variable for a label: what it may be follows from the choices before it."""
    label, metric = _CHOICES[name]
    before = (*TARGET_VARIABLES, *VARIABLES)
    earlier = before[: before.index(name)] if name in before else before
    known = [one for one in earlier if one in TARGET_VARIABLES or one in metric.labels]
    matchers = ",".join(f'{one}=~"${one}"' for one in known)
    query = f"label_values({metric.name}{{{matchers}}}, {name})"
    return (
        builders.QueryVariable(name)
        .label(label)
        .datasource(SOURCE)
        .query({"query": query, "refId": name})
        .definition(query)
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.NATURAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(".*")
        .current(models.VariableOption(text=["All"], value=["$__all"]))
    )
