"""Record batches as findings need them: with a check of their checksums, and a trial compression of some.

A sixteenth of the uncompressed batches is compressed with zlib, up to 64 KiB of each. A batch's checksum decides
whether it is in this sample: that is as good as chance, and the same in every run.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

from proxy.wire import records
from proxy.wire.budget import Budget
from proxy.wire.errors import WireError
from proxy.wire.records import Batch, Compression
from recorder.facts.batches import HEADER, HOLDERS, header_row, read_as
from recorder.facts.frame import Frame
from recorder.facts.rows import Decoder, Group
from recorder.facts.schema import Column
from recorder.facts.topics import PLACE, Place

# one of this many uncompressed batches is in the sample
SAMPLED = 16
_MOST_BYTES = 64 << 10
# zlib's fastest level
_LEVEL = 1
_CHECKED = (
    Column("crc", "bigint", "the checksum that the header tells: equal batches have equal ones"),
    Column("is_intact", "boolean", "the checksum is that of the bytes; null where no library can tell"),
    Column("sampled_bytes", "int", "how many bytes of the batch were compressed on trial; null outside the sample"),
    Column("folded_bytes", "int", "how many bytes zlib made of them"),
)
_OWN = (*HEADER, *_CHECKED)


def read(frame: Frame, budget: Budget) -> Iterator[Group]:
    """The batches in a frame. Errors: Unreadable."""
    return read_as(_row, _OWN, frame, budget)


def _row(place: Place, batch: Batch) -> tuple[Any, ...]:
    data = place.records
    return (*header_row(batch), batch.crc, _is_intact(data, batch), *_folded(data, batch))


def _is_intact(data: bytes, batch: Batch) -> bool | None:
    try:
        records.verify(data, batch)
    except WireError:
        return False
    except ModuleNotFoundError:
        return None
    return True


def _folded(data: bytes, batch: Batch) -> tuple[int | None, int | None]:
    if batch.codec is not Compression.NONE or batch.control or batch.crc % SAMPLED:
        return None, None
    sample = data[batch.start : min(batch.end, batch.start + _MOST_BYTES)]
    return len(sample), len(zlib.compress(sample, _LEVEL))


CHECKED_BATCHES = Decoder("checked_batches", "a record batch, checked", HOLDERS, PLACE, _OWN, read)
