"""Writes the lines that step over values that are not read.

Values stepped over are not checked: a forbidden null or a text that is no UTF-8 passes. Only lengths count, and a
negative one never leads backwards.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from proxy.wire.compile import varints
from proxy.wire.compile.cursor import Cursor
from proxy.wire.compile.layout import FIXED, Slot, Struct
from proxy.wire.compile.source import Source


class Skipper:
    """Writes the lines that step over values."""

    def __init__(self, source: Source, cursor: Cursor):
        self.source, self.cursor = source, cursor

    def struct(self, struct: Struct) -> None:
        """Steps over all fields of a struct, and its tags."""
        for slot in struct.slots:
            self.slot(slot)
        if struct.flexible:
            self.tags()

    def slot(self, slot: Slot) -> None:
        """Steps over the value of a field of any type."""
        if slot.code:
            self.cursor.step(slot.size)
        elif slot.varint:
            varints.step_over(self.cursor, slot.varint)
        elif slot.array:
            self._array(slot)
        elif slot.struct:
            with self.cursor.present(slot):
                self.struct(slot.struct)
        else:
            self._bytes(slot)

    def tags(self) -> None:
        """Steps over a whole tag buffer."""
        self.cursor.length("B", 1)
        with self.source.block("if n:"):
            self.source.line(self.cursor.rest_of_varint)
            with self.each("n"):
                self.cursor.count()
                self.cursor.count()
                self.source.line("at += n")

    @contextmanager
    def each(self, count: str) -> Iterator[None]:
        """Puts the lines written within into a loop of `count` turns."""
        with self.source.block(f"for _ in range({count}):"):
            yield

    def length(self, slot: Slot) -> str:
        """Reads a length or count into `n`; returns the expression for it (below 0 for null)."""
        if slot.compact:
            self.cursor.count()
            return "n - 1"
        self.cursor.length(*(("h", 2) if slot.type == "string" and not slot.array else ("i", 4)))
        return "n"

    def _bytes(self, slot: Slot) -> None:
        length = self.length(slot)
        self.source.line(f"if n > {1 if slot.compact else 0}: at += {length}")

    def _array(self, slot: Slot) -> None:
        count = self.length(slot)
        width = slot.struct.fixed_size if slot.struct else FIXED[slot.type][1] if slot.element_code else None
        if width is not None:
            self.source.line(f"if n > {1 if slot.compact else 0}: at += ({count}) * {width}")
            return
        with self.each(count):
            self.slot(slot.element)
            self.cursor.flush()
