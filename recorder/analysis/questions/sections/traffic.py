"""The section on traffic: exchanges and bytes by API."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis import columns as t
from recorder.analysis.questions.bins import NAME, OTHER, among, stacked, top_names
from recorder.analysis.questions.latency import latency_by_api
from recorder.analysis.summary.bounds import Timeline, Top
from recorder.analysis.summary.sections.traffic import Traffic, TrafficOfApi
from recorder.analysis.table_cache import persisted
from recorder.capture import frames as c


def traffic(exchanges: DataFrame, line: Timeline) -> Traffic:
    """Returns the section on traffic: exchanges and bytes by API."""
    every = latency_by_api(exchanges).groupBy(F.col(c.API).alias(NAME)).agg(*(_sum(name) for name in _SUMS))
    with persisted(every.withColumn("_bytes", F.col(t.REQUEST_BYTES) + F.col(t.RESPONSE_BYTES))) as rows:
        names, total = top_names(rows, "_bytes")
        shown = {row[NAME]: row for row in rows.groupBy(among(names).alias(NAME)).agg(*map(_sum, _SUMS)).collect()}
    apis = {name: TrafficOfApi(name, *(row[one] for one in _SUMS)) for name, row in shown.items()}
    over = exchanges.filter(F.col(c.API).isNotNull()).withColumn(NAME, F.col(c.API))
    size = F.coalesce(F.sum(c.REQUEST_SIZE), F.lit(0)) + F.coalesce(F.sum(t.RESPONSE_SIZE), F.lit(0))
    other = apis.get(OTHER) if OTHER not in names else None
    return Traffic(
        apis=Top(tuple(apis[name] for name in names), total, other),
        bytes_over_time=stacked(over, names, total, line, size),
    )


_SUMS = (t.REQUESTS, t.RESPONSES, t.UNANSWERED, t.ERRORS, t.REQUEST_BYTES, t.RESPONSE_BYTES)


def _sum(name: str) -> Column:
    return F.sum(name).alias(name)
