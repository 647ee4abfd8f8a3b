"""Sessions, connections and gaps, made of the capture's events alone."""

from __future__ import annotations

from functools import partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis.bodies import Captured
from recorder.capture import frames as c
from recorder.capture.outcome import DIED, ENDED
from recorder.facts.schema import Column as Declared
from recorder.facts.schema import Table

_SESSION = Declared(c.SESSION, "string", "the capture's session: one run of a proxy, or of one of its workers")
_CLUSTER = Declared(c.CLUSTER, "string", "the cluster's name in the settings")
_CONNECTION = Declared(c.CONNECTION, "bigint", "number within the session")
# the JSON details of the events `opened`, `closed` and `gap`
_OPENED = "struct<client: string, listener: string, upstream: string, node: int, tls: boolean, dialect: string>"
_CLOSED = (
    "struct<open: bigint, decision: struct<"
    "event: string, setting: string, what: string, api: string, length: bigint, reason: string>>"
)
_GAP = "struct<connections: bigint, until_mono_ns: bigint>"

DECISION, SETTING, SEEN = "decision", "setting", "seen"

SESSIONS = Table(
    "sessions",
    "a run of a proxy, or of one of its workers",
    (
        _SESSION,
        Declared("started_at", "timestamp", "when the recording began; null if that is lost"),
        Declared("ended_at", "timestamp", "when the recording ended; null while it goes on"),
        Declared(c.CAUSE, "string", "`ended` in order, or `died`; null while it goes on"),
        Declared("connections", "bigint", "how many connections the events name"),
        Declared("gaps", "bigint", "how many stretches were not recorded, or are lost"),
    ),
)
CONNECTIONS = Table(
    "connections",
    "a client's connection",
    (
        _SESSION,
        _CONNECTION,
        _CLUSTER,
        Declared("opened_at", "timestamp", "when it was opened; null if that is not in the capture"),
        Declared("closed_at", "timestamp", "null while it goes on"),
        Declared(c.CAUSE, "string", "why it was closed; `probe`: the client ended it without a byte"),
        Declared(DECISION, "string", "why the proxy ended it, as the proxy's log says it; null: a peer did"),
        Declared(SETTING, "string", "the key of the proxy's settings that changes this decision"),
        Declared(SEEN, "string", "what the proxy saw then"),
        Declared(c.CLIENT, "string", "the client's address and port"),
        Declared(c.LISTENER, "string", "the local address that it dialled"),
        Declared("upstream", "string", "the broker's address that was dialled for it; null: none was"),
        Declared(c.NODE, "int", "the broker's node id; null if it was unknown"),
        Declared("tls", "boolean", "whether the client spoke TLS"),
        Declared(c.DIALECT, "string", "`kafka` or `kafka-0.7`"),
        Declared(c.FRAMES, "bigint", "frames of the whole connection, recorded or not; null while it goes on"),
        Declared(c.BYTES, "bigint", "bytes of these frames"),
        Declared("open_exchanges", "bigint", "requests that were unanswered when it closed"),
        Declared("gaps", "bigint", "how many stretches of it were not recorded, or are lost"),
        Declared("frames_lost", "bigint", "frames in these gaps; null if a gap's size is unknown"),
    ),
)
GAPS = Table(
    "gaps",
    "a stretch of traffic that was not recorded, or whose record is lost",
    (
        _SESSION,
        Declared(c.CONNECTION, "bigint", "the connection; null: the whole session"),
        _CLUSTER,
        Declared(c.AT, "timestamp", "when it began"),
        Declared("lasted_ns", "bigint", "from its beginning to its end; null if the end is unknown"),
        Declared(c.CAUSE, "string", "`queue_full`, `keep`, `recorder_fault`, `spool_damaged`, `key_lost`"),
        Declared(c.FRAMES, "bigint", "frames lost; null if unknown"),
        Declared(c.BYTES, "bigint", "bytes lost; null if unknown"),
        Declared("connections", "bigint", "how many connections were never seen at all"),
    ),
)


