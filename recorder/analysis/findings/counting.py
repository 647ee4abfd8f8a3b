"""Counts cases for rules. Most measure a share of cases (errors of all answers) or a rate (connections a second).

Both count by subject and window. A window's evidence is its worst case, by `worst`, or else its first one; of several
such cases the one with the highest numbers, so that every engine names the same. Further facts of a window are
aggregates beside the cases (`more`): a second aggregation, joined to the first, would read and shuffle the same rows
once more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis.expressions import ns
from recorder.analysis.findings.rows import (
    CASES,
    CLIENTS,
    EVIDENCE,
    FROM_NS,
    MEASURE,
    NODES,
    OF,
    ROWS,
    SUBJECT,
    TO_NS,
    WINDOW,
    WORDS,
)
from recorder.analysis.findings.tables import FAMILY
from recorder.analysis.findings.windows import IS_EDGE, Windows
from recorder.capture import frames as c

Words = Mapping[str, Column | str]


def inside(rows: DataFrame) -> DataFrame:
    """The rows outside the first and the last window of their session."""
    return rows.filter(~F.col(IS_EDGE))


def counted(
    rows: DataFrame,
    keys: Sequence[str],
    is_case: Column | None = None,
    *,
    at: str = c.AT,
    worst: Column | None = None,
    more: Mapping[str, Column] | None = None,
) -> DataFrame:
    """The rows of `tallied` that have a case."""
    return tallied(rows, keys, is_case, at=at, worst=worst, more=more).filter(F.col(CASES) > 0)


def tallied(
    rows: DataFrame,
    keys: Sequence[str],
    is_case: Column | None = None,
    *,
    at: str = c.AT,
    worst: Column | None = None,
    more: Mapping[str, Column] | None = None,
) -> DataFrame:
    """By `keys` and window: CASES, OF (all rows), FROM_NS and TO_NS (of cases), EVIDENCE, CLIENTS and NODES (of cases),
    and `more` (aggregates of all rows).
    """
    yes = F.lit(True) if is_case is None else F.coalesce(is_case, F.lit(False))
    at_ns = ns(at)
    shown = evidence(rows, at_ns)
    rank = -at_ns if worst is None else worst.cast("double")
    order = F.when(yes & rank.isNotNull(), F.struct(rank, shown))
    return rows.groupBy(*keys, WINDOW).agg(
        F.count_if(yes).alias(CASES),
        F.count("*").alias(OF),
        F.min(F.when(yes, at_ns)).alias(FROM_NS),
        F.max(F.when(yes, at_ns)).alias(TO_NS),
        F.max_by(shown, order).alias(EVIDENCE),
        *concerned(rows, yes),
        *(column.alias(name) for name, column in (more or {}).items()),
    )


def evidence(rows: DataFrame, at_ns: Column) -> Column:
    """The row's exchange, or its connection: `inspect show` opens it."""
    exchange = F.col(c.EXCHANGE) if c.EXCHANGE in rows.columns else F.lit(None)
    return F.struct(
        F.col(c.SESSION).alias("session"),
        F.col(c.CONNECTION).alias("connection"),
        exchange.cast("bigint").alias("exchange"),
        at_ns.alias("at_ns"),
    )


def concerned(rows: DataFrame, is_case: Column) -> list[Column]:
    """CLIENTS and NODES of the cases, as far as the rows know them."""
    known = {CLIENTS: FAMILY, NODES: c.NODE}
    return [
        F.collect_set(F.when(is_case, F.col(column))).alias(name)
        for name, column in known.items()
        if column in rows.columns
    ]


def in_all_windows(values: str, of: Sequence[str]) -> Column:
    """The values of an array in all windows of a subject, each once, as text; null if there are none."""
    every = F.flatten(F.collect_list(values).over(Window.partitionBy(*of)))
    text = F.array_join(F.array_sort(F.array_distinct(every.cast("array<string>"))), ", ")
    return F.when(F.length(text) > 0, text)


def shares(found: DataFrame) -> DataFrame:
    """The rows with MEASURE: CASES as a share of OF."""
    return found.withColumn(MEASURE, F.col(CASES) / F.col(OF))


def rates(found: DataFrame, windows: Windows) -> DataFrame:
    """The rows with MEASURE: CASES a second. OF is null, because a rate is no share."""
    return found.withColumns({MEASURE: F.col(CASES) / windows.seconds, OF: F.lit(None).cast("bigint")})


def rule_rows(found: DataFrame, subject: Column | str, words: Words | None = None) -> DataFrame:
    """The columns of ROWS, with `subject`, and with `words` for the rule's sentence."""
    pairs = [part for name, word in (words or {}).items() for part in (F.lit(name), _text(word))]
    shown = F.create_map(*pairs) if pairs else F.create_map().cast(ROWS[WORDS])
    unknown = {name: F.array().cast(ROWS[name]) for name in (CLIENTS, NODES) if name not in found.columns}
    described = found.withColumns({SUBJECT: _text(subject), WORDS: shown, **unknown})
    return described.select(*(F.col(name).cast(kind).alias(name) for name, kind in ROWS.items()))


def _text(word: Column | str) -> Column:
    column = F.col(word) if isinstance(word, str) else word
    return F.coalesce(column.cast("string"), F.lit("unknown"))


def has_any(codes: Column | str, wanted: Sequence[int]) -> Column:
    """Whether an answer's codes hold one of these; null where they are unknown."""
    return F.arrays_overlap(codes, F.array(*map(F.lit, wanted)).cast("array<smallint>"))


def null_safe_join(left: DataFrame, right: DataFrame, keys: Sequence[str], how: str = "inner") -> DataFrame:
    """Joins the left rows with few right ones that have the same keys. Nulls are equal to each other."""
    renamed = {name: f"_right_{name}" for name in keys}
    same = reduce(and_, (F.col(name).eqNullSafe(F.col(other)) for name, other in renamed.items()))
    return left.join(F.broadcast(right.withColumnsRenamed(renamed)), same, how).drop(*renamed.values())


def at_node() -> Column:
    """An API on a node, as text."""
    return F.concat(F.col(c.API), F.coalesce(F.concat(F.lit(" on node "), F.col(c.NODE)), F.lit("")))
