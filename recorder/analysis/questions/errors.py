"""Counts the error codes in the brokers' responses, by api."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis import columns as t
from recorder.analysis.questions.groups import groups
from recorder.analysis.tables.errors import each_code, is_flow, looked_up
from recorder.capture import frames as c


def errors_by_api(exchanges: DataFrame, *, by: Sequence[str] = (c.API,), window: str | None = None) -> DataFrame:
    """Returns a row per `by`, error code, t.FLOW and `window`: ERROR (the code's name), RETRIABLE, COUNT and EXCHANGES.

    COUNT is the number of the code's occurrences, and EXCHANGES the number of responses that hold it. A response may
    hold a code several times, for example once for each partition. Codes newer than Kafka's table are named
    `ERROR_<code>`. Needs the columns of `by`, API_KEY, AT and ERROR_CODES.
    """
    each = each_code(exchanges, [*groups(by, window), F.col(c.API_KEY)])
    each = each.withColumn(t.FLOW, F.coalesce(is_flow(), F.lit(False))).drop(c.API_KEY)
    keys = [name for name in each.columns if name not in (t.FLOW, t.COUNT)]
    counted = each.groupBy(*keys, t.FLOW).agg(F.sum(t.COUNT).alias(t.COUNT), F.count("*").alias(t.EXCHANGES))
    name, retriable = looked_up()
    return counted.select(*keys, name.alias(t.ERROR), retriable.alias(t.RETRIABLE), t.FLOW, t.COUNT, t.EXCHANGES)
