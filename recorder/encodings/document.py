"""KAFKA-9927's figures for its own example, and its contradictions. docs/encodings.md has the calculation.

The example: a Metadata response (the body alone) of one topic with 100 partitions, replicated across two brokers.
"""

from __future__ import annotations

from typing import NamedTuple

from proxy.wire.integers import Encoding


class Figure(NamedTuple):
    """A row of the document: bytes, and microseconds to write and to read an unstated number of times."""

    name: str
    encoding: Encoding
    bytes: int
    serialize: int
    deserialize: int


FIGURES = (
    Figure("fixed", Encoding.FIXED, 3216, 56_458, 14_416),
    Figure("unsigned, at best", Encoding.UNSIGNED, 1170, 65_226, 14_713),
    Figure("unsigned, at worst", Encoding.UNSIGNED, 4026, 81_328, 14_755),
)
FIXED = FIGURES[0]

CONTRADICTIONS = (
    "its formula makes 33 bytes a partition, 3300 for 100 of them; the whole body is said to take 3216",
    "at worst the formula makes 4100 for the partitions; the whole body is said to take 4026",
    "no number of replicas mends both: 4026 - 3216 bytes want at least 401 ids, with which fixed takes 3304",
    "its signed ranges overlap: -63 takes one byte and two; 2147483647 stands in none",
    "a varint of 64 bits takes up to 10 bytes; it says 9",
    "its worst case begins at ids of 134217728, where signed takes 5 bytes; its example is unsigned: 268435456",
    "an error code above 255 is its worst case; two bytes are needed from 128 on, three from 16384",
    'error codes "are numbered sequentially from -1", but -1 takes 3 bytes in its unsigned best case',
)
