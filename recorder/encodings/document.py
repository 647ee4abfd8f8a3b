"""The figures of KAFKA-9927 for its own example, and its contradictions. docs/encodings.md has the calculations.

The example is the body of a Metadata response: one topic with 100 partitions, replicated across two brokers.
"""

from __future__ import annotations

from typing import NamedTuple

from proxy.wire.integers import Encoding


class Figure(NamedTuple):
    """A row of the document: the body's bytes, and microseconds to serialize and deserialize it.

    The document does not state how often it was serialized.
    """

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
    "the formula gives 33 bytes a partition, so 3300 for 100 partitions; the document gives 3216 for the whole body",
    "at worst the formula gives 4100 for the partitions; the document gives 4026 for the whole body",
    "no number of replicas explains both: 4026 - 3216 bytes need at least 401 ids, whose fixed partitions take 3304",
    "the signed ranges overlap, as -63 is in two of them; 2147483647 is in none",
    "a varint of 64 bits takes up to 10 bytes; the document says 9",
    "the worst case begins at ids of 134217728, as in the signed encoding; the unsigned example needs 268435456",
    "the worst case has an error code above 255; two bytes are needed from 128 on, three from 16384",
    'error codes "are numbered sequentially from -1", but the unsigned encoding takes 3 bytes for -1',
)
