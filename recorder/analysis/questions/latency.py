"""Counts requests and bytes, and computes latency percentiles, by api.

A percentile is a latency that occurred (nearest rank). It is exact for groups of up to ten thousand latencies, and in
larger groups off by at most one rank in ten thousand. Latency is null, and so not counted, for unanswered exchanges and
for those that the proxy itself answered. A long poll's latency is mostly the wait that its client asked for, so long
polls have rows of their own.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from proxy.wire.long_polls import Wait
from recorder.analysis import columns as t
from recorder.analysis.expressions import percentiles
from recorder.analysis.questions.groups import groups
from recorder.analysis.tables.latency_buckets import middle_ms
from recorder.capture import frames as c
from recorder.capture.outcome import Outcome

_WAITS = [wait.value for wait in Wait if not wait.is_work and wait is not Wait.INCLUDES_WAIT]
_PERCENTILES = {t.P50_MS: 0.50, t.P95_MS: 0.95, t.P99_MS: 0.99}
_UP_TO, _ALL, _MIDDLE = "_up_to", "_all", "_middle"


def latency_by_api(exchanges: DataFrame, *, by: Sequence[str] = (c.API,), window: str | None = None) -> DataFrame:
    """Counts requests, responses, unanswered requests, errors and bytes, and computes latency percentiles in ms.

    A row is an api (or what `by` names), a WAIT and a `window`. WAIT is "wait" for long polls that may have waited, and
    "includes_wait" for those whose response could not be read. It is null for all other exchanges, for example a Fetch
    whose data was there already. ERRORS counts exchanges whose response holds at least one error code.
    Needs the columns of `by`, OUTCOME, API_KEY, AT, WAIT, the sizes, LATENCY_NS and ERROR_CODES.
    """
    return exchanges.groupBy(*groups(by, window), waits().alias(t.WAIT)).agg(*measures())


def measures() -> list[Column]:
    """Returns the aggregates of `latency_by_api` for a group of exchanges."""
    # lost requests count among the losses, even if the response's row has the size of its request
    is_there = F.col(t.OUTCOME) != Outcome.REQUEST_LOST.value
    return [
        F.count_if(is_there).alias(t.REQUESTS),
        F.count(t.ANSWERED_AT).alias(t.RESPONSES),
        F.count_if(F.col(t.OUTCOME) == Outcome.UNANSWERED.value).alias(t.UNANSWERED),
        F.count_if(F.size(t.ERROR_CODES) > 0).alias(t.ERRORS),
        F.coalesce(F.sum(F.when(is_there, F.col(c.REQUEST_SIZE))), F.lit(0)).alias(t.REQUEST_BYTES),
        F.coalesce(F.sum(t.RESPONSE_SIZE), F.lit(0)).alias(t.RESPONSE_BYTES),
        *(_percentiles_ms()[at].alias(name) for at, name in enumerate(_PERCENTILES)),
    ]


def percentiles_of_buckets(buckets: DataFrame, *, by: Sequence[str] = (c.API,)) -> DataFrame:
    """Computes COUNT and latency percentiles (milliseconds) per `by` and WAIT from rows of `latency_buckets`.

    The rows may be of many minutes or of several captures. A percentile p is within 4.5 % of (p + 1 µs).
    Needs the columns of `by`, WAIT, BUCKET, COUNT.
    """
    of = [*by, t.WAIT]
    counts = buckets.groupBy(*of, t.BUCKET).agg(F.sum(t.COUNT).alias(t.COUNT))
    below = Window.partitionBy(*of).orderBy(t.BUCKET)
    ranked = counts.withColumns(
        {_UP_TO: F.sum(t.COUNT).over(below), _ALL: F.sum(t.COUNT).over(Window.partitionBy(*of)), _MIDDLE: middle_ms()}
    )
    return ranked.groupBy(*of).agg(
        F.sum(t.COUNT).alias(t.COUNT),
        *(F.min(F.when(_reaches(share), F.col(_MIDDLE))).alias(name) for name, share in _PERCENTILES.items()),
    )


def _reaches(share: float) -> Column:
    """True for a bucket that, with all lower ones, holds at least `share` of all latencies."""
    return F.col(_UP_TO) >= F.ceil(share * F.col(_ALL))


def waits() -> Column:
    """Returns the column WAIT of `latency_by_api`."""
    return F.when(F.col(t.WAIT).isin(*_WAITS), t.WAITING).when(F.col(t.WAIT) == t.INCLUDES_WAIT, t.INCLUDES_WAIT)


def _percentiles_ms() -> Column:
    """Returns all percentiles as one list, for which Spark sums up a group's latencies once."""
    return F.transform(percentiles(c.LATENCY_NS, [*_PERCENTILES.values()]), lambda ns: ns / 1e6)
