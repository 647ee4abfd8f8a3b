"""Rebalances: a row for each generation of a group that the capture shows, with its members and its cause.

    classic     from the first JoinGroup or REBALANCE_IN_PROGRESS to the last member's SyncGroup
    newer ones  from the first answer with a new assignment to the last member's report that it has the assignment

A generation has no end if the next one began before all its members had their assignments. A step between two
generations (a member leaves, is told to join again, is fenced) belongs to the later one. In newer protocols a member
may have to give partitions back first: it is told so within its old epoch.

A refused join begins no rebalance and makes no member; MEMBER_ID_REQUIRED is the first half of a join that succeeds. A
static member that comes back gets its old generation: that is no rebalance. If a group is deleted or expires, its
generations are numbered anew; `life` counts that.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it
from pyspark.sql.window import WindowSpec

from proxy.wire.error_codes import MEMBER_ID_REQUIRED, REBALANCE_IN_PROGRESS
from recorder.analysis import columns as t
from recorder.analysis.bodies import Captured
from recorder.analysis.expressions import without
from recorder.analysis.table_cache import cut
from recorder.analysis.tables.group_events import ASKED_GENERATION, LAST_AT, NEWCOMER, group_events
from recorder.analysis.tables.names import CLUSTER_CALLED
from recorder.analysis.tables.rebalance_causes import CAUSES, FENCED_CODES, MOVED_CODES, with_causes
from recorder.capture import frames as c
from recorder.facts import group_rows as g
from recorder.facts.schema import Column as Declared
from recorder.facts.schema import Table

REBALANCES = Table(
    "rebalances",
    "a generation of a group, and the rebalance that led to it",
    (
        CLUSTER_CALLED,
        Declared("group_id", "string", "the group"),
        Declared("protocol", "string", "`classic`, `consumer`, `share`, `streams`"),
        Declared("generation", "int", "the generation; in newer protocols the epoch"),
        Declared("from_at", "timestamp", "when it began"),
        Declared("to_at", "timestamp", "when all members that the capture shows had their assignments; null: never"),
        Declared("duration_ms", "bigint", "from `from_at` to `to_at`"),
        Declared(c.CAUSE, "string", ", ".join(f"`{cause}`" for cause in CAUSES) + ": the first that is true"),
        Declared("members", "array<string>", "the members, static ones by their names"),
        Declared("joined", "array<string>", "members that are new"),
        Declared("left", "array<string>", "members that left before"),
        Declared("lost", "array<string>", "members that are gone without having left"),
        Declared("reasons", "array<string>", "what members gave as their reasons"),
        Declared("assignor", "string", "the assignor, if a frame tells it"),
        *(
            Declared(name, "bigint", "of the first frame that shows the generation")
            for name in (c.CONNECTION, c.EXCHANGE)
        ),
        Declared(c.SESSION, "string", "of the first frame that shows the generation"),
    ),
    needs_bodies=True,
)
_GROUP = [c.CLUSTER, "group_id"]
_GENERATION = [*_GROUP, "life", "generation"]
# A living member is never silent for longer: twice the brokers' default heartbeat interval (5 s).
SILENT_S = 10
_STEPS_OF_MEMBERS = (g.JOIN, g.SYNC, g.LEAVE, g.HEARTBEAT)


def rebalances(captured: Captured) -> DataFrame:
    """One row a generation: the columns of REBALANCES."""
    keeping = captured.keeping()
    return keeping.once(REBALANCES.name, lambda: rebalances_of(group_events(keeping)))


def rebalances_of(events: DataFrame) -> DataFrame:
    """One row a generation, made of rows of `group_events`."""
    # A checkpoint, because the steps are read three times: each time Spark would start from the frames.
    steps = cut(_leading(_by_member(_steps(events))))
    found = _with_members(_generations(steps), _lives(steps))
    return with_causes(found, _highest(steps)).select(*REBALANCES.names)


def _steps(events: DataFrame) -> DataFrame:
    """The steps of members, and answers with errors that lead to rebalances. `who`: the member's id, or a static
    member's name.
    """
    tells = F.col(t.ERROR_CODE).isin(REBALANCE_IN_PROGRESS, *MOVED_CODES, *FENCED_CODES)
    takes_part = F.col("step").isin(*_STEPS_OF_MEMBERS) & ~_is_refused_join()
    found = events.filter(F.col("group_id").isNotNull() & (takes_part | tells))
    name = F.max("instance_id").over(Window.partitionBy(*_GROUP, "member_id"))
    static = F.coalesce("instance_id", F.when(F.col("member_id").isNotNull(), name))
    return found.withColumns({"when": F.coalesce(t.ANSWERED_AT, c.AT), "who": F.coalesce(static, F.col("member_id"))})


def _in_order(*of: str) -> WindowSpec:
    """The steps of a group, or of each of its members, in the order in which their answers came."""
    return Window.partitionBy(*_GROUP, *of).orderBy("when", c.SESSION, c.CONNECTION, c.EXCHANGE)


def _is_good() -> Column:
    return F.col(t.ERROR_CODE) == 0


def _is_refused_join() -> Column:
    """Whether an answer says that a member did not get into the group. A join without an answer may have begun a
    rebalance.
    """
    code = F.coalesce(t.ERROR_CODE, F.lit(0))
    return (F.col("step") == g.JOIN) & ~code.isin(0, MEMBER_ID_REQUIRED)


def _is_of_member() -> Column:
    """Whether a step shows that its sender is a member: it got in, or is told of a rebalance, or goes on unrefused."""
    is_let_in = _is_good() & (F.col("step") == g.JOIN)
    code = F.coalesce(t.ERROR_CODE, F.lit(0))
    return is_let_in | ((F.col("step") != g.JOIN) & code.isin(0, REBALANCE_IN_PROGRESS))


def _is_classic() -> Column:
    return F.col("protocol") == g.CLASSIC


def _by_member(steps: DataFrame) -> DataFrame:
    """The steps, with facts from the same member's earlier and later steps.

    `is_assigned`: the answer brings the member into a generation. `is_changed`: the member wants other topics than
    before. `is_revoked`: the member has to give partitions up. `reported_at`: when the member says that it has its
    assignment.
    """
    of_generation = Window.partitionBy(*_GROUP, "generation")
    synced = F.min(F.when((F.col("step") == g.SYNC) & _is_good(), F.col("when"))).over(of_generation)
    known = steps.withColumns({"_synced": synced, **_known_before()})
    found = known.withColumn("is_assigned", F.coalesce(_is_assigned() & _is_good(), F.lit(False)))
    had = F.when(_is_classic(), F.col("_owned")).otherwise(F.col("_had"))
    facts = {
        "is_changed": _wanted() != F.col("_wanted"),
        "is_revoked": F.size(without(had, "assignment")) > 0,
        "reported_at": _reported(),
    }
    return found.withColumns(facts)


def _wanted() -> Column:
    return F.when((F.col("step") != g.LEAVE) & ~_is_refused_join(), F.col("subscription"))


def _known_before() -> dict[str, Column]:
    """The topics that the member wanted, its assignment, and the partitions it owned, before the step."""
    before = _in_order("who").rowsBetween(Window.unboundedPreceding, -1)
    joined = F.when(F.col("step") == g.JOIN, F.col("owned"))
    facts = {"_wanted": _wanted(), "_had": F.col("assignment"), "_owned": joined}
    return {name: F.last(fact, ignorenulls=True).over(before) for name, fact in facts.items()}


def _is_assigned() -> Column:
    """Whether the answer brings a member into its generation. Null counts as false."""
    # a static member that comes back when all others have their assignments
    comes_back = F.coalesce(F.col(c.AT) > F.col("_synced"), F.lit(False))
    joins = (F.col("step") == g.JOIN) & F.col("generation").isNotNull() & ~comes_back
    # an empty assignment is not new to a member without partitions
    is_new = F.col("assignment") != F.coalesce("_had", F.array().cast("array<string>"))
    return F.when(_is_classic(), joins).otherwise(is_new)


def _reported() -> Column:
    """When the member says that it has its partitions; null if it gets others before."""
    to_come = _in_order("who").rowsBetween(1, Window.unboundedFollowing)
    report = F.when(F.col("owned").isNotNull() & (F.col("step") == g.HEARTBEAT), F.col(c.AT))
    first = F.first(report, ignorenulls=True).over(to_come)
    next_assigned = F.first(F.when(F.col("is_assigned"), F.col("when")), ignorenulls=True).over(to_come)
    return F.when(first <= F.coalesce(next_assigned, first), first)


def _leading(steps: DataFrame) -> DataFrame:
    """The steps, each with the `generation` that it leads to, in the `life` of its group."""
    lives = _numbered(steps.withColumn("_assigned", F.when(F.col("is_assigned") & ~_gives_back(), F.col("generation"))))
    place = F.struct(F.col("_life").alias("life"), F.col("_assigned").alias("generation"))
    next_assigned = F.first(F.when(F.col("_assigned").isNotNull(), place), ignorenulls=True)
    own = F.struct(F.col("_life").alias("life"), "generation")
    is_sync = (F.col("step") == g.SYNC) & _is_good()
    into = F.when(is_sync, own).otherwise(next_assigned.over(_in_order().rowsBetween(0, Window.unboundedFollowing)))
    return lives.withColumn("into", into).drop("generation").select("*", "into.*")


def _gives_back() -> Column:
    """Whether a member of a newer protocol is told to give partitions back before it gets a new epoch."""
    keeps_epoch = ~_is_classic() & (F.col(ASKED_GENERATION) == F.col("generation"))
    return F.coalesce(keeps_epoch & F.col("is_revoked"), F.lit(False))


def _numbered(steps: DataFrame) -> DataFrame:
    """The steps with the `_life` of a classic group: how often its generations were numbered anew."""
    last = F.last("_assigned", ignorenulls=True).over(_in_order().rowsBetween(Window.unboundedPreceding, -1))
    begins_again = F.when(_is_classic() & (F.col("_assigned") < last), 1).otherwise(0)
    so_far = _in_order().rowsBetween(Window.unboundedPreceding, 0)
    return steps.withColumn("_again", begins_again).withColumn("_life", F.sum("_again").over(so_far))


def _generations(steps: DataFrame) -> DataFrame:
    """A row a generation, without its members' lives."""
    of_member = Window.partitionBy(*_GENERATION, "who")
    # a member may get several answers (what to give back, then its assignment): its last report counts
    last = F.max(F.when(F.col("is_assigned"), F.struct("when", "reported_at"))).over(of_member)
    # a static member that comes back gets its assignment again
    sync = F.min(F.when(_does(g.SYNC) & _is_good(), F.col("when"))).over(of_member)
    own = {"_report": F.when(F.col("is_assigned"), last["reported_at"]), "_sync": sync}
    found = steps.filter(F.col("generation").isNotNull()).withColumns(own)
    sums = {**_times(), **_people(), **_signs()}
    grouped = found.groupBy(*_GENERATION).agg(*(column.alias(name) for name, column in sums.items()))
    return grouped.filter(F.col("first_assigned").isNotNull())


