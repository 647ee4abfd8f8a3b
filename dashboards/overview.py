"""The first page at three in the morning: is anything wrong, where, and on which dashboard it goes on.

The top line is green, or says what is not. Below it, what the numbers are made of, then the load, then the proxies.
"""

from __future__ import annotations

from dashboards.board import board
from dashboards.panels import (
    ALWAYS_RED,
    ANY_IS_RED,
    GREEN,
    HALF,
    QUARTER,
    RED,
    Column,
    Query,
    dashboard,
    graph,
    number,
    over,
    rows,
    runbook,
    states,
    under,
)
from dashboards.promql import (
    FAULTS,
    LAST_MINUTES,
    NO_LONG_POLLS,
    RANGE,
    events,
    most_events,
    now,
    number_of,
    or_zero,
    per_minute,
    per_second,
    quantile,
    series,
    top,
    total_per_minute,
)
from proxy.metrics import table

# what a client, a drain or an age ends is no trouble; a probe has sent nothing
UNUSUAL = {"cause": '!~"client_closed|drained|aged|probe|idle"'}
PROXY = 'job=~"$job",instance=~"$instance"'
UP = {1: ("up", GREEN), 0: ("DOWN", RED)}

_errors = events(table.ERRORS, window=LAST_MINUTES, where=FAULTS)
_exchanges = f"sum(increase({series(table.EXCHANGES)}[{LAST_MINUTES}]))"
_down = f"{now(table.NODE_UP, 'cluster', 'node', how='min')} == 0"
_since = f"time() - {now(table.NODE_SINCE, 'cluster', 'node', how='min')}"

_STANDS = {"state": '=~"stalled|stopped"'}


WRONG = (
    number(
        "Alerts that fire",
        "Alerts of dashboards/alerts.yml, if Prometheus has them as rules. Look: the table below names them. "
        "Next: the page of docs/runbooks that the alert names.",
        or_zero(f'count(ALERTS{{alertname=~"KafkaWiretap.*",alertstate="firing",{PROXY}}})'),
        levels=ANY_IS_RED,
        links=[runbook("README", "all alerts")],
    ),
    number(
        "Proxies down",
        "Proxies that Prometheus can't scrape. Their clients have no brokers if the process is gone. Look: the "
        "target in Prometheus' own page. Next: the process and its log.",
        number_of(f"up{{{PROXY}}} == 0"),
        levels=ANY_IS_RED,
        links=[runbook("down", "the proxy is down")],
    ),
    number(
        "Proxies not ready",
        "Proxies whose /readyz is not 200: balancers send them no clients. Next: /readyz says why in a line.",
        number_of(f"{series(table.READY)} == 0"),
        levels=ANY_IS_RED,
        links=[runbook("not-ready", "the proxy is not ready")],
    ),
    number(
        "Brokers down",
        'Brokers that a proxy could not reach when a client last wanted them. Look: "Which broker is down". Next: '
        "the nodes' dashboard says since when, and why.",
        number_of(_down),
        levels=ANY_IS_RED,
        links=[dashboard("nodes", "nodes"), runbook("node-down", "a node can't be reached")],
    ),
    number(
        "Errors per 100",
        f"In 100 exchanges of the last {LAST_MINUTES}, without errors that are a normal step of the protocol. A "
        'response may have several. Look: "Errors a minute". Next: the APIs\' dashboard; `kafka-wiretap inspect` '
        "on the capture names the clients.",
        f"100 * ({or_zero(_errors)}) / ({_exchanges} > 0 or vector(1))",
        decimals=1,
        levels=over(orange=1, red=10),
        links=[dashboard("apis", "APIs"), runbook("errors", "many responses have errors")],
    ),
    number(
        "Latency, p95",
        f'Over the last {LAST_MINUTES}, of APIs that don\'t wait on purpose. Look: "Latency p95 by API". Next: the '
        "nodes' dashboard, if one broker is slow; the APIs', if it is one API.",
        quantile(0.95, table.LATENCY, window=LAST_MINUTES, where=NO_LONG_POLLS),
        unit="s",
        levels=over(orange=0.1, red=1),
        links=[dashboard("apis", "APIs"), runbook("slow", "an API has become slow")],
    ),
    number(
        "Connections lost",
        f"In the last {LAST_MINUTES}: connections that ended in another way than by their client, a drain, or "
        'their age. Look: "Connections that were lost" by cause.',
        or_zero(f"round({events(table.CLOSED, window=LAST_MINUTES, where=UNUSUAL)})"),
        levels=over(orange=1, red=100),
        links=[dashboard("nodes", "nodes")],
    ),
    number(
        "Traffic not recorded",
        "In the time shown: bytes that passed and are missing in the capture. 0 while nothing is to be recorded, "
        "too. Next: the capture's dashboard.",
        or_zero(f"sum(increase({series(table.DROPPED_BYTES)}[{RANGE}]))"),
        unit="bytes",
        levels=over(red=1),
        links=[dashboard("capture", "capture"), runbook("dropping", "traffic is not recorded")],
    ),
)

