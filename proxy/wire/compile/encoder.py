"""Writes the function from a mapping to bytes.

A missing field is written with its default; a field that only other versions have is left out; an unknown name is an
error. Tagged fields that hold their default are left out, as Kafka does.

Two functions are written of a message. The one that is called first takes complete values, which have each field of
the version and nothing else, as decoded ones mostly do. It takes items, which is faster than `get`, and a struct's
number of items tells that it has no unknown name, because each known one was found. Where that fails, `encode_any`
begins again: it is compiled when it is first needed, fills in defaults, and says what is wrong.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

from proxy.wire.compile import varints
from proxy.wire.compile.decoder import default_source
from proxy.wire.compile.layout import Slot, Struct, layout
from proxy.wire.compile.misfit import misfit
from proxy.wire.compile.runtime import READY, READY_BY_CODE
from proxy.wire.compile.source import Source
from proxy.wire.language import Message


def encoder(message: Message, version: int, *, pieces: bool = False) -> Callable[..., Any]:
    """`encode(values) -> bytes`. `pieces`: the function returns `Pieces`, and does not copy the records."""
    struct = layout(message, version)
    source = Source(f"encode {message.name} v{version}", "def encode(values):")
    with _encoding(source, struct, pieces=pieces, complete=True):
        source.line("return encode_any(values)")

    @cache
    def general() -> Callable[..., Any]:
        return _general_encoder(message, version, struct, pieces=pieces)

    source.constant("encode_any", lambda values: general()(values))
    return source.function()


def _general_encoder(message: Message, version: int, struct: Struct, *, pieces: bool) -> Callable[..., Any]:
    source = Source(f"encode any {message.name} v{version}", "def encode(values):")
    source.constant("misfit", partial(misfit, struct))
    with _encoding(source, struct, pieces=pieces, complete=False):
        source.line(f"raise unfit(fault, {message.api!r}, {version}, misfit(values)) from fault")
    return source.function()


@contextmanager
def _encoding(source: Source, struct: Struct, *, pieces: bool, complete: bool) -> Iterator[None]:
    """Writes the encoding of the struct `values`. The lines written within run where values don't fit, as `fault`."""
    with source.block("try:"):
        writer = Encoder(source, pieces=pieces, complete=complete)
        with writer.part("parts"):
            writer.struct(struct, "values")
            source.line("return Pieces(parts)" if pieces else "return b''.join(parts)")
    with source.block("except WRITE_FAULTS as fault:"):
        yield


