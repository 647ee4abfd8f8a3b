"""Do consumer groups rebalance, lose members, or fail to commit?"""

from __future__ import annotations

from dashboards.board import board
from dashboards.panels import ANY_IS_RED, HALF, QUARTER, Query, dashboard, graph, number, over, runbook
from dashboards.promql import (
    NODE_FAULTS,
    events,
    or_zero,
    per_minute,
    per_second,
    quantile,
    total_per_minute,
)
from proxy.metrics import table
from proxy.wire import keys
from proxy.wire.apis import api_name

LAST_MINUTES = "5m"

Matchers = dict[str, str]


def _of(*apis: int) -> Matchers:
    return {"api": f'=~"{"|".join(str(api_name(key)) for key in apis)}"'}


_HEARTBEATS = (keys.HEARTBEAT, keys.CONSUMER_GROUP_HEARTBEAT, keys.SHARE_GROUP_HEARTBEAT)
_MEMBERS = (keys.JOIN_GROUP, keys.SYNC_GROUP, keys.LEAVE_GROUP, *_HEARTBEATS)
_COMMITS = (keys.OFFSET_COMMIT, keys.TXN_OFFSET_COMMIT)
_ERRORS = [dashboard("apis", "APIs"), runbook("errors", "many responses have errors")]
_REBALANCE = {"error": '="REBALANCE_IN_PROGRESS"'}

BEHIND = (
    number(
        "Commits refused",
        f"Errors of OffsetCommit in the last {LAST_MINUTES}: the members will read the same records again. Look: "
        "ILLEGAL_GENERATION and UNKNOWN_MEMBER_ID are members that were too slow and have been put out.",
        or_zero(f"round({events(table.ERRORS, window=LAST_MINUTES, where=_of(*_COMMITS) | NODE_FAULTS)})"),
        levels=ANY_IS_RED,
        size=(6, 4),
        links=_ERRORS,
    ),
    number(
        "Members put out",
        f"Errors of heartbeats in the last {LAST_MINUTES} that are no rebalance: members that the coordinator no "
        "longer knows. Next: `max.poll.interval.ms` and `session.timeout.ms` of the clients.",
        or_zero(f"round({events(table.ERRORS, window=LAST_MINUTES, where=_of(*_HEARTBEATS) | NODE_FAULTS)})"),
        levels=ANY_IS_RED,
        size=(6, 4),
        links=_ERRORS,
    ),
    number(
        "Rebalances felt",
        f"Heartbeats and commits answered REBALANCE_IN_PROGRESS in the last {LAST_MINUTES}. Some are normal as "
        "members come and go. Look: many all the time are a group that does not settle.",
        or_zero(f"round({events(table.ERRORS, window=LAST_MINUTES, where=_REBALANCE)})"),
        levels=over(orange=10, red=1000),
        size=(6, 4),
    ),
    number(
        "Joining takes, p95",
        f"JoinGroup over the last {LAST_MINUTES}: a member waits for the others of its group, and reads nothing "
        "meanwhile. Look: seconds are usual, minutes are a member that does not come back.",
        quantile(0.95, table.LATENCY, window=LAST_MINUTES, where=_of(keys.JOIN_GROUP)),
        unit="s",
        levels=over(orange=5, red=60),
        size=(6, 4),
    ),
)

MEMBERS = (
    graph(
        "Joins a minute",
        "Members of classic groups that join, and those that leave. Look: a high line all the time is a group "
        "that never settles. Next: `kafka-wiretap inspect groups FOLDER` names groups, members and causes.",
        Query(
            per_minute(table.EXCHANGES, "api", where=_of(keys.JOIN_GROUP, keys.SYNC_GROUP, keys.LEAVE_GROUP)), "{{api}}"
        ),
        unit="cpm",
    ),
    graph(
        "Heartbeats",
        "A second, by kind of group. Look: a fall are members that are gone or hang.",
        Query(per_second(table.EXCHANGES, "api", where=_of(*_HEARTBEATS)), "{{api}}"),
        unit="reqps",
        stacked=True,
    ),
    graph(
        "Errors to members a minute",
        "REBALANCE_IN_PROGRESS makes a member join again; UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION and FENCED_* put "
        "it out; NOT_COORDINATOR and COORDINATOR_* are the broker's. Look: which name lasts.",
        Query(total_per_minute(table.ERRORS, where=_of(*_MEMBERS)), "all"),
        Query(per_minute(table.ERRORS, "api", "error", where=_of(*_MEMBERS)), "{{api}} {{error}}"),
        unit="cpm",
        links=_ERRORS,
    ),
)

COMMITS = (
    graph(
        "Commits",
        "A second. Look: 0 with a steady Fetch are groups that read and don't commit: they begin anew at their "
        "next start.",
        Query(per_second(table.EXCHANGES, "api", where=_of(*_COMMITS)), "{{api}}"),
        unit="reqps",
        size=QUARTER,
    ),
    graph(
        "Commits take, p95",
        "Look: a slow commit holds its member up. Next: the coordinator's node in the nodes' dashboard.",
        Query(quantile(0.95, table.LATENCY, "api", where=_of(*_COMMITS, keys.OFFSET_FETCH)), "{{api}}"),
        unit="s",
        size=QUARTER,
        links=[dashboard("nodes", "nodes"), runbook("slow", "an API has become slow")],
    ),
    graph(
        "Errors of commits a minute",
        "One for each partition. Look: UNKNOWN_TOPIC_OR_PARTITION is a topic that was deleted; the others are as "
        "for members.",
        Query(total_per_minute(table.ERRORS, where=_of(*_COMMITS)), "all"),
        Query(per_minute(table.ERRORS, "api", "error", where=_of(*_COMMITS)), "{{api}} {{error}}"),
        unit="cpm",
        size=HALF,
        links=_ERRORS,
    ),
)

BOARD = board(
    "groups",
    "groups",
    "Do consumer groups rebalance, lose members, or fail to commit?",
    {"Is a group in trouble?": BEHIND, "Do groups settle?": MEMBERS, "Do they commit?": COMMITS},
)
