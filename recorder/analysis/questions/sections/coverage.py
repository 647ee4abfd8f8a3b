"""The section on what the capture holds, and what it lacks."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from proxy.wire.error_reader import Unread
from recorder.analysis import columns as t
from recorder.analysis.bodies import Captured
from recorder.analysis.expressions import ns
from recorder.analysis.questions.bins import bin_of, firsts, series
from recorder.analysis.questions.coverage import coverage_by_api
from recorder.analysis.summary.bounds import MAX_ROWS, MAX_TOP, Table, Timeline
from recorder.analysis.summary.sections.coverage import Coverage, ReadOfApi
from recorder.capture import frames as c
from recorder.missing import Missing


def coverage(captured: Captured, exchanges: DataFrame, line: Timeline, *, folder: str, lost: Missing) -> Coverage:
    """Returns the section on what the capture holds. `lost`: what it lacks."""
    (sums,) = captured.chosen.agg(
        *(F.count("*"), F.sum(c.SIZE), F.min(ns(c.AT)), F.max(ns(c.AT))),
        *(F.array_sort(F.collect_set(name)).alias(name) for name in (c.SESSION, c.CLUSTER)),
    ).collect()
    requests = exchanges.groupBy(bin_of(line)).count().collect()
    gone = _gaps(captured).groupBy(bin_of(line)).agg(F.sum(c.FRAMES)).collect()
    read, apis = firsts(coverage_by_api(exchanges).orderBy(F.desc(t.RESPONSES), c.API), MAX_ROWS)
    return Coverage(
        capture=folder,
        sessions=Table(tuple(sums[c.SESSION][:MAX_ROWS]), len(sums[c.SESSION])),
        clusters=tuple(sums[c.CLUSTER][:MAX_TOP]),
        first_at_ns=sums[2],
        last_at_ns=sums[3],
        frames=sums[0],
        exchanges=sum(row[1] for row in requests),
        bytes=sums[1] or 0,
        missing=lost,
        exchanges_over_time=series("requests", line, map(tuple, requests), 0),
        lost_over_time=series("frames lost", line, map(tuple, gone)),
        read=Table(tuple(_read(row.asDict()) for row in read), apis),
    )


def _gaps(captured: Captured) -> DataFrame:
    is_known = F.col(c.FRAMES).between(1, c.MAX_COUNTED)
    return captured.events.filter((F.col(c.KIND) == c.EVENT_GAP) & is_known)


def _read(row: dict[str, int]) -> ReadOfApi:
    unread = {why.value: row[why.value] for why in Unread if row[why.value]}
    return ReadOfApi(str(row[c.API]), row[t.RESPONSES], row[t.READ], unread)
