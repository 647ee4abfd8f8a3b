"""The transactions of producers: when each began, what it holds, and how it ended.

A transaction begins with its producer's first step after the last end, after InitProducerId, or in a new epoch. The
first of these sources in the capture tells how it ended:

    EndTxn          answered without an error; producers repeat it until then
    InitProducerId  by the same producer without an EndTxn before: the coordinator had aborted the transaction
    marker          read by a consumer

A marker has the next epoch if the client speaks Kafka 4's protocol (KIP-890: Produce 12, EndTxn 5), or if the
coordinator aborts by itself (a timeout, another producer). Else it has the transaction's own epoch, and counts only if
the epoch had no other transaction.

A refused step is no part of a transaction, nor are the partitions of a Produce that were refused. Records that were
sent again count once. A step belongs to a producer by its transactional id.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis import columns as t
from recorder.analysis.bodies import Captured, rows
from recorder.analysis.tables.names import CLUSTER_CALLED, named
from recorder.analysis.tables.produced import REFUSED, RESULT, RETRIED, with_results
from recorder.capture import frames as c
from recorder.facts.schema import Column as Declared
from recorder.facts.schema import Table
from recorder.facts.transactions import MARKERS, TRANSACTION_ANSWERS, TRANSACTION_STEPS

COMMITTED, ABORTED = "committed", "aborted"
# the sources that tell how a transaction ended
BY_END, BY_INIT, BY_MARKER = "EndTxn", "InitProducerId", "marker"
# the first versions of KIP-890
_SECOND = {"Produce": 12, BY_END: 5, "TxnOffsetCommit": 5}
_ID, _PRODUCER, _EPOCH = "transactional_id", "producer_id", "producer_epoch"
_OWNER = [c.CLUSTER, _ID]
_NUMBER, _KIND, _SPEAKS_SECOND = "_number", "_kind", "_second"
_INIT, _WORK, _END = "init", "work", "end"

TRANSACTIONS = Table(
    "transactions",
    "a producer's transaction",
    (
        CLUSTER_CALLED,
        Declared(_ID, "string", "the producer's name"),
        Declared(_PRODUCER, "bigint", "its number"),
        Declared(_EPOCH, "smallint", "its epoch while the transaction was open"),
        Declared("number", "int", "counts the producer's transactions within the epoch, from 1 on"),
        Declared(c.CLIENT, "string", "the client's address and port"),
        Declared(c.CLIENT_ID, "string", "as the first request says"),
        Declared("begun_at", "timestamp", "when its first request in the capture arrived"),
        Declared(
            "last_at", "timestamp", "when the last request that added to it arrived; null if only its end was seen"
        ),
        Declared(
            "ended_at",
            "timestamp",
            "when its EndTxn, or a later InitProducerId, was answered; null: neither was seen",
        ),
        Declared("outcome", "string", f"`{COMMITTED}`, `{ABORTED}`; null: its end was not seen"),
        Declared("told_by", "string", f"how the outcome is known: `{BY_END}`, `{BY_INIT}`, `{BY_MARKER}`"),
        Declared("timeout_ms", "int", "after this time the coordinator aborts it; null if InitProducerId was not seen"),
        Declared("partitions", "bigint", "how many partitions it writes to, offsets of groups not counted"),
        Declared("records", "bigint", "records produced and not refused, each once"),
        Declared("bytes", "bigint", "bytes of their batches"),
        Declared("groups", "array<string>", "the groups whose offsets are part of it"),
        Declared(c.SESSION, "string", "of the first request"),
        Declared(c.CONNECTION, "bigint", "of the first request"),
        Declared(c.EXCHANGE, "bigint", "of the first request"),
    ),
    needs_bodies=True,
)


def transactions(captured: Captured) -> DataFrame:
    """One row a transaction: the columns of TRANSACTIONS."""
    found = _with_outcomes(_gathered(_numbered(_steps(captured))))
    return _with_markers(found, captured).select(*TRANSACTIONS.names)


def _steps(captured: Captured) -> DataFrame:
    """The steps that were not refused, by their kind."""
    answers = rows(captured.later, TRANSACTION_ANSWERS).select(
        *t.KEYS, F.col(c.AT).alias(t.ANSWERED_AT), "is_refused", "answered_producer_id", "answered_producer_epoch"
    )
    every = named(captured, TRANSACTION_STEPS).filter(F.col(_ID).isNotNull())
    is_produce = F.col(c.API) == "Produce"
    steps = every.filter(~is_produce).unionByName(_produced(every.filter(is_produce), captured))
    done = steps.join(answers, t.KEYS, "left").filter(~F.coalesce("is_refused", F.lit(False)))
    is_init, is_answered = F.col(c.API) == BY_INIT, F.col("is_refused").isNotNull()
    kind = F.when(is_init, _INIT).when((F.col(c.API) == BY_END) & is_answered, _END).otherwise(_WORK)
    own = {
        _KIND: kind,
        _PRODUCER: F.when(is_init, F.col("answered_producer_id")).otherwise(F.col(_PRODUCER)),
        _EPOCH: F.when(is_init, F.col("answered_producer_epoch")).otherwise(F.col(_EPOCH)),
    }
    return done.withColumns(own).filter(F.col(_PRODUCER).isNotNull())


def _produced(steps: DataFrame, captured: Captured) -> DataFrame:
    """The batches of Produce requests that were not refused; those that were sent again have no records."""
    found, is_again = with_results(steps, captured), F.col(RESULT) == RETRIED
    counted = {name: F.when(~is_again, F.col(name)) for name in ("records", "bytes")}
    return found.filter(F.col(RESULT) != REFUSED).withColumns(counted).select(*steps.columns)


def _numbered(steps: DataFrame) -> DataFrame:
    """The steps with the number of their transaction; an InitProducerId has the number of the transaction before it."""
    in_order = Window.partitionBy(*_OWNER).orderBy(c.AT, c.SESSION, c.CONNECTION, c.EXCHANGE)
    was = {name: F.lag(name).over(in_order) for name in (_KIND, _PRODUCER, _EPOCH)}
    is_new = (
        was[_KIND].isNull()
        | (was[_KIND] == _INIT)
        | ((was[_KIND] == _END) & (F.col(_KIND) == _WORK))
        | (was[_PRODUCER] != F.col(_PRODUCER))
        | (was[_EPOCH] != F.col(_EPOCH))
    )
    begins = ((F.col(_KIND) != _INIT) & is_new).cast("int")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, 0)
    timeout = F.last("timeout_ms", ignorenulls=True).over(so_far)
    marked = steps.withColumns({"_begins": begins, "timeout_ms": timeout})
    return marked.withColumn(_NUMBER, F.sum("_begins").over(so_far))


def _gathered(steps: DataFrame) -> DataFrame:
    """One row a transaction."""
    is_init, is_end = F.col(_KIND) == _INIT, F.col(_KIND) == _END
    own, at = F.when(~is_init, F.col(c.AT)), F.struct(c.AT, c.SESSION, c.CONNECTION, c.EXCHANGE)
    first = F.struct(c.CLIENT, c.CLIENT_ID, c.SESSION, c.CONNECTION, c.EXCHANGE, _PRODUCER, _EPOCH, "timeout_ms")
    is_end_asked = F.col(c.API) == BY_END
    added = F.when(~is_init & ~is_end_asked, F.col(c.AT))
    place = F.when(F.col("partition").isNotNull(), F.struct(F.coalesce("topic", "topic_id"), "partition"))
    found = steps.groupBy(*_OWNER, _NUMBER).agg(
        F.min_by(first, F.when(~is_init, at)).alias("_first"),
        F.min(own).alias("begun_at"),
        F.max(added).alias("last_at"),
        _ended_at().alias("ended_at"),
        F.min_by("is_commit", F.when(is_end, at)).alias("is_commit"),
        F.max(is_end_asked).alias("_asked_to_end"),
        F.max(is_init).alias("_replaced"),
        F.max(_speaks_second()).alias(_SPEAKS_SECOND),
        F.count_distinct(place).alias("partitions"),
        F.coalesce(F.sum("records"), F.lit(0)).alias("records"),
        F.coalesce(F.sum("bytes"), F.lit(0)).alias("bytes"),
        F.array_sort(F.collect_set("group_id")).alias("groups"),
    )
    return found.filter(F.col(_NUMBER) > 0).select("*", "_first.*")


def _ended_at() -> Column:
    """The latest time of the end: InitProducerId is answered only after an open transaction has ended."""
    ended, replaced = (F.min(F.when(F.col(_KIND) == kind, F.col(t.ANSWERED_AT))) for kind in (_END, _INIT))
    return F.coalesce(ended, replaced)


def _speaks_second() -> Column:
    found = F.lit(False)
    for api, version in _SECOND.items():
        found |= (F.col(c.API) == api) & (F.col(c.API_VERSION) >= version)
    return found


def _with_outcomes(found: DataFrame) -> DataFrame:
    """The rows with their number within the epoch, and the outcomes that requests tell."""
    of_epoch = Window.partitionBy(*_OWNER, _PRODUCER, _EPOCH)
    is_known, is_aborted = F.col("is_commit").isNotNull(), F.col("_replaced") & ~F.col("_asked_to_end")
    outcome = F.when(F.col("is_commit"), COMMITTED).when(is_known | is_aborted, ABORTED)
    return found.withColumns(
        {
            "number": F.row_number().over(of_epoch.orderBy(_NUMBER)),
            "outcome": outcome,
            "told_by": F.when(is_known, BY_END).when(is_aborted, BY_INIT),
            "_of_epoch": F.count("*").over(of_epoch),
            "_next_epoch": F.lead(_EPOCH).over(Window.partitionBy(*_OWNER, _PRODUCER).orderBy(_NUMBER)),
        }
    )


def _with_markers(found: DataFrame, captured: Captured) -> DataFrame:
    """The rows, with the outcomes that only markers tell."""
    names = {"commit": COMMITTED, "abort": ABORTED}
    outcome_of = F.coalesce(*(F.when(F.col("marker") == marker, outcome) for marker, outcome in names.items()))
    markers = named(captured, MARKERS).withColumn("_outcome", outcome_of).filter(F.col("_outcome").isNotNull())
    by_epoch = markers.groupBy(c.CLUSTER, _PRODUCER, F.col(_EPOCH).cast("int").alias("_marked")).agg(
        F.max("_outcome").alias("_outcome")
    )
    is_open, next_epoch = F.col("outcome").isNull(), F.col(_EPOCH).cast("int") + 1
    is_alone = (F.col("_of_epoch") == 1) & ~F.col(_SPEAKS_SECOND)
    is_next_free = F.col(_SPEAKS_SECOND) | ~F.col("_next_epoch").eqNullSafe(next_epoch)
    own_epoch = F.when(is_open & is_alone, F.col(_EPOCH).cast("int"))
    epochs = {"_own": own_epoch, "_after": F.when(is_open & is_next_free, next_epoch)}
    found = found.withColumns(epochs)
    for name in epochs:
        of_name = by_epoch.withColumnsRenamed({"_marked": name, "_outcome": f"{name}_outcome"})
        found = found.join(of_name, [c.CLUSTER, _PRODUCER, name], "left")
    by_marker = F.coalesce("_own_outcome", "_after_outcome")
    told_by = F.coalesce("told_by", F.when(by_marker.isNotNull(), BY_MARKER))
    return found.withColumns({"told_by": told_by, "outcome": F.coalesce("outcome", by_marker)})
