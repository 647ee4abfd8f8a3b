"""Reads where partitions' logs end, from Fetch, Produce and ListOffsets.

A Fetch answer has the high watermark. A Produce answer has only the first offset, and its request has the number of
records, so both are rows. A ListOffsets answer does not say what was asked for, so requests for the log's end are rows,
too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from proxy.wire import keys
from proxy.wire.budget import Budget
from recorder.facts.frame import REQUEST, RESPONSE, Frame, Values, opened
from recorder.facts.rows import Decoder, FrameSelector, Group
from recorder.facts.schema import Column
from recorder.facts.topics import PLACE, Place, places

# in ListOffsets: the timestamp that stands for the log's end, and the isolation level that ends at the high watermark
_LATEST, _UNCOMMITTED = -1, 0


class LogEnd(NamedTuple):
    """What a frame says of a partition's end: the values of _OWN."""

    end_offset: int | None = None
    stable_offset: int | None = None
    first_offset: int | None = None
    offsets: int | None = None
    is_asked: bool | None = None
    control_offsets: list[int] | None = None


_OWN = (
    Column("end_offset", "bigint", "the high watermark"),
    Column("stable_offset", "bigint", "the first offset of an open transaction, else the high watermark"),
    Column("first_offset", "bigint", "of produced records, or found by ListOffsets"),
    Column("offsets", "bigint", "that produced records take; null where only unfolding would tell"),
    Column("is_asked", "boolean", "of ListOffsets requests: true, for the end is asked for"),
    Column("control_offsets", "array<bigint>", "of the control batches in an answer"),
)


def _fetched(_: Values, place: Place) -> LogEnd | None:
    values = place.values
    if values["error_code"]:
        return None
    # a fault in the records spoils neither the batches before it nor the watermark
    controls = [one.last_offset for one in place.batches.found if one.control]
    stable = values.get("last_stable_offset", -1)
    return LogEnd(_known(values["high_watermark"]), _known(stable), control_offsets=controls)


def _produces(_: Values, place: Place) -> LogEnd | None:
    found, error = place.batches
    counts = [None] if error else [one.count for one in found]
    return LogEnd(offsets=None if None in counts else sum(count or 0 for count in counts))


def _produced(_: Values, place: Place) -> LogEnd | None:
    values = place.values
    return None if values["error_code"] else LogEnd(first_offset=_known(values["base_offset"]))


def _asks(values: Values, place: Place) -> LogEnd | None:
    is_end = place.values["timestamp"] == _LATEST and values.get("isolation_level", _UNCOMMITTED) == _UNCOMMITTED
    return LogEnd(is_asked=True) if is_end else None


def _found(_: Values, place: Place) -> LogEnd | None:
    values = place.values
    old = values.get("old_style_offsets") or [-1]
    return None if values["error_code"] else LogEnd(first_offset=_known(values.get("offset", old[0])))


def _known(offset: int) -> int | None:
    return None if offset < 0 else offset


_READERS: Mapping[tuple[str, int], Callable[[Values, Place], LogEnd | None]] = {
    (RESPONSE, keys.FETCH): _fetched,
    (REQUEST, keys.PRODUCE): _produces,
    (RESPONSE, keys.PRODUCE): _produced,
    (REQUEST, keys.LIST_OFFSETS): _asks,
    (RESPONSE, keys.LIST_OFFSETS): _found,
}


def read(frame: Frame, budget: Budget) -> Iterator[Group]:
    """What the frame says of each partition's end. Errors: Unreadable."""
    values, tell = opened(frame, budget), _READERS[frame.side, frame.api_key]
    found = ((place, tell(values, place)) for place in places(frame, budget))
    yield Group((), [(*place.named, *end) for place, end in found if end is not None])


_PAIRED = (keys.PRODUCE, keys.LIST_OFFSETS)
_COLUMNS = (*PLACE, *_OWN)
FETCHED_ENDS = Decoder(
    "fetched_ends", "a log's end in a Fetch", (FrameSelector(RESPONSE, (keys.FETCH,)),), (), _COLUMNS, read
)
PAIRED_ENDS = Decoder(
    "paired_ends",
    "a side of what tells a log's end",
    (FrameSelector(REQUEST, _PAIRED), FrameSelector(RESPONSE, _PAIRED)),
    (),
    _COLUMNS,
    read,
)
