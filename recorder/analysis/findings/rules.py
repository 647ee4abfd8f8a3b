"""RULES: all rules, each with its question, threshold, sentence and advice.

A rule has tests in which it fires, and tests in which it stays quiet.
"""

from __future__ import annotations

from proxy.wire import keys
from recorder.analysis.findings import answers, peers, recording, speed, topics
from recorder.analysis.findings.group_rules import GROUP_RULES
from recorder.analysis.findings.log_rules import LOG_RULES
from recorder.analysis.findings.rule import Need, Rule
from recorder.analysis.summary.sections.findings import MIN_CASES, Severity, Unit

_LASTS = (Need.TIME,)
_LASTS_IN_BODIES = (Need.TIME, Need.BODIES)
_LASTS_IN_PRODUCE = (Need.TIME, Need.PRODUCED)
_ONCE_IN_PRODUCE = (Need.PRODUCED,)
_ONCE: tuple[Need, ...] = ()
_ONCE_IN_BODIES = (Need.BODIES,)

RULES = (
    Rule(
        "gaps",
        "Is all traffic in the capture?",
        recording.gaps,
        Severity.WARNING,
        1,
        Unit.COUNT,
        "Gaps ({subject}): {measure}; {bytes} bytes of traffic are not in the capture",
        "All other counts may be too low. Give the recorder a larger queue (--record-queue) or spool (--record-spool), "
        "a faster disk, or fewer bodies (capture.bodies).",
        _ONCE,
    ),
    Rule(
        "above_limits",
        "Which frames are above the proxy's limits?",
        peers.above_limits,
        Severity.CRITICAL,
        1,
        Unit.COUNT,
        "Connections of {client} that the proxy ended, because a {why} ({setting}; the first: {seen}): {measure}",
        "Such a frame never arrives: a record in it is not written. If the frame is right, raise that key in the "
        "proxy's settings. Else lower what the client sends or asks for (max.request.size, fetch.max.bytes).",
        _ONCE,
    ),
    Rule(
        "no_frames",
        "Which connections carry what the proxy can't pass on?",
        peers.no_frames,
        Severity.WARNING,
        1,
        Unit.COUNT,
        "Connections of {client} that the proxy ended ({why}; the first: {seen}): {measure}",
        "Look for what dials the wrong port: a monitor, a browser, a client with TLS where there is none. A client of "
        "Kafka that is newer than the proxy must use the versions that it is offered, or the proxy must be upgraded.",
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
        "Upgrade the client before the brokers. If its settings pin a version (api_version, broker.version.fallback), "
        "remove that setting.",
        _ONCE_IN_BODIES,
        (keys.API_VERSIONS,),
    ),
    Rule(
        "slow",
        "Which answers are slower than usual?",
        speed.slow,
        Severity.CRITICAL,
        3,
        Unit.RATIO,
        "{subject} took {took} ({percentile} of {answers} answers), {measure} its usual {usual}",
        "If queued_ns is a large part of it, the client's own earlier requests delay it. Else look at that broker's "
        "disk, network threads and garbage collection.",
    ),
    Rule(
        "errors",
        "Which errors remain when a client tries again?",
        answers.error_share(retriable=False),
        Severity.CRITICAL,
        0.001,
        Unit.SHARE,
        "{measure} of the answers to {api} hold {error}",
        "Trying again does not help. Open the evidence to see which client asked for what.",
        _LASTS_IN_BODIES,
    ),
    Rule(
        "retriable_errors",
        "Which errors make clients try again?",
        answers.error_share(retriable=True),
        Severity.WARNING,
        0.01,
        Unit.SHARE,
        "{measure} of the answers to {api} hold {error}",
        "Clients try again by themselves, which costs time. Look for leaders that move, replicas that lag, groups that "
        "rebalance.",
        _LASTS_IN_BODIES,
    ),
    Rule(
        "unanswered",
        "Which requests get no answer?",
        answers.unanswered,
        Severity.CRITICAL,
        0.0001,
        Unit.SHARE,
        "{measure} of the requests to {subject} got no answer in time; most of their connections ended by {cause}",
        "Compare the client's request.timeout.ms with the latency, and the broker's log with the times.",
    ),
    Rule(
        "always_fails",
        "Which clients never succeed?",
        answers.always_fails,
        Severity.CRITICAL,
        MIN_CASES,
        Unit.COUNT,
        "Every {api} request of {client} fails: {errors} (tries: {measure})",
        "Trying again does not help this client. A refused login: correct its credentials. REBOOTSTRAP_REQUIRED: its "
        "addresses lead to another cluster. No answer: look at the broker's log. Else the error's name says what to "
        "change.",
        _ONCE_IN_BODIES,
    ),
    Rule(
        "unexpected_responses",
        "Which brokers answer out of turn?",
        answers.unexpected,
        Severity.WARNING,
        1,
        Unit.COUNT,
        "Connections that the proxy ended because a broker of cluster {cluster} answered out of turn ({how}): "
        "{measure}; the last request of most: {api}; nodes: {nodes}",
        "A broker must answer a connection's requests once each, in their order. Upgrade or replace the broker, or "
        "what stands between it and the proxy. Without the proxy, clients may misread later responses.",
        _ONCE,
    ),
    Rule(
        "denied",
        "Which clients lack a permission?",
        answers.error_rate(answers.DENIED),
        Severity.CRITICAL,
        1,
        Unit.PER_SECOND,
        "{client} is told {error} {measure} by {api}",
        "Grant the missing ACL, or stop the client: the broker checks and logs each try.",
        _LASTS_IN_BODIES,
    ),
    Rule(
        "unknown_topic",
        "Which clients ask for topics that do not exist?",
        answers.error_rate((3,)),
        Severity.WARNING,
        1,
        Unit.PER_SECOND,
        "{client} is told {error} {measure} by {api}, long after it first asked",
        "Correct the topic's name in the client, create the topic, or allow Describe: without it topics look unknown.",
        _LASTS_IN_BODIES,
    ),
    Rule(
        "coordinator_moves",
        "Which clients keep asking the wrong coordinator?",
        answers.error_rate((16,)),
        Severity.WARNING,
        0.3,
        Unit.PER_SECOND,
        "{client} is told {error} {measure} by {api}, long after it first asked",
        "Give each broker an address of its own (advertised.listeners): behind one load balancer for all brokers, a "
        "request for the coordinator reaches any of them. Else look for a broker that comes and goes or an old client.",
        _LASTS_IN_BODIES,
    ),
    Rule(
        "no_fetch_session",
        "Which clients get no fetch session?",
        peers.without_sessions,
        Severity.NOTICE,
        0.5,
        Unit.SHARE,
        "{measure} of the Fetches of {subject} ask for a fetch session once more{when}, and name up to {partitions} "
        "partitions each: the brokers have no room for it",
        "Raise max.incremental.fetch.session.cache.slots on the brokers (1,000 by default), or use fewer consumers: "
        "with a session a Fetch names only what is new.",
        _LASTS_IN_BODIES,
        (keys.FETCH,),
    ),
    Rule(
        "stale_commit",
        "Which clients commit too late?",
        answers.stale_commits,
        Severity.WARNING,
        0.01,
        Unit.SHARE,
        "{measure} of the offset commits of {subject} came after its group had moved on",
        "The poll loop takes longer than max.poll.interval.ms or session.timeout.ms. Take fewer records a poll "
        "(max.poll.records), or raise these settings.",
        _LASTS_IN_BODIES,
        (keys.OFFSET_COMMIT,),
    ),
    Rule(
        "login_breaks",
        "Which clients fail to renew their login?",
        answers.login_breaks,
        Severity.CRITICAL,
        1,
        Unit.COUNT,
        "{subject} failed to renew its login on a connection in use (cases: {measure})",
        "Check that the client's token or ticket lives longer than connections.max.reauth.ms, and is renewed in time.",
        _ONCE_IN_BODIES,
        (keys.SASL_AUTHENTICATE,),
    ),
    Rule(
        "metadata_storm",
        "Which clients ask for Metadata all the time?",
        peers.metadata_storm,
        Severity.WARNING,
        1,
        Unit.PER_SECOND,
        "{subject} asks for Metadata {measure} on one connection, without an error that calls for it",
        "Make one client and keep it, and give it all of its topics at once. metadata.max.age.ms of some minutes is "
        "enough: clients ask anyway when a leader moves.",
        _LASTS_IN_BODIES,
        (keys.METADATA,),
    ),
    Rule(
        "empty_fetches",
        "Which clients poll for nothing?",
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
        "Which clients keep connecting?",
        peers.churn,
        Severity.WARNING,
        1,
        Unit.PER_SECOND,
        "{subject} opens {measure} connections that are closed within a minute; half of them within {life}",
        "Keep one client for the life of the process: each connection costs the broker a handshake and a login.",
    ),
    Rule(
        "short_lived_producers",
        "Which clients make a producer for every message?",
        peers.short_lived_producers,
        Severity.WARNING,
        1,
        Unit.PER_SECOND,
        "{subject} begins {measure} producers, and hardly sends more Produce requests than that",
        "Make one producer, keep it, and share it between threads. It then sends batches, and asks for its id once.",
    ),
    Rule(
        "unoffered_version",
        "Which clients use versions that the broker did not offer?",
        peers.unoffered_versions,
        Severity.WARNING,
        1,
        Unit.COUNT,
        "{client} ({software}) sends {api} v{v}, which the broker had not offered on that connection; offered: "
        "{offered}; nodes: {nodes} (requests: {measure})",
        "If the client's settings pin a version (api_version), remove that setting. Else the client guesses, or the "
        "brokers are of different releases: upgrade the older side.",
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
        "Group {subject} forms anew again and again by the classic protocol (generations: {cases}), though its broker "
        "offers the newer one",
        "If the client knows it, set group.protocol=consumer (KIP-848): members then don't stop at each rebalance.",
        _LASTS_IN_BODIES,
        (keys.API_VERSIONS, keys.JOIN_GROUP),
    ),
    Rule(
        "hot_partition",
        "Which partitions get most of their topic's bytes?",
        topics.hot_partitions,
        Severity.WARNING,
        3,
        Unit.RATIO,
        "Partition {partition} of {topic} takes {part} of what is written to its {partitions} partitions ({even} would "
        "be even): {measure} what the others take on average",
        "Look for a key that most records have, or for a partitioner that prefers one partition.",
        _LASTS_IN_PRODUCE,
    ),
    Rule(
        "small_batches",
        "Which clients send records one by one?",
        topics.small_batches,
        Severity.WARNING,
        50,
        Unit.PER_SECOND,
        "{client} writes {measure} batches to {topic}, half of them of at most {size} bytes",
        "Let the producer wait for more records: set linger.ms to 5 to 50, and don't flush after each record.",
        _LASTS_IN_PRODUCE,
    ),
    Rule(
        "unsafe",
        "Which clients ask for fewer acks than others?",
        topics.unsafe,
        Severity.WARNING,
        0.01,
        Unit.SHARE,
        "{measure} of what {client} writes to {topic} asks for acks of {acks}; most others ask for {usual}",
        "If a broker fails, such records may be lost. Set acks=all and enable.idempotence=true.",
        _LASTS_IN_PRODUCE,
    ),
    Rule(
        "leader_acks",
        "Which topics are written with the leader's ack alone?",
        topics.leader_acks,
        Severity.NOTICE,
        1,
        Unit.COUNT,
        "{client} writes to {topic} with acks of the leader alone, and {others} (writes: {cases})",
        "If the leader fails, records are lost that no other replica has yet. Set acks=all and "
        "enable.idempotence=true, and min.insync.replicas=2 for a topic of three replicas. If the topic may lose "
        "records, nothing needs to be done.",
        _LASTS_IN_PRODUCE,
    ),
    Rule(
        "large",
        "Which records are nearly too large?",
        topics.large,
        Severity.NOTICE,
        1,
        Unit.COUNT,
        "Records that {client} wrote to {topic} and that take more than 80 % of 1 MiB: {measure}",
        "Brokers take 1 MiB by default (message.max.bytes). Compress, store large values elsewhere, or raise the "
        "limits of topic, brokers and consumers together.",
        _ONCE_IN_PRODUCE,
    ),
    *GROUP_RULES,
    *LOG_RULES,
)
