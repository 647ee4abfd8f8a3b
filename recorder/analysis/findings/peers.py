"""Rules on clients and their connections.

Client ids that differ only in the number at their end (`producer-17`) are one family: `producer-*`.
"""

from __future__ import annotations

from functools import reduce
from operator import add

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from proxy.wire import apis, keys
from proxy.wire.releases import versions_in
from recorder.analysis import columns as t
from recorder.analysis.expressions import ns
from recorder.analysis.findings.counting import (
    Words,
    concerned,
    counted,
    evidence,
    has_any,
    in_all_windows,
    inside,
    null_safe_join,
    rates,
    rule_rows,
    shares,
)
from recorder.analysis.findings.rows import CASES, EVIDENCE, FROM_NS, MEASURE, NODES, OF, TO_NS, WINDOW
from recorder.analysis.findings.tables import FAMILY, PEER, Tables
from recorder.analysis.tables.clients import CUT, FATE, HOST, RELEASE
from recorder.analysis.tables.happenings import DECISION, SEEN, SETTING, is_probe
from recorder.capture import frames as c
from recorder.facts.frame import RESPONSE
from recorder.facts.rows import SIDE

SHORT_LIFE_S = 60
# UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER: the client should ask for Metadata again
_ASK_AGAIN = (3, 5, 6)
_ASKS_AGAIN_WITHIN_S = 10
# COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR: the client should look for it again
_NO_COORDINATOR = (14, 15, 16)
# the causes of a connection's end for which the client can do nothing (`proxy.conversation.exchange`)
_NOT_REACHED = ("upstream_down", "broker_lost")
# new producers for each Produce request
_NEW_PRODUCERS = 0.5
# The assignors of Kafka's own consumers. A broker may be unable to replace others.
_ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")
_CONNECTION = [c.SESSION, c.CONNECTION]
# the causes for which the proxy ends a connection at a frame that it does not pass on (`proxy.conversation.exchange`)
_AT_FRAMES = ("bad_length", "not_rewritable", "unsupported_version")


def churn(tables: Tables) -> DataFrame:
    """How many connections a second of a family of clients were closed within a minute. Client ids that differ only in
    the number at their end are a family. A client that looks for its coordinator does not count: in windows in which it
    is told that the coordinator is away. Neither do connections to a broker that could not be reached, and those that
    clients end without a byte: balancers and monitors make them.
    """
    life_us = F.unix_micros("closed_at") - F.unix_micros("opened_at")
    clients = inside(tables.connections.filter(~is_probe()))
    short = clients.withColumn("_life", life_us / 1e6).filter(F.col("_life") < SHORT_LIFE_S)
    is_own = ~F.coalesce(F.col(c.CAUSE).isin(*_NOT_REACHED), F.lit(False))
    away = tables.errors.filter(F.col(t.ERROR_CODE).isin(*_NO_COORDINATOR)).select(FAMILY, WINDOW).distinct()
    brief = short.filter(is_own).join(away, [FAMILY, WINDOW], "left_anti")
    found = counted(brief, [FAMILY], at="opened_at", more={"_median": F.median("_life")})
    return rule_rows(rates(found, tables.windows), FAMILY, {"life": F.concat(F.round("_median", 1), F.lit(" s"))})


def above_limits(tables: Tables) -> DataFrame:
    """Connections that the proxy ended because of a frame above one of its own limits, by client. The frame was not
    passed on: what a request carried is not written.
    """
    return _ended_by_proxy(tables, is_limit=True)


def no_frames(tables: Tables) -> DataFrame:
    """Connections that the proxy ended because their bytes were no frames of Kafka, or none that it can pass on, by
    client. Frames above the proxy's limits have a rule of their own.
    """
    return _ended_by_proxy(tables, is_limit=False)


def _ended_by_proxy(tables: Tables, *, is_limit: bool) -> DataFrame:
    has_limit = F.coalesce(F.col(SETTING).startswith("limits."), F.lit(False))
    wanted = F.col(c.CAUSE).isin(*_AT_FRAMES) & (has_limit == is_limit)
    ended = tables.connections.filter(wanted).withColumn(WINDOW, F.lit(0))
    # captures of older versions have the cause alone
    why = F.coalesce(DECISION, F.replace(c.CAUSE, F.lit("_"), F.lit(" ")))
    seen = {"_setting": F.first(SETTING, ignorenulls=True), "_seen": F.min_by(SEEN, "closed_at")}
    found = counted(ended.withColumn("_why", why), [PEER, "_why"], at="closed_at", more=seen)
    alone = found.withColumns({MEASURE: F.col(CASES), OF: F.lit(None).cast("bigint")})
    words: Words = {"client": PEER, "why": "_why", "setting": "_setting", "seen": "_seen"}
    return rule_rows(alone, F.concat_ws(": ", PEER, "_why"), words)


