"""Writes the function from bytes to a dict.

Values: int, float, bool, str, bytes (bytes, records, 16-byte uuids), list, dict, None. Every field of the version is
in its dict, an absent tagged field with its default; unknown tagged fields stand under "_tags" as {tag: bytes}. Records
may stay a view of the buffer.

The written functions are fast because:

- adjacent fixed fields are one `unpack_from`, with the first byte of the length behind them
- a dict of many fields begins as a copy of a dict with all names, defaults and nulls, and values are read into it
- in arrays values are read into the attributes of one object, whose places the interpreter caches; each element is a
  copy of its `__dict__`
- structs of fixed size in an array are one `iter_unpack`, if all their tag counts are 0; so are those whose texts and
  arrays are all empty, or all null
- the value of an absent struct is shared: a partition of Fetch has three structs that are nearly always absent
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from keyword import iskeyword
from typing import Any

from proxy.wire.compile import costs, varints
from proxy.wire.compile.cursor import Cursor
from proxy.wire.compile.layout import Slot, Struct, layout
from proxy.wire.compile.runtime import READY, READY_BY_CODE, Absent
from proxy.wire.compile.source import Source
from proxy.wire.language import NAMING, Message

# From this number of fields on, setting values and copying a dict is faster than a dict display; in arrays the number
# is lower, because setting an attribute is faster than setting an item.
COPIED, COPIED_IN_ARRAY = 8, 4

# Whether texts and arrays are empty in all elements is asked of more elements than these; `n` is their number plus one.
FEW = 4

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


@dataclass(frozen=True, slots=True)
class Template:
    """The variables of an array's `Items` and of its `__dict__`, into which each element is read, and then copied."""

    items: str
    values: str

    def place(self, slot: Slot) -> str:
        """The source of the field's place: an attribute, or an item if the name is a word of Python."""
        return f"{self.values}[{slot.name!r}]" if iskeyword(slot.name) else f"{self.items}.{slot.name}"


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

    def struct(self, struct: Struct, target: str, template: Template | None = None) -> str:
        """Reads a struct into the variable `target`; nothing is left pending. `template`: an array's, if its structs
        are wide.
        """
        if template:
            self._filled_template(struct, target, template)
        elif _width(struct) >= COPIED:
            self._copied(struct, target)
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

    def _copied(self, struct: Struct, target: str) -> None:
        """Copies a dict, then reads the values into it."""
        self.source.line(f"{target} = {self._first(struct, target)}.copy()")
        self._changeable_defaults(struct, target)
        for slot in struct.slots:
            self._item(slot, f"{target}[{slot.name!r}]")
        self._end(struct)

    def _filled_template(self, struct: Struct, target: str, template: Template) -> None:
        """Reads the values into the template, then copies it."""
        for slot in struct.slots:
            place = template.place(slot)
            if _is_usually_null(slot):  # or it would be that of the element before
                self.source.line(f"{place} = None")
            self._item(slot, place)
        self._end(struct)
        self._copy(struct, target, template)

    def _copy(self, struct: Struct, target: str, template: Template) -> None:
        self.source.line(f"{target} = {template.values}.copy()")
        self._changeable_defaults(struct, target)

    def _first(self, struct: Struct, target: str) -> str:
        """The constant dict with all names, defaults, and nulls for what is read."""
        first = dict.fromkeys(slot.name for slot in struct) | {slot.name: default_of(slot) for slot in struct.tagged}
        return self.source.constant(self.source.fresh(f"new_{target}"), first)

    def _changeable_defaults(self, struct: Struct, target: str) -> None:
        for slot in struct.tagged:
            default = default_of(slot)
            if type(default) in (dict, list):
                self.source.line(f"{target}[{slot.name!r}] = {default!r}")

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
            with self.source.block("if n > 127:" if slot.nullable else "if n > 127 or not n:"):
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
        """Reads an array of structs of fixed size.

        A flexible struct has a fixed size if it has no tags, and if what varies in size is empty or null.
        """
        width = sum(_row_size(one) for one in struct.slots) + struct.flexible
        element = self.source.fresh(slot.name)
        template = self._template(struct, element)
        if not struct.flexible:
            self.source.line(f"rows = {self._bytes.format('at', f'(at := at + ({count}) * {width})')}")
            self._each_row(struct, target, element, template, {})
            return
        conditions, empties, offset = [f"rows[{width - 1}::{width}].count(0) == {count}"], {}, 0
        for one in struct.slots:
            if not one.code:
                first, empty = f"rows[{offset}]", "[]" if one.array else "''"
                conditions.append(f"rows[{offset}::{width}].count(rows[{offset}:{offset + 1}]) == {count}")
                conditions.append(f"{first} < 2" if one.nullable else f"{first} == 1")
                empties[one.name] = f"{empty} if {first} else None" if one.nullable else empty
            offset += _row_size(one)
        few = f" if n > {FEW} else b''" if empties else ""
        self.source.line(f"rows = {self._bytes.format('at', f'at + ({count}) * {width}')}{few}")
        with self.source.block(f"if {' and '.join(conditions)}:"):
            self._each_row(struct, target, element, template, empties)
            self.source.line("at += len(rows)")
        with self.source.block("else:"):
            self._one_by_one(slot, target, count, element, template)

    def _each_row(
        self, struct: Struct, target: str, element: str, template: Template | None, empties: Mapping[str, str]
    ) -> None:
        """Makes the dicts of all `rows`. `empties`: the expressions for what stands in none of them, by name."""
        read = [slot for slot in struct.slots if slot.code]
        rows = self.source.rows("".join(slot.code or "x" for slot in struct.slots) + "x" * struct.flexible)
        if template is None:
            values = {slot.name: self.source.fresh(slot.name) for slot in read}
            row = dict_source(
                {slot.name: values.get(slot.name) or empties[slot.name] for slot in struct.slots}
                | self._defaults(struct)
            )
            self.source.line(f"{target} = [{row} for {_targets(values.values())} in {rows}(rows)]")
            return
        self.source.line(f"{target} = []")
        for slot in struct.slots:
            if not slot.code and not slot.array:
                self.source.line(f"{template.place(slot)} = {empties[slot.name]}")
        with self.source.block(f"for {_targets(map(template.place, read))} in {rows}(rows):"):
            self._copy(struct, element, template)
            for slot in struct.slots:
                if not slot.code and slot.array:
                    self.source.line(f"{element}[{slot.name!r}] = {empties[slot.name]}")
            self.source.line(f"{target}.append({element})")

    def _elements(self, slot: Slot, target: str, count: str) -> None:
        element = self.source.fresh(slot.name)
        template = self._template(slot.struct, element) if slot.struct else None
        self._one_by_one(slot, target, count, element, template)

    def _one_by_one(self, slot: Slot, target: str, count: str, element: str, template: Template | None) -> None:
        self.source.line(f"{target} = []")
        with self.source.block(f"for _ in range({count}):"):
            if slot.struct:
                self.struct(slot.struct, element, template)
            else:
                self._read(slot.element, element)
                self.cursor.flush()
            self.source.line(f"{target}.append({element})")

    def _template(self, struct: Struct, element: str) -> Template | None:
        """Writes the making of a wide struct's template, once for a call of the written function."""
        if _width(struct) < COPIED_IN_ARRAY:
            return None
        template = Template(self.source.fresh(f"{element}_items"), self.source.fresh(f"{element}_values"))
        self.source.first(f"{template.items}.__dict__ = {template.values} = {self._first(struct, element)}.copy()")
        self.source.first(f"{template.items} = Items()")
        return template

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


def _targets(names: Iterable[str]) -> str:
    """The left side of an assignment from a tuple."""
    first, *others = names
    return ", ".join((first, *others)) if others else f"{first},"


def _is_row(struct: Struct) -> bool:
    """True if the struct's size is fixed or often is: it may have tags, and what varies in size is often empty."""
    if all(slot.code for slot in struct.slots):
        return bool(struct.slots)
    varied = [slot for slot in struct.slots if not slot.code]
    texts = [slot for slot in varied if not slot.array]
    return (
        struct.flexible
        and len(varied) < len(struct.slots)
        and bool(texts)
        and all(map(_is_often_empty, texts))
        and all(slot.struct for slot in varied if slot.array)
    )


def _is_often_empty(slot: Slot) -> bool:
    """True for texts that may be null and are no names, such as error messages and a commit's metadata."""
    return slot.type == "string" and slot.nullable and slot.field.marks.isdisjoint(NAMING)


def _row_size(slot: Slot) -> int:
    """Bytes of the slot in a row: of its value, or of the length of an empty one."""
    return slot.size if slot.code else 1
