"""Which API is slow, fails, or is large: choose one or some with the variable `api`."""

from __future__ import annotations

from dashboards.board import board
from dashboards.panels import HALF, QUARTER, WIDE, Column, Query, dashboard, graph, over, rows, runbook
from dashboards.promql import RANGE, grouped, mean, per_minute, per_second, quantile, series, total_per_minute
from proxy.metrics import table

_SLOW = [dashboard("nodes", "nodes"), runbook("slow", "an API has become slow")]
_ERRORS = [dashboard("nodes", "nodes"), runbook("errors", "many responses have errors")]


def _per_exchange(counter: table.Metric, *by: str) -> str:
    """The mean of a counter of seconds, by exchange."""
    return f"{per_second(counter, *by)} / {per_second(table.EXCHANGES, *by)}"


def _by_version(metric: table.Metric, part: str = "") -> str:
    return per_second(metric, "api", "version", part=part, window=RANGE)


LATENCY = (
    graph(
        "Latency percentiles",
        "From a request's last byte to its response's first, over the chosen APIs. Fetch without data, JoinGroup "
        "and SyncGroup wait on purpose: choose others to judge speed. Look: p99 far above p95 are single "
        "requests; both are the broker.",
        Query(quantile(0.5, table.LATENCY), "p50"),
        Query(quantile(0.95, table.LATENCY), "p95"),
        Query(quantile(0.99, table.LATENCY), "p99"),
        unit="s",
        links=_SLOW,
    ),
    graph(
        "Latency p95 by API",
        "Look: which line has risen. Those of APIs that wait on purpose are as long as the wait. Next: the nodes' "
        "dashboard tells if one broker is slow.",
        Query(quantile(0.95, table.LATENCY, "api"), "{{api}}"),
        unit="s",
        links=_SLOW,
    ),
    graph(
        "Where the time goes",
        "Means over the chosen APIs. Latency; the part of it that was spent queued behind the previous response "
        "of the connection; transfer, from a response's first byte to its last, which is no part of the latency. "
        "Look: much queued is a client that sends ahead; much transfer is a slow network or a large response; the "
        "rest is the broker's.",
        Query(mean(table.LATENCY), "latency"),
        Query(f"{per_second(table.QUEUED)} / {per_second(table.LATENCY, part='count')}", "of it queued"),
        Query(_per_exchange(table.TRANSFER), "transfer"),
        unit="s",
        links=_SLOW,
    ),
    graph(
        "What the proxy adds to a response, by API",
        "The mean from a chunk's last byte read to its last byte sent. Look: more than a millisecond is a client "
        'that reads slowly, or a proxy without a processor ("Event loop late by" in the overview).',
        Query(_per_exchange(table.RESPONSE_PROXY, "api"), "{{api}}"),
        unit="s",
        size=HALF,
        links=[dashboard("overview", "overview")],
    ),
    graph(
        "Mean latency by API",
        "As latency p95, but of all exchanges alike. Look: a mean that rises with a p95 that does not is a shift "
        "of many small ones.",
        Query(mean(table.LATENCY, "api"), "{{api}}"),
        unit="s",
        size=HALF,
        links=_SLOW,
    ),
)

