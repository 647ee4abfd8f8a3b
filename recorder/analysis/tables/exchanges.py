"""Exchanges: requests with their answers. Most are made without a join.

An answer's row has facts of its request, too, so an answered exchange needs only that row. A broker answers the
requests of a connection in order, so all requests behind the last answered one have no answer: an aggregate with one
row a connection finds them. Both shortcuts fail where frames are missing: on connections with gaps, and on those with
opaque requests. Only on these doubtful connections both sides are joined.

    connection                     answered exchanges     exchanges without an answer
    whole                          answers                requests behind the last answered one; those that await none
    doubtful (gaps, opaque)        requests full outer join answers
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis import columns as t
from recorder.analysis.bodies import Captured
from recorder.analysis.tables.answers import answers, answers_without_bodies
from recorder.capture import frames as c
from recorder.capture.outcome import Outcome
from recorder.facts.schema import Column as Declared
from recorder.facts.schema import Table

# With more doubtful connections than these, all connections are joined.
MAX_DOUBTFUL = 1000
_SHARED = (
    c.CLUSTER,
    c.NODE,
    c.LISTENER,
    c.CLIENT,
    c.PRINCIPAL,
    c.DIALECT,
    c.API_KEY,
    c.API,
    c.API_VERSION,
    c.CORRELATION_ID,
    c.CLIENT_ID,
)
_CONNECTION = [c.SESSION, c.CONNECTION]
_LAST, _CLOSED = "_last", "_closed"
# a column of an answered exchange -> the columns of its answer (`tables.answers`) that it is made of
_MADE_OF = {
    c.AT: (c.AT, c.AT_NS, c.LATENCY_NS, c.TRANSFER_NS),
    t.ANSWERED_AT: (c.AT,),
    t.RESPONSE_SIZE: (c.SIZE,),
    t.SERVICE_NS: (c.LATENCY_NS, c.QUEUED_NS),
    t.OUTCOME: (c.MADE_BY,),
}

EXCHANGES = Table(
    "exchanges",
    "an exchange: a request, its answer, or both",
    (
        Declared(c.SESSION, "string", "the capture's session"),
        Declared(c.CONNECTION, "bigint", "number within the session"),
        Declared(c.EXCHANGE, "bigint", "number of the request on its connection"),
        Declared(c.CLUSTER, "string", "the cluster's name in the settings"),
        Declared(c.NODE, "int", "the broker's node id; null while unknown"),
        Declared(c.LISTENER, "string", "the local address that the client dialled"),
        Declared(c.CLIENT, "string", "the client's address and port"),
        Declared(c.PRINCIPAL, "string", "who was logged in"),
        Declared(c.DIALECT, "string", "`kafka` or `kafka-0.7`"),
        Declared(c.API_KEY, "smallint", "the api's key"),
        Declared(c.API, "string", "the api's name"),
        Declared(c.API_VERSION, "smallint", "the request's version"),
        Declared(c.CORRELATION_ID, "int", "links the request and its answer, as on the wire"),
        Declared(c.CLIENT_ID, "string", "as the request says"),
        Declared(c.AT, "timestamp", "when the request's last byte arrived; the answer's, if the request is lost"),
        Declared(t.ANSWERED_AT, "timestamp", "when the answer's last byte arrived; null without an answer"),
        Declared(c.REQUEST_SIZE, "int", "bytes of the request"),
        Declared(t.RESPONSE_SIZE, "int", "bytes of the answer"),
        Declared(c.LATENCY_NS, "bigint", "from the request's last byte to the answer's first byte"),
        Declared(c.QUEUED_NS, "bigint", "the part of latency_ns spent behind earlier requests of the connection"),
        Declared(c.TRANSFER_NS, "bigint", "from the answer's first byte to its last"),
        Declared(t.SERVICE_NS, "bigint", "latency_ns less queued_ns"),
        Declared(t.WAIT, "string", "how a long poll ended; null for all other exchanges"),
        Declared(t.THROTTLE_MS, "int", "how long the answer makes the client wait for a quota; null if unknown"),
        Declared(t.OUTCOME, "string", "`answered`, `by_proxy`, `one_way`, `unanswered`, `pending`, `request_lost`"),
        Declared(t.ERROR_CODES, "array<smallint>", "the answer's codes other than 0, each as often as it occurs"),
        Declared(t.UNREAD, "string", "why the codes are unknown; null if they are known"),
    ),
    needs_bodies=True,
)


class Doubtful(NamedTuple):
    """The connections whose exchanges must be joined: all those of `sessions`, and `connections`."""

    sessions: tuple[str, ...] = ()
    connections: tuple[tuple[str, int], ...] = ()


def doubtful(captured: Captured) -> Doubtful | None:
    """The connections with gaps or opaque requests; None if there are too many. Runs a Spark job, over events and
    requests' notes.
    """
    gaps = captured.events.filter(F.col(c.KIND) == c.EVENT_GAP).select(c.SESSION, c.CONNECTION)
    opaque = captured.frames.filter((F.col(c.KIND) == c.REQUEST) & F.col(c.NOTE).isNotNull())
    found = gaps.union(opaque.select(c.SESSION, c.CONNECTION)).distinct().limit(MAX_DOUBTFUL + 1).collect()
    if len(found) > MAX_DOUBTFUL:
        return None
    sessions = tuple(sorted({row[0] for row in found if row[1] is None}))
    return Doubtful(sessions, tuple(sorted((row[0], row[1]) for row in found if row[1] is not None)))


def answered_exchanges(captured: Captured) -> DataFrame:
    """The answered exchanges, made of answers' heads in one scan: the columns of EXCHANGES, as without `decode`."""
    return _within(_of_answers_alone(_undecoded(answers_without_bodies(captured.later))), captured)


