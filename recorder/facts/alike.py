"""Finds the frames of an Arrow batch that say the same: Heartbeats and their like differ only in their correlation ids.

Used by `rows`, which reads one of them for all, and by `plain_messages`. Columns are compared whole, by pyarrow: a
Heartbeat that equals an earlier one then takes half of the time that looking up its bytes would take.
"""

from __future__ import annotations

from typing import Any

from proxy.wire.dialects import Dialect
from recorder.facts.frame import REQUEST

# frames of at most this many bytes are compared
SMALL = 256
# where a request's correlation id begins and ends; where a response's ends
ID_AT, ID_END, RESPONSE_ID_END = 4, 8, 4


def is_whole(batch: Any) -> Any:
    """Whether a frame is as it arrived, and its side, API and version are known: a column of true and false.

    `batch`: with the columns of `rows.FACTS`, and `frame`.
    """
    import pyarrow.compute as pc

    found = pc.equal(batch["dialect"], Dialect.KAFKA.value)
    for name in ("note", "dropped", "batches"):
        found = pc.and_(found, pc.is_null(batch[name]))
    for name in ("frame", "kind", "api_key", "api_version"):
        found = pc.and_(found, pc.is_valid(batch[name]))
    is_masked = pc.greater(pc.fill_null(pc.list_value_length(batch["masked"]), 0), 0)
    return pc.fill_null(pc.and_not(found, is_masked), False)


def alike(batch: Any) -> list[int]:
    """Of each frame of the batch, the number of the first one that says the same; its own if it is the first.

    Frames say the same if they are small and whole, of one side, API and version, and equal but for the correlation id.
    `batch`: with the columns of `rows.FACTS`, and `frame`.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    frame = batch["frame"].cast(pa.binary())
    size = pc.fill_null(pc.binary_length(frame), 0)
    is_compared = pc.and_(is_whole(batch), pc.and_(pc.greater_equal(size, ID_END), pc.less_equal(size, SMALL)))
    compared = pc.indices_nonzero(is_compared)
    frame, side, key, version = (
        column.take(compared) for column in (frame, *map(batch.column, ("kind", "api_key", "api_version")))
    )
    is_request = pc.equal(side, REQUEST)
    rest = pc.if_else(
        is_request,
        # the API and version before the correlation id may be others than the row's: they say where the body begins
        pc.binary_replace_slice(frame, ID_AT, ID_END, b""),
        pc.binary_replace_slice(frame, 0, RESPONSE_ID_END, b""),
    )
    code = _codes(rest)
    for column in (is_request, key, version):
        # a number for each pair of what was compared so far and this column's value
        code = _codes(pc.add(pc.multiply(code, len(compared)), _codes(column)))
    found = [*range(len(batch))]
    firsts: list[int] = []
    for number, group in zip(compared.to_pylist(), code.to_pylist(), strict=True):
        # codes are numbered by their first frames
        if group == len(firsts):
            firsts.append(number)
        found[number] = firsts[group]
    return found


def _codes(column: Any) -> Any:
    """A number for each value, the same for equal ones, counted in the order of their first rows."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.dictionary_encode(column).indices.cast(pa.int64())
