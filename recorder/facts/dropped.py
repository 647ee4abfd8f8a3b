"""Makes a frame whole again whose record data a rule has left out: zeros stand in place of the dropped spans.

A capture keeps the frame without those bytes, and where they were. With zeros in their place every decoder finds all
fields, batch headers among them, where they were. Nobody may take the zeros for records: `records.is_blank` tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from proxy.wire import records

Spans = Iterable[Mapping[str, int | None]]


def filled(kept: bytes, dropped: Spans | None, stored: int) -> bytes:
    """The frame with zeros in its dropped spans. A frame of `stored` bytes is whole already.

    `kept`: the bytes of the frame without those of the spans. Errors: ValueError for spans that don't fit.
    """
    if not dropped or len(kept) == stored:
        return kept
    spans: list[tuple[int, int]] = []
    size, place = len(kept), 0
    for span in dropped:
        start, length = span["start"], span["length"]
        if start is None or length is None:
            raise ValueError("dropped spans that are no spans of their frame")
        size, place = size + length, start + length
        spans.append((start, length))
    if place > stored:
        raise ValueError("dropped spans that are longer than their frame")
    if size != stored:
        raise ValueError(f"a frame of {size} bytes with its dropped spans, where {stored} are said")
    return records.with_blanks(kept, spans)
