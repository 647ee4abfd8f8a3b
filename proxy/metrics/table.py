"""Every metric: name, type, labels and help, in one table.

The collector takes its metrics from this table, and the dashboards are checked against it: a name or a label that is
not here does not exist. Names follow Prometheus: base units (seconds, bytes), counters end in `_total`. APIs and
versions that the catalog lacks have the label `other`, so that no peer can invent time series.
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
    """One family. A histogram's samples are `<name>_bucket` (with the label `le`), `<name>_sum` and `<name>_count`."""

    name: str
    kind: MetricType
    labels: tuple[str, ...]
    help: str


def _metric(kind: MetricType, name: str, labels: str, text: str) -> Metric:
    return Metric(f"kafka_wiretap_{name}", kind, tuple(labels.split()), text)


_counter, _gauge, _histogram = (partial(_metric, kind) for kind in MetricType)

# names of clusters come from the settings
_API = "cluster api version"

# traffic; sizes are bytes of frames, without the length prefix
EXCHANGES = _counter("exchanges_total", _API, "Exchanges whose response is complete.")
REQUEST_SIZE = _histogram("request_size_bytes", _API, "Sizes of requests that are answered or will never be.")
RESPONSE_SIZE = _histogram("response_size_bytes", _API, "Sizes of complete responses.")
LATENCY = _histogram("latency_seconds", _API, "Last byte of the request arrived to first byte of the response arrived.")
QUEUED = _counter("queued_seconds_total", _API, "Part of the latency in which the previous response was not complete.")
TRANSFER = _counter("transfer_seconds_total", _API, "First to last byte of the responses.")
PROXY = _histogram(
    "proxy_seconds", "cluster direction", "What the proxy added to a chunk: last byte read to last byte sent."
)
RESPONSE_PROXY = _counter("response_proxy_seconds_total", _API, "Added by the proxy: last byte read to last byte sent.")
ONE_WAY = _counter("one_way_total", _API, "Requests that have no response (Produce with acks=0).")
UNANSWERED = _counter("unanswered_total", _API, "Requests whose response never came, or could not be passed on whole.")
BY_PROXY = _counter("answered_by_proxy_total", _API, "Exchanges that the proxy answered itself; they have no latency.")
ERRORS = _counter("errors_total", "cluster api error", "Error codes other than 0 in complete responses, by name.")
ERRORS_UNREAD = _counter(
    "errors_unread_total", "cluster api reason", "Complete responses of which not all error codes were looked at."
)
OPAQUE = _counter("opaque_frames_total", "cluster reason", "Frames forwarded without being understood.")

# connections and nodes
CONNECTIONS = _gauge("connections", "cluster", "Open connections of clients.")
OPENED = _counter("connections_opened_total", "cluster", "Connections accepted from clients.")
CLOSED = _counter("connections_closed_total", "cluster cause", "Connections ended, by cause.")
NODE = _gauge(
    "node_info", "cluster node upstream listener usual_port", "Always 1. usual_port: no if its usual port was taken."
)
NODE_LISTENERS = _gauge("node_listeners", "cluster", "Listeners of nodes; those of bootstrap are not counted.")
NODE_LISTENERS_LIMIT = _gauge(
    "node_listeners_limit", "cluster", "The most listeners that nodes may have; beyond, answers are refused."
)
BUILD = _gauge("build_info", "version python", "Always 1: what is running.")

# only with several workers
WORKERS = _gauge("workers", "", "Processes that pass traffic on.")
WORKER_CONNECTIONS = _gauge(
    "worker_connections", "cluster worker", "Open connections of a worker; its number, as in the log."
)
WORKER_ENDS = _counter("worker_ends_total", "", "Workers that ended while the proxy went on; each was replaced.")

