"""All rules: what each asks, from where on it fires, what it says, and what to do.

A rule stands here when it is whole: with its traps, and with tests in which it fires and in which it is quiet.
"""

from __future__ import annotations

from proxy.wire import keys
from recorder.analysis.findings import answers, peers, recording, speed, topics
from recorder.analysis.findings.group_rules import GROUP_RULES
from recorder.analysis.findings.log_rules import LOG_RULES
from recorder.analysis.findings.rule import Need, Rule
from recorder.analysis.summary.finding import Severity, Unit

_LASTS = (Need.TIME,)
_LASTS_IN_BODIES = (Need.TIME, Need.BODIES)
_LASTS_IN_PRODUCE = (Need.TIME, Need.PRODUCED)
_ONCE_IN_PRODUCE = (Need.PRODUCED,)
_ONCE: tuple[Need, ...] = ()
_ONCE_IN_BODIES = (Need.BODIES,)

RULES = (
    Rule(
        "gaps",
        "Is all of the traffic there?",
        recording.gaps,
        Severity.WARNING,
        1,
        Unit.COUNT,
        "Gaps ({subject}): {measure}; {bytes} bytes of traffic are not in the capture",
        "Every count below may be higher. Give the recorder a larger queue (--record-queue) or spool (--record-spool), "
        "a faster disk, or fewer bodies (capture.bodies).",
        _ONCE,
    ),
    Rule(
        "cut_off",
        "Is every client ready for Kafka 4?",
        peers.cut_off,
        Severity.CRITICAL,
        1,
        Unit.COUNT,
        "{software} ({subject}) sends {api} v{version}; Kafka {release} starts at {floor}",
        "Upgrade the client before the brokers; if its settings pin a version (api_version, broker.version.fallback), "
        "lift that.",
        _ONCE_IN_BODIES,
        (keys.API_VERSIONS,),
    ),
    Rule(
        "slow",
        "Who waits?",
        speed.slow,
        Severity.CRITICAL,
        3,
        Unit.RATIO,
        "{subject} took {p99} (p99), {measure} its usual {usual}",
        "If queued_ns is a part of it, the client's own requests stand in line; else look at that broker's disk, "
        "network threads and garbage collection.",
    ),
    Rule(
        "errors",
        "What do brokers refuse for good?",
        answers.failed(retriable=False),
        Severity.CRITICAL,
        0.001,
        Unit.SHARE,
        "{measure} of the answers to {api} hold {error}",
        "Trying again does not help: open the evidence to see who asked for what.",
        _LASTS_IN_BODIES,
    ),
    Rule(
        "retriable_errors",
        "What has to be asked again?",
        answers.failed(retriable=True),
        Severity.WARNING,
        0.01,
        Unit.SHARE,
        "{measure} of the answers to {api} hold {error}",
        "Clients try again by themselves, which costs time: look for leaders that move, replicas that lag, groups that "
        "rebalance.",
        _LASTS_IN_BODIES,
    ),
    Rule(
        "unanswered",
        "What gets no answer?",
        answers.unanswered,
        Severity.CRITICAL,
        0.0001,
        Unit.SHARE,
        "{measure} of the requests to {subject} got no answer in time; most of their connections ended by {cause}",
        "Compare the client's request.timeout.ms with the latency, and the broker's log with the times.",
    ),
    Rule(
        "denied",
        "Who may not do what it tries?",
        answers.told(answers.DENIED),
        Severity.CRITICAL,
        1,
        Unit.PER_SECOND,
        "{client} is told {error} {measure} by {api}",
        "Grant the ACL that is missing, or stop the client: each try is checked and logged by the broker.",
        _LASTS_IN_BODIES,
    ),
    Rule(
        "unknown_topic",
        "Who asks for topics that are not there?",
        answers.told((3,)),
        Severity.WARNING,
        1,
        Unit.PER_SECOND,
        "{client} is told {error} {measure} by {api}, long after it first asked",
        "Correct the topic's name in the client, create the topic, or allow Describe: else topics look unknown.",
        _LASTS_IN_BODIES,
    ),
    Rule(
        "coordinator_moves",
        "Who asks the wrong coordinator?",
        answers.told((16,)),
        Severity.WARNING,
        0.3,
        Unit.PER_SECOND,
        "{client} is told {error} {measure} by {api}, long after it first asked",
        "Give each broker an address of its own (advertised.listeners): behind one load balancer for all of them, "
        "requests for the coordinator reach any broker. Else look for a broker that comes and goes, or an old client.",
        _LASTS_IN_BODIES,
    ),
    Rule(
        "no_fetch_session",
        "Who is given no fetch session?",
        peers.without_sessions,
        Severity.NOTICE,
        0.5,
        Unit.SHARE,
        "{measure} of the Fetches of {subject} ask for a fetch session once more, and name up to {partitions} "
        "partitions each: the brokers have no room for it",
        "Raise max.incremental.fetch.session.cache.slots on the brokers (1,000 by default), or use fewer consumers: "
        "with a session a Fetch names only what is new.",
        _LASTS_IN_BODIES,
        (keys.FETCH,),
    ),
    Rule(
        "stale_commit",
        "Who commits too late?",
        answers.stale_commits,
        Severity.WARNING,
        0.01,
        Unit.SHARE,
        "{measure} of the offset commits of {subject} came after its group had moved on",
        "The poll loop is slower than max.poll.interval.ms or session.timeout.ms: take fewer records a poll "
        "(max.poll.records), or raise them.",
        _LASTS_IN_BODIES,
        (keys.OFFSET_COMMIT,),
    ),
    Rule(
        "login_breaks",
        "Whose login ends while it works?",
        answers.login_breaks,
        Severity.CRITICAL,
        1,
        Unit.COUNT,
        "{subject} was in use when its login was renewed, and refused (cases: {measure})",
        "Check that the client's token or ticket lives longer than connections.max.reauth.ms, and is renewed in time.",
        _ONCE_IN_BODIES,
        (keys.SASL_AUTHENTICATE,),
    ),
    Rule(
        "metadata_storm",
        "Who asks for Metadata all the time?",
        peers.metadata_storm,
        Severity.WARNING,
        1,
        Unit.PER_SECOND,
        "{subject} asks for Metadata {measure} on one connection, without an error that calls for it",
        "Make one client and keep it, and see whether it subscribes to topics that are not there "
        "(allow.auto.create.topics, metadata.max.age.ms).",
        _LASTS_IN_BODIES,
        (keys.METADATA,),
    ),
    Rule(
        "empty_fetches",
        "Who polls for nothing?",
        speed.empty_fetches,
        Severity.NOTICE,
        0.9,
        Unit.SHARE,
        "{measure} of the Fetches of {subject} bring nothing, {rate} a second on one connection",
        "Let the broker wait: fetch.max.wait.ms of 500 or more, fetch.min.bytes of 1 or more.",
        _LASTS_IN_BODIES,
        (keys.FETCH,),
    ),
    Rule(
        "churn",
        "Who keeps connecting?",
        peers.churn,
        Severity.WARNING,
        1,
        Unit.PER_SECOND,
        "{subject} opens {measure} connections that are closed within a minute; half of them within {life}",
        "Keep one client for the life of the process: each connection costs the broker a login and a handshake.",
    ),
    Rule(
        "short_lived_producers",
        "Who makes a producer for every message?",
        peers.short_lived_producers,
        Severity.WARNING,
        1,
        Unit.PER_SECOND,
        "{subject} begins {measure} producers, and hardly sends more Produce requests than that",
        "Make one producer, keep it, and share it between threads: it batches, and its id is asked for once.",
    ),
    Rule(
        "unoffered_version",
        "Who speaks versions that a broker did not offer?",
        peers.unoffered_versions,
        Severity.WARNING,
        1,
        Unit.COUNT,
        "{client} sends {api} v{v}, which the broker had not offered on that connection (requests: {measure})",
        "If the client's settings pin a version (api_version), lift that. Else the client guesses, or the brokers are "
        "of different releases: upgrade whichever is older.",
        _ONCE_IN_BODIES,
        (keys.API_VERSIONS,),
    ),
    Rule(
        "classic_group",
        "Which groups could rebalance without stopping?",
        peers.classic_groups,
        Severity.NOTICE,
        1,
        Unit.COUNT,
        "Group {subject} keeps joining by the classic protocol ({cases} times), though its broker offers the newer one",
        "group.protocol=consumer (KIP-848) spares its members the stop at each rebalance, where the client knows it.",
        _LASTS_IN_BODIES,
        (keys.API_VERSIONS, keys.JOIN_GROUP),
    ),
    Rule(
        "hot_partition",
        "Which partition carries its topic?",
        topics.hot_partitions,
        Severity.WARNING,
        3,
        Unit.RATIO,
        "Partition {partition} of {topic} takes {part} of what is written to its {partitions} partitions, {measure} "
        "an even share",
        "Look at the keys: one that most records have, or a partitioner that prefers one partition.",
        _LASTS_IN_PRODUCE,
    ),
    Rule(
        "small_batches",
        "Who sends records one by one?",
        topics.small_batches,
        Severity.WARNING,
        100,
        Unit.PER_SECOND,
        "{client} writes {measure} batches to {topic}, half of them of at most {size} bytes",
        "Let the producer wait for more: linger.ms of 5 to 50, and no flush behind each record.",
        _LASTS_IN_PRODUCE,
    ),
    Rule(
        "unsafe",
        "Who acknowledges less than others?",
        topics.unsafe,
        Severity.WARNING,
        0.01,
        Unit.SHARE,
        "{measure} of what {client} writes to {topic} asks for acks of {acks}; most others ask for {usual}",
        "A broker that fails takes such records with it: set acks=all and enable.idempotence=true.",
        _LASTS_IN_PRODUCE,
    ),
    Rule(
        "large",
        "Which records nearly don't fit?",
        topics.large,
        Severity.NOTICE,
        1,
        Unit.COUNT,
        "Records that {client} wrote to {topic} and that take more than 80 % of 1 MiB: {measure}",
        "Brokers take 1 MiB by default (message.max.bytes): compress, keep large things elsewhere, or raise the limits "
        "of topic, brokers and consumers together.",
        _ONCE_IN_PRODUCE,
    ),
    *GROUP_RULES,
    *LOG_RULES,
)