class Encoder:
    """Writes the lines that encode values; adjacent fixed fields are packed together."""

    def __init__(self, source: Source, *, pieces: bool, complete: bool):
        """`pieces`: records may be `Pieces`, which are not joined. `complete`: values lack no field of the version and
        have no others; the written lines raise KeyError where that is not so.
        """
        self.source, self._pieces, self._complete = source, pieces, complete
        self._put = ""
        self._codes: list[str] = []
        self._values: list[str] = []

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """A context: the lines written within append their bytes to a list of that name."""
        before, self._put = self._put, self.source.fresh(f"put_{name}")
        self.source.line(f"{name} = []")
        self.source.line(f"{self._put} = {name}.append")
        yield
        self._put = before

    def put(self, expression: str) -> None:
        """Writes the line that appends this expression's bytes, behind the pending fields."""
        self._flush()
        self.source.line(f"{self._put}({expression})")

    def _pack(self, code: str, expression: str) -> None:
        self._codes.append(code)
        self._values.append(expression)

    def _flush(self) -> None:
        if self._codes:
            self.source.line(f"{self._put}({self._packed()})")
        self._codes, self._values = [], []

    def _packed(self, code: str = "", *values: str) -> str:
        """The expression that packs the pending fields and `values`."""
        if not self._values and not values:  # "x" alone: zeros
            return repr(bytes(len(self._codes)))
        return f"{self.source.pack(''.join(self._codes) + code)}({', '.join([*self._values, *values])})"

    def _put_short(self, usual: str, code: str, value: str, long: str) -> None:
        """If `usual` holds, packs `value` as one byte with the pending fields; else the bytes `long` follow them."""
        if self._codes:
            expression = f"{self._packed(code, value)} if {usual} else {self._packed()} + {long}"
        else:
            expression = f"SHORT[{value}] if {usual} else {long}"
        self.source.line(f"{self._put}({expression})")
        self._codes, self._values = [], []

    def struct(self, struct: Struct, values: str) -> None:
        """Writes the struct whose values the variable `values` holds; nothing is left pending."""
        if self._complete:
            self.source.line(f"if len({values}) != {len(struct.slots) + len(struct.tagged)}: raise KeyError")
        else:
            known = self.source.constant(self.source.fresh("KNOWN"), (struct.names | {"_tags"}).issuperset)
            # `misfit` finds their names again
            self.source.line(f"if not {known}({values}): raise KeyError")
        for slot in struct.slots:
            self._slot(slot, self._get(values, slot))
        if struct.tagged:
            self._tagged(struct, values)
        elif struct.flexible and self._complete:
            self._codes.append("x")
        elif struct.flexible:
            self._put_short(f"'_tags' not in {values}", "B", "0", f"write_tags([], {values}['_tags'])")
        self._flush()

    def _get(self, values: str, slot: Slot) -> str:
        """The expression for a field's value in the mapping `values`."""
        if self._complete:
            return f"{values}[{slot.name!r}]"
        return f"{values}.get({slot.name!r}, {default_source(self.source, slot)})"

    def _slot(self, slot: Slot, expression: str) -> None:
        if slot.code:
            self._pack(slot.code, f"uuid({expression})" if slot.type == "uuid" else expression)
            return
        value = self.source.fresh(slot.name)
        self.source.line(f"{value} = {expression}")
        self._value(slot, value)

    def _value(self, slot: Slot, value: str) -> None:
        """Writes a value of variable size; `value` is its variable."""
        if not slot.nullable:
            self._present(slot, value)
            return
        self._flush()
        with self.source.block(f"if {value} is None:"):
            self.put(_null(slot))
        with self.source.block("else:"):
            if slot.struct and not slot.array:
                self.put(r"b'\x01'")
            self._present(slot, value)
            self._flush()

    def _present(self, slot: Slot, value: str) -> None:
        if slot.array:
            self._array(slot, value)
        elif slot.varint:
            varints.write(self._put_short, slot.varint, value)
        elif slot.struct:
            self.struct(slot.struct, value)
        else:
            as_bytes = f"{value} = {value}.encode()"
            if slot.type != "string":
                one_of = "not in WHOLE" if self._pieces and slot.type == "records" else "is not bytes"
                as_bytes = f"if type({value}) {one_of}: {value} = plain({value})"
            self.source.line(as_bytes)
            self._length(slot, value)
            self.put(value)

    def _length(self, slot: Slot, value: str) -> None:
        text = slot.type == "string" and not slot.array
        if slot.compact:
            self.source.line(f"n = len({value})")
            self._put_short("n < 127", "B", "n + 1", "text_size(n)" if text else "uvarint(n + 1)")
        else:
            self._pack("h" if text else "i", f"len({value})")

    def _array(self, slot: Slot, value: str) -> None:
        self._length(slot, value)
        if slot.element_code:
            self._fixed_elements(slot.element_code, value)
            return
        if slot.element_varint:
            self.put(varints.many(slot.element_varint, value))
            return
        self._flush()
        element = self.source.fresh(slot.name + "_item")
        with self.source.block(f"for {element} in {value}:"):
            self._present(slot.element, element)
            self._flush()

    def _fixed_elements(self, code: str, value: str) -> None:
        write = f"pack_many({code!r}, {value})"
        if code in READY_BY_CODE and code != "16s":
            write = f"PACK_{READY_BY_CODE[code]}[len({value})](*{value}) if len({value}) < {READY} else {write}"
        self.put(write)

    def _tagged(self, struct: Struct, values: str) -> None:
        self._flush()
        written = []
        for slot in struct.tagged:
            value = self.source.fresh(slot.name)
            self.source.line(f"{value} = {self._get(values, slot)}")
            written.append((slot, value, _holds_more(slot, value, default_source(self.source, slot))))
        conditions = [f"({holds_more})" for _, _, holds_more in written]
        if not self._complete:
            conditions.append(f"'_tags' in {values}")
        with self.source.block(f"if {' or '.join(conditions)}:"):
            known = self.source.fresh("tags")
            self.source.line(f"{known} = []")
            for slot, value, holds_more in written:
                with self.source.block(f"if {holds_more}:"), self.part(self.source.fresh(f"{value}_parts")):
                    parts = self._put.removeprefix("put_")
                    self._tag_value(slot, value)
                    self.source.line(f"{known}.append(({slot.tag}, b''.join({parts})))")
            self.put(f"write_tags({known}, {values}.get('_tags'))")
        self.source.line(rf"else: {self._put}(b'\0')")

    def _tag_value(self, slot: Slot, value: str) -> None:
        if slot.code:
            self._slot(slot, value)
        else:
            self._value(slot, value)
        self._flush()


def _null(slot: Slot) -> str:
    if slot.struct and not slot.array:
        return r"b'\xff'" if slot.tag is None else r"b'\0'"
    if slot.compact:
        return r"b'\0'"
    return r"b'\xff\xff'" if slot.type == "string" and not slot.array else r"b'\xff\xff\xff\xff'"


def _holds_more(slot: Slot, value: str, default: str) -> str:
    """The condition that is true for a tagged field whose value is not its default."""
    if default == "None":
        return f"{value} is not None"
    if slot.struct and default.isidentifier():  # shared by all decoded messages
        return f"{value} is not {default} and {value} != {default}"
    return value if default == "[]" and not slot.nullable else f"{value} != {default}"
