"""Writes the function from bytes to a dict.

Values: int, float, bool, str, bytes (bytes, records, 16-byte uuids), list, dict, None. Every field of the version is
in its dict, an absent tagged field with its default; unknown tagged fields stand under "_tags" as {tag: bytes}. Records
may stay a view of the buffer.

The written functions are fast because:

- adjacent fixed fields are one `unpack_from`, with the first byte of the length behind them
- a dict of many fields begins as a copy of a dict with all names, defaults and nulls, and values are read into it; in
  arrays the dict is the `__dict__` of an object, and values are set as attributes: the interpreter caches their places
- structs of fixed size in an array are one `iter_unpack`, if all their tag counts are 0
- the value of an absent struct is shared: a partition of Fetch has three structs that are nearly always absent
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from keyword import iskeyword
from typing import Any

from proxy.wire.compile import costs, varints
from proxy.wire.compile.cursor import Cursor
from proxy.wire.compile.layout import Slot, Struct, layout
from proxy.wire.compile.runtime import READY, READY_BY_CODE, Absent
from proxy.wire.compile.source import Source
from proxy.wire.language import Message

# From this number of fields on, copying a dict and setting its values is faster than a dict display; in arrays the
# number is lower, because the elements share the object that sets the values.
COPIED, COPIED_IN_ARRAY = 8, 5

# A nullable value is often empty: metadata of offsets, records of a partition without new ones.
EMPTY = {"string": "''", "bytes": "b''", "records": "b''"}


def decoder(message: Message, version: int, *, views: bool = False) -> Callable[..., Any]:
    """`decode(buf: bytes, at: int) -> (dict, offset behind)`. Raises LargeBody if `counted` must decode the body.

    `views`: records are memoryviews of `buf`.
    """
    source = Source(f"decode {message.name} v{version}", "def decode(buf, at):")
    with reading(source, message, version):
        source.line(f"if size > {costs.NEVER_TOO_LARGE}: raise LargeBody")
        writer = Decoder(source, Cursor(source), view=False, views=views)
        value = writer.struct(layout(message, version), source.fresh("message"))
        source.line("if at > size: raise beyond(at)")
        source.line(f"return {value}, at")
    return source.function()


@contextmanager
def reading(source: Source, message: Message, version: int) -> Iterator[None]:
    """Puts the lines written within into a block that turns a read beyond the end into a WireError."""
    source.line("size = len(buf)")
    with source.block("try:"):
        yield
    with source.block("except READ_FAULTS as fault:"):
        source.line(f"raise explain(fault, {message.api!r}, {version}, at, size) from fault")


def default_source(source: Source, slot: Slot) -> str:
    """The expression for the value of an absent tagged field."""
    default = default_of(slot)
    if isinstance(default, Absent):
        return source.constant(source.fresh(f"ABSENT_{slot.name}"), default)
    return repr(default)


def default_of(slot: Slot) -> Any:
    """The value of an absent tagged field. A struct's is shared if nothing in it can be changed."""
    default = slot.default
    if type(default) is dict and not any(type(value) in (dict, list) for value in default.values()):
        return Absent(default)
    return default


def dict_source(values: Mapping[str, str]) -> str:
    """The display of a dict: each name with the expression for its value."""
    return "{" + ", ".join(f"{name!r}: {value}" for name, value in values.items()) + "}"