def exchanges_of_one_row(captured: Captured, columns: Collection[str] = EXCHANGES.names) -> DataFrame:
    """The exchanges that a single row of `frames` shows: answered ones, and requests that await no answer.

    There is no join, so streams can use it. `columns`: the needed columns of EXCHANGES, because Spark can't prune
    columns of rows that Python makes. An answer whose request is lost counts as answered.
    """
    one_way = _requests(captured).filter(_awaits_none()).withColumn(t.OUTCOME, F.lit(Outcome.ONE_WAY.value))
    wanted = {part for name in columns for part in _MADE_OF.get(name, (name,))}
    return _of_answers_alone(answers(captured, wanted), columns).unionByName(_as_exchanges(one_way).select(*columns))


def both_sizes() -> Column:
    """The bytes of an exchange's request and answer, as a bigint: two of the largest frames exceed an int."""
    request, answer = (F.coalesce(F.col(name).cast("bigint"), F.lit(0)) for name in (c.REQUEST_SIZE, t.RESPONSE_SIZE))
    return request + answer


def exchanges(captured: Captured, joined: Doubtful | None = None, *, decode: bool = True) -> DataFrame:
    """One row an exchange: the columns of EXCHANGES. `joined`: the result of `doubtful`; None: joins all.

    Without `decode` no body is read: ERROR_CODES, THROTTLE_MS and UNREAD are null, and WAIT is "includes_wait" for each
    long poll. If `captured` is limited to a time, AT lies within it.
    """
    return _within(_all(captured, joined, decode), captured)


def _all(captured: Captured, joined: Doubtful | None, decode: bool) -> DataFrame:
    """The exchanges of the capture's time, and some outside it."""
    # requests before that time and answers after it are read, too: else an exchange at its edge would lack a side
    later, ever = captured.later, captured.ever
    if joined is None:
        return _joined(_requests(ever), _answered(ever, decode), ever)
    is_joined = _is_one_of(joined)
    if is_joined is None:
        return _whole(later, decode, F.lit(True))
    both = _requests(ever).filter(is_joined), _answered(ever, decode).filter(is_joined)
    return _whole(later, decode, ~is_joined).unionByName(_joined(*both, ever))


def _whole(captured: Captured, decode: bool, which: Column) -> DataFrame:
    """The exchanges of connections that are not doubtful."""
    answered = _of_answers_alone(_answered(captured, decode).filter(which))
    return answered.unionByName(
        _without_answer(_requests(captured).filter(which), answers_without_bodies(captured), captured)
    )


def _answered(captured: Captured, decode: bool) -> DataFrame:
    return answers(captured) if decode else _undecoded(answers_without_bodies(captured))


