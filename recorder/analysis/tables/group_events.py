"""What happened to groups: the steps of their members, and the changes of their offsets.

A request and its answer become one row, because most answers don't name their group. Plain heartbeats only say that a
member lives: those of a member in one generation become one row before Spark shuffles them. The few heartbeat answers
with news are broadcast, so that no heartbeat is shuffled for a join.

A commit has a row for each partition. From `counts_from` on, the group's offset is the row's: a commit in a transaction
counts only from the transaction's end.
"""

from __future__ import annotations

from functools import partial

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis import columns as t
from recorder.analysis.bodies import Captured, fresh_rows
from recorder.analysis.tables.names import with_names
from recorder.capture import frames as c
from recorder.facts import group_rows as g
from recorder.facts.frame import REQUEST
from recorder.facts.group_offsets import GROUP_STEPS
from recorder.facts.group_rows import COLUMNS
from recorder.facts.memberships import HEARTBEAT_ANSWERS, HEARTBEAT_REQUESTS
from recorder.facts.rows import FRAME, SIDE, UNREAD_COLUMN
from recorder.facts.schema import Column as Declared
from recorder.facts.schema import Table

ASKED_GENERATION, COUNTS_FROM, LAST_AT, TIMES = "asked_generation", "counts_from", "last_at", "times"
NEWCOMER = "is_newcomer"
GROUP_EVENTS = Table(
    "group_events",
    "a step of a group's member, or what became of a group's offset for one partition",
    (
        *(column for column in FRAME if column.name != SIDE),
        Declared(t.ANSWERED_AT, "timestamp", "when the answer's last byte arrived; null without an answer"),
        Declared("group_id", "string", "the group; null if the request could not be read"),
        Declared(
            "protocol",
            "string",
            f"`{g.CLASSIC}`, `{g.CONSUMER}` (KIP-848), `{g.SHARE}`, `{g.STREAMS}`; null for offsets: all have the same",
        ),
        Declared(
            "step",
            "string",
            f"`{g.JOIN}`, `{g.SYNC}`, `{g.LEAVE}`, `{g.HEARTBEAT}` of members; `{g.COMMIT}`, `{g.FETCH_OFFSETS}`, "
            f"`{g.DELETE}` of offsets",
        ),
        Declared("member_id", "string", "the member's id; from the answer, if that gives the id"),
        Declared("instance_id", "string", "a static member's name"),
        Declared(NEWCOMER, "boolean", "joins: whether the member was in no generation before, and has no id yet"),
        Declared(ASKED_GENERATION, "int", "the generation, or the member's epoch, that the request names"),
        Declared("generation", "int", "the generation or epoch that the member has from then on"),
        Declared("assignor", "string", "the assignor that the group has chosen"),
        Declared("is_leader", "boolean", "classic joins: whether the member leads the generation"),
        Declared("members", "array<string>", "the leader's join: all members, static ones by their names"),
        Declared("subscription", "array<string>", "the topics that the member wants; `/.../` is an expression"),
        Declared("owned", "array<string>", "the partitions that the member says it owns: `orders-3`; tasks: `0_3`"),
        Declared("assignment", "array<string>", "the partitions that it gets"),
        Declared("given", "array<string>", "the leader's sync: what each member gets"),
        Declared("reason", "string", "why, as the member says"),
        Declared(t.ERROR_CODE, "smallint", "the answer's code; null if unknown"),
        Declared("topic", "string", "offsets: the topic's name"),
        Declared("topic_id", "string", "offsets: the topic's id, if the version has it"),
        Declared("partition", "int", "offsets: the partition"),
        Declared(
            "committed_offset", "bigint", "offsets: the offset that is committed, or that an answer tells; null: none"
        ),
        Declared("transactional_id", "string", "commits in a transaction: its id"),
        Declared(
            COUNTS_FROM,
            "timestamp",
            "offsets: when the group's offset became this one; null: refused, aborted, or unknown",
        ),
        Declared(TIMES, "bigint", "how many heartbeats without news the row stands for; 1 for all other rows"),
        Declared(LAST_AT, "timestamp", "when the last of them arrived"),
        UNREAD_COLUMN,
    ),
    needs_bodies=True,
)
_REQUESTED = [column.name for column in (*FRAME, *COLUMNS, UNREAD_COLUMN) if column.name != SIDE]
_ANSWERED = [column.name for column in (*COLUMNS, UNREAD_COLUMN)]
# answers to EndTxn after which the producer asks again: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE,
# NOT_COORDINATOR, CONCURRENT_TRANSACTIONS
_END_LATER = (14, 15, 16, 51)
# the columns that the heartbeats of one member in one generation share
_SAME = [name for name in _REQUESTED if name not in (c.SEQUENCE, c.EXCHANGE, c.AT)]


def group_events(captured: Captured) -> DataFrame:
    """One row a step: the columns of GROUP_EVENTS. A report keeps it."""
    return captured.once(GROUP_EVENTS.name, partial(_group_events, captured))


