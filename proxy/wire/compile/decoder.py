"""Writes the function from bytes to a dict.

Values: int, float, bool, str, bytes (bytes, records, 16-byte uuids), list, dict, None. Every field of the version is
in its dict, a tagged field that is absent with its default; tagged fields that nobody knows stand under "_tags" as
{tag: bytes}.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from proxy.wire.compile import varints
from proxy.wire.compile.cursor import Cursor
from proxy.wire.compile.layout import Slot, Struct, layout
from proxy.wire.compile.runtime import READY, READY_BY_CODE
from proxy.wire.compile.source import Source
from proxy.wire.language import Message


def decoder(message: Message, version: int) -> Callable[..., Any]:
    """`decode(buf: bytes, at: int) -> (dict, offset behind)`."""
    source = Source(f"decode {message.name} v{version}", "def decode(buf, at):")
    with reading(source, message, version):
        value = Decoder(source, Cursor(source), view=False).struct(layout(message, version), source.fresh("message"))
        source.line("if at > size: raise beyond(at)")
        source.line(f"return {value}, at")
    return source.function()


@contextmanager
def reading(source: Source, message: Message, version: int) -> Iterator[None]:
    """The lines written meanwhile stand where a read beyond the end becomes a WireError."""
    source.line("size = len(buf)")
    with source.block("try:"):
        yield
    with source.block("except READ_FAULTS as fault:"):
        source.line(f"raise explain(fault, {message.api!r}, {version}, at, size) from fault")


def default_source(slot: Slot) -> str:
    """The expression for the value of a tagged field that is absent."""
    return repr(slot.default)


def dict_source(values: Mapping[str, str]) -> str:
    """The display of a dict: each name with the expression for its value."""
    return "{" + ", ".join(f"{name!r}: {value}" for name, value in values.items()) + "}"


class Decoder:
    """Writes the reading of values. `view`: `buf` may be a memoryview, whose slices are not yet bytes."""

    def __init__(self, source: Source, cursor: Cursor, *, view: bool):
        self.source, self.cursor = source, cursor
        self._text = "str(buf[start:at], 'utf-8')" if view else "buf[start:at].decode()"
        self._bytes = "bytes(buf[{}:{}])" if view else "buf[{}:{}]"

    def struct(self, struct: Struct, target: str) -> str:
        """Reads a struct into the variable `target`; nothing is left pending."""
        values = {slot.name: self.value(slot) for slot in struct.slots}
        values |= {slot.name: default_source(slot) for slot in struct.tagged}
        if struct.flexible:
            self.cursor.length("B", 1)
        self.cursor.flush()
        self.source.line(f"{target} = {dict_source(values)}")
        if struct.tagged:
            self._tagged(struct, target)
        elif struct.flexible:
            self.source.line(f"if n: at = keep_tags(buf, at, {target})")
        return target

    def value(self, slot: Slot) -> str:
        """The variable that will hold the value; a fixed one may be pending still."""
        target = self.source.fresh(slot.name)
        if slot.code:
            self.cursor.take(slot.code, slot.size, target)
        elif slot.varint:
            varints.read(self.cursor, slot.varint, target)
        elif slot.struct and not slot.array:
            self._one_struct(slot, slot.struct, target)
        else:
            with self.filled(slot, target):
                self._sized(slot, target)
        return target

    @contextmanager
    def filled(self, slot: Slot, target: str) -> Iterator[None]:
        """Reads a length into `n` and null into `target`; the lines written meanwhile read what is not null."""
        if slot.compact:
            yield from self._compact(slot, target)
        else:
            yield from self._classic(slot, target)

    def _compact(self, slot: Slot, target: str) -> Iterator[None]:
        self.cursor.length("B", 1)
        text = slot.type == "string" and not slot.array
        if slot.nullable:
            again = "long_text_or_null(buf, at)" if text else "read_uvarint(buf, at - 1)"
            self.source.line(f"if n > 127: n, at = {again}")
            with self.source.block("if n:"):
                yield
            self.source.line(f"else: {target} = None")
        else:
            self.source.line(f"if not 0 < n < 128: n, at = {'long_text' if text else 'long'}(buf, at)")
            yield

    def _classic(self, slot: Slot, target: str) -> Iterator[None]:
        self.cursor.length(*(("h", 2) if slot.type == "string" and not slot.array else ("i", 4)))
        if slot.nullable:
            with self.source.block("if n >= 0:"):
                yield
            self.source.line(f"else: {target} = null(n, at)")
        else:
            self.source.line("if n < 0: raise not_null(n, at)")
            yield

    def _sized(self, slot: Slot, target: str) -> None:
        """What follows the length `n`."""
        length = "n - 1" if slot.compact else "n"
        if slot.array and slot.element_code:
            self._fixed_elements(slot, target, length)
        elif slot.array and slot.element_varint:
            chunk = self._bytes.format("at", f"at + {length}")
            varints.read_many(self.cursor, slot.element_varint, target, length, chunk)
        elif slot.array:
            self._elements(slot, target, length)
        else:
            # `at` moves first: behind the end it tells a text that is cut short from one that is no UTF-8.
            self.source.line("start = at")
            self.source.line(f"at += {length}")
            self.source.line(f"{target} = {self._text if slot.type == 'string' else self._bytes.format('start', 'at')}")

    def _fixed_elements(self, slot: Slot, target: str, count: str) -> None:
        code, ready = slot.element_code or "", READY_BY_CODE.get(slot.element_code or "")
        read = f"many({code!r}, {slot.size}, {count}, buf, at)"
        if ready:
            read = f"list({ready}[{count}](buf, at)) if n < {READY} else {read}"
        self.source.line(f"{target} = {read}")
        self.source.line(f"at += ({count}) * {slot.size}")

    def _elements(self, slot: Slot, target: str, count: str) -> None:
        self.source.line(f"{target} = []")
        with self.source.block(f"for _ in range({count}):"):
            element = self.value(slot.element)
            self.cursor.flush()
            self.source.line(f"{target}.append({element})")

    def _one_struct(self, slot: Slot, struct: Struct, target: str) -> None:
        if not slot.nullable:
            self.struct(struct, target)
            return
        with self.source.block(self.is_present(slot)):
            self.struct(struct, target)
        self.source.line(f"else: {target} = None")

    def is_present(self, slot: Slot) -> str:
        """Reads the byte before a struct that may be null; the line that asks for it."""
        self.cursor.length("b", 1)
        return f"if {'present' if slot.tag is None else 'present_tag'}(n, at):"

    def _tagged(self, struct: Struct, target: str) -> None:
        """Reads a tag buffer of `n` entries, some of which are known, over the defaults."""
        with self.source.block("if n:"), self.each_tag() as (tag, start, end):
            for slot in struct.tagged:
                with self.source.block(f"if {tag} == {slot.tag}:"):
                    value = self.value(slot)
                    self.cursor.flush()
                    self.source.line(f"{target}[{slot.name!r}] = {value}")
                    self.source.line(f"if at != {end}: raise wrong_tag({tag}, {start}, {end}, at)")
                    self.source.line("continue")
            self.source.line(f"{target}.setdefault('_tags', {{}})[{tag}] = {self._bytes.format(start, end)}")
            self.source.line(f"at = {end}")

    @contextmanager
    def each_tag(self) -> Iterator[tuple[str, str, str]]:
        """A loop over the `n` entries of a tag buffer; the variables of its number, start and end."""
        tag, start, end = self.source.fresh("tag"), self.source.fresh("tag_start"), self.source.fresh("tag_end")
        self.source.line("if n > 127: n, at = read_uvarint(buf, at - 1)")
        with self.source.block("for _ in range(n):"):
            self.source.line(f"{tag}, at = read_uvarint(buf, at)")
            self.source.line(f"n, {start} = read_uvarint(buf, at)")
            self.source.line(f"at, {end} = {start}, {start} + n")
            self.source.line(f"if {end} > size: raise beyond(at)")
            yield tag, start, end
