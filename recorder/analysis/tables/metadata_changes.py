"""Changes of the cluster in answers to Metadata: of each partition's leader and replicas, and of each node's address.

Brokers learn of a change at different moments, so answers contradict each other for a while. The answer with the higher
leader epoch is newer. Within an epoch, and before Metadata 7, the later answer is.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis.bodies import Captured
from recorder.analysis.decode.metadata import METADATA_STATES, NODE, PARTITION
from recorder.analysis.decode.topics import PLACE
from recorder.analysis.schema import Column as Declared
from recorder.analysis.schema import Table
from recorder.analysis.tables.names import CLUSTER_CALLED, named
from recorder.capture import frames as c

_STATE = [column.name for column in (*PARTITION, *NODE) if column.name != "told_node"]
_KEY = [c.CLUSTER, "topic", "topic_id", "partition", "told_node"]

METADATA_CHANGES = Table(
    "metadata_changes",
    "a partition's or a node's new state, its first one included",
    (
        CLUSTER_CALLED,
        Declared(c.AT, "timestamp", "when the first answer that told it arrived"),
        *PLACE,
        *PARTITION,
        *NODE,
        Declared("was_leader", "int", "the leader before; null: none, or the first state"),
        Declared("was_isr", "array<int>", "nodes in sync before; null: the first state"),
        Declared("was_replicas", "array<int>", "all its nodes before; null: the first state"),
        Declared("was_address", "string", "the node's `host:port` before, in a node's row; null: the first state"),
        Declared("is_first", "boolean", "whether it is the first state that the capture tells, and so no change"),
        *(Declared(name, "bigint", "of the frame that told it") for name in (c.CONNECTION, c.SEQUENCE, c.EXCHANGE)),
        Declared(c.SESSION, "string", "of the frame that told it"),
    ),
    needs_bodies=True,
)


def metadata_changes(captured: Captured) -> DataFrame:
    """One row a state: the columns of METADATA_CHANGES."""
    states = named(captured, METADATA_STATES).filter(F.coalesce("partition", "told_node").isNotNull())
    before = Window.partitionBy(*_KEY).orderBy(
        F.col("leader_epoch").asc_nulls_first(), F.col(c.AT), F.col(c.SESSION), F.col(c.CONNECTION), F.col(c.SEQUENCE)
    )
    state, was = F.struct(*_STATE), F.col("_was")
    found = states.withColumn("_was", F.lag(state).over(before)).filter(was.isNull() | ~was.eqNullSafe(state))
    changes = {f"was_{name}": was[name] for name in ("leader", "isr", "replicas")}
    address = F.when(was["host"].isNotNull(), F.concat_ws(":", was["host"], was["port"].cast("string")))
    changes |= {"was_address": address, "is_first": was.isNull()}
    return found.withColumns(changes).select(*METADATA_CHANGES.names)
