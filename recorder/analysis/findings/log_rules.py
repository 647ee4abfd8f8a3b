"""The rules on logs, and on the brokers that keep them: part of RULES."""

from __future__ import annotations

from proxy.wire import keys
from recorder.analysis.findings import answers, cluster, logs, topics, transactions
from recorder.analysis.findings.rule import Need, Otherwise, Rule
from recorder.analysis.summary.sections.findings import Severity, Unit

_LASTS = (Need.TIME,)
_LASTS_IN_BODIES = (Need.TIME, Need.BODIES)
_LASTS_IN_PRODUCE = (Need.TIME, Need.PRODUCED)
_ONCE_IN_PRODUCE = (Need.PRODUCED,)
_ONCE_IN_BODIES = (Need.BODIES,)
_ONCE_IN_RECORDS = (Need.BODIES, Need.RECORDS)

LOG_RULES = (
    Rule(
        "open_transactions",
        "Which transactions keep readers waiting?",
        transactions.open_transactions,
        Severity.WARNING,
        60_000,
        Unit.MS,
        "{subject} left a transaction open for {measure} without adding to it: readers of committed records wait",
        "Commit or abort each transaction, also after an exception. Lower transaction.timeout.ms, so that the broker "
        "aborts transactions of dead producers sooner.",
        _ONCE_IN_BODIES,
        (keys.INIT_PRODUCER_ID, keys.ADD_PARTITIONS_TO_TXN, keys.END_TXN),
    ),
    Rule(
        "fenced",
        "Which producers were replaced?",
        transactions.fenced,
        Severity.WARNING,
        1,
        Unit.COUNT,
        "{client} is told {error} by {api}: another producer has its transactional.id, or its transaction timed out "
        "(cases: {cases})",
        "Give each running instance a transactional.id of its own, and keep transactions shorter than "
        "transaction.timeout.ms. If the producer was replaced on purpose, nothing needs to be done.",
        _ONCE_IN_BODIES,
    ),
    Rule(
        "duplicates",
        "Which records are in a log twice?",
        logs.duplicates,
        Severity.WARNING,
        1,
        Unit.COUNT,
        "Batches that stand in {subject} twice, because a retry was stored again: {measure}",
        "Set enable.idempotence=true: the broker then knows a retry. Give requests more time (request.timeout.ms).",
        _ONCE_IN_PRODUCE,
    ),
    Rule(
        "sequence_gaps",
        "Which records never arrived?",
        logs.sequence_gaps,
        Severity.CRITICAL,
        1,
        Unit.COUNT,
        "Batches of {client} to {topic} that follow records which never arrived: {measure}",
        "Brokers refuse such batches (OUT_OF_ORDER_SEQUENCE_NUMBER). If an earlier batch was refused, the client "
        "went on counting behind it: make a new producer, and avoid refused batches (max_request_size below the "
        "topic's max.message.bytes). Else look for a bug in the client, or for traffic that did not pass the proxy.",
        _ONCE_IN_PRODUCE,
    ),
    Rule(
        "bad_crc",
        "Which records were damaged?",
        logs.bad_crcs,
        Severity.CRITICAL,
        1,
        Unit.COUNT,
        "Batches {subject} that do not match their checksum: {measure}",
        "If they were damaged when sent, look at the producer and its network. If they were damaged when read, look at "
        "the disk of the broker that served them, and read from another replica.",
        _ONCE_IN_RECORDS,
        (keys.FETCH, keys.PRODUCE),
    ),
    Rule(
        "uncompressed",
        "Which topics would compress well?",
        topics.uncompressed,
        Severity.NOTICE,
        2,
        Unit.RATIO,
        "{subject} is {part} of what is written, without compression; zlib makes its batches {measure} smaller",
        "Set compression.type=zstd or lz4 in the producers: it saves network, disk and replication.",
        (*_LASTS_IN_PRODUCE, Need.RECORDS),
    ),
    Rule(
        "clock",
        "Which clients' clocks are ahead?",
        logs.clocks_ahead,
        Severity.WARNING,
        60_000,
        Unit.MS,
        "Records of {subject} carry times {measure} ahead of the proxy's clock",
        "Correct the clock of that host (NTP), or the timestamps that the application sets: brokers delete and find "
        "records by them.",
        _LASTS_IN_PRODUCE,
        otherwise=Otherwise(
            "unit",
            "Records of {subject} carry times in {unit}, which Kafka takes for milliseconds",
            "Let the application set times in milliseconds since 1970: brokers delete and find records by them.",
        ),
    ),
    Rule(
        "times_in_seconds",
        "Which records carry times in seconds?",
        logs.times_in_seconds,
        Severity.WARNING,
        1,
        Unit.COUNT,
        "Records that {client} writes to {topic} carry times in seconds, so they seem to be of January 1970 (batches: "
        "{measure})",
        "Kafka's times are milliseconds since 1970: multiply by 1000. Brokers take such records for older than "
        "retention.ms and delete them, and searches by time miss them.",
        _ONCE_IN_PRODUCE,
    ),
    Rule(
        "re_reads",
        "Which clients read the same records again?",
        logs.re_reads,
        Severity.NOTICE,
        0.2,
        Unit.SHARE,
        "{measure} of what {client} reads of {topic} was read before, on the same connection or on one that it closed",
        "Look for a seek in a loop, a poll loop that fails and restarts, a client that connects anew and begins at the "
        "beginning (auto.offset.reset=earliest without a commit), or commits that are too rare.",
        _LASTS_IN_BODIES,
        (keys.FETCH,),
    ),
    Rule(
        "expired",
        "Which records were deleted unread?",
        cluster.expired,
        Severity.CRITICAL,
        1,
        Unit.COUNT,
        "Records of {topic} were gone before {who} read them: {how} (cases: {cases})",
        "Keep records longer than the slowest consumer needs (retention.ms, retention.bytes), and alert on its lag.",
        _ONCE_IN_BODIES,
        (keys.FETCH, keys.OFFSET_COMMIT, keys.OFFSET_FETCH),
    ),
    Rule(
        "under_replicated",
        "Which replicas are not in sync?",
        cluster.under_replicated,
        Severity.CRITICAL,
        1,
        Unit.COUNT,
        "Partitions that lack {subject}: {measure}, for example {example}",
        "Check whether that broker is up, has space on its disk and keeps up. Until it is back in sync, a further "
        "failure loses records, or stops producers that ask for acks=all.",
        _LASTS_IN_BODIES,
        (keys.METADATA,),
    ),
    Rule(
        "uneven_nodes",
        "Which node carries most of the load?",
        cluster.uneven_nodes,
        Severity.NOTICE,
        1.5,
        Unit.RATIO,
        "Node {node} carries {part} of what is produced and fetched, {measure} an even share of {nodes} nodes",
        "Spread the leaders over the nodes (kafka-leader-election --election-type preferred), or give busy topics more "
        "partitions.",
        _LASTS,
    ),
    Rule(
        "throttled",
        "Which clients does a quota slow down?",
        answers.throttled,
        Severity.WARNING,
        0.01,
        Unit.SHARE,
        "{measure} of the answers to {subject} make it wait for its quota{when}; its longest wait: {longest}",
        "Raise the quota (kafka-configs --entity-type clients), or make the client send less: compress, and send fewer "
        "requests.",
        _LASTS_IN_BODIES,
    ),
)
