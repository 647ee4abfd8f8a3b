"""Fetch sessions (KIP-227): when each partition was part of one. Their Fetch requests name only what is new.

A session belongs to a node, and an epoch counts its requests. Epoch 0 opens a session, and the answer gives its id.
Epoch -1 closes the session, and so does epoch 0 with its id. Errors 70, 71 and 106 end it.

    stream     the requests of one session, or a single request without a session. If a request does not name a
               partition, an earlier request of its stream did
    stay       a partition's time in a session: from the request that names it to the one that forgets it, or to the
               session's end
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis import columns as t
from recorder.analysis.bodies import Captured, rows
from recorder.analysis.tables.batches import topic_key
from recorder.analysis.tables.names import CLUSTER_CALLED, named
from recorder.capture import frames as c
from recorder.facts.fetch_sessions import FETCH_ANSWERS, FETCH_REQUESTS
from recorder.facts.schema import Column as Declared
from recorder.facts.schema import Table

# FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR
LOST = (70, 71, 106)
FORGOTTEN, CLOSED, REPLACED, ERROR = "forgotten", "closed", "replaced", "error"
STREAM, RUN = "stream", "run"
# the columns that order requests
ORDER = [c.AT, c.SESSION, c.CONNECTION, c.EXCHANGE]
_SESSION, _EPOCH, _OPENED, _CAUSE = "fetch_session", "fetch_epoch", "_opened", "_cause"
# a session by node and id: each node chooses its ids, and may use them again
_ONE = "_one"
_FACTS = [c.CLUSTER, c.NODE, c.CLIENT, c.CLIENT_ID]

FETCH_SESSIONS = Table(
    "fetch_sessions",
    "a partition's stay in a fetch session",
    (
        CLUSTER_CALLED,
        Declared(c.NODE, "int", "the broker's node id; null while unknown"),
        Declared(c.CLIENT, "string", "the client's address and port"),
        Declared(c.CLIENT_ID, "string", "as its requests say"),
        Declared(_SESSION, "int", "the fetch session's id, as the broker chose it"),
        Declared("opened_at", "timestamp", "when the client asked for the session; null: not seen"),
        Declared(
            "unseen",
            "bigint",
            "how many requests between the session's first and last one seen are missing in the capture",
        ),
        Declared("topic", "string", "its name; null if no frame names the id"),
        Declared("topic_id", "string", "its id as Kafka prints it; null if the version has only names"),
        Declared("partition", "int", "its number"),
        Declared("from_at", "timestamp", "when the first request that named it arrived; null: not seen"),
        Declared("to_at", "timestamp", "when the request that ended its stay arrived; null: none was seen"),
        Declared("ended_by", "string", f"`{FORGOTTEN}`, `{CLOSED}`, `{REPLACED}`, `{ERROR}`; null: nothing seen"),
        Declared("first_offset", "bigint", "the first offset asked for"),
        Declared("last_offset", "bigint", "the last offset asked for"),
        Declared(c.SESSION, "string", "the capture's session, of the first request"),
        Declared(c.CONNECTION, "bigint", "of the first request"),
        Declared("from_exchange", "bigint", "of the first request"),
        Declared("to_exchange", "bigint", "of the request that ended the stay; null: it goes on"),
    ),
    needs_bodies=True,
)


def fetch_sessions(captured: Captured) -> DataFrame:
    """One row a stay: the columns of FETCH_SESSIONS."""
    fetches = named(captured, FETCH_REQUESTS)
    requests = streams(fetches, captured).filter(F.col(_SESSION).isNotNull())
    found = _stays(fetches, requests).join(_sessions(requests), STREAM)
    end = F.coalesce("_forgotten", "_end")
    own = {
        "opened_at": F.col(_OPENED)[c.AT],
        "from_at": F.col("_from")[c.AT],
        "from_exchange": F.col("_from")[c.EXCHANGE],
        "to_at": end[c.AT],
        "to_exchange": end[c.EXCHANGE],
        "ended_by": F.when(F.col("_forgotten").isNotNull(), FORGOTTEN).otherwise(F.col(_CAUSE)),
    }
    return found.withColumns(own).select(*FETCH_SESSIONS.names)


def streams(fetches: DataFrame, captured: Captured) -> DataFrame:
    """The Fetch requests, each with STREAM and RUN. Needs the rows of FETCH_REQUESTS.

    RUN grows where requests of the session are missing in the capture. A request that closes a session is also a row of
    that session, with a cause.
    """
    answers = rows(captured.later, FETCH_ANSWERS).select(*t.KEYS, "answered_session", "answered_error")
    own = fetches.filter(F.col("partition").isNull() & F.col("unread").isNull())
    both = own.select(*t.KEYS, c.AT, *_FACTS, _SESSION, _EPOCH).join(answers, t.KEYS, "left")
    used, closed = both.withColumns(_of_use()), both.filter(F.col(_SESSION) > 0).withColumns(_of_close())
    events = used.unionByName(closed.filter(F.col(_CAUSE).isNotNull())).withColumn(_ONE, _one())
    in_order = Window.partitionBy(_ONE).orderBy(*ORDER)
    so_far = in_order.rowsBetween(Window.unboundedPreceding, 0)
    leaps = (F.col("_use") > 0) & (F.lag("_use").over(in_order) + 1 != F.col("_use"))
    opened = F.last(F.when(F.col("_use") == 0, F.struct(*ORDER)), ignorenulls=True).over(so_far)
    marked = events.withColumns({"_leaps": F.coalesce(leaps, F.lit(False)).cast("int"), _OPENED: opened})
    name = F.concat_ws("/", _ONE, *(F.col(_OPENED)[key].cast("string") for key in t.KEYS))
    return marked.withColumns({RUN: F.sum("_leaps").over(so_far), STREAM: name})


def _of_use() -> dict[str, Column]:
    """The session of the request, and the request's number in it; null without a session."""
    opens = (F.col(_EPOCH) == 0) & (F.col("answered_session") > 0)
    goes_on = F.col(_EPOCH) > 0
    lost = F.when(goes_on & F.col("answered_error").isin(*LOST), ERROR)
    return {
        _SESSION: F.when(goes_on, F.col(_SESSION)).when(opens, F.col("answered_session")),
        "_use": F.when(goes_on | opens, F.col(_EPOCH)),
        _CAUSE: lost,
    }


