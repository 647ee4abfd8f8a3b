"""Filters that Spark pushes down to a data source, as conditions on a capture's columns for pyarrow.

Spark pushes down a conjunction of comparisons, each of one column with a constant. Spark does not evaluate an accepted
comparison again, so the condition must choose exactly the same rows: null neither equals a value nor differs from one.
Comparisons for which pyarrow is not exact stay with Spark.

Spark's filters are recognised by their class names: PySpark 4.0 lacks the classes, and pushes down nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from operator import and_, eq, ge, gt, le, lt, ne
from typing import Any, NamedTuple

from proxy.wire import apis
from proxy.wire.dialects import Dialect
from recorder.capture import frames as c
from recorder.facts.schema import Column, arrow_type

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
# The operators that bound a time from below, and from above.
_FROM, _UP_TO = ("EqualTo", "GreaterThan", "GreaterThanOrEqual"), ("EqualTo", "LessThan", "LessThanOrEqual")


class Condition(NamedTuple):
    """A comparison of a capture's column with values (several for IN). `operator`: the name of Spark's filter class."""

    operator: str
    column: str
    kind: str
    values: tuple[Any, ...] = ()

    def expression(self) -> Any:
        """Returns the condition as a pyarrow expression."""
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
        """Returns a further condition on the API's key, true for every row with one of these API names.

        It lets statistics skip more row groups. The names in a row group span most of the alphabet, so most names lie
        between its minimum and maximum; the range of its keys is narrower.
        """
        import pyarrow.compute as pc

        keys = [apis.api_key(name) for name in self.values] if self.column == c.API else [None]
        if None in keys:
            return pc.scalar(True)
        key = pc.field(c.API_KEY)
        return key.isin(keys) | key.is_null() | (pc.field(c.DIALECT) != Dialect.KAFKA.value)


def taken(filters: Iterable[Any], columns: Mapping[str, Column]) -> tuple[list[Condition], list[Any]]:
    """Returns the conditions for the filters that it accepts, and the filters that stay with Spark.

    `columns`: the capture's columns, by their names in the table.
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
    """Returns the first and the last time, in ns, that the conditions on AT allow; None: unbounded."""
    times = [one for one in conditions if one.column == c.AT and one.values]
    since = [_ns(one.values[0]) for one in times if one.operator in _FROM]
    # AT has microseconds: include the whole last one
    until = [_ns(one.values[0]) + 999 for one in times if one.operator in _UP_TO]
    return max(since, default=None), min(until, default=None)


def all_of(expressions: Iterable[Any]) -> Any:
    """Returns the conjunction of the expressions."""
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
    """True if the values have the column's type, and none is null."""
    import pyarrow as pa

    try:
        return not pa.array(values, arrow_type(kind)).null_count
    except (pa.ArrowException, TypeError, OverflowError):
        return False


def _ns(moment: Any) -> int:
    import pyarrow as pa

    return int(pa.scalar(moment, arrow_type("timestamp")).cast(pa.int64()).as_py()) * 1000