WHERE = (
    states(
        "Which broker is down",
        "A band for each broker: red while it could not be reached by a client that wanted it. `bootstrap`: the "
        "servers of `upstream`. Look: one red band is a broker, all of them the network. Next: the nodes' "
        "dashboard.",
        Query(now(table.NODE_UP, "cluster", "node", how="min"), "{{cluster}} {{node}}"),
        words=UP,
        links=[dashboard("nodes", "nodes"), runbook("node-down", "a node can't be reached")],
    ),
    graph(
        "Errors a minute",
        "Error codes in responses by API and name, without those that are a normal step of the protocol. One for "
        "each partition, topic or group that has the code. Look: which API, which name. Next: the APIs' "
        "dashboard, and the runbook for the name.",
        Query(total_per_minute(table.ERRORS, where=FAULTS), "all"),
        Query(per_minute(table.ERRORS, "api", "error", where=FAULTS), "{{api}} {{error}}"),
        unit="cpm",
        links=[dashboard("apis", "APIs"), runbook("errors", "many responses have errors")],
    ),
    graph(
        "Connections that were lost, a minute",
        "Connections that ended in another way than by their client, a drain, or their age. broker_closed, "
        "broker_reset and upstream_down are the broker's; client_reset and client_lost the client's; the others "
        "the proxy's own: its log says why. Look: which cause.",
        Query(total_per_minute(table.CLOSED, where=UNUSUAL), "all"),
        Query(per_minute(table.CLOSED, "cause", where=UNUSUAL), "{{cause}}"),
        unit="cpm",
        links=[dashboard("nodes", "nodes")],
    ),
    rows(
        "Alerts now",
        "What fires, or is about to (pending). Empty if Prometheus does not have dashboards/alerts.yml as rules. "
        "Next: the runbook.",
        {
            "alertname": "alert",
            "alertstate": "state",
            "severity": "severity",
            "cluster": "cluster",
            "node": "node",
            "api": "api",
            "instance": "proxy",
        },
        Column(
            "max by (alertname, alertstate, severity, cluster, node, api, instance) "
            f'(ALERTS{{alertname=~"KafkaWiretap.*",{PROXY}}})',
            "",
        ),
        sort="state",
        falling=False,
        size=(16, 6),
        links=[runbook("README", "all alerts")],
    ),
    rows(
        "Brokers down now",
        "Brokers that could not be reached when a client last wanted them, and for how long. Next: is the process "
        "there; can this host reach it; the nodes' dashboard has the causes.",
        {"cluster": "cluster", "node": "node"},
        Column(f"({_since}) and {_down}", "down for", "s", ALWAYS_RED),
        sort="down for",
        size=(8, 6),
        links=[dashboard("nodes", "nodes"), runbook("node-down", "a node can't be reached")],
    ),
)

