"""Writes a decoder that pays for its values as it goes, for bytes whose values may not fit the memory.

    decode(buf: bytes, at: int, spend, message: dict) -> offset behind

Before a value is made, `spend` is called with its price (`costs`), and raises if that is too much. Each value is put
into its place before its inner values are read, so `message` holds all that was decoded before an error. `decoder`'s
functions make a struct's dict at once, which is faster; they serve buffers that can't be large.
"""

from collections.abc import Callable

from proxy.wire.compile import costs
from proxy.wire.compile.cursor import Cursor
from proxy.wire.compile.decoder import Decoder, Template, default_source, reading
from proxy.wire.compile.layout import Slot, Struct, layout
from proxy.wire.compile.source import Source
from proxy.wire.language import Message


def counted_decoder(message: Message, version: int, *, views: bool = False) -> Callable[..., int]:
    """`decode(buf, at, spend, message)` fills `message` and returns the offset behind it.

    `spend(size)` is called with each price, and raises if it is too much. `views`: records are memoryviews of `buf`.
    """
    source = Source(f"decode {message.name} v{version} counted", "def decode(buf, at, spend, message):")
    with reading(source, message, version):
        writer = CountedDecoder(source, Cursor(source), view=False, views=views)
        writer.struct(layout(message, version), source.fresh("message"))
        source.line("if at > size: raise beyond(at)")
        source.line("return at")
    return source.function()


class CountedDecoder(Decoder):
    """Writes lines that read each value straight into its place in a dict or list that exists already."""

    def struct(self, struct: Struct, target: str, template: Template | None = None) -> str:
        """Reads a struct into the empty dict `target`."""
        for slot in struct.slots:
            self._read(slot, _item(slot, target))
        self._end(struct)
        for slot in struct.tagged:
            self.source.line(f"{_item(slot, target)} = {default_source(self.source, slot)}")
        if struct.flexible:
            self.source.line(f"if n: pay_for_tags(buf, at, {costs.TAG}, spend)")
        if struct.tagged:
            self._tagged(struct, target)
        elif struct.flexible:
            self.source.line(f"if n: at = keep_tags(buf, at, {target})")
        return target

    def _item(self, slot: Slot, item: str) -> None:
        self._read(slot, item)

    def _new(self, struct: Struct, target: str) -> None:
        self.cursor.flush()
        name = self.source.fresh("inner")
        self.source.line(f"{name} = {target} = {{}}")
        self.struct(struct, name)

    def _sized(self, slot: Slot, target: str) -> None:
        if slot.array and not slot.struct and (slot.element_code or slot.element_varint):
            width = slot.size if slot.element_code else 1
            count = "n - 1" if slot.compact else "n"
            self.source.line(f"pay_for_many({count}, {width}, {costs.of_element(slot)}, size - at, spend)")
        super()._sized(slot, target)

    def _rows(self, slot: Slot, struct: Struct, target: str, count: str) -> None:
        self._elements(slot, target, count)

    def _elements(self, slot: Slot, target: str, count: str) -> None:
        element = self.source.fresh(slot.name)
        self.source.line(f"{target} = []")
        with self.source.block(f"for _ in range({count}):"):
            self.source.line(f"spend({costs.of_element(slot)})")
            if slot.struct:
                self.source.line(f"{element} = {{}}")
                self.source.line(f"{target}.append({element})")
                self.struct(slot.struct, element)
            else:
                self._read(slot.element, element)
                self.cursor.flush()
                self.source.line(f"{target}.append({element})")


def _item(slot: Slot, target: str) -> str:
    return f"{target}[{slot.name!r}]"
