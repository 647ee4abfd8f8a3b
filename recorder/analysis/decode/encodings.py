"""Measures how many bytes a frame's integers take, and would take in other encodings (KAFKA-9927).

Each integer field of the body has a row. One more row, with a null path, stands for the whole body. Headers are left
out, because the proposal does not change them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from proxy.wire.budget import Budget
from proxy.wire.catalog import Codec
from proxy.wire.integers import Encoding
from proxy.wire.sizes import Sizer
from recorder.capture import frames as c
from recorder.facts.frame import REQUEST, RESPONSE, Frame, opened_with_codec
from recorder.facts.rows import SIDE, Decoder, FrameSelector, Group
from recorder.facts.schema import Column

API = Column(c.API, "string", "the api's name")
OF_SIDE = Column(SIDE, "string", "`request` or `response`")
VERSION = Column(
    c.API_VERSION, "smallint", "the message's version; a broker that lacks the request's version answers with another"
)
PATH = Column("path", "string", "the field's names, with dots between; null: the whole body")
SENT = Column("sent_bytes", "bigint", "bytes of the bodies as they were sent; null for a field")
BYTES = {
    encoding: Column(f"{encoding.value}_bytes", "bigint", f"with {meaning}")
    for encoding, meaning in {
        Encoding.FIXED: "integers of fixed length, as Kafka has them",
        Encoding.SIGNED: "integers as signed varints",
        Encoding.UNSIGNED: "integers as unsigned varints",
    }.items()
}


@cache
def _sizer(codec: Codec) -> Sizer:
    return Sizer(codec.message, codec.version)


def read(frame: Frame, budget: Budget) -> Iterator[Group]:
    """A row for the frame's body, and one for each of its integer fields. Errors: Unreadable."""
    values, codec, body = opened_with_codec(frame, budget)
    sizer = _sizer(codec)
    found = [sizer.sizes(values, encoding) for encoding in BYTES]
    rows: list[tuple[Any, ...]] = [(None, len(frame.data) - body, *(one.total for one in found))]
    rows += [(path, None, *(one.fields[path] for one in found)) for path in found[0].encodings if found[0].fields[path]]
    yield Group((codec.version,), rows)


FIELD_SIZES = Decoder(
    "field_sizes",
    "a field of integers in a frame",
    (FrameSelector(REQUEST, None), FrameSelector(RESPONSE, None)),
    (VERSION,),
    (PATH, SENT, *BYTES.values()),
    read,
    (API, OF_SIDE),
)