def _times() -> dict[str, Column]:
    joins = _does(g.JOIN) & ~_is_refused_join()
    begins = F.when(F.col(t.ERROR_CODE) == REBALANCE_IN_PROGRESS, F.col("when")).when(joins, F.col(c.AT))
    assigned_at = F.when(F.col("is_assigned"), F.col("when"))
    return {
        "begins": F.min(begins),
        "first_assigned": F.min(assigned_at),
        "last_assigned": F.max(assigned_at),
        "last_sync": F.max("_sync"),
        "last_report": F.max("_report"),
        **{name: F.min_by(name, assigned_at) for name in (c.SESSION, c.CONNECTION, c.EXCHANGE)},
    }


def _people() -> dict[str, Column]:
    def who(condition: Column) -> Column:
        return F.array_sort(F.collect_set(F.when(condition, F.col("who"))))

    return {
        "leaders_list": F.max_by("members", F.size("members")),
        "assigned": who(F.col("is_assigned")),
        "synced": who(_does(g.SYNC) & _is_good()),
        "reporters": who(F.col("is_assigned") & F.col("_report").isNotNull()),
        "left": who(_does(g.LEAVE) & _is_good()),
    }


def _signs() -> dict[str, Column]:
    """Facts that point at causes."""
    code = F.col(t.ERROR_CODE)
    return {
        "protocol": F.max("protocol"),
        "assignor": F.max("assignor"),
        "reasons": F.array_sort(F.collect_set(F.when(~_is_refused_join(), F.col("reason")))),
        "newcomers": F.count_if(F.col(NEWCOMER) & ~_is_refused_join()),
        "fenced": F.count_if(code.isin(*FENCED_CODES)),
        "moved": F.count_if(code.isin(*MOVED_CODES)),
        "changed": F.count_if("is_changed"),
        "revoked": F.count_if(_does(g.SYNC) & _is_good() & F.col("is_revoked")),
    }


