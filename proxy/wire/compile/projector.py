"""Writes the function that finds the values and spans of chosen fields.

Paths are field names joined by dots ("brokers.host"); arrays on the way are flattened in wire order. A value's span
is its encoding, its own length included, but not the tag number and size of a tagged field. The pseudo-path "tags"
is the body's own tag buffer: its value is the list of TagSpan. An absent tagged field, and a field of another
version, have no entries.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from proxy.wire.compile import costs
from proxy.wire.compile.counted import CountedDecoder
from proxy.wire.compile.cursor import Cursor
from proxy.wire.compile.decoder import Decoder, dict_source, reading
from proxy.wire.compile.layout import Slot, Struct, layout
from proxy.wire.compile.skipper import Skipper
from proxy.wire.compile.source import Source
from proxy.wire.language import Field, Message

TAGS = "tags"


@dataclass(slots=True)
class _Wanted:
    """A chosen field, or a field on the way to one. `found`: the variable of a chosen field's list of finds."""

    found: str | None = None
    below: dict[str, "_Wanted"] = field(default_factory=dict)


def projector(message: Message, version: int, paths: tuple[str, ...], *, counted: bool = False) -> Callable[..., Any]:
    """`project(buf, at) -> {path: [(value, start, end), ...]}`.

    `counted`: `project(buf, at, spend)`, which calls `spend` with the price of each value (`counted.py`).

    Errors: ValueError for a path that is in no version of the message.
    """
    title = f"project {message.name} v{version} {' '.join(paths)}"
    source = Source(title + " counted" * counted, f"def project(buf, at{', spend' * counted}):")
    lists = {path: source.fresh(path.replace(".", "_")) for path in dict.fromkeys(paths)}
    wanted = _tree(message, lists)
    with reading(source, message, version):
        for found in lists.values():
            source.line(f"{found} = []")
        Projector(source, counted).message(layout(message, version), wanted)
        source.line("if at > size: raise beyond(at)")
        source.line(f"return {dict_source(lists)}")
    return source.function()


def _tree(message: Message, lists: dict[str, str]) -> _Wanted:
    root = _Wanted()
    for path, found in lists.items():
        if path != TAGS:
            find_field(message, path)
        at = root
        for name in path.split("."):
            at = at.below.setdefault(name, _Wanted())
        at.found = found
    return root


def find_field(message: Message, path: str) -> Field:
    """The field at that path, in any version; ValueError if there is none."""
    fields: tuple[Field, ...] = message.fields
    found: Field | None = None
    for name in path.split("."):
        named = [one for one in fields if one.name == name]
        if not named:
            raise ValueError(f"{message.name} has no field {path!r}")
        found, fields = named[0], tuple(inner for one in named for inner in one.fields)
    assert found is not None
    return found


class Projector:
    """Writes the lines that read chosen fields, each value with its span, and step over all others."""

    def __init__(self, source: Source, counted: bool = False):
        self.source, self.cursor = source, Cursor(source)
        self._pay = f"spend({costs.SPAN}); " if counted else ""
        self.skip = Skipper(source, self.cursor)
        self.decode = (CountedDecoder if counted else Decoder)(source, self.cursor, view=True)

    def message(self, struct: Struct, wanted: _Wanted) -> None:
        """As `struct`, but stops behind the last chosen field."""
        chosen = [place for place, slot in enumerate(struct.slots) if slot.name in wanted.below]
        of_tags = [slot for slot in struct.tagged if slot.name in wanted.below]
        at_end = struct.flexible and (of_tags or TAGS in wanted.below)
        last = len(struct.slots) if at_end else (chosen or [-1])[-1] + 1
        for slot in struct.slots[:last]:
            self._slot(slot, wanted)
        self.cursor.flush()
        if struct.flexible and (tags := wanted.below.get(TAGS)):
            self.source.line("start, (spans, end) = at, read_tags(buf, at)")
            self.source.line(f"{tags.found}.append((spans, start, end))")
            if not of_tags:
                self.source.line("at = end")
        if of_tags:
            self._tagged(struct, wanted)

    def struct(self, struct: Struct, wanted: _Wanted) -> None:
        """Reads or steps over all fields of a struct."""
        for slot in struct.slots:
            self._slot(slot, wanted)
        if any(slot.name in wanted.below for slot in struct.tagged):
            self._tagged(struct, wanted)
        elif struct.flexible:
            self.skip.tags()
        self.cursor.flush()

    def _slot(self, slot: Slot, above: _Wanted) -> None:
        wanted = above.below.get(slot.name)
        if wanted is None:
            self.skip.slot(slot)
        elif slot.code:
            self._fixed(slot, wanted)
        else:
            self._found(slot, wanted)

    def _fixed(self, slot: Slot, wanted: _Wanted) -> None:
        value, begin = self.source.fresh(slot.name), self.cursor.pending
        self.cursor.take(slot.code or "", slot.size, value)
        end = begin + slot.size
        self.cursor.before_step(lambda: self._add(wanted, f"{value}, at + {begin}, at + {end}"))

    def _found(self, slot: Slot, wanted: _Wanted) -> None:
        """Reads a value of variable size; then, from its start again, the chosen fields within it."""
        start = self.source.fresh("start")
        if wanted.found:
            self.source.line(f"{start} = at + {self.cursor.pending}")
            value = self.decode.value(slot)
            self._add(wanted, f"{value}, {start}, at")
        if wanted.found and wanted.below:
            self.source.line(f"at = {start}")
        if wanted.below:
            self._within(slot, wanted)

    def _add(self, wanted: _Wanted, found: str) -> None:
        self.source.line(f"{self._pay}{wanted.found}.append(({found}))")

    def _within(self, slot: Slot, wanted: _Wanted) -> None:
        assert slot.struct is not None
        if slot.array:
            count = self.skip.length(slot)
            with self.skip.each(count):
                self.struct(slot.struct, wanted)
        else:
            with self.cursor.present(slot):
                self.struct(slot.struct, wanted)

    def _tagged(self, struct: Struct, wanted: _Wanted) -> None:
        self.cursor.length("B", 1)
        with self.decode.each_tag() as (tag, start, end):
            for slot in struct.tagged:
                if slot.name in wanted.below:
                    with self.source.block(f"if {tag} == {slot.tag}:"):
                        self._slot(slot, wanted)
                        self.cursor.flush()
                        self.source.line(f"if at != {end}: raise wrong_tag({tag}, {start}, {end}, at)")
            self.source.line(f"at = {end}")
