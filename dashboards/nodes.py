"""Which broker is down, slow, answers with errors, or throttles: choose some with the variable `node`."""

from __future__ import annotations

from dashboards.board import board
from dashboards.panels import (
    ALWAYS_RED,
    GREEN,
    HALF,
    RED,
    Column,
    Query,
    graph,
    over,
    rows,
    runbook,
    states,
)
from dashboards.promql import (
    NODE_FAULTS,
    RANGE,
    events,
    now,
    per_minute,
    per_second,
    quantile,
    series,
    total_per_minute,
)
from proxy.metrics import table

_NODE = ("cluster", "node")
_LEGEND = "{{cluster}} {{node}}"
_UP = now(table.NODE_UP, *_NODE, how="min")
_DOWN = [runbook("node-down", "a node can't be reached"), runbook("upstream-down", "no broker can be reached")]
_SLOW = [runbook("slow", "an API has become slow")]
_ERRORS = [runbook("errors", "many responses have errors")]
_WORDS = {1: ("up", GREEN), 0: ("DOWN", RED)}


def _in_range(metric: table.Metric, where: dict[str, str] | None = None) -> str:
    return f"round({events(metric, *_NODE, window=RANGE, where=where)})"


REACHED = (
    states(
        "Up or down",
        "A band for each broker: red while it could not be reached by a client that wanted it; `bootstrap`: the "
        "servers of `upstream`. A broker that nobody wants keeps its state. Look: one red band is a broker, all "
        "of them the network.",
        Query(_UP, _LEGEND),
        words=_WORDS,
        links=_DOWN,
    ),
    graph(
        "Down for",
        'How long a broker that can\'t be reached has been so: nothing while all can. Next: "Dials that failed" '
        "says why.",
        Query(f"(time() - {now(table.NODE_SINCE, *_NODE, how='min')}) and {_UP} == 0", _LEGEND),
        unit="s",
        links=_DOWN,
    ),
    graph(
        "Dials that failed, a minute",
        "By node and cause: 0 while none fail. refused: no process listens. timeout: the host or a firewall is "
        "silent. name: DNS. Next: the runbook has a step for each cause.",
        Query(total_per_minute(table.NODE_DIAL_FAILURES), "all"),
        Query(per_minute(table.NODE_DIAL_FAILURES, "node", "cause"), "{{node}} {{cause}}"),
        unit="cpm",
        links=_DOWN,
    ),
    rows(
        "Each broker",
        "Counts are of the time shown. Look: the red cells, from left to right. Next: the graphs below for when "
        "it began.",
        {"cluster": "cluster", "node": "node"},
        Column(f"1 - {_UP}", "state", words={0: _WORDS[1], 1: _WORDS[0]}),
        Column(f"(time() - {now(table.NODE_SINCE, *_NODE, how='min')}) and {_UP} == 0", "down for", "s", ALWAYS_RED),
        Column(f"{_in_range(table.NODE_DIAL_FAILURES)} or 0 * {_UP}", "failed dials", levels=over(red=1)),
        Column(f"{_in_range(table.NODE_ERRORS, NODE_FAULTS)} or 0 * {_UP}", "errors", levels=over(orange=1)),
        Column(per_second(table.NODE_EXCHANGES, *_NODE), "exchanges", "reqps"),
        Column(quantile(0.95, table.NODE_LATENCY, *_NODE), "latency p95", "s"),
        Column(now(table.NODE_CONNECTIONS, *_NODE), "connections"),
        sort="state",
        size=(16, 8),
        links=_DOWN,
    ),
    rows(
        "Where each broker is",
        "The address that the proxy dials, the listener that clients are told, and if the listener has its usual "
        "port: clients find one without only through metadata. Next: `kafka-wiretap check --upstream ADDRESS` "
        "from the proxy's host.",
        {
            "cluster": "cluster",
            "node": "node",
            "upstream": "broker",
            "listener": "clients connect to",
            "usual_port": "usual port",
        },
        Column(
            f"max by (cluster, node, upstream, listener, usual_port) ({series(table.NODE)})",
            "",
        ),
        sort="usual port",
        falling=False,
        size=(8, 8),
        links=[runbook("node-listeners", "nodes' listeners")],
    ),
)

