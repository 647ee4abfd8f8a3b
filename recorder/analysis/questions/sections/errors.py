"""The section on errors in responses. Those of the protocol's normal course are listed last, and not plotted."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis import columns as t
from recorder.analysis.expressions import ns
from recorder.analysis.questions.bins import NAME, firsts, stacked, top_names
from recorder.analysis.summary.bounds import MAX_ROWS, Series, Table, Timeline, Top
from recorder.analysis.summary.sections.errors import ErrorOfApi, Errors
from recorder.capture import frames as c


def errors(exchanges: DataFrame, found: DataFrame, line: Timeline) -> Errors:
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
    return stacked(real, names, total, line, F.sum(t.COUNT))