def _does(step: str) -> Column:
    return F.col("step") == step


def lives(events: DataFrame) -> DataFrame:
    """When each member was heard of first and last, and when it left, from rows of `group_events`. Those whose joins
    were all refused are no members.

    CLUSTER, `group_id`, `who`, `first`, `last`, `left`, `is_static`, `last_session`, `last_connection`.
    """
    return _lives(_steps(events))


def assignments(events: DataFrame) -> DataFrame:
    """How many `partitions` each member has from AT to `until`, from rows of `group_events`.

    CLUSTER, `group_id`, `who`, AT, `until`, `partitions`, and the exchange that assigned them. Members of share groups
    share partitions, and those of streams have standby tasks: they are left out.
    """
    steps = _steps(events)
    is_given = F.col("assignment").isNotNull() & _is_good() & F.col("protocol").isin(g.CLASSIC, g.CONSUMER)
    replaced = F.lead("when").over(_in_order("who"))
    found = steps.filter(is_given & F.col("who").isNotNull()).withColumn("_replaced", replaced)
    silence = F.expr(f"INTERVAL {SILENT_S} SECONDS")
    ends = _lives(steps).select(*_GROUP, "who", F.coalesce("left", F.col("last") + silence).alias("_end"))
    return found.join(ends, [*_GROUP, "who"]).select(
        *_GROUP,
        "who",
        F.col("when").alias(c.AT),
        F.coalesce("_replaced", "_end").alias("until"),
        F.size("assignment").alias("partitions"),
        *t.KEYS,
    )