WHO = (
    rows(
        "Clients with errors",
        f"The ten with most in the last {LAST_MINUTES}. Look: one client alone is wrong itself; all at once is the "
        "cluster. Empty unless `live.clients` is set. Next: the clients' dashboard.",
        {"cluster": "cluster", "client_id": "client", "api": "API", "error": "error"},
        Column(
            most_events(table.CLIENT_ERRORS, "cluster", "client_id", "api", "error", window=LAST_MINUTES),
            "errors",
            levels=over(orange=1, red=100),
        ),
        sort="errors",
        size=(8, 6),
        links=[dashboard("clients", "clients and topics"), runbook("errors", "many responses have errors")],
    ),
    rows(
        "Topics with errors",
        f"The ten with most in the last {LAST_MINUTES}. Look: one topic alone was deleted, or may not be used. "
        "Empty unless `live.topics` is set. Next: the clients' dashboard.",
        {"cluster": "cluster", "topic": "topic", "api": "API", "error": "error"},
        Column(
            most_events(table.TOPIC_ERRORS, "cluster", "topic", "api", "error", window=LAST_MINUTES),
            "errors",
            levels=over(orange=1, red=100),
        ),
        sort="errors",
        size=(8, 6),
        links=[dashboard("clients", "clients and topics"), runbook("errors", "many responses have errors")],
    ),
    rows(
        "Groups that are behind",
        "The ten with the greatest lag, in records. Look: one that grows. Empty unless `live.groups` is set. "
        "Next: the groups' dashboard says if it stands still.",
        {"cluster": "cluster", "group": "group"},
        Column(top(f"{now(table.GROUP_LAG, 'cluster', 'group')} > 0"), "lag", levels=over(orange=1000, red=100_000)),
        Column(
            f"sum by (cluster, group) ({series(table.GROUP_STATE, where=_STANDS)})",
            "partitions that stand",
            levels=ANY_IS_RED,
        ),
        sort="lag",
        size=(8, 6),
        links=[dashboard("groups", "groups")],
    ),
)

LOAD = (
    graph(
        "Exchanges by API",
        "Requests that got their whole response. Look: a sudden fall of Produce or Fetch is an outage, whatever "
        "else is green. Next: the APIs' dashboard.",
        Query(per_second(table.EXCHANGES, "api"), "{{api}}"),
        unit="reqps",
        stacked=True,
        links=[dashboard("apis", "APIs")],
    ),
    graph(
        "Bytes",
        "Responses point up, requests down. Look: which way has changed.",
        Query(per_second(table.RESPONSE_SIZE, part="sum"), "responses"),
        Query(f"-{per_second(table.REQUEST_SIZE, part='sum')}", "requests"),
        unit="Bps",
        both_ways=True,
        links=[dashboard("apis", "APIs")],
    ),
    graph(
        "Latency p95 by API",
        "From a request's last byte to its response's first, without APIs that wait on purpose. Look: all APIs "
        "slow is a broker, a disk or the network; one alone is its work. Next: the nodes' dashboard.",
        Query(quantile(0.95, table.LATENCY, "api", where=NO_LONG_POLLS), "{{api}}"),
        unit="s",
        links=[dashboard("nodes", "nodes"), runbook("slow", "an API has become slow")],
    ),
    graph(
        "Connections",
        "Open ones by cluster. Look: a fall to nothing is an outage; a rise without end are clients that don't close.",
        Query(now(table.CONNECTIONS, "cluster"), "{{cluster}}"),
        links=[dashboard("nodes", "nodes")],
    ),
    graph(
        "Connections of their limit",
        "Empty where there is no limit. At 100 % new clients are turned away. Next: `limits.connections`, "
        "`connections`.",
        Query(
            f"{now(table.CONNECTIONS, 'cluster')} / {now(table.CONNECTION_LIMIT, 'cluster')}",
            "of the limit of {{cluster}}",
        ),
        Query(f"{now(table.CONNECTIONS)} / {now(table.ALL_CONNECTIONS_LIMIT)}", "of the limit of all"),
        unit="percentunit",
        most=1,
        levels=over(orange=0.8, red=0.95),
        links=[runbook("connections-near-limit", "connections are near their limit")],
    ),
    graph(
        "Logins a minute",
        "By mechanism and outcome: 0 while nobody logs in. Look: refused or unfinished logins. Next: the client's "
        "credentials; the broker's log.",
        Query(total_per_minute(table.LOGINS), "all"),
        Query(per_minute(table.LOGINS, "mechanism", "outcome"), "{{mechanism}} {{outcome}}"),
        unit="cpm",
    ),
)

