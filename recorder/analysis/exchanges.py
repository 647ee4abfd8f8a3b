"""Requests and responses, joined: one row an exchange.

The join is outer on both sides, because either may be missing: a request without a response is unanswered (or one-way,
if none was to come), a response without its request lost it in a gap. What both sides tell, the request's side tells
first. Heads only: the bodies were reduced to error codes before they got here (answers.py).
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis import columns as c
from recorder.analysis.answers import LARGEST_BODY, answers
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

    With `decode`, ERROR_CODES too (see answers.py; null where unread; `largest` in bytes). AT is when the last byte of
    the request arrived, or of the response where the request was lost. Needs the columns of the capture.
    """
    framed = frames.filter(F.col(c.EXCHANGE).isNotNull())
    responses = _responses(framed)
    codes = answers(framed, largest=largest) if decode else None
    if codes is not None:
        responses = responses.join(codes, c.KEYS, "left")
    joined = _requests(framed).join(responses, c.KEYS, "full_outer")
    return joined.select(
        *c.KEYS,
        *(F.coalesce(F.col(f"request_{name}"), F.col(f"response_{name}")).alias(name) for name in _SHARED),
        F.col(f"response_{c.AT}").alias(c.ANSWERED_AT),
        F.coalesce(c.REQUEST_SIZE, f"told_{c.REQUEST_SIZE}").alias(c.REQUEST_SIZE),
        c.RESPONSE_SIZE,
        c.LATENCY_NS,
        c.QUEUED_NS,
        c.TRANSFER_NS,
        *([c.ERROR_CODES] if decode else []),
        _outcome().alias(c.OUTCOME),
    )


def _requests(framed: DataFrame) -> DataFrame:
    return framed.filter(F.col(c.KIND) == "request").select(
        *c.KEYS, *_named("request"), F.col(c.SIZE).alias(c.REQUEST_SIZE), c.AWAITS
    )


def _responses(framed: DataFrame) -> DataFrame:
    return framed.filter(F.col(c.KIND) == "response").select(
        *c.KEYS,
        *_named("response"),
        F.col(c.SIZE).alias(c.RESPONSE_SIZE),
        F.col(c.REQUEST_SIZE).alias(f"told_{c.REQUEST_SIZE}"),
        c.MADE_BY,
        c.LATENCY_NS,
        c.QUEUED_NS,
        c.TRANSFER_NS,
    )


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
