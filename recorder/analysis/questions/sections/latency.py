"""The section on latency. Long polls that waited are kept apart from work."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from proxy.wire.long_polls import Wait
from recorder.analysis import columns as t
from recorder.analysis.expressions import percentiles
from recorder.analysis.questions.bins import BIN, NAME, bin_of, by_name, firsts, series
from recorder.analysis.summary.bounds import MAX_ROWS, MAX_TOP, Marks, Table, Timeline, Top
from recorder.analysis.summary.sections.latency import LONG_MS, HeatCell, Latency, LatencyOfApi, LatencyOfNode
from recorder.capture import frames as c

# Levels of latency, each a power of two of µs. The last one begins at 2^23 µs = 8.4 s. With 120 bins they make fewer
# cells than a plot may hold.
_LEVELS = 24
_P50, _P99 = "p50", "p99"


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
