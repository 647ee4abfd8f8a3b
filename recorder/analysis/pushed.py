"""Filters that Spark hands to a data source, as conditions of a capture's columns that pyarrow understands.

Spark hands over comparisons that all must hold, each of one column and a constant. A comparison that is taken is
evaluated here alone, so it must choose exactly the rows that Spark would choose: null is neither equal to anything nor
different. What can't be had exactly so stays with Spark.

Spark's filters are known by the names of their classes: PySpark 4.0 has none of these, and hands over nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from operator import and_, eq, ge, gt, le, lt, ne
from typing import Any, NamedTuple

from proxy.wire import apis
from proxy.wire.dialects import Dialect
from recorder.analysis.schema import Column, arrow_type
from recorder.capture import frames as c

_COMPARED: Mapping[str, Callable[[Any, Any], Any]] = {
    "EqualTo": eq,
    "GreaterThan": gt,
    "GreaterThanOrEqual": ge,
    "LessThan": lt,
    "LessThanOrEqual": le,
}
_TEXTS = {"StringStartsWith": "starts_with", "StringEndsWith": "ends_with", "StringContains": "match_substring"}
_NULLS = ("IsNull", "IsNotNull")
_IN, _NOT_EQUAL = "In", "NotEqual"
# those that say from when on, and until when
_FROM, _UP_TO = ("EqualTo", "GreaterThan", "GreaterThanOrEqual"), ("EqualTo", "LessThan", "LessThanOrEqual")


class Condition(NamedTuple):
    """A comparison of a capture's column with a value; `values` of IN. `operator`: the name of Spark's filter."""

    operator: str
    column: str
    kind: str
    values: tuple[Any, ...] = ()

    def expression(self) -> Any:
        """The condition as pyarrow has it."""
        import pyarrow as pa
        import pyarrow.compute as pc

        field, kind = pc.field(self.column), arrow_type(self.kind)
        if self.operator in _NULLS:
            return field.is_null() if self.operator == "IsNull" else field.is_valid()
        if self.operator == _IN:
            return field.isin(pa.array(self.values, kind)) & self._by_key()
        if self.operator in _TEXTS:
            return getattr(pc, _TEXTS[self.operator])(field, self.values[0])
        value = pa.scalar(self.values[0], kind)
        if self.operator == _NOT_EQUAL:
            return ne(field, value)
        found = _COMPARED[self.operator](field, value)
        return found & self._by_key() if self.operator == "EqualTo" else found

    def _by_key(self) -> Any:
        """What else is true where an api has one of these names: its key tells more of a row group than its name.

        The names in a row group lie between the first and the last one of the alphabet, as most others do.
        """
        import pyarrow.compute as pc

        keys = [apis.api_key(name) for name in self.values] if self.column == c.API else [None]
        if None in keys:
            return pc.scalar(True)
        key = pc.field(c.API_KEY)
        return key.isin(keys) | key.is_null() | (pc.field(c.DIALECT) != Dialect.KAFKA.value)


def taken(filters: Iterable[Any], columns: Mapping[str, Column]) -> tuple[list[Condition], list[Any]]:
    """The conditions that stand for Spark's filters, and those filters that stay with Spark.

    `columns`: of the capture, by their names in the table.
    """
    found, left = [], []
    for one in filters:
        condition = _condition(one, columns)
        if condition is None:
            left.append(one)
        else:
            found.append(condition)
    return found, left


def bounds_ns(conditions: Iterable[Condition]) -> tuple[int | None, int | None]:
    """The first and the last time, in ns, that the conditions leave to AT; None: any."""
    times = [one for one in conditions if one.column == c.AT and one.values]
    since = [_ns(one.values[0]) for one in times if one.operator in _FROM]
    # of the whole last microsecond
    until = [_ns(one.values[0]) + 999 for one in times if one.operator in _UP_TO]
    return max(since, default=None), min(until, default=None)


def all_of(expressions: Iterable[Any]) -> Any:
    """True where each expression is."""
    return reduce(and_, expressions)


def _condition(one: Any, columns: Mapping[str, Column]) -> Condition | None:
    name = type(one).__name__
    if name == "Not":
        name, one = f"Not{type(one.child).__name__}", one.child
    operator = {"NotEqualTo": _NOT_EQUAL, "NotIsNull": "IsNotNull", "NotIsNotNull": "IsNull"}.get(name, name)
    column = columns.get(one.attribute[0]) if len(one.attribute) == 1 else None
    if column is None:
        return None
    if operator in _NULLS:
        return Condition(operator, column.name, column.kind)
    if operator not in {*_COMPARED, *_TEXTS, _IN, _NOT_EQUAL}:
        return None
    values = tuple(one.value) if operator == _IN else (one.value,)
    return Condition(operator, column.name, column.kind, values) if _fit(values, column.kind) else None


def _fit(values: tuple[Any, ...], kind: str) -> bool:
    """True if the values are of the column's type, and none is null."""
    import pyarrow as pa

    try:
        return not pa.array(values, arrow_type(kind)).null_count
    except (pa.ArrowException, TypeError, OverflowError):
        return False


def _ns(moment: Any) -> int:
    import pyarrow as pa

    return int(pa.scalar(moment, arrow_type("timestamp")).cast(pa.int64()).as_py()) * 1000
