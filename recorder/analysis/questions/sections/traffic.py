"""The sections on coverage, latency, errors, and traffic by API. Long polls that waited are kept apart from work."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from proxy.wire.error_reader import Unread
from proxy.wire.long_polls import Wait
from recorder.analysis import columns as t
from recorder.analysis.bodies import Captured
from recorder.analysis.expressions import ns, percentiles
from recorder.analysis.questions.coverage import coverage_by_api
from recorder.analysis.questions.latency import latency_by_api
from recorder.analysis.questions.sections.bins import BIN, NAME, among, bin_of, by_name, firsts, series, top_names
from recorder.analysis.summary.bounds import MAX_ROWS, MAX_TOP, Marks, Series, Table, Timeline, Top
from recorder.analysis.summary.traffic import (
    LONG_MS,
    Coverage,
    ErrorOfApi,
    Errors,
    HeatCell,
    Latency,
    LatencyOfApi,
    LatencyOfNode,
    ReadOfApi,
    Traffic,
    TrafficOfApi,
)
from recorder.analysis.table_cache import persisted
from recorder.capture import frames as c
from recorder.missing import Missing

# Levels of latency, each a power of two of µs. The last one begins at 2^23 µs = 8.4 s. With 120 bins they make fewer
# cells than a plot may hold.
_LEVELS = 24
_P50, _P99 = "p50", "p99"


def span(captured: Captured) -> Timeline | None:
    """Returns the timeline of the chosen frames; None if there are none."""
    first, last = captured.chosen.agg(F.min(ns(c.AT)), F.max(ns(c.AT))).collect()[0]
    return None if first is None else Timeline.over(first, last)


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


def latency(exchanges: DataFrame, line: Timeline) -> Latency:
    """Returns the section on latency: by API, by node, and as a heat map of all work."""
    timed = _timed(exchanges)
    rows = timed.groupBy(c.API, "_wait").agg(*_summed()).orderBy(F.desc(t.COUNT), c.API, "_wait")
    shown, total = firsts(rows, MAX_TOP)
    usual, slow = _over_time(timed, [row[c.API] for row in shown], line)
    apis = [
        LatencyOfApi(
            row[c.API], row["_wait"], row[t.COUNT], row[_P50], row["p95"], row[_P99], row["most"],
            series("p50", line, usual.get(f"{row[c.API]}/{row['_wait']}", ())),
            series("p99", line, slow.get(f"{row[c.API]}/{row['_wait']}", ())),
        )
        for row in shown
    ]  # fmt: skip
    work = timed.filter(F.col("_wait").isNull())
    heat, long = _heat(work, line)
    return Latency(apis=Top(tuple(apis), total), nodes=_nodes(work), heat=heat, long=long)


def _timed(exchanges: DataFrame) -> DataFrame:
    wait = F.when(F.col(t.WAIT) == Wait.INCLUDES_WAIT.value, t.INCLUDES_WAIT).when(
        F.col(t.WAIT).isNotNull() & (F.col(t.WAIT) != Wait.FULL.value), t.WAITING
    )
    return exchanges.filter((F.col(c.LATENCY_NS) >= 0) & F.col(c.API).isNotNull()).withColumn("_wait", wait)


def _summed() -> list[Column]:
    shares = {_P50: 0.5, "p95": 0.95, _P99: 0.99}
    every = percentiles(c.LATENCY_NS, [*shares.values()])
    shown = [(every[at] / 1e6).alias(name) for at, name in enumerate(shares)]
    return [F.count("*").alias(t.COUNT), *shown, (F.max(c.LATENCY_NS) / 1e6).alias("most")]


def _over_time(
    timed: DataFrame, apis: list[str], line: Timeline
) -> tuple[dict[str, list[tuple[int, float | None]]], ...]:
    """Returns the (bin, p50) and the (bin, p99) pairs, each by API and wait."""
    name = F.concat_ws("/", c.API, F.coalesce("_wait", F.lit("None"))).alias(NAME)
    rows = timed.filter(F.col(c.API).isin(*apis)).groupBy(name, bin_of(line)).agg(*_summed()).collect()
    return by_name(rows, _P50), by_name(rows, _P99)


def _nodes(work: DataFrame) -> Table[LatencyOfNode]:
    rows = work.groupBy(c.API, c.NODE).agg(*_summed()).orderBy(F.desc(t.COUNT), c.API, c.NODE)
    shown, total = firsts(rows, MAX_ROWS)
    nodes = [LatencyOfNode(row[c.API], row[c.NODE], row[t.COUNT], row[_P50], row[_P99], row["most"]) for row in shown]
    return Table(tuple(nodes), total)


def _heat(work: DataFrame, line: Timeline) -> tuple[Marks[HeatCell], int]:
    """Returns the heat map and the number of long answers, which no level of the map tells exactly."""
    level = F.least(F.floor(F.log2(F.col(c.LATENCY_NS) / 1000 + 1)), F.lit(_LEVELS - 1)).cast("int").alias("level")
    is_long = F.col(c.LATENCY_NS) >= LONG_MS * 1_000_000
    counts = F.count("*").alias(t.COUNT), F.count_if(is_long).alias("long")
    rows = work.groupBy(bin_of(line), level).agg(*counts).orderBy(BIN, "level").collect()
    cells = [HeatCell(row[BIN], _from_ms(row["level"]), _from_ms(row["level"] + 1), row[t.COUNT]) for row in rows]
    return Marks(tuple(cells)), sum(row["long"] for row in rows)


def _from_ms(level: int) -> float:
    return max(2.0**level, 1.0) / 1000


def failures(exchanges: DataFrame, found: DataFrame, line: Timeline) -> Errors:
    """Returns the section on errors by API and code, and over time without those of the protocol's normal flow.

    `found`: the table `errors` of these exchanges.
    """
    answers = exchanges.filter(F.col(t.ERROR_CODES).isNotNull()).groupBy(c.API).agg(F.count("*").alias("_answers"))
    example = F.concat_ws("/", c.SESSION, F.col(c.CONNECTION).cast("string"), F.concat(F.lit("e"), c.EXCHANGE))
    rows = (
        found.groupBy(c.API, t.ERROR, t.ERROR_CODE)
        .agg(
            F.sum(t.COUNT).alias(t.COUNT),
            F.count("*").alias(t.EXCHANGES),
            F.max(t.FLOW).alias(t.FLOW),
            F.max(t.RETRIABLE).alias(t.RETRIABLE),
            F.min(ns(c.AT)).alias("first"),
            F.max(ns(c.AT)).alias("last"),
            F.min_by(example, F.col(c.AT)).alias("example"),
        )
        .join(F.broadcast(answers), [c.API], "left")
        .orderBy(t.FLOW, F.desc(t.COUNT), c.API, t.ERROR_CODE)
    )
    shown, total = firsts(rows, MAX_ROWS)
    listed = [
        ErrorOfApi(
            row[c.API] or "unknown", row[t.ERROR], row[t.ERROR_CODE], row[t.COUNT],
            row[t.EXCHANGES] / row["_answers"] if row["_answers"] else None,
            bool(row[t.FLOW]), row[t.RETRIABLE], row["first"], row["last"], None, row["example"],
        )
        for row in shown
    ]  # fmt: skip
    if not listed and not exchanges.filter(F.col(t.ERROR_CODES).isNotNull()).limit(1).collect():
        return Errors(not_judged="no answer could be read")
    return Errors(errors=Table(tuple(listed), total), over_time=_errors_over_time(found, line))


def _errors_over_time(found: DataFrame, line: Timeline) -> Top[Series]:
    real = found.filter(~F.coalesce(t.FLOW, F.lit(False))).withColumn(NAME, F.col(t.ERROR))
    names, total = top_names(real.groupBy(NAME).agg(F.sum(t.COUNT).alias(t.COUNT)), t.COUNT)
    return _stacked(real, names, total, line, F.sum(t.COUNT))


def traffic(exchanges: DataFrame, line: Timeline) -> Traffic:
    """Returns the section on traffic: exchanges and bytes by API."""
    every = latency_by_api(exchanges).groupBy(F.col(c.API).alias(NAME)).agg(*(_sum(name) for name in _SUMS))
    with persisted(every.withColumn("_bytes", F.col(t.REQUEST_BYTES) + F.col(t.RESPONSE_BYTES))) as rows:
        names, total = top_names(rows, "_bytes")
        shown = {row[NAME]: row for row in rows.groupBy(among(names).alias(NAME)).agg(*map(_sum, _SUMS)).collect()}
    apis = {name: TrafficOfApi(name, *(row[one] for one in _SUMS)) for name, row in shown.items()}
    over = exchanges.filter(F.col(c.API).isNotNull()).withColumn(NAME, F.col(c.API))
    size = F.coalesce(F.sum(c.REQUEST_SIZE), F.lit(0)) + F.coalesce(F.sum(t.RESPONSE_SIZE), F.lit(0))
    stacked = _stacked(over, names, total, line, size)
    other = apis.get("other") if "other" not in names else None
    return Traffic(apis=Top(tuple(apis[name] for name in names), total, other), bytes_over_time=stacked)


_SUMS = (t.REQUESTS, t.RESPONSES, t.UNANSWERED, t.ERRORS, t.REQUEST_BYTES, t.RESPONSE_BYTES)


def _sum(name: str) -> Column:
    return F.sum(name).alias(name)


def _stacked(rows: DataFrame, names: list[str], total: int, line: Timeline, value: Column) -> Top[Series]:
    """Returns a series for each of these names, and one for all other names. Needs NAME and AT."""
    found = rows.groupBy(among(names).alias(NAME), bin_of(line)).agg(value.cast("double").alias("value")).collect()
    values = by_name(found, "value")
    tops = tuple(series(name, line, values.get(name, ()), 0) for name in names)
    rest = series("other", line, values["other"], 0) if "other" in values and "other" not in names else None
    return Top(tops, total, rest)