def _lives(steps: DataFrame) -> DataFrame:
    left = F.when(_does(g.LEAVE) & _is_good(), F.col("when"))
    heard = F.greatest(LAST_AT, "when")
    known = steps.filter(F.col("who").isNotNull() & _is_of_member())
    found = known.groupBy(*_GROUP, "who").agg(
        F.min(c.AT).alias("first"),
        F.max(heard).alias("last"),
        F.max(left).alias("left"),
        F.max(F.col("instance_id").isNotNull()).alias("is_static"),
        *(F.max_by(name, heard).alias(f"last_{name}") for name in (c.SESSION, c.CONNECTION)),
    )
    # a member that came back has not left
    return found.withColumn("left", F.when(F.col("left") >= F.col("last"), F.col("left")))


def _with_members(found: DataFrame, lives: DataFrame) -> DataFrame:
    """The generations with their times and `members`.

    Members of a classic group are those in the leader's answer; in newer protocols, those that are alive. If these are
    unknown, they are the members seen in the generation.
    """
    living = F.array_sort(F.collect_set(F.when(_is_there(), F.col("who")))).alias("living")
    times = lives.select(*_GROUP, "who", *(F.col(name).alias(f"_{name}") for name in ("first", "last", "left")))
    alive = found.join(times, _GROUP).groupBy(*_GENERATION).agg(living)
    seen = F.coalesce("leaders_list", "assigned")
    members = F.when(_is_classic(), seen).otherwise(F.coalesce("living", seen))
    from_at = F.when(_is_classic(), F.col("begins")).otherwise(F.col("first_assigned"))
    timed = found.join(alive, _GENERATION, "left").withColumns(
        {"members": members, "from_at": from_at, "to_at": _ends()}
    )
    lasted = F.unix_millis("to_at") - F.unix_millis("from_at")
    return timed.withColumn("duration_ms", F.when(lasted >= 0, lasted))


def _is_there() -> Column:
    """Whether a member is alive in a generation."""
    silence = F.expr(f"INTERVAL {SILENT_S} SECONDS")
    has_left = F.coalesce(F.col("_left") <= F.col("first_assigned"), F.lit(False))
    is_heard = F.col("_last") >= F.col("first_assigned") - silence
    return (F.col("_first") <= F.col("last_assigned")) & ~has_left & is_heard


def _ends() -> Column:
    """When all members of the generation had their assignments; null: never.

    Members of share groups don't report: they have their assignments when they are assigned.
    """
    are_synced = F.size(without("assigned", "synced")) == 0
    have_reported = F.size(without("assigned", "reporters")) == 0
    return (
        F.when(_is_classic(), F.when(are_synced, F.col("last_sync")))
        .when(F.col("protocol") == g.SHARE, F.col("last_assigned"))
        .otherwise(F.when(have_reported, F.col("last_report")))
    )


def _highest(steps: DataFrame) -> DataFrame:
    """The highest partition of each topic that a generation assigns to its members.

    A generation whose leader has nothing to assign has a row without a topic.
    """
    nothing = F.array(F.lit(None).cast("string"))
    each = F.explode(F.when(F.size("given") == 0, nothing).otherwise(F.coalesce("given", "assignment")))
    found = steps.filter(F.col("generation").isNotNull()).select(*_GENERATION, "when", each.alias("_one"))
    topic = F.regexp_replace("_one", r"-\d+$", "").alias("topic")
    number = F.regexp_extract("_one", r"-(\d+)$", 1).cast("int")
    return found.groupBy(*_GENERATION, topic).agg(F.max(number).alias("highest"), F.min("when").alias("told_at"))
