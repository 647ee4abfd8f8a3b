"""Every metric: name, type, labels, help, and the question that it answers, in one table.

The collector takes its metrics from this table, and the dashboards are checked against it: a name or a label that is
not here does not exist. Names follow Prometheus: base units (seconds, bytes), counters end in `_total`. APIs and
versions that the catalog lacks have the label `other`, so that no peer can invent time series. The same holds for nodes
that the node table lacks, and for mechanisms of logins that Kafka lacks. `reference.py` makes docs/metrics.md of the
table.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial

OTHER = "other"
# the label "version" of the APIs of Kafka 0.7, which have no versions
DIALECT_07 = "0.7"

# factor 2 from well below a loopback round trip (about 100 us) to beyond the longest long poll that clients ask for
LATENCY_BOUNDS_NS = tuple(50_000 * 2**power for power in range(20))

# factor 2 from 10 us to 1.3 s: the proxy adds tens of microseconds; a second and more is backpressure
PROXY_BOUNDS_NS = tuple(10_000 * 2**power for power in range(18))

# factor 4 from 64 bytes, which hold a Heartbeat, to 64 MiB, which no fetch of default settings goes beyond
SIZE_BOUNDS = tuple(4**power for power in range(3, 14))


class MetricType(StrEnum):
    """Prometheus' types of metrics."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One family. A histogram's samples are `<name>_bucket` (with the label `le`), `<name>_sum` and `<name>_count`.

    help: what the number is. question: what an operator asks when the number answers.
    """

    name: str
    kind: MetricType
    labels: tuple[str, ...]
    help: str
    question: str


def _metric(kind: MetricType, name: str, labels: str, text: str, question: str) -> Metric:
    return Metric(f"kafka_wiretap_{name}", kind, tuple(labels.split()), text, question)


_counter, _gauge, _histogram = (partial(_metric, kind) for kind in MetricType)

# names of clusters come from the settings
_API = "cluster api version"
_NODE = "cluster node"

# traffic; sizes are bytes of frames, without the length prefix
EXCHANGES = _counter(
    "exchanges_total", _API, "Exchanges whose response is complete.", "How much traffic is there, and of which API?"
)
REQUEST_SIZE = _histogram(
    "request_size_bytes", _API, "Sizes of requests that are answered or will never be.", "How large are requests?"
)
RESPONSE_SIZE = _histogram("response_size_bytes", _API, "Sizes of complete responses.", "How large are responses?")
LATENCY = _histogram(
    "latency_seconds",
    _API,
    "Last byte of the request arrived to first byte of the response arrived.",
    "Which API has become slow? While traffic is recorded, exemplars name exchanges for `inspect show`.",
)
QUEUED = _counter(
    "queued_seconds_total",
    _API,
    "Part of the latency in which the previous response was not complete.",
    "Does a request wait for the broker, or behind other requests of its connection?",
)
TRANSFER = _counter(
    "transfer_seconds_total",
    _API,
    "First to last byte of the responses.",
    "Is the broker slow to begin an answer, or slow to send it?",
)
PROXY = _histogram(
    "proxy_seconds",
    "cluster direction",
    "What the proxy added to a chunk: last byte read to last byte sent.",
    "What does the proxy itself add?",
)
RESPONSE_PROXY = _counter(
    "response_proxy_seconds_total",
    _API,
    "Added by the proxy: last byte read to last byte sent.",
    "To which API does the proxy add most?",
)
ONE_WAY = _counter(
    "one_way_total",
    _API,
    "Requests that have no response (Produce with acks=0).",
    "Who produces without waiting for an answer?",
)
UNANSWERED = _counter(
    "unanswered_total",
    _API,
    "Requests whose response never came, or could not be passed on whole.",
    "Which requests did clients lose?",
)
BY_PROXY = _counter(
    "answered_by_proxy_total",
    _API,
    "Exchanges that the proxy answered itself; they have no latency.",
    "Which clients ask for versions that the proxy does not pass on?",
)
ERRORS = _counter(
    "errors_total",
    "cluster api error",
    "Error codes other than 0 in complete responses, by name.",
    "Which requests fail, and why?",
)
ERRORS_UNREAD = _counter(
    "errors_unread_total",
    "cluster api reason",
    "Complete responses of which not all error codes were looked at.",
    "How far can the counts of errors be trusted?",
)
OPAQUE = _counter(
    "opaque_frames_total",
    "cluster reason",
    "Frames forwarded without being understood.",
    "Does anybody speak a version that the proxy does not know?",
)
LOGINS = _counter(
    "logins_total",
    "cluster mechanism outcome",
    "Logins by SASL that have ended; unfinished: the connection ended first.",
    "Are logins refused, and of which mechanism?",
)

# connections and nodes
CONNECTIONS = _gauge("connections", "cluster", "Open connections of clients.", "How many clients are there?")
CONNECTION_LIMIT = _gauge(
    "connections_limit",
    "cluster",
    "The most open connections of a cluster (`limits.connections`), if they are limited.",
    "How near is a cluster to turning clients away?",
)
ALL_CONNECTIONS_LIMIT = _gauge(
    "all_connections_limit",
    "",
    "The most open connections of all clusters (`connections`), if they are limited.",
    "How near is the proxy to turning clients away?",
)
OPENED = _counter(
    "connections_opened_total", "cluster", "Connections accepted from clients.", "Do clients connect again and again?"
)
CLOSED = _counter(
    "connections_closed_total",
    "cluster cause",
    "Connections ended, by cause.",
    "Who ends connections: clients, brokers, or the proxy?",
)
UPSTREAM_UP = _gauge(
    "upstream_up",
    "cluster",
    "1 while any broker of the cluster could be reached when last dialled, else 0.",
    "Is the whole cluster away?",
)
NODE = _gauge(
    "node_info",
    "cluster node upstream listener usual_port",
    "Always 1. usual_port: no if its usual port was taken.",
    "Which broker is a node, and where do its clients connect?",
)
NODE_LISTENERS = _gauge(
    "node_listeners",
    "cluster",
    "Listeners of nodes; those of bootstrap are not counted.",
    "How many nodes does the proxy stand for?",
)
NODE_LISTENERS_LIMIT = _gauge(
    "node_listeners_limit",
    "cluster",
    "The most listeners that nodes may have; beyond, answers are refused.",
    "How many more nodes may there be?",
)
BUILD = _gauge("build_info", "version python", "Always 1: what is running.", "Which version runs where?")

# by node: `bootstrap` for connections to a bootstrap listener, `other` for nodes that the node table lacks
NODE_EXCHANGES = _counter(
    "node_exchanges_total", _NODE, "Exchanges that the node has answered.", "Is the load spread evenly?"
)
NODE_LATENCY = _histogram("node_latency_seconds", _NODE, "As latency_seconds, over all APIs.", "Which broker is slow?")
NODE_ERRORS = _counter(
    "node_errors_total",
    "cluster node error",
    "Error codes other than 0 in the node's responses, by name.",
    "Which broker answers with errors?",
)
NODE_CONNECTIONS = _gauge(
    "node_connections", _NODE, "Open connections of clients that want this node.", "Who is connected where?"
)
NODE_OPENED = _counter(
    "node_connections_opened_total",
    _NODE,
    "Connections of clients that have said that they want this node.",
    "To which broker do clients connect again and again?",
)
NODE_CLOSED = _counter(
    "node_connections_closed_total",
    "cluster node cause",
    "Connections to this node ended, by cause.",
    "Which broker loses its connections, and how?",
)
NODE_UP = _gauge(
    "node_up", _NODE, "1 if the broker could be reached when a client last wanted it, else 0.", "Which broker is down?"
)
NODE_SINCE = _gauge(
    "node_up_since_seconds",
    _NODE,
    "The time from which on node_up has its value, in seconds since 1970.",
    "Since when is it down?",
)
NODE_DIAL_FAILURES = _counter(
    "node_dial_failures_total",
    "cluster node cause",
    "Dials of a broker for a client that have failed, by cause.",
    "Why can it not be reached?",
)
NODE_THROTTLE = _counter(
    "node_throttle_seconds_total",
    "cluster node api",
    "Time that responses have told their clients to wait for a quota, of responses that came in one chunk.",
    "Do quotas slow clients down?",
)
NODE_THROTTLED = _counter(
    "node_throttled_total",
    "cluster node api",
    "Responses that have told their clients to wait for a quota.",
    "How many requests do quotas slow down?",
)

# the process
READY = _gauge("ready", "", "1 while /readyz is 200, else 0.", "Can the proxy serve clients?")
LOOP_DELAY = _histogram(
    "event_loop_delay_seconds",
    "",
    "How late the event loop was, twice a second.",
    "Is the proxy itself overloaded?",
)
QUEUED_BYTES = _gauge(
    "queued_bytes",
    "cluster",
    "Bytes read from one side that the other has not taken yet, or that wait for the recorder.",
    "Does a slow peer, or the recorder, hold traffic back?",
)
HELD_BYTES = _gauge(
    "held_bytes",
    "",
    "Bytes of large responses held to be rewritten, of the most that `held` allows.",
    "How full is the memory for large responses?",
)
HELD_WAITING = _gauge(
    "held_waiting",
    "",
    "Large responses that wait for room among those.",
    "Do clients wait because `held` is too small?",
)
CERTIFICATE_END = _gauge(
    "certificate_end_seconds",
    "cluster setting",
    "When the first certificate of a chain in use ends, in seconds since 1970; setting: which file.",
    "Which certificate must be renewed?",
)

# only with several workers
WORKERS = _gauge("workers", "", "Processes that pass traffic on.", "Do all workers work?")
WORKER_CONNECTIONS = _gauge(
    "worker_connections",
    "cluster worker",
    "Open connections of a worker; its number, as in the log.",
    "Are connections spread over the workers?",
)
WORKER_ENDS = _counter(
    "worker_ends_total", "", "Workers that ended while the proxy went on; each was replaced.", "Do workers crash?"
)

# the recorder; only while something is recorded
RECORDED_BYTES = _counter(
    "recorder_bytes_total", "", "Bytes of traffic written to the log.", "How fast does the capture grow?"
)
RECORDED_CHUNKS = _counter(
    "recorder_chunks_total", "", "Chunks of traffic written to the log.", "How much work is the recording?"
)
DROPPED_BYTES = _counter(
    "recorder_dropped_bytes_total", "", "Bytes of traffic that were not recorded.", "Is anything lost?"
)
LEFT_OUT_FRAMES = _counter(
    "recorder_left_out_frames_total",
    "cause",
    "Frames that the settings leave out, by the first that does: connections (cluster or listener), apis, principals, "
    "client_ids, share, topics. Behind a fault of the recorder nobody can tell (fault).",
    "Do the settings leave out what they should?",
)
LEFT_OUT_BYTES = _counter(
    "recorder_left_out_bytes_total",
    "",
    "Bytes of traffic that the settings leave out.",
    "How much do the settings save?",
)
GAPS = _counter(
    "recorder_gaps_total", "", "Stretches of traffic that were not recorded.", "How often was something lost?"
)
QUEUE = _gauge(
    "recorder_queue_bytes", "", "Bytes in memory that wait to be written to the log.", "Does the disk keep up?"
)
SPOOL = _gauge("recorder_spool_bytes", "", "Bytes of log on disk.", "How much waits for the compactor?")
FAILED = _gauge(
    "recorder_failed",
    "",
    "1 while nothing can be recorded (disk full, not writable, hanging), else 0.",
    "Is the recorder broken?",
)
STOPPED = _gauge(
    "recorder_stopped",
    "",
    "1 while nothing is recorded because the volume is too full, else 0.",
    "Has the recorder stopped to leave room?",
)
ROOM = _gauge(
    "recorder_room_bytes",
    "",
    "Bytes that may be written until only `capture.keep.free` is left on the volume.",
    "How near is the recorder to stopping?",
)
FOLDER = _gauge(
    "recorder_folder_bytes",
    "",
    "Bytes of the capture's whole folder: frames, events, facts and log.",
    "How large is the capture?",
)
REMOVED_FILES = _counter(
    "recorder_removed_files_total",
    "",
    "Files removed because `capture.keep` keeps no more.",
    "Does the retention work?",
)
REMOVED_BYTES = _counter(
    "recorder_removed_bytes_total", "", "Bytes of files removed for that reason.", "How much does the retention remove?"
)
COMPACTED_FRAMES = _counter(
    "recorder_compacted_frames_total", "", "Frames written to Parquet.", "How many frames can be asked about?"
)
COMPACTED_BYTES = _counter(
    "recorder_compacted_bytes_total",
    "",
    "Bytes of frames written to Parquet, uncompressed.",
    "How fast is the compactor?",
)
LAG_BYTES = _gauge(
    "recorder_lag_bytes", "", "Bytes of log that the compactor has not yet read.", "How much is the compactor behind?"
)
LAG_SECONDS = _gauge(
    "recorder_lag_seconds",
    "",
    "Age of the oldest traffic that the compactor has not yet read.",
    "How long is the compactor behind?",
)
COMPACTOR_RESTARTS = _counter(
    "recorder_compactor_restarts_total",
    "",
    "Times that the compactor ended while the proxy went on, and was restarted.",
    "Does the compactor crash?",
)
FACTS_FAILED = _counter(
    "recorder_facts_failed_total", "", "Files of frames whose facts could not be made.", "Are facts missing?"
)

# only while the capture is shipped
SHIPPED_FILES = _counter(
    "recorder_shipped_files_total",
    "",
    "Files copied to the bucket, and checked there.",
    "Does anything reach the bucket?",
)
SHIPPED_BYTES = _counter(
    "recorder_shipped_bytes_total", "", "Bytes of files copied to the bucket.", "How much is shipped?"
)
SHIP_LAG_FILES = _gauge(
    "recorder_ship_lag_files",
    "",
    "Published files that the bucket does not have yet.",
    "How many files would be lost with this host?",
)
SHIP_LAG_BYTES = _gauge(
    "recorder_ship_lag_bytes",
    "",
    "Bytes of published files that the bucket does not have yet.",
    "How much would be lost with this host?",
)
SHIP_LAG_SECONDS = _gauge(
    "recorder_ship_lag_seconds", "", "Age of the oldest file that the bucket lacks.", "How long is the bucket behind?"
)
SHIP_FAILING = _gauge(
    "recorder_ship_failing",
    "",
    "1 while nothing can be copied to the bucket, else 0.",
    "Can the bucket be written now?",
)
SHIP_FAILURES = _counter(
    "recorder_ship_failures_total",
    "cause",
    "Tries to copy a file that have failed, by cause.",
    "Why does shipping fail?",
)
SHIPPER_RUNS = _gauge(
    "recorder_shipper_runs", "", "1 while a process ships the capture, else 0.", "Does the shipper run?"
)
SHIPPER_RESTARTS = _counter(
    "recorder_shipper_restarts_total",
    "",
    "Times that the shipper ended while the proxy went on, and was restarted.",
    "Does the shipper crash?",
)

# only while a process reads the traffic for those who look
LIVE_RESTARTS = _counter(
    "live_restarts_total",
    "",
    "Times that the process that reads the traffic ended while the proxy went on, and was restarted.",
    "Are metrics by topic, client and group begun anew?",
)
LIVE_HUNG = _counter(
    "live_hung_total",
    "",
    "Times that this process was killed because it gave no sign of life for 30 s; each counts as a restart, too.",
    "Does the process hang?",
)
LIVE_DROPPED = _counter(
    "live_dropped_bytes_total",
    "",
    "Bytes that found no room in the feed of that process, where nothing is recorded.",
    "Is the process too slow for the traffic?",
)
LIVE_GAPS = _counter(
    "live_gaps_total", "", "Gaps in that feed, each on one connection.", "Is the process too slow for the traffic?"
)
LIVE_SPOOL = _gauge(
    "live_spool_bytes", "", "Bytes of that feed, in memory, which are not read yet.", "How much does the process wait?"
)

LIVE_RUNS = _gauge(
    "live_runs", "", "1 if the process that reads the traffic answers, else 0.", "Are the metrics below those of now?"
)
LIVE_AGE = _gauge(
    "live_age_seconds",
    "",
    "How old the counts of that process are, as they are shown here.",
    "Are the metrics below those of now?",
)
LIVE_BEHIND = _gauge(
    "live_behind_seconds",
    "",
    "How long ago the newest frame arrived that was read, while there are later ones; else 0.",
    "Is the process too slow for the traffic?",
)
LIVE_MISSED_FRAMES = _counter(
    "live_missed_frames_total",
    "",
    "Frames that passed and that the process could not read; as far as anybody counted them.",
    "Is something missing in the metrics below?",
)
LIVE_GAPS_SEEN = _counter(
    "live_missed_total", "", "Times that something was missed.", "Is something missing in the metrics below?"
)
LIVE_UNREAD = _counter(
    "live_unread_frames_total",
    "",
    "Frames that were seen and could not be opened: too large, damaged, or of an unknown version.",
    "Is something missing in the metrics below?",
)

LIVE_PASSED_OVER = _counter(
    "live_passed_over_frames_total",
    "",
    "Frames that were read too late for `top`, the page and spans: these lack them, and the metrics below do not.",
    "Is something missing in `top`, on the page, among the spans?",
)

# only where live.otlp sends spans
LIVE_SPANS = _counter(
    "live_spans_total",
    "outcome",
    "Exchanges as spans for the collector: `sent`; `refused`, also by silence; `dropped`, as too many waited.",
    "Does the collector get the spans?",
)

LIVE_PUSHES = _counter(
    "live_metrics_pushes_total",
    "outcome",
    "Times that these metrics went to the collector: `sent`; `refused`; `unread`, as this page did not answer.",
    "Does the collector get the metrics?",
)

# names come from peers, and tables of them are bounded
LABEL_OVERFLOW = _counter(
    "live_label_overflow_total",
    "label",
    "Times that a table of such names was full: `other` counted a `topic`, `client_id` or `software`; of all others, "
    "what was idle longest made room.",
    "Is a limit of `[live]` too small? `topics` sets that of `topic`, `clients` of `client_id` and `software`, "
    "`groups` of `group` and `partition`; no setting that of others.",
)
# only where live.topics, live.clients or live.groups ask for it
_TOPIC = "cluster topic"
TOPIC_PRODUCED_BYTES = _counter(
    "topic_produced_bytes_total",
    _TOPIC,
    "Bytes of record batches that clients sent, refused ones included.",
    "Who fills the disks?",
)
TOPIC_PRODUCED_RECORDS = _counter(
    "topic_produced_records_total", _TOPIC, "Records in these batches.", "How much is written to a topic?"
)
TOPIC_FETCHED_BYTES = _counter(
    "topic_fetched_bytes_total",
    _TOPIC,
    "Bytes of record batches that brokers sent to whoever fetches.",
    "How much is read of a topic?",
)
TOPIC_FETCHED_RECORDS = _counter(
    "topic_fetched_records_total", _TOPIC, "Records in these batches.", "How much is read of a topic?"
)
TOPIC_ERRORS = _counter(
    "topic_errors_total",
    "cluster topic api error",
    "Error codes that answers gave to a topic or a partition of it, without normal steps of the protocol.",
    "Which topic is refused, and why?",
)
_CLIENT, _SOFTWARE = "cluster client_id", "cluster software version"
CLIENT_REQUESTS = _counter("client_requests_total", _CLIENT, "Requests by client id.", "Which client asks most?")
CLIENT_REQUEST_BYTES = _counter(
    "client_request_bytes_total", _CLIENT, "Bytes of these requests.", "Which client sends most?"
)
CLIENT_RESPONSE_BYTES = _counter(
    "client_response_bytes_total", _CLIENT, "Bytes of the responses to them.", "Which client receives most?"
)
CLIENT_ERRORS = _counter(
    "client_errors_total",
    "cluster client_id api error",
    "Error codes that answers gave to a client at topics, partitions and committed offsets, without normal steps.",
    "Which client gets errors, and which?",
)
SOFTWARE_REQUESTS = _counter(
    "software_requests_total",
    _SOFTWARE,
    "Requests by the library that the connection's ApiVersions named.",
    "Which libraries, and which versions of them, are in use?",
)
SOFTWARE_REQUEST_BYTES = _counter(
    "software_request_bytes_total", _SOFTWARE, "Bytes of these requests.", "Which library sends most?"
)
SOFTWARE_RESPONSE_BYTES = _counter(
    "software_response_bytes_total", _SOFTWARE, "Bytes of the responses to them.", "Which library receives most?"
)
_PARTITION = "cluster topic partition"
_PLACE = "cluster group topic partition"
LOG_END = _gauge(
    "partition_log_end_offset", _PARTITION, "Where the log ends, as answers told it last.", "How fast does a log grow?"
)
LOG_END_TIME = _gauge(
    "partition_log_end_timestamp_seconds",
    _PARTITION,
    "When they told it, in seconds since 1970.",
    "Is the end of the log one of now?",
)
COMMITTED = _gauge("group_committed_offset", _PLACE, "What the group has committed last.", "Does a group get on?")
COMMITTED_TIME = _gauge(
    "group_committed_timestamp_seconds",
    _PLACE,
    "When it did, in seconds since 1970.",
    "Since when has a group not committed?",
)
GROUP_LAG = _gauge(
    "group_lag",
    _PLACE,
    "Offsets between the log's end and what the group has committed, where this proxy sees both.",
    "Which group is behind?",
)
GROUP_STATE = _gauge(
    "group_state",
    "cluster group topic partition state",
    "1 for the present state: ok, warning (falls behind), stalled (commits and gets nowhere), stopped (is silent).",
    "Which group needs somebody?",
)

METRICS = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
# those that the process beside the proxy counts; all others are the proxy's own
LIVE_METRICS = METRICS[METRICS.index(LIVE_BEHIND) :]

# the recorder's own name of a number (`Observer.counters`) -> the metric that shows it
RECORDER_COUNTERS = {
    "recorded_bytes": RECORDED_BYTES,
    "recorded_chunks": RECORDED_CHUNKS,
    "dropped_bytes": DROPPED_BYTES,
    "left_out_bytes": LEFT_OUT_BYTES,
    "gaps": GAPS,
    "queue_bytes": QUEUE,
    "spool_bytes": SPOOL,
    "failed": FAILED,
    "stopped": STOPPED,
    "room_bytes": ROOM,
    "folder_bytes": FOLDER,
    "removed_files": REMOVED_FILES,
    "removed_bytes": REMOVED_BYTES,
    "compacted_frames": COMPACTED_FRAMES,
    "compacted_bytes": COMPACTED_BYTES,
    "lag_bytes": LAG_BYTES,
    "lag_seconds": LAG_SECONDS,
    "compactor_restarts": COMPACTOR_RESTARTS,
    "facts_failed": FACTS_FAILED,
    "shipped_files": SHIPPED_FILES,
    "shipped_bytes": SHIPPED_BYTES,
    "ship_lag_files": SHIP_LAG_FILES,
    "ship_lag_bytes": SHIP_LAG_BYTES,
    "ship_lag_seconds": SHIP_LAG_SECONDS,
    "ship_failing": SHIP_FAILING,
    "shipper_runs": SHIPPER_RUNS,
    "shipper_restarts": SHIPPER_RESTARTS,
    "live_runs": LIVE_RUNS,
    "live_age": LIVE_AGE,
    "live_restarts": LIVE_RESTARTS,
    "live_hung": LIVE_HUNG,
    "live_dropped_bytes": LIVE_DROPPED,
    "live_gaps": LIVE_GAPS,
    "live_spool_bytes": LIVE_SPOOL,
}
# the recorder's names of numbers by cause begin so, and end with the cause
RECORDER_COUNTERS_BY_CAUSE = {"left_out_frames.": LEFT_OUT_FRAMES, "ship_failures.": SHIP_FAILURES}
