"""Which consumer group is behind; do groups rebalance, lose members, or fail to commit: choose some with `group`."""

from __future__ import annotations

from dashboards.board import board
from dashboards.panels import (
    ANY_IS_RED,
    HALF,
    QUARTER,
    THIRD,
    WIDE,
    Column,
    Query,
    dashboard,
    graph,
    number,
    over,
    rows,
    runbook,
)
from dashboards.promql import (
    CHOSEN,
    LAST_MINUTES,
    NODE_FAULTS,
    Matchers,
    events,
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
from proxy.wire import keys
from proxy.wire.apis import api_name


def _of(*apis: int) -> Matchers:
    return {"api": f'=~"{"|".join(str(api_name(key)) for key in apis)}"'}


_HEARTBEATS = (keys.HEARTBEAT, keys.CONSUMER_GROUP_HEARTBEAT, keys.SHARE_GROUP_HEARTBEAT)
_MEMBERS = (keys.JOIN_GROUP, keys.SYNC_GROUP, keys.LEAVE_GROUP, *_HEARTBEATS)
_COMMITS = (keys.OFFSET_COMMIT, keys.TXN_OFFSET_COMMIT)
_ERRORS = [dashboard("apis", "APIs"), runbook("errors", "many responses have errors")]
_REBALANCE = {"error": '="REBALANCE_IN_PROGRESS"'}

_STALLED = [runbook("lag-stalled", "a group stands still")]
# the lag that is joined over proxies, which have no part in its labels
JOINED_LAG = f'kafka_wiretap:group_lag{{cluster=~"$cluster",group{CHOSEN["group"]}}}'
_OFF = "Nothing unless `live.groups` is set."
_CHOSEN = {"group": CHOSEN["group"]}
_BY_GROUP = ("cluster", "group")
_BY_PARTITION = (*_BY_GROUP, "topic", "partition")
_STANDS = {"state": '=~"stalled|stopped"', **_CHOSEN}
_FALLS = {"state": '="warning"', **_CHOSEN}
_SINCE = f"time() - {now(table.COMMITTED_TIME, *_BY_GROUP, how='max', where=_CHOSEN)}"
# the lag of each partition, with its state
_STATE = series(table.GROUP_STATE, where=_CHOSEN)
_PLACE = ("job", "instance", "cluster", "group", "topic", "partition")
_LAG = f"{series(table.GROUP_LAG, where=_CHOSEN)} * on ({', '.join(_PLACE)}) group_right () {_STATE}"

BEHIND = (
    number(
        "Partitions that stand still",
        "Stalled: the group commits the same offset again and again, and is behind. Stopped: it is behind, and "
        "silent. Look: the table names groups. Next: is the member there; what does it say of its last record? "
        f"{_OFF}",
        number_of(f"{series(table.GROUP_STATE, where=_STANDS)} == 1"),
        levels=ANY_IS_RED,
        size=(6, 4),
        links=_STALLED,
    ),
    number(
        "Partitions that fall behind",
        f"The group goes on, and its lag does not fall. Look: too few members, or a slow one. {_OFF}",
        number_of(f"{series(table.GROUP_STATE, where=_FALLS)} == 1"),
        levels=over(orange=1),
        size=(6, 4),
    ),
    number(
        "Greatest lag",
        f"Records of one group in all its partitions. Look: the table names the group. {_OFF}",
        or_zero(f"max({now(table.GROUP_LAG, *_BY_GROUP, where=_CHOSEN)})"),
        levels=over(orange=1000, red=100_000),
        size=(6, 4),
    ),
    number(
        "Longest without a commit",
        f"Of groups that are behind. Look: minutes are a group that hangs or is gone. {_OFF}",
        or_zero(f"max(({_SINCE}) and {now(table.GROUP_LAG, *_BY_GROUP, where=_CHOSEN)} > 0)"),
        unit="s",
        levels=over(orange=120, red=900),
        size=(6, 4),
    ),
    rows(
        "Groups that are behind",
        "By topic and state: warning falls behind, stalled commits and gets nowhere, stopped is silent. Look: the "
        "greatest lag that is not ok. Next: `kafka-wiretap inspect groups FOLDER --group NAME` has members and "
        f"rebalances. {_OFF}",
        {"cluster": "cluster", "group": "group", "topic": "topic", "state": "state"},
        Column(f"sum by (cluster, group, topic, state) ({_LAG}) > 0", "lag", levels=over(orange=1000, red=100_000)),
        Column(f"count by (cluster, group, topic, state) (({_LAG}) > 0)", "partitions"),
        sort="lag",
        links=_STALLED,
    ),
    graph(
        "Lag by group",
        "The ten with most. Look: a line that climbs without end is a group that is too slow; a straight one "
        f"stands still. {_OFF}",
        Query(top(now(table.GROUP_LAG, *_BY_GROUP, where=_CHOSEN)), "{{cluster}} {{group}}"),
        size=HALF,
    ),
    graph(
        "Since the last commit",
        "By group, in any of its partitions. Look: a line that climbs is a group that is gone, or has nothing to "
        f"do. {_OFF}",
        Query(top(_SINCE), "{{cluster}} {{group}}"),
        unit="s",
        size=THIRD,
    ),
    graph(
        "Committed, and where logs end",
        f"Sums over the partitions of the chosen groups, and of their topics. Look: lines that run apart. {_OFF}",
        Query(now(table.COMMITTED, "group", "topic", where=_CHOSEN), "{{group}}: {{topic}}"),
        Query(
            f"sum by (topic) ({series(table.LOG_END)} and on (job, instance, cluster, topic, partition) "
            f"{series(table.COMMITTED, where=_CHOSEN)})",
            "{{topic}}: end",
        ),
        size=THIRD,
    ),
    graph(
        "Lag by group, over all proxies",
        "Where one proxy sees the commits and another the logs, as beside brokers: by the recording rules of "
        f"dashboards/alerts.yml. Look: it is the same as the lag above where one proxy sees both. {_OFF}",
        Query(top(f"sum by (cluster, group) ({JOINED_LAG})"), "{{cluster}} {{group}}"),
        size=THIRD,
        links=_STALLED,
    ),
    rows(
        "Each partition",
        "Of the chosen groups: the hundred with the greatest lag. Told: when a log's end was last seen in an "
        f"answer. Look: a lag in one partition alone is one member, or one key. {_OFF}",
        {"cluster": "cluster", "group": "group", "topic": "topic", "partition": "partition"},
        Column(top(now(table.GROUP_LAG, *_BY_PARTITION, how="max", where=_CHOSEN), 100), "lag"),
        Column(now(table.COMMITTED, *_BY_PARTITION, how="max", where=_CHOSEN), "committed"),
        Column(
            f"time() - {now(table.COMMITTED_TIME, *_BY_PARTITION, how='max', where=_CHOSEN)}",
            "last commit, ago",
            "s",
        ),
        Column(
            f"time() - max by (cluster, group, topic, partition) (0 * {series(table.COMMITTED, where=_CHOSEN)} "
            f"+ on (job, instance, cluster, topic, partition) group_left () {series(table.LOG_END_TIME)})",
            "end told, ago",
            "s",
        ),
        sort="lag",
        size=(WIDE[0], 8),
    ),
)

TROUBLE = (
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
    "Which consumer group is behind? Do groups rebalance, lose members, or fail to commit?",
    {
        "Which group is behind?": BEHIND,
        "Is a group in trouble?": TROUBLE,
        "Do groups settle?": MEMBERS,
        "Do they commit?": COMMITS,
    },
    also=("group",),
)