def _of_close() -> dict[str, Column]:
    """The session that the request closes, to open another one or none."""
    cause = F.when(F.col(_EPOCH) == 0, REPLACED).when(F.col(_EPOCH) < 0, CLOSED)
    return {"_use": F.lit(None).cast("int"), _CAUSE: cause}


def _one() -> Column:
    on_connection = F.concat_ws("/", c.SESSION, F.col(c.CONNECTION).cast("string"))
    where = F.coalesce(F.concat(F.lit("node "), F.col(c.NODE)), on_connection)
    alone = F.concat_ws("/", F.lit("alone"), on_connection, F.col(c.EXCHANGE).cast("string"))
    return F.coalesce(F.concat(F.coalesce(c.CLUSTER, F.lit("")), F.lit("/"), where, F.lit("/"), _SESSION), alone)


def _sessions(requests: DataFrame) -> DataFrame:
    """How each session began and ended."""
    event, ends = F.struct(*ORDER), F.col(_CAUSE).isNotNull()
    spanned = F.max("_use") - F.min("_use") + 1
    return requests.groupBy(STREAM).agg(
        F.first(_OPENED).alias(_OPENED),
        F.min(F.when(ends, event)).alias("_end"),
        F.min_by(_CAUSE, F.when(ends, event)).alias(_CAUSE),
        F.coalesce(spanned - F.count_distinct("_use"), F.lit(0)).cast("bigint").alias("unseen"),
    )


def _stays(fetches: DataFrame, requests: DataFrame) -> DataFrame:
    """One row a stay, from the requests that name or forget its partition."""
    of_request = requests.filter(F.col("_use").isNotNull()).select(*t.KEYS, STREAM, F.col(_SESSION).alias("_id"))
    named_ones = fetches.filter(F.col("partition").isNotNull()).drop(_SESSION)
    paired = named_ones.join(of_request, t.KEYS).withColumnRenamed("_id", _SESSION).withColumn("_topic", topic_key())
    of_partition = Window.partitionBy(STREAM, "_topic", "partition")
    # a request that forgets a topic and names it again means the topic's new id
    in_order = of_partition.orderBy(*ORDER, F.desc("is_forgotten"))
    ended = F.coalesce(F.lag("is_forgotten").over(in_order), F.lit(False)).cast("int")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, 0)
    numbered = paired.withColumn("_ended", ended).withColumn("_stay", F.sum("_ended").over(so_far))
    event, offset = F.struct(*ORDER), F.col("fetch_offset")
    facts = [*_FACTS, c.SESSION, c.CONNECTION, "topic", "topic_id"]
    return (
        numbered.groupBy(STREAM, _SESSION, "_topic", "partition", "_stay")
        .agg(
            F.min_by(F.struct(*facts), event).alias("_facts"),
            F.min(F.when(~F.col("is_forgotten"), event)).alias("_from"),
            F.min(F.when(F.col("is_forgotten"), event)).alias("_forgotten"),
            F.min_by(offset, F.when(offset.isNotNull(), event)).alias("first_offset"),
            F.max_by(offset, F.when(offset.isNotNull(), event)).alias("last_offset"),
        )
        .select("*", "_facts.*")
    )
