"""A capture's tables by name: the one list of all of them, and how a capture is opened in Spark."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from recorder.analysis.bodies import LARGEST_BODY, Captured, Road, rows
from recorder.analysis.decode.batches import BATCHES
from recorder.analysis.decode.messages import MESSAGES
from recorder.analysis.decode.record_rows import RECORDS
from recorder.analysis.decode.rows import Decoder
from recorder.analysis.decode.topic_partitions import TOPIC_PARTITIONS
from recorder.analysis.schema import Table
from recorder.analysis.tables.clients import CLIENTS, clients
from recorder.analysis.tables.errors import ERRORS, errors
from recorder.analysis.tables.exchanges import EXCHANGES, doubtful, exchanges
from recorder.analysis.tables.frames import FRAMES, Files, events, frames
from recorder.analysis.tables.happenings import CONNECTIONS, GAPS, SESSIONS, connections, gaps, sessions
from recorder.analysis.tables.metadata_changes import METADATA_CHANGES, metadata_changes
from recorder.analysis.tables.names import TOPIC_NAMES, named, topic_names
from recorder.analysis.tables.topic_use import TOPIC_USE, topic_use
from recorder.capture.frames import FRAMES_FOLDER


class Source(NamedTuple):
    """A table and what makes it."""

    table: Table
    make: Callable[[Captured], DataFrame]


def _named(decoder: Decoder) -> Source:
    return Source(decoder.table, partial(named, decoder=decoder))


def all_exchanges(captured: Captured) -> DataFrame:
    """The exchanges, joined only where they must be."""
    return exchanges(captured, doubtful(captured))


SOURCES = {
    source.table.name: source
    for source in (
        Source(FRAMES, lambda captured: captured.chosen.select(*FRAMES.names)),
        Source(EXCHANGES, all_exchanges),
        Source(ERRORS, lambda captured: errors(all_exchanges(captured))),
        Source(SESSIONS, sessions),
        Source(CONNECTIONS, connections),
        Source(GAPS, gaps),
        Source(CLIENTS, clients),
        Source(MESSAGES.table, partial(rows, decoder=MESSAGES)),
        _named(TOPIC_PARTITIONS),
        _named(BATCHES),
        _named(RECORDS),
        Source(TOPIC_NAMES, topic_names),
        Source(TOPIC_USE, topic_use),
        Source(METADATA_CHANGES, metadata_changes),
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
) -> Captured:
    """The capture in `folder` (a path, or a URL that Spark can read), or these files of it.

    Bodies take the worker road where `files` are given, which every executor must reach by the same path.
    """
    paths = None if files is None else tuple(files[FRAMES_FOLDER])
    found, happened = frames(spark, folder, files), events(spark, folder, files)
    return Captured(found, happened, paths, road, largest, since_ns, until_ns)


def load(found: Captured, name: str) -> DataFrame:
    """A table by its name. Errors: KeyError for a name that none has."""
    return SOURCES[name].make(found)