TROUBLE = (
    graph(
        "Errors a minute, by API and name",
        "Every error code, those that are a normal step of the protocol included: one for each partition, topic, "
        "group or response that has the code. Look: the name; docs/runbooks/errors.md says whose fault it is. "
        "Next: `kafka-wiretap inspect exchanges FOLDER --filter` on the capture names the clients.",
        Query(total_per_minute(table.ERRORS), "all"),
        Query(per_minute(table.ERRORS, "api", "error"), "{{api}} {{error}}"),
        unit="cpm",
        size=HALF,
        links=_ERRORS,
    ),
    graph(
        "Errors in 100 exchanges, by API",
        "Look: above 10, the alert fires after ten minutes; above 100, each response has several. An API that "
        "nobody uses has no line.",
        Query(
            f"100 * ({per_second(table.ERRORS, 'api')} or 0 * {per_second(table.EXCHANGES, 'api')}) "
            f"/ ({per_second(table.EXCHANGES, 'api')} > 0)",
            "{{api}}",
        ),
        levels=over(orange=1, red=10),
        size=HALF,
        links=_ERRORS,
    ),
    graph(
        "Lost requests a minute",
        "Requests whose response never came, or not whole: the connection ended first. Their clients don't know "
        "if they were done. Next: the nodes' dashboard says which broker lost its connections.",
        Query(total_per_minute(table.UNANSWERED), "all"),
        Query(per_minute(table.UNANSWERED, "api"), "{{api}}"),
        unit="cpm",
        size=QUARTER,
        links=[dashboard("nodes", "nodes")],
    ),
    graph(
        "Errors that can't be counted, a minute",
        "Responses of which not all codes were read. unknown_version: the catalog lacks the version or the API. "
        "too_many_elements: codes behind the first 64 elements. bare_tokens: only the mechanism knows the "
        'outcome. Look: how far "Errors" can be trusted.',
        Query(total_per_minute(table.ERRORS_UNREAD), "all"),
        Query(per_minute(table.ERRORS_UNREAD, "api", "reason"), "{{api}} {{reason}}"),
        unit="cpm",
        size=QUARTER,
    ),
    graph(
        "Frames not understood, a minute",
        "Forwarded as they came, by reason. Look: a new version of Kafka or a client speaks what this proxy does "
        "not know. Next: docs/upgrade.md.",
        Query(total_per_minute(table.OPAQUE), "all"),
        Query(per_minute(table.OPAQUE, "reason"), "{{reason}}"),
        unit="cpm",
        size=QUARTER,
    ),
    graph(
        "Without a broker's answer, a minute",
        "One-way: Produce with acks=0, whose losses nobody notices. By the proxy: it answered itself, since the "
        "client asked for a version that it does not pass on. Next: `kafka-wiretap report` names the clients.",
        Query(total_per_minute(table.ONE_WAY), "all one-way"),
        Query(per_minute(table.ONE_WAY, "api"), "one-way {{api}}"),
        Query(per_minute(table.BY_PROXY, "api"), "by the proxy {{api}}"),
        unit="cpm",
        size=QUARTER,
    ),
)

SIZE = (
    graph(
        "Exchanges by API",
        "Requests that got their whole response. Look: Produce and Fetch are the load; a rise of Metadata or "
        "ApiVersions are clients that connect again and again.",
        Query(per_second(table.EXCHANGES, "api"), "{{api}}"),
        unit="reqps",
        stacked=True,
    ),
    graph(
        "Bytes of responses, by API",
        "As brokers sent them, before any rewriting. Look: which API fills the network.",
        Query(per_second(table.RESPONSE_SIZE, "api", part="sum"), "{{api}}"),
        unit="Bps",
        stacked=True,
    ),
    graph(
        "Bytes of requests, by API",
        "Look: Produce is what clients write; anything else that is large is unusual.",
        Query(per_second(table.REQUEST_SIZE, "api", part="sum"), "{{api}}"),
        unit="Bps",
        stacked=True,
    ),
    graph(
        "Request sizes, p99",
        "99 of 100 requests are at most so large. Buckets grow by factors of 4. Look: Produce near the brokers' "
        "`message.max.bytes`.",
        Query(quantile(0.99, table.REQUEST_SIZE, "api"), "{{api}}"),
        unit="bytes",
        size=HALF,
    ),
    graph(
        "Response sizes, p99",
        "As for requests. Look: a Metadata that grows has every topic in it: a client asks for all.",
        Query(quantile(0.99, table.RESPONSE_SIZE, "api"), "{{api}}"),
        unit="bytes",
        size=HALF,
    ),
)

VERSIONS = (
    rows(
        "APIs and versions",
        "Over the time shown. Look: old versions are clients that are to be upgraded before the brokers "
        "(docs/upgrade.md). Next: `kafka-wiretap report` says which clients speak them.",
        {"api": "API", "version": "version"},
        Column(
            f"{grouped('sum', f'increase({series(table.EXCHANGES)}[{RANGE}])', ('api', 'version'))} > 0", "exchanges"
        ),
        Column(_by_version(table.REQUEST_SIZE, "sum"), "requests", "Bps"),
        Column(_by_version(table.RESPONSE_SIZE, "sum"), "responses", "Bps"),
        Column(quantile(0.5, table.LATENCY, "api", "version", window=RANGE), "p50", "s"),
        Column(quantile(0.95, table.LATENCY, "api", "version", window=RANGE), "p95", "s"),
        Column(quantile(0.99, table.LATENCY, "api", "version", window=RANGE), "p99", "s"),
        sort="exchanges",
        size=(WIDE[0], 12),
    ),
)

BOARD = board(
    "apis",
    "APIs",
    "Which API is slow, fails, or is large?",
    {"Is it slow?": LATENCY, "Does it fail?": TROUBLE, "Is it large?": SIZE, "Who speaks what?": VERSIONS},
)
