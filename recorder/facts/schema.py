"""How a table is declared: its name, what a row is, and its columns with their types and meanings.

Only the declaration names a column's type: the schemas of Spark and Arrow and the docs are made from it. Types are
Spark's own names. Names carry units: `_ns`, `_ms`, `_bytes`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from recorder.hashing.batches import TOLD_TYPES

HEADERS = "array<struct<name: string, value: binary>>"
SPANS = "array<struct<start: int, length: int>>"
_OF_ARROW = {"string": "string", "int32": "int", "bool": "boolean"}
# what batches were before their records were hashed
TOLD = f"array<struct<{', '.join(f'{name}: {_OF_ARROW[kind]}' for name, kind in TOLD_TYPES.items())}>>"
TEXTS = "map<string, string>"


class Column(NamedTuple):
    """A column of a table. `kind`: Spark's type. `is_never_negative`: -1, the wire's value for none, becomes null."""

    name: str
    kind: str
    meaning: str
    is_never_negative: bool = False

    @property
    def ddl(self) -> str:
        """The column as Spark's schemas have it."""
        return f"{self.name} {self.kind}"


@dataclass(frozen=True, slots=True)
class Table:
    """A table. `row`: what a row is; `needs_bodies`: whether frames are opened for it."""

    name: str
    row: str
    columns: tuple[Column, ...]
    needs_bodies: bool = False

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [column.name for column in self.columns]

    @property
    def ddl(self) -> str:
        """The schema in Spark's notation."""
        return ", ".join(column.ddl for column in self.columns)


@cache
def arrow_type(kind: str) -> Any:
    """Returns Arrow's type for Spark's type `kind`."""
    import pyarrow as pa

    types = {
        "string": pa.string(),
        "bigint": pa.int64(),
        "int": pa.int32(),
        "smallint": pa.int16(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "binary": pa.binary(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "array<smallint>": pa.list_(pa.int16()),
        "array<int>": pa.list_(pa.int32()),
        "array<bigint>": pa.list_(pa.int64()),
        "array<string>": pa.list_(pa.string()),
        SPANS: pa.list_(pa.struct([pa.field("start", pa.int32()), pa.field("length", pa.int32())])),
        TOLD: pa.list_(pa.struct([pa.field(name, pa.type_for_alias(kind)) for name, kind in TOLD_TYPES.items()])),
        TEXTS: pa.map_(pa.string(), pa.string()),
        HEADERS: pa.list_(pa.struct([pa.field("name", pa.string()), pa.field("value", pa.binary())])),
    }
    return types[kind]
