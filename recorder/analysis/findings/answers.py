"""Rules on what brokers answered: errors, refusals, missing answers.

`error_share` leaves out errors that are a normal step of the protocol (`flow` in `tables.errors`). `error_share` and
`error_rate` count errors that are normal at first, for example while a coordinator is being found, only from 30 s after
the client first got them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from proxy.wire import keys
from proxy.wire.long_polls import LONG_POLLS
from recorder.analysis import columns as t
from recorder.analysis.findings.counting import (
    Words,
    at_node,
    counted,
    has_any,
    in_all_windows,
    inside,
    rates,
    rule_rows,
    shares,
)
from recorder.analysis.findings.rows import CASES, MEASURE, OF, WINDOW
from recorder.analysis.findings.tables import FAMILY, PEER, Tables
from recorder.analysis.tables.happenings import DECISION, SEEN
from recorder.capture import frames as c
from recorder.capture.outcome import Outcome

_UNKNOWN_TOPIC, _NOT_COORDINATOR = 3, 16
# UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE,
# NOT_COORDINATOR: normal at first
SETTLING = (_UNKNOWN_TOPIC, 5, 14, 15, _NOT_COORDINATOR)
SETTLES_WITHIN_S = 30
# not authorized: topic, group, cluster, transactional id, delegation token
DENIED = (29, 30, 31, 53, 65)
# ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS
STALE = (22, 25, 27)
# the apis of a login, and of the time before it
_OF_LOGINS = (keys.SASL_HANDSHAKE, keys.SASL_AUTHENTICATE, keys.API_VERSIONS)
_CONNECTION = [c.SESSION, c.CONNECTION]
_IS_SILENT, _NO_ANSWER = "_is_silent", "no answer"
# the cause of a connection's end (`proxy.conversation.exchange`)
_UNEXPECTED = "unexpected_response"

RuleFunction = Callable[[Tables], DataFrame]


def error_share(*, retriable: bool) -> RuleFunction:
    """Makes a rule's function: the share of an API's answers that hold an error, either retriable or not."""

    def find(tables: Tables) -> DataFrame:
        """The share of an API's answers that hold an error, by code."""
        known = inside(tables.exchanges).filter(F.col(t.ERROR_CODES).isNotNull())
        answers = known.groupBy(c.API, WINDOW).agg(F.count("*").alias("_answers"))
        wrong = inside(_faults(tables)).filter(F.col(t.RETRIABLE) == retriable)
        cases = counted(wrong, [c.API, t.ERROR]).join(F.broadcast(answers), [c.API, WINDOW])
        subject = F.concat_ws(": ", c.API, t.ERROR)
        return rule_rows(shares(cases.withColumn(OF, F.col("_answers"))), subject, {"api": c.API, "error": t.ERROR})

    return find


def error_rate(codes: Sequence[int]) -> RuleFunction:
    """Makes a rule's function: how often a second a client gets one of these error codes."""

    def find(tables: Tables) -> DataFrame:
        """How often a second an API answers a client with an error of this kind."""
        wrong = inside(_settled(tables.errors)).filter(F.col(t.ERROR_CODE).isin(*codes))
        cases = counted(wrong, [PEER, t.ERROR, c.API])
        subject = F.concat(PEER, F.lit(": "), c.API)
        return rule_rows(rates(cases, tables.windows), subject, {"client": PEER, "error": t.ERROR, "api": c.API})

    return find


def stale_commits(tables: Tables) -> DataFrame:
    """The share of a client's offset commits that came after its group had begun a later generation. Such commits are
    refused, and the records since the last good one may be read again.
    """
    commits = inside(tables.exchanges).filter((F.col(c.API_KEY) == keys.OFFSET_COMMIT) & _has_readable_codes())
    return rule_rows(shares(counted(commits, [PEER], has_any(t.ERROR_CODES, STALE))), PEER)


def unanswered(tables: Tables) -> DataFrame:
    """The share of an API's requests to a node that got no answer, or got it after the client had given up. The client
    does not know whether the request took effect. Long polls don't count.
    """
    causes = tables.connections.select(*_CONNECTION, c.CAUSE)
    with_cause = _due(tables, inside(tables.exchanges)).join(causes, _CONNECTION, "left")
    is_case = F.col(_IS_SILENT)
    why = {c.CAUSE: F.mode(F.when(is_case, F.col(c.CAUSE)))}
    found = counted(with_cause, [c.API, c.NODE], is_case, more=why)
    return rule_rows(shares(found), at_node(), {"cause": c.CAUSE})


def _due(tables: Tables, exchanges: DataFrame) -> DataFrame:
    """The requests that are no long polls and were or should have been answered, with `_IS_SILENT`: whether no answer
    came before the client gave up.
    """
    outcomes = (Outcome.ANSWERED.value, Outcome.UNANSWERED.value)
    due = exchanges.filter(F.col(t.OUTCOME).isin(*outcomes) & ~F.col(c.API_KEY).isin(*LONG_POLLS))
    too_late = F.broadcast(tables.too_late.withColumn("_too_late", F.lit(True)))
    is_silent = (F.col(t.OUTCOME) == Outcome.UNANSWERED.value) | F.coalesce("_too_late", F.lit(False))
    return due.join(too_late, t.KEYS, "left").withColumn(_IS_SILENT, is_silent)


