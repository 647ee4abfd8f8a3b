"""The errors in the brokers' responses, by api."""

from __future__ import annotations

from itertools import chain

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from proxy.wire.error_codes import ERRORS
from recorder.analysis import columns as t
from recorder.analysis.questions.groups import by_api
from recorder.capture import frames as c


def errors_by_api(exchanges: DataFrame, *, window: str | None = None) -> DataFrame:
    """Per api and error code (and `window`): ERROR its name, RETRIABLE, COUNT its occurrences in responses,
    EXCHANGES the number of these responses.

    A response may hold a code several times, for example once for each partition. Codes newer than Kafka's table are
    named `ERROR_<code>`. Needs API, API_KEY, AT and ERROR_CODES.
    """
    groups = by_api(window)
    each = exchanges.select(*groups, t.ERROR_CODES, F.explode(F.array_distinct(t.ERROR_CODES)).alias(t.ERROR_CODE))
    keys = [name for name in (t.WINDOW_START, c.API) if name in each.columns] + [t.ERROR_CODE]
    occurrences = F.size(F.filter(t.ERROR_CODES, lambda code: code == F.col(t.ERROR_CODE)))
    counted = each.groupBy(*keys).agg(F.sum(occurrences).alias(t.COUNT), F.count("*").alias(t.EXCHANGES))
    name, retriable = _looked_up()
    return counted.select(*keys, name.alias(t.ERROR), retriable.alias(t.RETRIABLE), t.COUNT, t.EXCHANGES)


def _looked_up() -> tuple[Column, Column]:
    code = F.col(t.ERROR_CODE).cast("int")
    names = F.create_map(*map(F.lit, chain.from_iterable((entry.code, entry.name) for entry in ERRORS.values())))
    retriable = F.array(*(F.lit(entry.code) for entry in ERRORS.values() if entry.retriable))
    unknown = F.concat(F.lit("ERROR_"), code.cast("string"))
    return F.coalesce(F.try_element_at(names, code), unknown), F.array_contains(retriable, code)