def _within(found: DataFrame, captured: Captured) -> DataFrame:
    at_us = F.unix_micros(c.AT)
    if captured.since_ns is not None:
        found = found.filter(at_us >= captured.since_ns // 1000)
    return found if captured.until_ns is None else found.filter(at_us <= captured.until_ns // 1000)


def _undecoded(found: DataFrame) -> DataFrame:
    kinds = {t.ERROR_CODES: "array<smallint>", t.THROTTLE_MS: "int", t.UNREAD: "string"}
    nothing = {name: F.lit(None).cast(kind) for name, kind in kinds.items()}
    return found.withColumns(nothing)


def _is_one_of(joined: Doubtful) -> Column | None:
    """True for the doubtful connections; None if there are none."""
    if not joined.sessions and not joined.connections:
        return None
    pairs = [f"{connection}/{session}" for session, connection in joined.connections]
    named = F.concat_ws("/", F.col(c.CONNECTION).cast("string"), F.col(c.SESSION))
    return F.col(c.SESSION).isin(*joined.sessions) | named.isin(*pairs)


def _requests(captured: Captured) -> DataFrame:
    found = captured.chosen.filter((F.col(c.KIND) == c.REQUEST) & F.col(c.EXCHANGE).isNotNull())
    return found.select(*t.KEYS, *_SHARED, c.AT, F.col(c.SIZE).alias(c.REQUEST_SIZE), c.AWAITS)


def _of_answers_alone(found: DataFrame, columns: Collection[str] = EXCHANGES.names) -> DataFrame:
    """Exchanges made of their answers' rows: these columns, in the order of EXCHANGES."""
    spent = F.col(c.LATENCY_NS) + F.coalesce(c.TRANSFER_NS, F.lit(0))
    # division of integers: a float rounds a time in ns to a multiple of 256
    asked_at = F.timestamp_micros(F.call_function("div", F.col(c.AT_NS) - spent, F.lit(1000)))
    by_proxy = F.col(c.MADE_BY) == c.BY_PROXY
    made = _of_the_answer() | {
        c.AT: F.coalesce(asked_at, F.col(c.AT)),
        t.ANSWERED_AT: F.col(c.AT),
        t.OUTCOME: F.when(by_proxy, Outcome.BY_PROXY.value).otherwise(Outcome.ANSWERED.value),
    }
    return found.select(*(made.get(name, F.col(name)).alias(name) for name in EXCHANGES.names if name in columns))


def _of_the_answer(side: str = "") -> dict[str, Column]:
    latency, queued = F.col(side + c.LATENCY_NS), F.col(side + c.QUEUED_NS)
    return {
        t.RESPONSE_SIZE: F.col(side + c.SIZE),
        c.LATENCY_NS: latency,
        c.QUEUED_NS: queued,
        c.TRANSFER_NS: F.col(side + c.TRANSFER_NS),
        t.SERVICE_NS: latency - F.coalesce(queued, F.lit(0)),
        t.WAIT: F.col(side + t.WAIT),
        t.THROTTLE_MS: F.col(side + t.THROTTLE_MS),
    }


def _without_answer(requests: DataFrame, found: DataFrame, captured: Captured) -> DataFrame:
    """Requests that await no answer, and those behind their connection's last answered one."""
    last = found.groupBy(*_CONNECTION).agg(F.max(c.EXCHANGE).alias(_LAST))
    behind = F.col(c.EXCHANGE) > F.coalesce(_LAST, F.lit(-1))
    rest = requests.join(F.broadcast(last), _CONNECTION, "left").filter(_awaits_none() | behind)
    return _as_exchanges(_with_closed(rest, captured).withColumn(t.OUTCOME, _unanswered()))


def _as_exchanges(requests: DataFrame) -> DataFrame:
    """Requests with an OUTCOME, and nulls for everything that an answer would tell."""
    lacking = {one.name: F.lit(None).cast(one.kind) for one in EXCHANGES.columns if one.name not in requests.columns}
    return requests.withColumns(lacking).select(*EXCHANGES.names)


def _with_closed(requests: DataFrame, captured: Captured) -> DataFrame:
    """The requests, and whether their connection was closed."""
    closed = captured.events.filter(F.col(c.KIND) == c.EVENT_CLOSED).select(*_CONNECTION).distinct()
    return requests.join(F.broadcast(closed.withColumn(_CLOSED, F.lit(True))), _CONNECTION, "left")


def _awaits_none(side: str = "") -> Column:
    return ~F.coalesce(side + c.AWAITS, F.lit(False))


def _unanswered(side: str = "") -> Column:
    """The outcome of a request without an answer."""
    return (
        F.when(_awaits_none(side), Outcome.ONE_WAY.value)
        .when(F.col(side + _CLOSED), Outcome.UNANSWERED.value)
        .otherwise(Outcome.PENDING.value)
    )


def _joined(requests: DataFrame, found: DataFrame, captured: Captured) -> DataFrame:
    """Joins requests and answers, either of which may be missing. A fact of both is taken from the request."""
    sent = _with_closed(requests, captured).select(*t.KEYS, F.struct("*").alias("request"))
    answered = found.select(*t.KEYS, F.struct("*").alias("answer"))
    sides = sent.join(answered, t.KEYS, "full_outer")
    return sides.select(
        *t.KEYS,
        *(F.coalesce(f"request.{name}", f"answer.{name}").alias(name) for name in (*_SHARED, c.AT)),
        F.col(f"answer.{c.AT}").alias(t.ANSWERED_AT),
        F.coalesce(f"request.{c.REQUEST_SIZE}", f"answer.{c.REQUEST_SIZE}").alias(c.REQUEST_SIZE),
        *(column.alias(name) for name, column in _of_the_answer("answer.").items()),
        _outcome().alias(t.OUTCOME),
        F.col(f"answer.{t.ERROR_CODES}"),
        F.col(f"answer.{t.UNREAD}"),
    ).select(*EXCHANGES.names)


def _outcome() -> Column:
    is_answered, is_requested = F.col("answer").isNotNull(), F.col("request").isNotNull()
    return (
        F.when(is_answered & (F.col(f"answer.{c.MADE_BY}") == c.BY_PROXY), Outcome.BY_PROXY.value)
        .when(is_answered & is_requested, Outcome.ANSWERED.value)
        .when(is_answered, Outcome.REQUEST_LOST.value)
        .otherwise(_unanswered("request."))
    )
