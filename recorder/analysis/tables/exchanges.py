"""Requests and responses, joined: one row an exchange.

The join is outer on both sides, because either may be missing: a request without a response is unanswered (or one-way,
if no response was expected), a response without its request lost it in a gap. Facts of both rows are taken from the
request first. Only heads are joined: answers.py has reduced the bodies to error codes before.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from proxy.wire.dialects import Dialect
from proxy.wire.error_paths import Unread
from proxy.wire.long_polls import LONG_POLLS, Wait
from recorder.analysis import columns as t
from recorder.analysis.tables.answers import LARGEST_BODY, answers
from recorder.capture import frames as c
from recorder.capture.outcome import Outcome

_SHARED = [
    c.CLUSTER,
    c.NODE,
    c.LISTENER,
    c.CLIENT,
    c.PRINCIPAL,
    c.API_KEY,
    c.API,
    c.API_VERSION,
    c.CORRELATION_ID,
    c.CLIENT_ID,
    c.AT,
]


def exchanges(frames: DataFrame, *, decode: bool = True, largest: int = LARGEST_BODY) -> DataFrame:
    """One row an exchange: KEYS, the facts of its request, AT, ANSWERED_AT, sizes in bytes, times in ns, OUTCOME.

    WAIT is the kind of an answered long poll's wait (`Wait`), null for all other exchanges. With `decode`,
    ERROR_CODES and UNREAD too (answers.py; `largest` in bytes): one of them is null for each response. AT is when the
    last byte of the request arrived, or of the response where the request was lost. Needs the columns of the capture.
    """
    framed = frames.filter(F.col(c.EXCHANGE).isNotNull())
    responses = _read(framed, largest) if decode else _responses(framed).withColumn(t.WAIT, _unread_wait())
    joined = _requests(framed).join(responses, t.KEYS, "full_outer")
    return joined.select(
        *t.KEYS,
        *(F.coalesce(F.col(f"request_{name}"), F.col(f"response_{name}")).alias(name) for name in _SHARED),
        F.col(f"response_{c.AT}").alias(t.ANSWERED_AT),
        F.coalesce(c.REQUEST_SIZE, f"response_{c.REQUEST_SIZE}").alias(c.REQUEST_SIZE),
        t.RESPONSE_SIZE,
        c.LATENCY_NS,
        c.QUEUED_NS,
        c.TRANSFER_NS,
        t.WAIT,
        *([t.ERROR_CODES, t.UNREAD] if decode else []),
        _outcome().alias(t.OUTCOME),
    )


def _requests(framed: DataFrame) -> DataFrame:
    return framed.filter(F.col(c.KIND) == "request").select(
        *t.KEYS, *_named("request"), F.col(c.SIZE).alias(c.REQUEST_SIZE), c.AWAITS
    )


def _responses(framed: DataFrame) -> DataFrame:
    return framed.filter(F.col(c.KIND) == "response").select(
        *t.KEYS,
        *_named("response"),
        F.col(c.SIZE).alias(t.RESPONSE_SIZE),
        F.col(c.REQUEST_SIZE).alias(f"response_{c.REQUEST_SIZE}"),
        c.STORED,
        c.DIALECT,
        c.MADE_BY,
        c.LATENCY_NS,
        c.QUEUED_NS,
        c.TRANSFER_NS,
    )


def _read(framed: DataFrame, largest: int) -> DataFrame:
    """Responses with the errors and waits in their bodies, or the reason why these are unknown."""
    readings = answers(framed, largest=largest)
    names = [t.ERROR_CODES, t.UNREAD, t.WAIT]
    joined = _responses(framed).join(
        readings.select(*t.KEYS, *(F.col(name).alias(f"read_{name}") for name in names)), t.KEYS, "left"
    )
    codes = F.col(f"read_{t.ERROR_CODES}")
    unread = F.when(codes.isNull(), F.coalesce(F.col(f"read_{t.UNREAD}"), _not_looked_at(largest)))
    return joined.withColumns(
        {t.ERROR_CODES: codes, t.UNREAD: unread, t.WAIT: F.coalesce(F.col(f"read_{t.WAIT}"), _unread_wait())}
    )


def _not_looked_at(largest: int) -> Column:
    """Why a response's body was not read at all."""
    return (
        F.when(F.col(c.STORED) < F.col(t.RESPONSE_SIZE), Unread.OMITTED.value)
        .when(F.col(t.RESPONSE_SIZE) > largest, Unread.TOO_LARGE.value)
        .otherwise(Unread.UNKNOWN_VERSION.value)
    )


def _unread_wait() -> Column:
    may_wait = F.col(f"response_{c.API_KEY}").isin(*LONG_POLLS) & (F.col(c.DIALECT) == Dialect.KAFKA.value)
    return F.when(may_wait, Wait.INCLUDES_WAIT.value)


def _named(side: str) -> list[Column]:
    return [F.col(name).alias(f"{side}_{name}") for name in _SHARED]


def _outcome() -> Column:
    answered, asked = F.col(f"response_{c.AT}").isNotNull(), F.col(f"request_{c.AT}").isNotNull()
    return (
        F.when(answered & (F.col(c.MADE_BY) == "proxy"), Outcome.BY_PROXY.value)
        .when(answered & asked, Outcome.ANSWERED.value)
        .when(answered, Outcome.REQUEST_LOST.value)
        .when(F.col(c.AWAITS), Outcome.UNANSWERED.value)
        .otherwise(Outcome.ONE_WAY.value)
    )