def metadata_storm(tables: Tables) -> DataFrame:
    """How often a second a client asks for Metadata on one connection, though no error calls for it. In a large cluster
    such answers are large.
    """
    recent = Window.partitionBy(PEER).orderBy(F.unix_micros(c.AT)).rangeBetween(-_ASKS_AGAIN_WITHIN_S * 1_000_000, 0)
    has_reason = F.coalesce(has_any(t.ERROR_CODES, _ASK_AGAIN), F.lit(False)).cast("int")
    is_asked = F.col(c.API_KEY) == keys.METADATA
    # sorting all other exchanges would be wasted
    every = tables.exchanges.filter(is_asked | (has_reason == 1)).withColumn("_reason", F.max(has_reason).over(recent))
    requests = inside(every).filter(is_asked & (F.col("_reason") == 0))
    found = counted(requests, [*_CONNECTION, PEER])
    busiest = Window.partitionBy(PEER, WINDOW).orderBy(F.desc(CASES), *_CONNECTION)
    one = found.withColumn("_rank", F.row_number().over(busiest)).filter(F.col("_rank") == 1)
    return rule_rows(rates(one, tables.windows), PEER)


def short_lived_producers(tables: Tables) -> DataFrame:
    """How many producers a second a family of clients begins, where each sends at most two Produce requests. A producer
    begins with an InitProducerId that is not refused, or with the first Produce request on a connection.
    """
    every = tables.exchanges.filter(F.col(c.API_KEY).isin(keys.PRODUCE, keys.INIT_PRODUCER_ID))
    is_produce = F.col(c.API_KEY) == keys.PRODUCE
    own = Window.partitionBy(*_CONNECTION, c.API_KEY).orderBy(c.EXCHANGE)
    begins = is_produce & (F.row_number().over(own) == 1)
    found = inside(every.withColumn("_begins", begins))
    shown = evidence(found, ns(c.AT))
    summed = found.groupBy(FAMILY, WINDOW).agg(
        F.count_if(is_produce).alias("_produced"),
        F.greatest(F.count_if(~is_produce & _is_not_refused()), F.count_if("_begins")).alias(CASES),
        F.min(ns(c.AT)).alias(FROM_NS),
        F.max(ns(c.AT)).alias(TO_NS),
        F.min_by(shown, F.struct(c.AT, shown)).alias(EVIDENCE),
        *concerned(found, F.lit(True)),
    )
    cases = summed.filter((F.col("_produced") > 0) & (F.col(CASES) >= _NEW_PRODUCERS * F.col("_produced")))
    return rule_rows(rates(cases, tables.windows), FAMILY, {"produced": F.col("_produced")})


def overcommits(tables: Tables) -> DataFrame:
    """How many offset commits a second brokers take from a client, if it commits at least as often as it fetches a
    record batch.
    """
    commits = inside(tables.exchanges).filter((F.col(c.API_KEY) == keys.OFFSET_COMMIT) & _is_not_refused())
    found = counted(commits, [PEER, HOST, c.CLIENT_ID])
    fetched = inside(tables.batches).filter(F.col(SIDE) == RESPONSE)
    batches = fetched.groupBy(HOST, c.CLIENT_ID, WINDOW).agg(F.count("*").alias("_batches"))
    both = null_safe_join(found, batches, [HOST, c.CLIENT_ID, WINDOW], "left")
    many = both.filter(F.col(CASES) >= F.coalesce("_batches", F.lit(0)))
    return rule_rows(rates(many, tables.windows), PEER, {"batches": F.coalesce("_batches", F.lit(0))})


def without_sessions(tables: Tables) -> DataFrame:
    """The share of a client's Fetches that ask for another fetch session, though the client asked for one before on the
    same connection. Clients that never ask for one are left out.
    """
    own = Window.partitionBy(*_CONNECTION).orderBy(c.EXCHANGE)
    # epoch -1 asks for no session, and 0 for a new one; all others are within a session
    fetches = tables.fetches.filter(F.col("fetch_epoch") >= 0).withColumn("_number", F.row_number().over(own))
    asks_again = inside(fetches).withColumn("_again", (F.col("fetch_epoch") == 0) & (F.col("_number") > 1))
    most = {"_most": F.max(F.when(F.col("_again"), F.col("partitions")))}
    found = counted(asks_again, [PEER], F.col("_again"), worst=F.col("partitions"), more=most)
    return rule_rows(shares(found), PEER, {"partitions": F.max("_most").over(Window.partitionBy(PEER))})


