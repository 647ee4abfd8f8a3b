"""Rules on latency and on long polls. A wait that the client asked for is no latency.

So the latency of a Fetch counts only if its answer is `full`: more records were there than it could take.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from proxy.wire.keys import FETCH
from proxy.wire.long_polls import Wait
from recorder.analysis import columns as t
from recorder.analysis.change.judged import ENOUGH
from recorder.analysis.expressions import percentile
from recorder.analysis.findings.counting import at_node, counted, inside, rule_rows, shares, tallied
from recorder.analysis.findings.rows import CASES, MEASURE, OF, WINDOW
from recorder.analysis.findings.tables import PEER, Tables
from recorder.capture import frames as c

# Shorter latencies don't count: three times nothing is still nothing.
SLOW_MS = 100
# Fetches a second on a connection. An idle consumer with default settings sends 2.
EMPTY_A_SECOND = 10
# Seconds that the client takes for one answer, and that it waits before the next Fetch although there is more.
TRANSFER_S, PAUSE_S = 1, 30
# Fewer slow answers than these may be chance.
MIN_SLOW_ANSWERS = 5
_PERCENTILES = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99}
_TOOK, _USUAL, _USUALS, _OTHERS = "took_ms", "usual_ms", "usuals_ms", "others_ms"


def slow(tables: Tables) -> DataFrame:
    """How many times slower than usual a node's answers were, by a percentile of a window: the p99 of 1,000 answers or
    more, the p95 of 200 or more, else the p50, so that a few answers don't decide. Usual is the median of that
    percentile in all windows: on this node, or on the API's other nodes if that is less. Latencies below 100 ms don't
    count.
    """
    is_slow = F.col(c.LATENCY_NS) >= SLOW_MS * 1_000_000
    latency = F.col(c.LATENCY_NS)
    percentiles = {name: _percentile(latency, share) for name, share in _PERCENTILES.items()}
    every = tallied(_work(tables), [c.API, c.NODE], is_slow, worst=latency, more=percentiles)
    of_node = Window.partitionBy(c.API, c.NODE)
    usual = every.withColumn(_USUALS, F.array(*(F.median(name).over(of_node) for name in _PERCENTILES)))
    found = _with_others(usual).filter(F.col(CASES) > 0)
    at = _of_enough({name: F.lit(number) for number, name in enumerate(_PERCENTILES)})
    chosen = {
        _TOOK: _of_enough({name: F.col(name) for name in _PERCENTILES}),
        _USUAL: F.least(F.get(_USUALS, at), F.get(_OTHERS, at)),
    }
    told = found.withColumns(chosen)
    times = F.when(F.col(_TOOK) >= SLOW_MS, F.col(_TOOK) / F.col(_USUAL)).otherwise(0.0)
    percentile_name = _of_enough({name: F.lit(name.removesuffix("_ms")) for name in _PERCENTILES})
    words = {"took": _shown(_TOOK), "usual": _shown(_USUAL), "percentile": percentile_name, "answers": F.col(OF)}
    return rule_rows(told.withColumn(MEASURE, times), at_node(), words)


def _of_enough(by_percentile: Mapping[str, Column]) -> Column:
    """The value for the highest percentile for which the window has enough answers; the lowest one is for any."""
    lowest, *others = by_percentile
    found = by_percentile[lowest]
    for name in others:
        found = F.when(F.col(OF) >= ENOUGH[name], by_percentile[name]).otherwise(found)
    return found


def empty_fetches(tables: Tables) -> DataFrame:
    """The share of Fetches that brought nothing, on a connection with at least 10 Fetches a second. Each costs client
    and broker time.
    """
    fetches = inside(tables.exchanges).filter((F.col(c.API_KEY) == FETCH) & F.col(t.WAIT).isNotNull())
    is_empty = F.col(t.WAIT) == Wait.EMPTY.value
    found = counted(fetches, [c.SESSION, c.CONNECTION, PEER], is_empty)
    many = found.filter(F.col(OF) >= EMPTY_A_SECOND * tables.windows.seconds)
    # a client may hold several connections: only its worst one makes a row
    worst = Window.partitionBy(PEER, WINDOW).orderBy(F.desc(CASES), c.SESSION, c.CONNECTION)
    one = shares(many).withColumn("_rank", F.row_number().over(worst)).filter(F.col("_rank") == 1)
    rate = F.round(F.col(CASES) / tables.windows.seconds).cast("bigint")
    return rule_rows(one, PEER, {"rate": rate})


def slow_consumers(tables: Tables) -> DataFrame:
    """The share of Fetch answers that a client took a second or longer to receive, or after which it sent no Fetch for
    30 s although there was more. At least five answers must be so slow. The client or its network holds up the reading,
    not the broker.
    """
    fetches = tables.exchanges.filter((F.col(c.API_KEY) == FETCH) & F.col(t.ANSWERED_AT).isNotNull())
    of_connection = Window.partitionBy(c.SESSION, c.CONNECTION).orderBy(c.EXCHANGE)
    pause = (F.unix_micros(F.lead(c.AT).over(of_connection)) - F.unix_micros(t.ANSWERED_AT)) / 1e6
    # the records of the next answer were there meanwhile
    more = F.lead(t.WAIT).over(of_connection).isin(Wait.FULL.value, Wait.TAIL.value)
    took = F.col(c.TRANSFER_NS) / 1e9
    lingers = F.when((pause > PAUSE_S) & more, pause).when(took >= TRANSFER_S, took)
    found = counted(
        fetches.withColumns({"_lingers": lingers, WINDOW: F.lit(0)}),
        [PEER],
        F.col("_lingers").isNotNull(),
        worst=F.col("_lingers"),
        more={"_longest": F.max("_lingers")},
    )
    many = found.filter(F.col(CASES) >= MIN_SLOW_ANSWERS)
    return rule_rows(shares(many), PEER, {"longest": F.concat(F.round("_longest", 1).cast("string"), F.lit(" s"))})


def _work(tables: Tables) -> DataFrame:
    is_work = F.col(t.WAIT).isNull() | (F.col(t.WAIT) == Wait.FULL.value)
    return inside(tables.exchanges).filter(F.col(c.LATENCY_NS).isNotNull() & is_work)


def _with_others(found: DataFrame) -> DataFrame:
    """The rows with the medians of what is usual on the API's other nodes; null without others."""
    # a connection whose node is unknown may be to any of them
    known = F.when(F.col(c.NODE).isNotNull(), F.struct(c.NODE, _USUALS))
    # a set, because all windows of a node have the same value
    nodes = F.collect_set(known).over(Window.partitionBy(c.API))
    others = F.filter("_nodes", lambda one: ~one[c.NODE].eqNullSafe(F.col(c.NODE)))
    return found.withColumn("_nodes", nodes).withColumn(_OTHERS, F.array(*_middles(others))).drop("_nodes")


def _middles(nodes: Column) -> Iterator[Column]:
    """The median over the nodes of each percentile's usual value."""
    for number in range(len(_PERCENTILES)):
        usual = F.array_sort(F.transform(nodes, partial(_usual_of, number)))
        yield F.get(usual, (F.size(usual) / 2).cast("int"))


def _usual_of(number: int, node: Column) -> Column:
    return F.get(node[_USUALS], F.lit(number))


def _percentile(latency: Column, share: float) -> Column:
    return percentile(latency, share) / 1e6


def _shown(milliseconds: str) -> Column:
    return F.concat(F.round(milliseconds, 1).cast("string"), F.lit(" ms"))
