"""Changes of the cluster in answers to Metadata: of each partition's leader and replicas, and of each node's address.

Brokers learn of a change at different moments, so answers contradict each other for a while. The answer with the higher
leader epoch is newer. Within an epoch, the later answer is; but a leader does not change within an epoch, so another
leader is a contradiction: the row tells who was told it (`asker`), and is no change. An answer without an epoch, from
before Metadata 7, belongs to the last epoch that was told before it; there, time tells. What a client was told before
is no news, even if others were told otherwise meanwhile.

A partition whose answer lacks the topic's id is that of the topic's name. A node has an address for each listener, so
its address is that of the cluster in the settings through which clients asked.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it
from pyspark.sql.window import WindowSpec

from recorder.analysis.bodies import Captured, rows
from recorder.analysis.tables.clients import host
from recorder.analysis.tables.names import CLUSTER_CALLED, with_names
from recorder.capture import frames as c
from recorder.facts.metadata import METADATA_STATES, NODE, PARTITION
from recorder.facts.schema import Column as Declared
from recorder.facts.schema import Table
from recorder.facts.topics import PLACE

# A node's state, and a partition's: its epoch is part of the order.
_STATE = [column.name for column in (*PARTITION, *NODE) if column.name not in ("told_node", "leader_epoch", "offline")]
_SETTINGS, _ASKER, _TOPIC, _EPOCH, _OFFLINE = "_asked_in", "_asker", "_topic", "_epoch", "_offline"
_PARTITION = [c.CLUSTER, "topic", "partition"]
# a node's row has the settings' cluster in _TOPIC
_KEY = [c.CLUSTER, _TOPIC, "partition", "told_node"]
_IN_TIME = [c.AT, c.SESSION, c.CONNECTION, c.SEQUENCE]

METADATA_CHANGES = Table(
    "metadata_changes",
    "a partition's or a node's new state, its first one included",
    (
        CLUSTER_CALLED,
        Declared(c.AT, "timestamp", "when the first answer that told it arrived"),
        *PLACE,
        *PARTITION,
        *NODE,
        Declared(
            "asker",
            "string",
            "who was told this, if others are told otherwise: a client, where leaders differ within an epoch; the "
            "cluster's name in the settings, in the row of a node that has several addresses",
        ),
        Declared(
            "was_leader",
            "int",
            "the leader before; null: none, or the first state. In a partition's row with an `asker`: the leader that "
            "others are told",
        ),
        Declared("was_isr", "array<int>", "nodes in sync before; null: the first state"),
        Declared("was_replicas", "array<int>", "all its nodes before; null: the first state"),
        Declared("was_address", "string", "the node's `host:port` before, in a node's row; null: the first state"),
        Declared(
            "is_first",
            "boolean",
            "whether it is the first state that the capture or an `asker` tells, and so no change",
        ),
        *(Declared(name, "bigint", "of the frame that told it") for name in (c.CONNECTION, c.SEQUENCE, c.EXCHANGE)),
        Declared(c.SESSION, "string", "of the frame that told it"),
    ),
    needs_bodies=True,
)


def metadata_changes(captured: Captured) -> DataFrame:
    """One row a state: the columns of METADATA_CHANGES."""
    told = with_names(captured, rows(captured, METADATA_STATES).withColumn(_SETTINGS, F.col(c.CLUSTER)))
    known = _placed(told.filter(F.coalesce("partition", "told_node").isNotNull()))
    of_epoch = Window.partitionBy(*_KEY, _EPOCH).orderBy(*_IN_TIME)
    has_epoch = F.col("leader_epoch").isNotNull()
    leads = F.first(F.when(has_epoch, F.struct("leader")), ignorenulls=True).over(of_epoch)["leader"]
    is_other = F.coalesce(has_epoch & ~F.col("leader").eqNullSafe(F.col("_leads")), F.lit(False))
    led = known.withColumn("_leads", leads)
    changes = _changes(led.filter(~is_other)).withColumn("asker", _settings_if_several())
    columns = METADATA_CHANGES.names
    return changes.select(*columns).unionByName(_contradictions(led.filter(is_other)).select(*columns))


def _placed(states: DataFrame) -> DataFrame:
    """The states, with _KEY, _ASKER, _OFFLINE and _EPOCH, the epoch that they belong to."""
    earlier = Window.partitionBy(*_PARTITION).orderBy(*_IN_TIME)
    asker = F.concat_ws(" at ", F.coalesce(c.CLIENT_ID, F.lit("no client id")), host())
    topic = F.coalesce(*_told("topic_id", earlier), "topic")
    place = F.when(F.col("told_node").isNotNull(), F.col(_SETTINGS)).otherwise(topic)
    of_key = Window.partitionBy(*_KEY).orderBy(*_IN_TIME)
    filled = {
        _EPOCH: F.coalesce(*_told("leader_epoch", of_key)),
        _OFFLINE: F.coalesce(*_told("offline", of_key), F.array().cast("array<int>")),
    }
    return states.withColumns({_ASKER: asker, _TOPIC: place}).withColumns(filled)


def _told(name: str, in_time: WindowSpec) -> tuple[Column, ...]:
    """What the row tells, else what was told last before it, else what is told first after it."""
    before = in_time.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    after = in_time.rowsBetween(Window.currentRow, Window.unboundedFollowing)
    return F.last(name, ignorenulls=True).over(before), F.first(name, ignorenulls=True).over(after)


def _changes(states: DataFrame) -> DataFrame:
    """The first states, and those that differ from the state before, also for the client that was told them."""
    state = F.struct(_EPOCH, _OFFLINE, *_STATE)
    before = Window.partitionBy(*_KEY).orderBy(F.col(_EPOCH).asc_nulls_first(), *_IN_TIME)
    own = Window.partitionBy(*_KEY, _EPOCH, _ASKER).orderBy(*_IN_TIME)
    seen = states.withColumns({"_state": state, "_was": F.lag(state).over(before), "_own": F.lag(state).over(own)})
    new = seen.filter(~F.col("_state").eqNullSafe(F.col("_was")) & ~F.col("_state").eqNullSafe(F.col("_own")))
    # what others were told meanwhile is gone
    again = new.withColumn("_was", F.lag("_state").over(before))
    found = again.filter(F.col("_was").isNull() | ~F.col("_state").eqNullSafe(F.col("_was")))
    was = F.col("_was")
    changes = {f"was_{name}": was[name] for name in ("leader", "isr", "replicas")}
    address = F.when(was["host"].isNotNull(), F.concat_ws(":", was["host"], was["port"].cast("string")))
    return found.withColumns(changes | {"was_address": address, "is_first": was.isNull()})


def _settings_if_several() -> Column:
    """The settings' cluster, in the row of a node for which there are several."""
    every = F.size(F.collect_set(_SETTINGS).over(Window.partitionBy(c.CLUSTER, "told_node")))
    return F.when(F.col("told_node").isNotNull() & (every > 1), F.col(_SETTINGS))


def _contradictions(states: DataFrame) -> DataFrame:
    """The first answer that tells a client another leader than the epoch's first answer told."""
    own = Window.partitionBy(*_KEY, _EPOCH, _ASKER, "leader").orderBy(*_IN_TIME)
    first = states.withColumn("_number", F.row_number().over(own)).filter(F.col("_number") == 1)
    same = {f"was_{name}": F.col(name) for name in ("isr", "replicas")}
    told = {"asker": F.col(_ASKER), "was_leader": F.col("_leads"), "was_address": F.lit(None).cast("string")}
    return first.withColumns({**same, **told, "is_first": F.lit(True)})
