"""Requests, bytes and latency by api.

Percentiles are values that occurred (nearest rank): Spark's approximate percentile is exact until a group outgrows its
accuracy, and then off by one rank in ten thousand. Latency is null, and so not counted, for unanswered exchanges and
those that the proxy answered. A long poll's latency is mostly the wait that its client asked for: long polls have rows
of their own.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from proxy.wire.long_polls import Wait
from recorder.analysis import columns as t
from recorder.analysis.questions.groups import groups
from recorder.capture import frames as c
from recorder.capture.outcome import Outcome

ACCURACY = 10_000
_WAITS = [wait.value for wait in Wait if not wait.is_work and wait is not Wait.INCLUDES_WAIT]
_PERCENTILES = {t.P50_MS: 0.50, t.P95_MS: 0.95, t.P99_MS: 0.99}


def latency_by_api(exchanges: DataFrame, *, by: Sequence[str] = (c.API,), window: str | None = None) -> DataFrame:
    """Requests, responses, unanswered, errors, bytes and latency percentiles (milliseconds) per `by`, per WAIT, and per
    `window`.

    WAIT is "wait" for long polls that may have waited, "includes_wait" for those whose answer could not be read, null
    for everything else, a Fetch whose data was there too. ERRORS counts exchanges whose response holds at least one
    error code. Needs the columns of `by`, OUTCOME, API_KEY, AT, WAIT, the sizes, LATENCY_NS and ERROR_CODES.
    """
    # lost requests are counted among the losses, though a response may tell its request's size
    is_there = F.col(t.OUTCOME) != Outcome.REQUEST_LOST.value
    return exchanges.groupBy(*groups(by, window), _wait().alias(t.WAIT)).agg(
        F.count_if(is_there).alias(t.REQUESTS),
        F.count(t.ANSWERED_AT).alias(t.RESPONSES),
        F.count_if(F.col(t.OUTCOME) == Outcome.UNANSWERED.value).alias(t.UNANSWERED),
        F.count_if(F.size(t.ERROR_CODES) > 0).alias(t.ERRORS),
        F.coalesce(F.sum(F.when(is_there, F.col(c.REQUEST_SIZE))), F.lit(0)).alias(t.REQUEST_BYTES),
        F.coalesce(F.sum(t.RESPONSE_SIZE), F.lit(0)).alias(t.RESPONSE_BYTES),
        *(_percentile_ms(share).alias(name) for name, share in _PERCENTILES.items()),
    )


def latency_buckets(exchanges: DataFrame, *, window: str = "1 minute") -> DataFrame:
    """COUNT and bytes of answered exchanges per window, api, version, node, client id, WAIT and latency's BUCKET.

    Bucket n holds latencies from 2^(n/8) - 1 µs on, so each is known to 4.5 %. Buckets add up, over windows and over
    captures, as percentiles don't. Needs AT, API, API_KEY, API_VERSION, NODE, CLIENT_ID, WAIT, LATENCY_NS, the sizes.
    """
    bucket = F.floor(8 * F.log2(F.col(c.LATENCY_NS) / 1000 + 1)).cast("int")
    keys = groups((c.API, c.API_VERSION, c.NODE, c.CLIENT_ID), window)
    found = exchanges.filter(F.col(c.LATENCY_NS) >= 0)
    return found.groupBy(*keys, _wait().alias(t.WAIT), bucket.alias(t.BUCKET)).agg(
        F.count("*").alias(t.COUNT),
        F.coalesce(F.sum(c.REQUEST_SIZE), F.lit(0)).alias(t.REQUEST_BYTES),
        F.coalesce(F.sum(t.RESPONSE_SIZE), F.lit(0)).alias(t.RESPONSE_BYTES),
    )


def _wait() -> Column:
    return F.when(F.col(t.WAIT).isin(*_WAITS), t.WAITING).when(F.col(t.WAIT) == t.INCLUDES_WAIT, t.INCLUDES_WAIT)


def _percentile_ms(share: float) -> Column:
    return F.percentile_approx(c.LATENCY_NS, share, ACCURACY) / 1e6