PROXIES = (
    states(
        "Proxies",
        "Ready: /readyz is 200. Upstream: a broker of the cluster could be reached when last dialled. Next: "
        "/readyz says why not.",
        Query(now(table.READY, "instance", how="min"), "{{instance}} ready"),
        Query(now(table.UPSTREAM_UP, "instance", "cluster", how="min"), "{{instance}} upstream of {{cluster}}"),
        words={1: ("yes", GREEN), 0: ("NO", RED)},
        size=HALF,
        links=[runbook("not-ready", "the proxy is not ready"), runbook("upstream-down", "no broker can be reached")],
    ),
    rows(
        "What runs where",
        "Each proxy with its version, and that of Python. Look: versions that differ after a roll-out.",
        {"instance": "proxy", "version": "version", "python": "Python"},
        Column(now(table.BUILD, "instance", "version", "python"), ""),
        sort="version",
        size=QUARTER,
    ),
    rows(
        "Certificates end in",
        "The first certificate of each chain in use. Empty without TLS. Next: renew it, and send SIGHUP.",
        {"cluster": "cluster", "setting": "file"},
        Column(
            f"{now(table.CERTIFICATE_END, 'cluster', 'setting', how='min')} - time()",
            "ends in",
            "s",
            under(orange=14 * 86400, red=3 * 86400),
        ),
        sort="ends in",
        falling=False,
        size=QUARTER,
        links=[runbook("certificate-ends", "a certificate is near its end")],
    ),
    graph(
        "What the proxy adds, p99",
        "From a chunk's last byte read to its last byte sent, by direction. Look: tens of microseconds are its "
        "own; seconds are a peer that reads slowly.",
        Query(quantile(0.99, table.PROXY, "direction"), "{{direction}}"),
        unit="s",
        size=QUARTER,
        links=[runbook("slow", "an API has become slow")],
    ),
    graph(
        "Event loop late by",
        "How late the event loop was, twice a second. Look: more than 100 ms means that the process lacks a "
        "processor. Next: more workers (`workers`), or another host.",
        Query(quantile(0.5, table.LOOP_DELAY), "p50"),
        Query(quantile(0.99, table.LOOP_DELAY, "instance"), "p99 {{instance}}"),
        unit="s",
        size=QUARTER,
    ),
    graph(
        "Bytes kept in the proxy",
        "Queued: a slow peer, or the recorder, has not taken them yet. Held: large responses that are rewritten "
        "(`held`). Look: a line that rises and does not fall.",
        Query(now(table.QUEUED_BYTES, "cluster"), "queued for {{cluster}}"),
        Query(now(table.HELD_BYTES), "held"),
        unit="bytes",
        size=QUARTER,
    ),
    graph(
        "Responses that wait for room",
        "Large responses that wait for room in `held`. Look: anything above 0 makes clients wait. Next: a larger "
        "`held`.",
        Query(now(table.HELD_WAITING, "instance"), "{{instance}}"),
        levels=over(red=1),
        size=QUARTER,
    ),
    graph(
        "Connections by worker",
        "Only with several workers. Look: a worker far below the others has just been replaced.",
        Query(now(table.WORKER_CONNECTIONS, "instance", "worker"), "{{instance}} worker {{worker}}"),
        stacked=True,
        size=HALF,
    ),
    graph(
        "Workers",
        "Working, and ended a minute: an ended worker is replaced, and its clients connect again. Empty with one "
        "process. Next: the proxy's standard error says why a worker ended.",
        Query(now(table.WORKERS, "instance"), "{{instance}} working"),
        Query(f"sum by (instance) (increase({series(table.WORKER_ENDS)}[$__rate_interval]))", "{{instance}} ended"),
        size=HALF,
    ),
)

BOARD = board(
    "overview",
    "overview",
    "Is anything wrong, and where? Then the load, and the proxies themselves.",
    {
        "Is anything wrong?": WRONG,
        "Where?": WHERE,
        "Who?": WHO,
        "What passes": LOAD,
        "The proxies": PROXIES,
    },
)