class Decoder:
    """Writes the reading of values.

    `view`: `buf` may be a memoryview, whose slices are not yet bytes. `views`: records are slices of such a view.
    """

    def __init__(self, source: Source, cursor: Cursor, *, view: bool, views: bool = False):
        self.source, self.cursor = source, cursor
        if views:
            source.line("whole = memoryview(buf)")
        self._text = "str(buf[{}:{}], 'utf-8')" if view else "buf[{}:{}].decode()"
        self._bytes = "bytes(buf[{}:{}])" if view else "buf[{}:{}]"
        self._records = "whole[{}:{}]" if views else self._bytes

    def struct(self, struct: Struct, target: str, items: str | None = None) -> str:
        """Reads a struct into the variable `target`; nothing is left pending. `items`: the variable of an `Items`."""
        if items or _width(struct) >= COPIED:
            self._copied(struct, target, items)
        else:
            self._named(struct, target)
        if struct.tagged:
            self._tagged(struct, target)
        elif struct.flexible:
            self.source.line(f"if n: at = keep_tags(buf, at, {target})")
        return target

    def _named(self, struct: Struct, target: str) -> None:
        """Reads the values into variables, then makes a dict of them."""
        values = {slot.name: self.value(slot) for slot in struct.slots}
        self._end(struct)
        self.source.line(f"{target} = {dict_source(values | self._defaults(struct))}")

    def _copied(self, struct: Struct, target: str, items: str | None) -> None:
        """Copies a dict, then reads the values into it."""
        self._copy(struct, target, items)
        for slot in struct.slots:
            self._item(slot, _item_of(slot, target, items))
        self._end(struct)

    def _copy(self, struct: Struct, target: str, items: str | None) -> None:
        """Copies a dict with all names, nulls and defaults to `target`."""
        first = dict.fromkeys(slot.name for slot in struct) | {slot.name: default_of(slot) for slot in struct.tagged}
        new = self.source.constant(self.source.fresh(f"new_{target}"), first)
        self.source.line(f"{f'{items}.__dict__ = ' if items else ''}{target} = {new}.copy()")
        for slot in struct.tagged:
            if type(first[slot.name]) in (dict, list):
                self.source.line(f"{_item_of(slot, target, items)} = {first[slot.name]!r}")

    def _item(self, slot: Slot, item: str) -> None:
        """Reads the value into an item of a dict: directly, if no other line uses the value meanwhile."""
        if _is_usually_null(slot):
            self._usually_null(slot, item)
        elif slot.struct or slot.element_varint:
            value = self.value(slot)
            self.source.line(f"{item} = {value}")
        else:
            self._read(slot, item)

    def _defaults(self, struct: Struct) -> dict[str, str]:
        return {slot.name: default_source(self.source, slot) for slot in struct.tagged}

    def _end(self, struct: Struct) -> None:
        """Reads the pending fields, and behind them the number of tags into `n`."""
        if struct.flexible:
            self.cursor.length("B", 1)
        self.cursor.flush()

    def value(self, slot: Slot) -> str:
        """Returns the variable that will hold the value; the read of a fixed one may still be pending."""
        target = self.source.fresh(slot.name)
        self._read(slot, target)
        return target

    def _read(self, slot: Slot, target: str) -> None:
        if slot.code:
            self.cursor.take(slot.code, slot.size, target)
        elif slot.varint:
            varints.read(self.cursor, slot.varint, target)
        elif slot.struct and not slot.array:
            self._one_struct(slot, slot.struct, target)
        else:
            with self.filled(slot, target):
                self._sized(slot, target)

    def _usually_null(self, slot: Slot, item: str) -> None:
        """Leaves the item null, or reads the array on a detour."""
        count = self.source.fresh(f"{slot.name}_count")

        def write() -> None:
            value = self.source.fresh(slot.name)
            self.source.line(f"n = {count}")
            with self._unless_null(slot, value):
                self._sized(slot, value)
            self.source.line(f"{item} = {value}")

        self.cursor.detour(*(("B", 1, count, count) if slot.compact else ("i", 4, count, f"{count} != -1")), write)

    @contextmanager
    def filled(self, slot: Slot, target: str) -> Iterator[None]:
        """Reads a length into `n` and null into `target`; the lines written within read a value that is not null."""
        if slot.compact:
            self.cursor.length("B", 1)
        else:
            self.cursor.length(*(("h", 2) if slot.type == "string" and not slot.array else ("i", 4)))
        with self._unless_null(slot, target):
            yield

    @contextmanager
    def _unless_null(self, slot: Slot, target: str) -> Iterator[None]:
        """As `filled`, for a length that has been read already, a compact one up to its first byte."""
        if slot.compact:
            with self.source.block("if n > 127:" if slot.nullable else "if not 0 < n < 128:"):
                self._rest_of_length(slot)
        elif not slot.nullable:
            self.source.line("if n < 0: raise not_null(n, at)")
        if not slot.nullable:
            yield
            return
        empty, size_of_empty = EMPTY.get("" if slot.array else slot.type), int(slot.compact)
        with self.source.block(f"if n > {size_of_empty}:" if empty else f"if n >= {size_of_empty}:"):
            yield
        if empty:
            self.source.line(f"elif n == {size_of_empty}: {target} = {empty}")
        if not slot.compact:
            self.source.line("elif n != -1: raise not_null(n, at)")
        self.source.line(f"else: {target} = None")

    def _rest_of_length(self, slot: Slot) -> None:
        """Reads the rest of a compact length whose first byte is in `n`."""
        if slot.array or slot.type == "string":
            self.source.line(f"n, at = {_long(slot)}")
            return
        # Two bytes hold the length of most batches; a call would take longer than reading the bytes.
        with self.source.block("if buf[at] < 128:" if slot.nullable else "if n and 0 < buf[at] < 128:"):
            self.source.line("n = n & 127 | buf[at] << 7")
            self.source.line("at += 1")
        self.source.line(f"else: n, at = {_long(slot)}")

    def _sized(self, slot: Slot, target: str) -> None:
        """Reads the value behind its length `n`."""
        length = "n - 1" if slot.compact else "n"
        if slot.array and slot.element_code:
            self._fixed_elements(slot, target, length)
        elif slot.array and slot.element_varint:
            chunk = self._bytes.format("at", f"at + {length}")
            varints.read_many(self.cursor, slot.element_varint, target, length, chunk)
        elif slot.array and slot.struct and _is_row(slot.struct):
            self._rows(slot, slot.struct, target, length)
        elif slot.array:
            self._elements(slot, target, length)
        else:
            # `at` moves first: if it is behind the end, the text is truncated; otherwise it is no UTF-8.
            kind = {"string": self._text, "records": self._records}.get(slot.type, self._bytes)
            self.source.line(f"{target} = {kind.format('at', f'(at := at + {length})')}")

    def _fixed_elements(self, slot: Slot, target: str, count: str) -> None:
        code, ready = slot.element_code or "", READY_BY_CODE.get(slot.element_code or "")
        read = f"many({code!r}, {slot.size}, {count}, buf, at)"
        if ready:
            read = f"[*{ready}[{count}](buf, at)] if n < {READY} else {read}"
        # Offline replicas and the like: mostly none.
        self.source.line(f"if n == {int(slot.compact)}: {target} = []")
        with self.source.block("else:"):
            self.source.line(f"{target} = {read}")
            self.source.line(f"at += ({count}) * {slot.size}")

    def _rows(self, slot: Slot, struct: Struct, target: str, count: str) -> None:
        """Reads an array of structs of fixed size; a flexible struct has a fixed size if it has no tags."""
        width = sum(one.size for one in struct.slots) + struct.flexible
        if not struct.flexible:
            self.source.line(f"rows = {self._bytes.format('at', f'(at := at + ({count}) * {width})')}")
            self._each_row(slot, struct, target)
            return
        self.source.line(f"rows = {self._bytes.format('at', f'at + ({count}) * {width}')}")
        with self.source.block(f"if rows[{width - 1}::{width}].count(0) == {count}:"):
            self._each_row(slot, struct, target)
            self.source.line("at += len(rows)")
        with self.source.block("else:"):
            self._elements(slot, target, count)

    def _each_row(self, slot: Slot, struct: Struct, target: str) -> None:
        """Makes the dicts of all `rows`."""
        rows = self.source.rows("".join(slot.code or "" for slot in struct.slots) + "x" * struct.flexible)
        if _width(struct) < COPIED_IN_ARRAY:
            values = {slot.name: self.source.fresh(slot.name) for slot in struct.slots}
            row = dict_source(values | self._defaults(struct))
            self.source.line(f"{target} = [{row} for {_targets(values.values())} in {rows}(rows)]")
            return
        with self._each(slot, target, f"for row in {rows}(rows):") as (element, items):
            self._copy(struct, element, items)
            self.source.line(f"{_targets(_item_of(one, element, items) for one in struct.slots)} = row")

    def _elements(self, slot: Slot, target: str, count: str) -> None:
        with self._each(slot, target, f"for _ in range({count}):") as (element, items):
            if slot.struct:
                self.struct(slot.struct, element, items)
            else:
                self._read(slot.element, element)
                self.cursor.flush()

    @contextmanager
    def _each(self, slot: Slot, target: str, loop: str) -> Iterator[tuple[str, str | None]]:
        """A context for lines that read one element. Gives its variable, and that of the `Items` of a wide struct."""
        self.source.line(f"{target} = []")
        element, items = self.source.fresh(slot.name), None
        if slot.struct and _width(slot.struct) >= COPIED_IN_ARRAY:
            items = self.source.fresh(f"{element}_items")
            self.source.first(f"{items} = Items()")
        with self.source.block(loop):
            yield element, items
            self.source.line(f"{target}.append({element})")

    def _one_struct(self, slot: Slot, struct: Struct, target: str) -> None:
        with self.cursor.present(slot):
            self._new(struct, target)
        if slot.nullable:
            self.source.line(f"else: {target} = None")

    def _new(self, struct: Struct, target: str) -> None:
        """Reads a struct that is not null into `target`, a variable or an item."""
        self.struct(struct, target)

    def _tagged(self, struct: Struct, target: str) -> None:
        """Reads a tag buffer of `n` entries; known ones replace the defaults."""
        with self.source.block("if n:"), self.each_tag() as (tag, start, end):
            for slot in struct.tagged:
                with self.source.block(f"if {tag} == {slot.tag}:"):
                    self._item(slot, f"{target}[{slot.name!r}]")
                    self.cursor.flush()
                    self.source.line(f"if at != {end}: raise wrong_tag({tag}, {start}, {end}, at)")
                    self.source.line("continue")
            self.source.line(f"{target}.setdefault('_tags', {{}})[{tag}] = {self._bytes.format(start, end)}")
            self.source.line(f"at = {end}")

    @contextmanager
    def each_tag(self) -> Iterator[tuple[str, str, str]]:
        """Writes a loop over the `n` entries of a tag buffer; gives the variables of tag, start and end."""
        tag, start, end = self.source.fresh("tag"), self.source.fresh("tag_start"), self.source.fresh("tag_end")
        self.source.line("if n > 127: n, at = read_uvarint(buf, at - 1)")
        with self.source.block("for _ in range(n):"):
            self.source.line(f"{tag}, at = read_uvarint(buf, at)")
            self.source.line(f"n, {start} = read_uvarint(buf, at)")
            self.source.line(f"at, {end} = {start}, {start} + n")
            self.source.line(f"if {end} > size: raise beyond(at)")
            yield tag, start, end


