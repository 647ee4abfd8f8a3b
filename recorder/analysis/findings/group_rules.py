"""The rules on consumer groups, their members and consumers: part of RULES."""

from __future__ import annotations

from proxy.wire import keys
from recorder.analysis.findings import groups, peers, speed
from recorder.analysis.findings.rule import Need, Rule
from recorder.analysis.findings.stale_leaders import stale_leaders
from recorder.analysis.summary.sections.findings import Severity, Unit

_ONCE_IN_BODIES = (Need.BODIES,)
_LONG_IN_BODIES = (Need.LONG, Need.BODIES)
_MEMBERSHIPS = (
    keys.JOIN_GROUP,
    keys.CONSUMER_GROUP_HEARTBEAT,
    keys.SHARE_GROUP_HEARTBEAT,
    keys.STREAMS_GROUP_HEARTBEAT,
)

GROUP_RULES = (
    Rule(
        "rebalances",
        "Which groups rebalance again and again?",
        groups.rebalances,
        Severity.WARNING,
        3,
        Unit.RATIO,
        "Group {subject} rebalances again and again ({causes}): {measure} in ten windows",
        "Lost: look at the poll loop and session.timeout.ms. Fenced: two members have one group.instance.id. Joined: "
        "members begin and end; keep them, or give them a group.instance.id.",
        _ONCE_IN_BODIES,
        _MEMBERSHIPS,
    ),
    Rule(
        "silent_leave",
        "Which members end without leaving their group?",
        groups.silent_leaves,
        Severity.WARNING,
        1,
        Unit.COUNT,
        "Group {subject} has lost members that ended without leaving it, and their partitions waited for the session "
        "timeout (members: {cases})",
        "Close the consumer when its process ends, also on a signal. If it comes back, give it a group.instance.id.",
        _ONCE_IN_BODIES,
        _MEMBERSHIPS,
    ),
    Rule(
        "idle_members",
        "Which groups have more members than partitions?",
        groups.idle_members,
        Severity.NOTICE,
        1,
        Unit.COUNT,
        "Group {subject} has members that get nothing to read: {measure} (members: {members}, partitions: "
        "{partitions})",
        "Run fewer members, or give the topic more partitions. The range assignor goes topic by topic: with several "
        "topics, take another one (partition.assignment.strategy). A spare member on purpose needs nothing to be done.",
        (Need.TIME, Need.BODIES),
        (keys.SYNC_GROUP, keys.CONSUMER_GROUP_HEARTBEAT),
    ),
    Rule(
        "never_commits",
        "Which groups read and commit nothing?",
        groups.never_commits,
        Severity.WARNING,
        1,
        Unit.COUNT,
        "Group {subject} reads {topics} and has committed nothing (records: {measure})",
        "After a restart its members read everything again, or skip what came meanwhile (auto.offset.reset). Commit "
        "what is processed, or set enable.auto.commit=true. If the group wants no commits, let it assign its "
        "partitions itself.",
        _LONG_IN_BODIES,
        (keys.FETCH, keys.SYNC_GROUP, keys.CONSUMER_GROUP_HEARTBEAT),
    ),
    Rule(
        "stalled",
        "Which groups with members make no progress?",
        groups.stalled(has_members=True),
        Severity.CRITICAL,
        1,
        Unit.COUNT,
        "Group {group} has members, but has committed nothing new of {topic} ({partitions}) for ten windows, and is "
        "{measure} records behind",
        "Look at the first record after the commit: the group may try again and again to process it.",
        _LONG_IN_BODIES,
        (keys.FETCH,),
    ),
    Rule(
        "abandoned",
        "Which groups have no members but a lag?",
        groups.stalled(has_members=False),
        Severity.NOTICE,
        1,
        Unit.COUNT,
        "Group {group} has no members, and is {measure} records behind on {topic} ({partitions})",
        "Start its consumers, or delete the group. Its records may be deleted before they are read. Consumers that "
        "choose their partitions themselves (assign) are no members: check whether such a consumer has stopped.",
        _LONG_IN_BODIES,
        (keys.FETCH,),
    ),
    Rule(
        "falls_behind",
        "Which groups fall further and further behind?",
        groups.falls_behind,
        Severity.WARNING,
        1,
        Unit.COUNT,
        "Group {group} falls behind on {topic}: by {measure} records in ten windows, to {lag}",
        "Add members, up to one a partition. Or process faster: take larger batches, and wait less for other systems.",
        _LONG_IN_BODIES,
        (keys.FETCH,),
    ),
    Rule(
        "overcommit",
        "Which clients commit too often?",
        peers.overcommits,
        Severity.WARNING,
        10,
        Unit.PER_SECOND,
        "{subject} commits its offsets {measure}, at least once for each batch that it fetches",
        "Commit by time (enable.auto.commit, or every few seconds): each commit is a write to all replicas.",
        (Need.TIME, Need.BODIES),
        (keys.FETCH,),
    ),
    Rule(
        "slow_consumer",
        "Which clients are slow to take what they fetched?",
        speed.slow_consumers,
        Severity.WARNING,
        0.05,
        Unit.SHARE,
        "{subject} lingers over {measure} of its Fetches, up to {longest}",
        "Take fewer bytes a poll (max.partition.fetch.bytes), or process records outside the poll loop. Else look at "
        "the network.",
        (),
    ),
    Rule(
        "stale_leader",
        "Which clients' requests do not reach the leader?",
        stale_leaders,
        Severity.WARNING,
        1,
        Unit.COUNT,
        "Node {node} refuses {api} of {client} for {topic} {partition}, long after the client was told that node "
        "{leader} leads it (cases: {cases})",
        "If the two nodes are the same, the node's address leads to other brokers, too: give each broker an address of "
        "its own (advertised.listeners), not that of a load balancer before all brokers. If they differ, the client "
        "does not use the Metadata that it gets: upgrade it.",
        _ONCE_IN_BODIES,
        (keys.METADATA, keys.PRODUCE, keys.FETCH, keys.LIST_OFFSETS),
    ),
)