ANSWERS = (
    graph(
        "Latency p95 by node",
        "Over all APIs, those that wait on purpose included. Look: one line above the others is a slow broker; "
        "all of them are the load or the network.",
        Query(quantile(0.95, table.NODE_LATENCY, *_NODE), _LEGEND),
        unit="s",
        links=_SLOW,
    ),
    graph(
        "Exchanges by node",
        "Look: a node at 0 leads nothing or is away; one far above the others leads too much. Next: elect "
        "preferred leaders, or reassign partitions.",
        Query(per_second(table.NODE_EXCHANGES, *_NODE), _LEGEND),
        unit="reqps",
        links=_SLOW,
    ),
    graph(
        "Errors a minute, by node",
        "Without those that are a normal step of the protocol. Look: NOT_LEADER_OR_FOLLOWER of one node for long: "
        "it is cut off from the others. The same error of all nodes is the clients'.",
        Query(total_per_minute(table.NODE_ERRORS, where=NODE_FAULTS), "all"),
        Query(per_minute(table.NODE_ERRORS, "node", "error", where=NODE_FAULTS), "{{node}} {{error}}"),
        unit="cpm",
        links=_ERRORS,
    ),
)

CONNECTIONS = (
    graph(
        "Connections by node",
        "Open ones of clients that want this node. Look: a fall to nothing is a lost broker; a node without any "
        "leads nothing.",
        Query(now(table.NODE_CONNECTIONS, *_NODE), _LEGEND),
        stacked=True,
        size=HALF,
    ),
    graph(
        "Connections opened a minute, by node",
        'Look: a high line with few open connections are clients that connect again and again. Next: "Connections '
        'closed" says why.',
        Query(total_per_minute(table.OPENED), "all clients"),
        Query(per_minute(table.NODE_OPENED, *_NODE), _LEGEND),
        unit="cpm",
        size=HALF,
    ),
    graph(
        "Connections closed a minute, by node and cause",
        "client_closed, drained, aged, probe and idle are usual. broker_closed, broker_reset, upstream_down: the "
        "broker. Next: the proxy's log has a line for each cause of its own.",
        Query(total_per_minute(table.CLOSED), "all"),
        Query(per_minute(table.NODE_CLOSED, "node", "cause"), "{{node}} {{cause}}"),
        unit="cpm",
        size=HALF,
        links=_DOWN,
    ),
    graph(
        "Node listeners of their limit",
        "Of the listeners that nodes may have, how many they have. At 100 % responses that name new nodes are "
        "refused. Next: the runbook says what the limit follows from.",
        Query(
            f"max by (instance, cluster) ({series(table.NODE_LISTENERS)} / {series(table.NODE_LISTENERS_LIMIT)})",
            "{{instance}} {{cluster}}",
        ),
        unit="percentunit",
        most=1,
        levels=over(orange=0.8, red=0.95),
        size=HALF,
        links=[runbook("node-listeners", "nodes' listeners")],
    ),
)

QUOTAS = (
    graph(
        "Time that quotas take, by node",
        "Seconds in a second that brokers have told clients to wait: 0 without quotas. Look: 1 is a client that "
        "stands still all the time. Next: the quotas, or the client that produces too much.",
        Query(f"{per_second(table.NODE_THROTTLE)} or vector(0)", "all"),
        Query(per_second(table.NODE_THROTTLE, "node", "api"), "{{node}} {{api}}"),
        unit="s",
        size=HALF,
    ),
    graph(
        "Throttled responses a minute",
        "Responses that have told their clients to wait for a quota. Look: which API: Produce and Fetch have "
        "quotas of bytes, the others of time.",
        Query(total_per_minute(table.NODE_THROTTLED), "all"),
        Query(per_minute(table.NODE_THROTTLED, "node", "api"), "{{node}} {{api}}"),
        unit="cpm",
        size=HALF,
    ),
)

BOARD = board(
    "nodes",
    "nodes",
    "Which broker is down, slow, answers with errors, or throttles?",
    {
        "Which broker is down?": REACHED,
        "Which is slow, or answers with errors?": ANSWERS,
        "Who is connected?": CONNECTIONS,
        "Do quotas slow clients down?": QUOTAS,
    },
)
