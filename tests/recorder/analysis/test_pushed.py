"""Tests of pushed filters: they choose the rows that SQL would choose, and a filter on time limits the files."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import datasource as spark

from recorder.analysis.pushed import all_of, bounds_ns, taken
from recorder.facts.schema import Column, arrow_type
from tests.tables import each_row

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
COLUMNS = {"at": "timestamp", "api": "string", "api_key": "smallint", "dialect": "string", "awaits": "boolean"}
HEADS = {name: Column(name, kind, "") for name, kind in COLUMNS.items()}
VALUES = {
    "at": st.integers(0, 5).map(lambda seconds: NOON + timedelta(seconds=seconds)),
    "api": st.sampled_from(["Fetch", "Metadata", "Produce", "Fet", "0.7/fetch", ""]),
    "api_key": st.integers(-1, 4),
    "dialect": st.sampled_from(["kafka", "kafka-0.7"]),
    "awaits": st.booleans(),
}
# a capture's dialect is never null
CELLS = {name: values if name == "dialect" else st.none() | values for name, values in VALUES.items()}
ROWS = st.lists(st.fixed_dictionaries(CELLS), max_size=12)
COMPARED = ("EqualTo", "EqualNullSafe", "GreaterThan", "GreaterThanOrEqual", "LessThan", "LessThanOrEqual", "In")
TEXTS = ("StringStartsWith", "StringEndsWith", "StringContains")
KEYS = {"Fetch": 1, "Metadata": 3, "Produce": 0}


@st.composite
def filters(draw: st.DrawFn) -> Any:
    column = draw(st.sampled_from(sorted(VALUES)))
    operator = draw(st.sampled_from([*COMPARED, "IsNull", "IsNotNull", *(TEXTS if column == "api" else ())]))
    kind = getattr(spark, operator)
    if operator.startswith("Is"):
        made = kind((column,))
    elif operator == "In":
        made = kind((column,), tuple(draw(st.lists(st.none() | VALUES[column], min_size=1, max_size=3))))
    else:
        made = kind((column,), draw(VALUES[column]))
    return spark.Not(made) if draw(st.booleans()) else made


def holds(one: Any, row: dict[str, Any]) -> bool | None:
    """SQL's result; None if it is unknown."""
    name = type(one).__name__
    if name == "Not":
        found = holds(one.child, row)
        return None if found is None else not found
    value = row[one.attribute[0]]
    if name in ("IsNull", "IsNotNull"):
        return (value is None) == (name == "IsNull")
    if name == "EqualNullSafe":
        return bool(value == one.value)
    if value is None:
        return None
    if name == "In":
        return True if value in one.value else None if None in one.value else False
    return bool(
        {
            "EqualTo": lambda: value == one.value,
            "GreaterThan": lambda: value > one.value,
            "GreaterThanOrEqual": lambda: value >= one.value,
            "LessThan": lambda: value < one.value,
            "LessThanOrEqual": lambda: value <= one.value,
            "StringStartsWith": lambda: value.startswith(one.value),
            "StringEndsWith": lambda: value.endswith(one.value),
            "StringContains": lambda: one.value in value,
        }[name]()
    )


def named(row: dict[str, Any]) -> dict[str, Any]:
    """A row as captures have it: in Kafka's dialect, an api's name has its key."""
    return row | {"api_key": KEYS[row["api"]]} if row["dialect"] == "kafka" and row["api"] in KEYS else row


@given(ROWS, st.lists(filters(), max_size=3))
def test_filters_choose_the_rows_that_sql_chooses(rows: list[dict[str, Any]], asked: list[Any]) -> None:
    rows = [named(row) for row in rows]
    schema = pa.schema([(name, arrow_type(kind)) for name, kind in COLUMNS.items()])
    table = pa.Table.from_pylist(rows, schema)
    conditions, left = taken(asked, HEADS)
    chosen = table.filter(all_of([one.expression() for one in conditions])) if conditions else table
    assert len(conditions) + len(left) == len(asked)
    pushed = [one for one in asked if not any(one is other for other in left)]
    assert chosen.to_pylist() == [row for row in rows if all(holds(one, row) for one in pushed)]
    since, until = bounds_ns(conditions)
    times = [int(row["at"].timestamp() * 10**6) * 1000 for row in chosen.to_pylist() if row["at"]]
    assert all((since is None or since <= at) and (until is None or at <= until) for at in times)


@each_row(
    "one",
    [
        spark.EqualTo(("api",), "Fetch"),
        spark.In(("api_key",), (1, 3)),
        spark.GreaterThanOrEqual(("at",), NOON),
        spark.Not(spark.EqualTo(("api",), "Fetch")),
        spark.StringStartsWith(("api",), "Fe"),
        spark.IsNotNull(("dialect",)),
    ],
    ids=["equal", "in", "since", "not", "starts", "not-null"],
)
def test_filters_of_heads_are_taken(one: Any) -> None:
    assert taken([one], HEADS)[1] == []


@each_row(
    "one",
    [
        spark.EqualTo(("topic",), "orders"),
        spark.EqualTo(("at", "day"), 1),
        spark.EqualTo(("api_key",), 1 << 40),
        spark.In(("api",), ("Fetch", None)),
        spark.Not(spark.In(("api",), ("Fetch",))),
        spark.EqualNullSafe(("api",), "Fetch"),
    ],
    ids=["no-head", "nested", "too-large", "null", "not-in", "null-safe"],
)
def test_a_filter_that_can_not_be_applied_exactly_is_left_to_spark(one: Any) -> None:
    assert taken([one], HEADS) == ([], [one])