def always_fails(tables: Tables) -> DataFrame:
    """Requests of a client to an API, if all of them fail over the whole capture: each gets an error, or no answer.
    However seldom the client tries, it gets nowhere. Unanswered long polls don't count.
    """
    tries = [PEER, c.API]
    columns = [*t.KEYS, *tries, FAMILY, c.NODE, c.AT, WINDOW, t.ERROR]
    silent = _due(tables, tables.exchanges).filter(_IS_SILENT).withColumn(t.ERROR, F.lit(_NO_ANSWER))
    each = _faults(tables).select(*columns).unionByName(silent.select(*columns))
    failed = each.groupBy(*columns[:-1]).agg(F.collect_set(t.ERROR).alias("_of_one"))
    found = counted(failed, tries, more={"_of_window": F.flatten(F.collect_list("_of_one"))})
    is_answered = F.col(t.OUTCOME) == Outcome.ANSWERED.value
    may_be_good = F.coalesce(F.size(t.ERROR_CODES) == 0, F.lit(True))
    good = tables.exchanges.filter(is_answered & may_be_good).join(F.broadcast(tables.too_late), t.KEYS, "left_anti")
    normal = tables.errors.filter(F.coalesce(t.FLOW, F.lit(False)))
    goes_well = good.select(*tries).unionByName(normal.select(*tries)).distinct()
    alone = found.join(goes_well, tries, "left_anti")
    words: Words = {"client": PEER, "api": c.API, "errors": in_all_windows("_of_window", tries)}
    return rule_rows(alone.withColumn(MEASURE, F.col(CASES)), F.concat_ws(": ", *tries), words)


def unexpected(tables: Tables) -> DataFrame:
    """Connections that the proxy ended because a broker sent another response than the one that was awaited, by
    cluster and by what was wrong with the response: nothing tells which later response would belong to which request.
    """
    # captures of older versions do not say what was wrong
    how = F.coalesce(F.col(DECISION), F.lit("response is not the one that is awaited"))
    ended = tables.connections.filter(F.col(c.CAUSE) == _UNEXPECTED).withColumn("_how", how)
    last = tables.kept.groupBy(*_CONNECTION).agg(F.max_by(c.API, c.EXCHANGE).alias("_last"))
    with_last = ended.join(last, _CONNECTION, "left").withColumn(WINDOW, F.lit(0))
    nodes = F.array_sort(F.collect_set(c.NODE))
    more = {
        "_api": F.mode("_last"),
        "_nodes": F.array_join(nodes.cast("array<string>"), ", "),
        "_seen": F.min_by(SEEN, "closed_at"),
    }
    found = counted(with_last, [c.CLUSTER, "_how"], at="closed_at", more=more).withColumn(MEASURE, F.col(CASES))
    words = {
        "cluster": F.col(c.CLUSTER),
        "how": F.concat_ws(": ", "_how", "_seen"),
        "api": F.col("_api"),
        "nodes": F.when(F.length("_nodes") > 0, F.col("_nodes")),
    }
    subject = F.concat_ws(": ", c.CLUSTER, "_how")
    return rule_rows(found.withColumn(OF, F.lit(None).cast("bigint")), subject, words)


def throttled(tables: Tables) -> DataFrame:
    """The share of a client's answers that make it wait, because it exceeded a quota."""
    throttled = inside(tables.exchanges).filter(F.col(t.THROTTLE_MS).isNotNull())
    waited = F.col(t.THROTTLE_MS)
    found = counted(throttled, [PEER], waited > 0, worst=waited, more={"_longest": F.max(waited)})
    longest = F.max("_longest").over(Window.partitionBy(PEER))
    wait = F.concat(longest.cast("string"), F.lit(" ms"))
    return rule_rows(shares(found), PEER, {"longest": wait})


def login_breaks(tables: Tables) -> DataFrame:
    """Logins that failed on connections that were already in use: the client could not renew its login, and the broker
    closes the connection.
    """
    own = Window.partitionBy(*_CONNECTION).orderBy(c.EXCHANGE).rowsBetween(Window.unboundedPreceding, -1)
    is_use = (~F.col(c.API_KEY).isin(*_OF_LOGINS) & (F.col(t.OUTCOME) == Outcome.ANSWERED.value)).cast("int")
    is_login = F.col(c.API_KEY) == keys.SASL_AUTHENTICATE
    # sorting connections without a login would be wasted
    with_logins = tables.exchanges.filter(is_login).select(*_CONNECTION).distinct()
    used = tables.exchanges.join(with_logins, _CONNECTION, "left_semi").withColumn("_used", F.max(is_use).over(own))
    logins = used.filter(is_login & (F.col("_used") == 1) & _has_readable_codes())
    cases = counted(logins, [PEER], F.size(t.ERROR_CODES) > 0)
    return rule_rows(cases.withColumn("measure", F.col(CASES)), PEER)


def _has_readable_codes() -> Column:
    return F.col(t.ERROR_CODES).isNotNull()


def _faults(tables: Tables) -> DataFrame:
    return _settled(tables.errors).filter(~F.coalesce(t.FLOW, F.lit(False)))


def _settled(errors: DataFrame) -> DataFrame:
    """The errors without those that are normal at first."""
    first = F.min(F.unix_micros(c.AT)).over(Window.partitionBy(PEER, t.ERROR_CODE))
    is_early = F.unix_micros(c.AT) - first < SETTLES_WITHIN_S * 1_000_000
    is_settling = F.col(t.ERROR_CODE).isin(*SETTLING) & is_early
    return errors.withColumn("_settling", is_settling).filter(~F.col("_settling")).drop("_settling")
