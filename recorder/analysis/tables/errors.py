"""The error codes in answers, a row for each code and place: its name, and whether the client may try again.

Some codes are no fault but a normal step of the protocol (`proxy.wire.normal_errors`). `flow` marks them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from proxy.wire.error_codes import ERRORS as CODES
from proxy.wire.normal_errors import NORMAL, NORMAL_OF
from recorder.analysis import columns as t
from recorder.analysis.bodies import Captured
from recorder.analysis.tables.exchanges import EXCHANGES
from recorder.analysis.tables.names import named
from recorder.capture import frames as c
from recorder.facts.schema import Column as Declared
from recorder.facts.schema import Table
from recorder.facts.topic_errors import TOPIC_ERRORS

_COPIED = (
    *t.KEYS,
    c.CLUSTER,
    c.NODE,
    c.CLIENT,
    c.CLIENT_ID,
    c.PRINCIPAL,
    c.API_KEY,
    c.API,
    c.API_VERSION,
    c.AT,
    t.ANSWERED_AT,
)

ERRORS = Table(
    "errors",
    "a code other than 0 in an answer, at one place",
    (
        *(column for column in EXCHANGES.columns if column.name in _COPIED),
        Declared(t.ERROR_CODE, "smallint", "the code"),
        Declared(t.ERROR, "string", "Kafka's name for it; `ERROR_<code>` for one that is newer than the table"),
        Declared(t.RETRIABLE, "boolean", "whether a client may simply try again"),
        Declared(t.FLOW, "boolean", "whether the code is a normal step of the protocol, and no fault"),
        Declared("topic", "string", "the topic that has the code; null: none, or one that was never named"),
        Declared("partition", "int", "the partition that has the code; null: none"),
        Declared(t.COUNT, "bigint", "how often the code occurs there"),
    ),
    needs_bodies=True,
)


_TOPIC = ["topic", "partition"]
_PARTITION_COUNT = f"struct<topic: string, partition: int, {t.COUNT}: bigint>"
_OF_ANSWERS = [name for name in ERRORS.names if name not in _TOPIC]


def errors_by_topic(exchanges: DataFrame, captured: Captured) -> DataFrame:
    """One row for each code in each answer and each topic or partition that has it: the columns of ERRORS."""
    same = [*t.KEYS, t.ERROR_CODE]
    placed = named(captured, TOPIC_ERRORS).filter(F.col(t.ERROR_CODE).isNotNull())
    counted = placed.groupBy(*same, *_TOPIC).agg(F.count("*").alias(t.COUNT))
    places = counted.groupBy(*same).agg(
        F.collect_list(F.struct(*_TOPIC, t.COUNT)).alias("_places"), F.sum(t.COUNT).alias("_placed")
    )
    every = errors(exchanges).join(places, same, "left")
    shown = every.withColumn("_place", F.explode(_everywhere())).drop(t.COUNT)
    return shown.select("*", "_place.*").select(*ERRORS.names)


def _everywhere() -> Column:
    """The topics and partitions that have a code, each with its count; other occurrences are one last entry."""
    elsewhere = F.col(t.COUNT) - F.coalesce("_placed", F.lit(0))
    nowhere = F.array(F.struct(F.lit(None).cast("string"), F.lit(None).cast("int"), elsewhere).cast(_PARTITION_COUNT))
    none = F.array().cast(f"array<{_PARTITION_COUNT}>")
    return F.concat(F.coalesce("_places", none), F.when(elsewhere > 0, nowhere).otherwise(none))


def errors(exchanges: DataFrame) -> DataFrame:
    """One row for each code in each answer: the columns of ERRORS without topic and partition. Needs those of
    EXCHANGES.
    """
    names = [column.name for column in EXCHANGES.columns if column.name in _COPIED]
    name, retriable = looked_up()
    described = {t.ERROR: name, t.RETRIABLE: retriable, t.FLOW: is_flow()}
    return each_code(exchanges, [F.col(name) for name in names]).withColumns(described).select(*_OF_ANSWERS)


def each_code(exchanges: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """One row for each code in each answer: these columns, ERROR_CODE, and COUNT, how often the answer has it."""
    each = exchanges.select(*columns, t.ERROR_CODES, F.explode(F.array_distinct(t.ERROR_CODES)).alias(t.ERROR_CODE))
    count = F.size(F.filter(t.ERROR_CODES, lambda code: code == F.col(t.ERROR_CODE)))
    return each.withColumn(t.COUNT, count.cast("bigint")).drop(t.ERROR_CODES)


def is_flow() -> Column:
    """Whether ERROR_CODE is a normal step of the protocol in an answer of API_KEY; null if the API is not known."""
    code, key = F.col(t.ERROR_CODE), F.col(c.API_KEY)
    found = code.isin(*NORMAL)
    for api_key, of_api in NORMAL_OF.items():
        found |= (key == api_key) & (code == of_api)
    return found


def looked_up() -> tuple[Column, Column]:
    """The name of the code in ERROR_CODE, and whether it is retriable."""
    code = F.col(t.ERROR_CODE).cast("int")
    names = F.create_map(*map(F.lit, chain.from_iterable((entry.code, entry.name) for entry in CODES.values())))
    retriable = F.array(*(F.lit(entry.code) for entry in CODES.values() if entry.retriable))
    unknown = F.concat(F.lit("ERROR_"), code.cast("string"))
    return F.coalesce(F.try_element_at(names, code), unknown), F.array_contains(retriable, code)
