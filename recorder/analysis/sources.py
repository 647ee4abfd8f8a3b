"""All tables of a capture by name, and how to open a capture in Spark."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from recorder.analysis.bodies import Captured, FactFiles, Facts, Road, rows, whole_frames
from recorder.analysis.decode.cloudevent_rows import CLOUDEVENTS
from recorder.analysis.decode.messages import MESSAGES
from recorder.analysis.decode.record_rows import RECORDS
from recorder.analysis.embedded import is_embedded
from recorder.analysis.scan import files_in
from recorder.analysis.table_cache import Deferred
from recorder.analysis.tables.batches import in_log
from recorder.analysis.tables.clients import CLIENTS, CONNECTIONS, clients, connections_with_software
from recorder.analysis.tables.deliveries import DELIVERIES, deliveries
from recorder.analysis.tables.encodings import ENCODINGS, encodings
from recorder.analysis.tables.errors import ERRORS, errors_by_topic
from recorder.analysis.tables.exchanges import EXCHANGES, doubtful, exchanges
from recorder.analysis.tables.fetch_sessions import FETCH_SESSIONS, fetch_sessions
from recorder.analysis.tables.frames import FRAMES, Files, events, events_by_workers, frames, heads_by_workers
from recorder.analysis.tables.group_events import GROUP_EVENTS, group_events
from recorder.analysis.tables.happenings import GAPS, SESSIONS, gaps, sessions
from recorder.analysis.tables.lag import LAG, lag
from recorder.analysis.tables.latency_buckets import LATENCY_BUCKETS, latency_buckets
from recorder.analysis.tables.metadata_changes import METADATA_CHANGES, metadata_changes
from recorder.analysis.tables.names import TOPIC_NAMES, named, topic_names
from recorder.analysis.tables.rebalances import REBALANCES, rebalances
from recorder.analysis.tables.topic_use import TOPIC_USE, topic_use
from recorder.analysis.tables.transactions import TRANSACTIONS, transactions
from recorder.capture.frames import EVENTS_FOLDER, FRAMES_FOLDER
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
    facts: FactFiles | None = None,
) -> Captured:
    """Opens the capture in `folder` (a path, or a URL that Spark can read), or these files of it.

    With `files`, and behind `s3://`, bodies take the worker road: every executor must reach the files by the same path.
    `is_tiny`: a single task computes each table, which saves shuffles and planning.
    `facts`: the facts of some or all of `files`. Tables stand on them; of all other files they open frames. Facts are
    made of frames of up to LARGEST_BODY bytes, so none are used with another `largest`.
    """
    are_read_by_workers = folder.startswith(SCHEME) or is_embedded()
    if are_read_by_workers:
        files = files or files_in(folder)
    paths = None if files is None else tuple(files[FRAMES_FOLDER])
    told = tuple(path for path in paths or () if facts and path in facts and largest == LARGEST_BODY)
    untold = tuple(path for path in paths or () if path not in told)

    def frames_of(some: tuple[str, ...]) -> DataFrame:
        if are_read_by_workers:
            found = heads_by_workers(spark, some, is_tiny=is_tiny, with_beginnings=some is not told)
        else:
            found = frames(spark, folder, None if files is None else {FRAMES_FOLDER: some})
        return found.coalesce(1) if is_tiny else found

    def all_events() -> DataFrame:
        if are_read_by_workers and files is not None:
            found = events_by_workers(spark, files[EVENTS_FOLDER], is_tiny=is_tiny)
        else:
            found = events(spark, folder, files)
        return found.coalesce(1) if is_tiny else found

    happened = Deferred(all_events)
    if not told or facts is None:
        of_all = Deferred(partial(frames_of, paths or ()))
        return Captured(spark, of_all, happened, paths, road, largest, since_ns, until_ns, is_tiny)
    others = Deferred(partial(frames_of, untold)) if untold else None
    by_table: dict[str, list[str]] = {}
    for path in told:
        for table, file in facts[path].items():
            by_table.setdefault(table, []).append(file)
    known = Facts(by_table, Deferred(partial(frames_of, told)), told, others, untold)

    def every() -> DataFrame:
        return known.frames.table if others is None else known.frames.table.unionByName(others.table)

    return Captured(spark, Deferred(every), happened, paths, road, largest, since_ns, until_ns, is_tiny, facts=known)


def load(found: Captured, name: str) -> DataFrame:
    """Returns a table by its name. Errors: KeyError for an unknown name."""
    return SOURCES[name].make(found)