# the recorder; only while something is recorded
RECORDED_BYTES = _counter("recorder_bytes_total", "", "Bytes of traffic written to the log.")
RECORDED_CHUNKS = _counter("recorder_chunks_total", "", "Chunks of traffic written to the log.")
DROPPED_BYTES = _counter("recorder_dropped_bytes_total", "", "Bytes of traffic that were not recorded.")
LEFT_OUT_FRAMES = _counter("recorder_left_out_frames_total", "", "Frames that the settings leave out.")
LEFT_OUT_BYTES = _counter("recorder_left_out_bytes_total", "", "Bytes of traffic that the settings leave out.")
GAPS = _counter("recorder_gaps_total", "", "Stretches of traffic that were not recorded.")
QUEUE = _gauge("recorder_queue_bytes", "", "Bytes in memory that wait to be written to the log.")
SPOOL = _gauge("recorder_spool_bytes", "", "Bytes of log on disk.")
FAILED = _gauge("recorder_failed", "", "1 while nothing can be recorded (disk full, not writable, hanging), else 0.")
STOPPED = _gauge("recorder_stopped", "", "1 while nothing is recorded because the volume is too full, else 0.")
FOLDER = _gauge("recorder_folder_bytes", "", "Bytes of the capture's whole folder: frames, events, facts and log.")
REMOVED_FILES = _counter("recorder_removed_files_total", "", "Files removed because `capture.keep` keeps no more.")
REMOVED_BYTES = _counter("recorder_removed_bytes_total", "", "Bytes of files removed for that reason.")
COMPACTED_FRAMES = _counter("recorder_compacted_frames_total", "", "Frames written to Parquet.")
COMPACTED_BYTES = _counter("recorder_compacted_bytes_total", "", "Bytes of frames written to Parquet, uncompressed.")
LAG_BYTES = _gauge("recorder_lag_bytes", "", "Bytes of log that the compactor has not yet read.")
LAG_SECONDS = _gauge("recorder_lag_seconds", "", "Age of the oldest traffic that the compactor has not yet read.")
COMPACTOR_RESTARTS = _counter(
    "recorder_compactor_restarts_total",
    "",
    "Times that the compactor ended while the proxy went on, and was restarted.",
)
FACTS_FAILED = _counter("recorder_facts_failed_total", "", "Files of frames whose facts could not be made.")

# only while the capture is shipped
SHIPPED_FILES = _counter("recorder_shipped_files_total", "", "Files copied to the bucket, and checked there.")
SHIPPED_BYTES = _counter("recorder_shipped_bytes_total", "", "Bytes of files copied to the bucket.")
SHIP_LAG_FILES = _gauge("recorder_ship_lag_files", "", "Published files that the bucket does not have yet.")
SHIP_LAG_BYTES = _gauge("recorder_ship_lag_bytes", "", "Bytes of published files that the bucket does not have yet.")
SHIP_LAG_SECONDS = _gauge("recorder_ship_lag_seconds", "", "Age of the oldest file that the bucket lacks.")
SHIP_FAILING = _gauge("recorder_ship_failing", "", "1 while nothing can be copied to the bucket, else 0.")
SHIP_FAILURES = _counter("recorder_ship_failures_total", "cause", "Tries to copy a file that have failed, by cause.")
SHIPPER_RUNS = _gauge("recorder_shipper_runs", "", "1 while a process ships the capture, else 0.")
SHIPPER_RESTARTS = _counter(
    "recorder_shipper_restarts_total", "", "Times that the shipper ended while the proxy went on, and was restarted."
)

METRICS = tuple(value for value in list(globals().values()) if isinstance(value, Metric))

# the recorder's own name of a number (`Observer.counters`) -> the metric that shows it
RECORDER_COUNTERS = {
    "recorded_bytes": RECORDED_BYTES,
    "recorded_chunks": RECORDED_CHUNKS,
    "dropped_bytes": DROPPED_BYTES,
    "left_out_frames": LEFT_OUT_FRAMES,
    "left_out_bytes": LEFT_OUT_BYTES,
    "gaps": GAPS,
    "queue_bytes": QUEUE,
    "spool_bytes": SPOOL,
    "failed": FAILED,
    "stopped": STOPPED,
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
}
# the number of a cause's failures is named so, and then by the cause
SHIP_FAILURES_OF = "ship_failures."