def cut_off(tables: Tables) -> DataFrame:
    """Requests in a version that Kafka 4 refuses, though the client's broker offered a newer one, or was not asked.
    After an upgrade of the brokers, these requests fail.
    """
    cut = tables.clients.filter(F.col(FATE) == CUT)
    worst = cut.groupBy(c.CLIENT_ID, HOST).agg(
        _called_software().alias("_software"),
        F.max_by(F.struct(c.API, c.API_VERSION), t.REQUESTS).alias("_used"),
    )
    is_used = [F.col(name) == F.col("_used")[name] for name in (c.API, c.API_VERSION)]
    used = null_safe_join(tables.exchanges, worst, [HOST, c.CLIENT_ID]).filter(is_used[0] & is_used[1])
    found = counted(used.withColumn(WINDOW, F.lit(0)), [PEER, "_software", c.API, c.API_VERSION])
    words: Words = {
        "software": F.coalesce("_software", PEER),
        "api": c.API,
        "version": c.API_VERSION,
        "floor": _floor(),
        "release": F.lit(RELEASE),
    }
    return rule_rows(found.withColumn(MEASURE, F.col(CASES)), PEER, words)


def unoffered_versions(tables: Tables) -> DataFrame:
    """Requests in a version that the connection's broker had not offered, or to an API that it had not offered at all.
    The broker may refuse them.
    """
    offered = tables.offers.groupBy(*_CONNECTION, F.col("offered_key").alias(c.API_KEY)).agg(
        F.min("offered_from").alias("_from"), F.max("offered_to").alias("_to")
    )
    asked = tables.offers.select(*_CONNECTION).distinct()
    exchanges = tables.exchanges.filter(F.col(c.API_KEY) != keys.API_VERSIONS).join(asked, _CONNECTION, "left_semi")
    is_inside = F.coalesce(F.col(c.API_VERSION).between(F.col("_from"), F.col("_to")), F.lit(False))
    outside = exchanges.join(offered, [*_CONNECTION, c.API_KEY], "left").filter(~is_inside)
    versions = F.coalesce(F.concat(F.lit("v"), "_from", F.lit(" to v"), "_to"), F.lit("no version"))
    own = [HOST, c.CLIENT_ID, c.API, c.API_VERSION]
    called = tables.clients.groupBy(*own).agg(_called_software().alias("_software"))
    named = null_safe_join(outside, called, own, "left")
    of_subject = [PEER, c.API, c.API_VERSION]
    more = {"_ranges": F.collect_set(versions), "_software": F.max("_software")}
    found = counted(named, of_subject, more=more)
    subject = F.concat(PEER, F.lit(": "), c.API, F.lit(" v"), c.API_VERSION)
    words: Words = {
        "client": PEER,
        "software": F.coalesce("_software", F.lit("unknown software")),
        "api": c.API,
        "v": c.API_VERSION,
        "offered": in_all_windows("_ranges", of_subject),
        "nodes": in_all_windows(NODES, of_subject),
    }
    return rule_rows(found.withColumn(MEASURE, F.col(CASES)), subject, words)


def _called_software() -> Column:
    """What the rows' clients call their software, with its version; null if they don't."""
    software = F.concat_ws(" ", "software", "software_version")
    return F.max(F.when(F.length(software) > 0, software))


def classic_groups(tables: Tables) -> DataFrame:
    """How many generations a group forms by the classic protocol, all its members with Kafka's own assignors, although
    the broker offers the newer protocol. Refused joins don't count, and a generation counts once, however many members
    join it: a group that is formed once, and stays, is quiet.
    """
    newer = tables.offers.filter(F.col("offered_key") == keys.CONSUMER_GROUP_HEARTBEAT).select(*_CONNECTION).distinct()
    # no lambda: the embedded engine mixes up their columns when it moves a filter
    offered = reduce(add, (F.array_contains("protocols", name).cast("int") for name in _ASSIGNORS))
    known = F.size(F.array_distinct("protocols")) == offered
    joins = inside(tables.joins).filter((F.col("protocol_type") == "consumer") & known)
    # the first join of each generation
    first = tables.rebalances.select(*t.KEYS)
    found = counted(joins.join(newer, _CONNECTION, "left_semi").join(first, t.KEYS, "left_semi"), ["group_id"])
    alone = found.withColumns({MEASURE: F.col(CASES), OF: F.lit(None).cast("bigint")})
    return rule_rows(alone, "group_id")


def _is_not_refused() -> Column:
    """Whether the exchange's answer holds no error, as far as is known."""
    return ~F.coalesce(F.size(t.ERROR_CODES) > 0, F.lit(False))


def _floor() -> Column:
    """The oldest version of the row's API in the release, as text."""
    floors = [part for key in apis.api_keys() if (known := versions_in(RELEASE, key)) for part in _named(key, known)]
    return F.coalesce(F.try_element_at(F.create_map(*floors), F.col(c.API)), F.lit("none"))


def _named(api_key: int, versions: range) -> tuple[Column, Column]:
    return F.lit(apis.api_name(api_key)), F.lit(f"v{versions.start}")