def _long(slot: Slot) -> str:
    """The expression for length and offset, if `n` is only the first of several bytes, or a forbidden 0."""
    if slot.type == "string" and not slot.array:
        return "long_text_or_null(buf, at)" if slot.nullable else "long_text(buf, at)"
    return "read_uvarint(buf, at - 1)" if slot.nullable else "long(buf, at)"


def _is_usually_null(slot: Slot) -> bool:
    """True for nullable arrays of structs, such as a fetched partition's aborted transactions: they are mostly null."""
    return slot.array and slot.nullable and slot.struct is not None and slot.tag is None


def _width(struct: Struct) -> int:
    return len(struct.slots) + len(struct.tagged)


def _item_of(slot: Slot, target: str, items: str | None) -> str:
    """The source of the field's place in the dict `target`: an item, or an attribute of an `Items`."""
    return f"{items}.{slot.name}" if items and not iskeyword(slot.name) else f"{target}[{slot.name!r}]"


def _targets(names: Iterable[str]) -> str:
    """The left side of an assignment from a tuple."""
    first, *others = names
    return ", ".join((first, *others)) if others else f"{first},"


def _is_row(struct: Struct) -> bool:
    """True if the struct's size is fixed apart from tags."""
    return bool(struct.slots) and all(slot.code for slot in struct.slots)