def sessions(captured: Captured) -> DataFrame:
    """One row a session: the columns of SESSIONS."""
    is_session, has_ended = F.col(c.KIND) == c.EVENT_SESSION, F.col(c.CAUSE).isin(ENDED, DIED)
    named = F.count_distinct(F.when(F.col(c.CONNECTION).isNotNull(), F.col(c.CONNECTION)))
    return captured.events.groupBy(c.SESSION).agg(
        F.min(F.when(is_session & ~has_ended, F.col(c.AT))).alias("started_at"),
        F.max(F.when(is_session & has_ended, F.col(c.AT))).alias("ended_at"),
        F.max(F.when(is_session & has_ended, F.col(c.CAUSE))).alias(c.CAUSE),
        named.alias("connections"),
        F.count_if(_is(c.EVENT_GAP)).alias("gaps"),
    )


def connections(captured: Captured) -> DataFrame:
    """One row a connection: the columns of CONNECTIONS."""
    return captured.once(CONNECTIONS.name, partial(_connections, captured))


def _connections(captured: Captured) -> DataFrame:
    events = captured.events.filter(F.col(c.CONNECTION).isNotNull())
    opened, closed, gap = _is(c.EVENT_OPENED), _is(c.EVENT_CLOSED), _is(c.EVENT_GAP)
    facts = F.first(F.when(opened, F.from_json(c.DETAIL, _OPENED)), ignorenulls=True)
    closing = F.first(F.when(closed, F.from_json(c.DETAIL, _CLOSED)), ignorenulls=True)
    found = events.groupBy(c.SESSION, c.CONNECTION).agg(
        F.max(c.CLUSTER).alias(c.CLUSTER),
        F.min(F.when(opened, F.col(c.AT))).alias("opened_at"),
        F.max(F.when(closed, F.col(c.AT))).alias("closed_at"),
        *(F.max(F.when(closed, F.col(name))).alias(name) for name in (c.CAUSE, c.FRAMES, c.BYTES)),
        facts.alias("facts"),
        closing.alias("closing"),
        F.count_if(gap).alias("gaps"),
        F.sum(F.when(gap, F.col(c.FRAMES))).alias("known"),
        F.count_if(gap & F.col(c.FRAMES).isNull()).alias("unknown"),
    )
    lost = F.when(F.col("unknown") == 0, F.coalesce("known", F.lit(0)))
    decision = F.col("closing.decision")
    of_closing = {
        "open_exchanges": F.col("closing.open"),
        DECISION: decision["event"],
        SETTING: decision["setting"],
        SEEN: _seen(decision),
    }
    return found.select("*", "facts.*", lost.alias("frames_lost")).withColumns(of_closing).select(*CONNECTIONS.names)


def is_probe() -> Column:
    """Whether a client ended its connection without a byte, as balancers and monitors do. Captures of older versions
    have no cause for that.
    """
    without_a_byte = F.col(c.CAUSE).isin("client_closed", "client_reset") & (F.col(c.BYTES) == 0)
    return F.coalesce((F.col(c.CAUSE) == "probe") | without_a_byte, F.lit(False))


def _seen(decision: Column) -> Column:
    size = F.concat(decision["length"], F.lit(" bytes"))
    of_api = F.concat_ws(", ", decision["api"], size, decision["reason"])
    return F.coalesce(decision["what"], F.when(F.length(of_api) > 0, of_api))


def gaps(captured: Captured) -> DataFrame:
    """One row a gap: the columns of GAPS."""
    detail = F.from_json(c.DETAIL, _GAP)
    lasted = detail["until_mono_ns"] - F.col(c.MONO_NS)
    lost = {"lasted_ns": F.when(lasted >= 0, lasted), "connections": detail["connections"]}
    return captured.events.filter(_is(c.EVENT_GAP)).withColumns(lost).select(*GAPS.names)


def _is(kind: str) -> Column:
    return F.col(c.KIND) == kind