def _group_events(captured: Captured) -> DataFrame:
    merged = _with_effect(_merged(_steps(captured).unionByName(_heartbeats(captured))))
    steps = merged.filter(F.coalesce("step", F.lit("")) != g.END_TXN)
    return with_names(captured, steps, ("owned", "assignment")).select(*GROUP_EVENTS.names)


def _steps(captured: Captured) -> DataFrame:
    """Both sides of all exchanges but heartbeats, as `request` and `answer`."""
    request, answer = F.struct(*_REQUESTED), F.struct(F.col(c.AT), *_ANSWERED)
    is_request = F.col(SIDE) == REQUEST
    # an answer that can't be read has no part in common with its request: it is a row of its own
    is_alone = is_request | F.col(t.UNREAD).isNotNull()
    sides = (
        fresh_rows(captured, GROUP_STEPS)
        .groupBy(*t.KEYS, "part")
        .agg(
            F.first(F.when(is_alone, request), ignorenulls=True).alias("request"),
            F.collect_list(F.when(~is_alone, answer)).alias("every"),
        )
    )
    whole = sides.filter(F.col("request").isNotNull()).select("request", F.explode_outer("every").alias("answer"))
    return whole.withColumns({TIMES: F.lit(1).cast("bigint"), LAST_AT: F.col(f"request.{c.AT}")})


def _heartbeats(captured: Captured) -> DataFrame:
    """A row for each heartbeat with news, and one for all other heartbeats of a member in one generation."""
    news = fresh_rows(captured, HEARTBEAT_ANSWERS).filter(F.col(t.UNREAD).isNull())
    answers = news.select(*t.KEYS, F.struct(F.col(c.AT), *_ANSWERED).alias("answer"))
    both = fresh_rows(captured, HEARTBEAT_REQUESTS).join(F.broadcast(answers), t.KEYS, "left")
    is_news = F.coalesce("is_news", F.lit(False)) | F.col("answer").isNotNull()
    single = F.when(is_news, F.col(c.EXCHANGE)).alias("_single")
    found = both.groupBy(*_SAME, single).agg(
        F.min_by(F.struct(*_REQUESTED), c.AT).alias("request"),
        F.first("answer").alias("answer"),
        F.count("*").alias(TIMES),
        F.max(c.AT).alias(LAST_AT),
    )
    return found.select("request", "answer", TIMES, LAST_AT)


def _merged(sides: DataFrame) -> DataFrame:
    """One row of both sides: each fact from the answer, or else from the request."""
    facts = [column.name for column in COLUMNS if column.name not in ("part", "generation", "is_news")]
    merged = [F.coalesce(F.col(f"answer.{name}"), F.col(f"request.{name}")).alias(name) for name in facts]
    return sides.select(
        *(F.col(f"request.{column.name}") for column in FRAME if column.name != SIDE),
        F.col(f"answer.{c.AT}").alias(t.ANSWERED_AT),
        *merged,
        F.when(F.col("request.step") == g.JOIN, _has_no_id()).alias(NEWCOMER),
        F.col("request.generation").alias(ASKED_GENERATION),
        F.coalesce("answer.generation", "request.generation").alias("generation"),
        F.col("request.is_news").alias("is_news"),
        F.coalesce(f"request.{t.UNREAD}", f"answer.{t.UNREAD}").alias(t.UNREAD),
        TIMES,
        LAST_AT,
    )


def _has_no_id() -> Column:
    """Whether a join is the member's first one. Members of newer protocols choose their ids, and join once."""
    return (F.col("request.protocol") != g.CLASSIC) | F.col("request.member_id").isNull()


def _with_effect(steps: DataFrame) -> DataFrame:
    """The rows with COUNTS_FROM."""
    alone = F.concat_ws("/", c.SESSION, c.CONNECTION, c.EXCHANGE)
    transaction = F.coalesce("transactional_id", alone)
    # rows without an id get a key of their own: else they would all be in one partition
    behind = Window.partitionBy(c.CLUSTER, transaction).orderBy(c.AT).rowsBetween(1, Window.unboundedFollowing)
    ended = F.struct(F.col("is_news").alias("commits"), t.ERROR_CODE, t.ANSWERED_AT)
    # a producer that is told to wait asks for the end once more
    is_end = (F.col("step") == g.END_TXN) & ~F.coalesce(F.col(t.ERROR_CODE).isin(*_END_LATER), F.lit(False))
    end = F.first(F.when(is_end, ended), ignorenulls=True).over(behind)
    is_good = F.col(t.ERROR_CODE) == 0
    is_kept = (F.col("_end")["commits"]) & (F.col("_end")[t.ERROR_CODE] == 0)
    is_of_offsets = F.col("step").isin(g.COMMIT, g.FETCH_OFFSETS, g.DELETE)
    counts = (
        F.when(~is_good | ~is_of_offsets, None)
        .when(F.col("transactional_id").isNull(), F.col(t.ANSWERED_AT))
        .when(is_kept, F.col("_end")[t.ANSWERED_AT])
    )
    return steps.withColumn("_end", end).withColumn(COUNTS_FROM, counts)
