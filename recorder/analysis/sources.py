"""All tables of a capture by name, and how to open a capture in Spark."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from recorder.analysis.bodies import Captured, Road, rows, whole_frames
from recorder.analysis.decode.cloudevent_rows import CLOUDEVENTS
from recorder.analysis.decode.messages import MESSAGES
from recorder.analysis.decode.record_rows import RECORDS
from recorder.analysis.embedded import is_embedded
from recorder.analysis.scan import files_in
from recorder.analysis.tables.batches import in_log
from recorder.analysis.tables.clients import CLIENTS, CONNECTIONS, clients, connections_with_software
from recorder.analysis.tables.deliveries import DELIVERIES, deliveries
from recorder.analysis.tables.encodings import ENCODINGS, encodings
from recorder.analysis.tables.errors import ERRORS, errors_by_topic
from recorder.analysis.tables.exchanges import EXCHANGES, doubtful, exchanges
from recorder.analysis.tables.fetch_sessions import FETCH_SESSIONS, fetch_sessions
from recorder.analysis.tables.frames import FRAMES, Files, events, frames, heads_and_events
from recorder.analysis.tables.group_events import GROUP_EVENTS, group_events
from recorder.analysis.tables.happenings import GAPS, SESSIONS, gaps, sessions
from recorder.analysis.tables.lag import LAG, lag
from recorder.analysis.tables.latency_buckets import LATENCY_BUCKETS, latency_buckets
from recorder.analysis.tables.metadata_changes import METADATA_CHANGES, metadata_changes
from recorder.analysis.tables.names import TOPIC_NAMES, named, topic_names
from recorder.analysis.tables.rebalances import REBALANCES, rebalances
from recorder.analysis.tables.topic_use import TOPIC_USE, topic_use
from recorder.analysis.tables.transactions import TRANSACTIONS, transactions
from recorder.capture.frames import FRAMES_FOLDER
from recorder.capture.remote import SCHEME
from recorder.facts.batches import BATCHES
from recorder.facts.rows import LARGEST_BODY, Decoder
from recorder.facts.schema import Table
from recorder.facts.topic_partitions import TOPIC_PARTITIONS


class Source(NamedTuple):
    """A table, and the function that computes it."""

    table: Table
    make: Callable[[Captured], DataFrame]


def _named(decoder: Decoder) -> Source:
    return Source(decoder.table, partial(named, decoder=decoder))


def all_exchanges(captured: Captured) -> DataFrame:
    """Returns the exchanges. Request and response are joined only if one row does not describe the exchange fully."""
    return exchanges(captured, doubtful(captured))


SOURCES = {
    source.table.name: source
    for source in (
        Source(FRAMES, partial(whole_frames, columns=FRAMES.names, ddl=FRAMES.ddl)),
        Source(EXCHANGES, all_exchanges),
        Source(ERRORS, lambda captured: errors_by_topic(all_exchanges(captured), captured)),
        Source(LATENCY_BUCKETS, latency_buckets),
        Source(SESSIONS, sessions),
        Source(CONNECTIONS, connections_with_software),
        Source(GAPS, gaps),
        Source(CLIENTS, clients),
        Source(MESSAGES.table, partial(rows, decoder=MESSAGES)),
        _named(TOPIC_PARTITIONS),
        Source(BATCHES.table, partial(in_log, decoder=BATCHES)),
        Source(RECORDS.table, partial(in_log, decoder=RECORDS, names=("offset",))),
        Source(CLOUDEVENTS.table, partial(in_log, decoder=CLOUDEVENTS, names=("offset",))),
        Source(TOPIC_NAMES, topic_names),
        Source(TOPIC_USE, topic_use),
        Source(METADATA_CHANGES, metadata_changes),
        Source(TRANSACTIONS, transactions),
        Source(DELIVERIES, deliveries),
        Source(FETCH_SESSIONS, fetch_sessions),
        Source(GROUP_EVENTS, group_events),
        Source(REBALANCES, rebalances),
        Source(LAG, lag),
        Source(ENCODINGS, encodings),
    )
}


def captured(
    spark: SparkSession,
    folder: str,
    files: Files | None = None,
    *,
    road: Road = Road.AUTO,
    largest: int = LARGEST_BODY,
    since_ns: int | None = None,
    until_ns: int | None = None,
    is_tiny: bool = False,
) -> Captured:
    """Opens the capture in `folder` (a path, or a URL that Spark can read), or these files of it.

    With `files`, and behind `s3://`, bodies take the worker road: every executor must reach the files by the same path.
    `is_tiny`: a single task computes each table, which saves shuffles and planning.
    """
    are_read_by_workers = folder.startswith(SCHEME) or is_embedded()
    if are_read_by_workers:
        files = files or files_in(folder)
    paths = None if files is None else tuple(files[FRAMES_FOLDER])
    if are_read_by_workers and files is not None:
        found, happened = heads_and_events(spark, files, is_tiny=is_tiny)
    else:
        found, happened = frames(spark, folder, files), events(spark, folder, files)
    if is_tiny:
        found, happened = found.coalesce(1), happened.coalesce(1)
    return Captured(found, happened, paths, road, largest, since_ns, until_ns, is_tiny)


def load(found: Captured, name: str) -> DataFrame:
    """Returns a table by its name. Errors: KeyError for an unknown name."""
    return SOURCES[name].make(found)
