"""Writes functions that collect a response's error codes in bounded time: all of them, or those of its first part.

There are two forms. The form for a whole frame takes start and end of the bytes behind the frame's length. The form
for pieces is a generator like that of a walk (`walker`): it is sent pieces, from the frame's length on, keeps none of
them, and yields None to ask for the next. Both answer with the codes other than 0 in wire order, and with True if these
are all codes. The cuts of a frame do not change the answer.

All elements of arrays and entries of tag buffers are counted; after `max_elements` of them reading stops, so that an
invented count takes no time. Reading also stops behind the last code of the last element, if only a group's members or
a resource's settings follow. Values that are stepped over are not checked, as in a projection.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from proxy.wire.compile.cursor import Cursor
from proxy.wire.compile.layout import Slot, Struct, layout
from proxy.wire.compile.skipper import Skipper
from proxy.wire.compile.source import Source
from proxy.wire.compile.walker import PieceCursor
from proxy.wire.error_codes import is_error_code
from proxy.wire.framing import LENGTH, RESPONSE_HEAD
from proxy.wire.language import Message


def prober(
    message: Message, version: int, header: int, max_elements: int, *, whole_elements: bool = False
) -> Callable[..., Any]:
    """`probe(buf, at, size)` -> (codes, True if these are all), for a whole frame behind its length, `buf[at:size]`.

    `header` is the response header's version. `whole_elements`: what follows the last code in its element must be there
    too, as for a projection. The function raises Truncated and Malformed.
    """
    source = Source(f"probe {message.name} v{version}", "def probe(buf, at, size):")
    with source.block("try:"):
        _Prober(source, Cursor(source), "if at > size: raise beyond(at)", "return").frame(
            message, version, header, max_elements, RESPONSE_HEAD.size - LENGTH.size, stops_early=not whole_elements
        )
    with source.block("except READ_FAULTS as fault:"):
        source.line(f"raise explain(fault, {message.api!r}, {version}, at, size) from fault")
    return source.function()


def prober_in_pieces(message: Message, version: int, header: int, max_elements: int) -> Callable[..., Any]:
    """`probe() -> generator`. The frame was truncated if it ends before the generator answers."""
    source = Source(f"probe {message.name} v{version} in pieces", "def probe():")
    source.line("buf = yield")
    source.line("at, size = 0, len(buf)")
    arrive = "while at > size: at -= size; buf = yield; size = len(buf)"
    _Prober(source, PieceCursor(source), arrive, "yield").frame(
        message, version, header, max_elements, RESPONSE_HEAD.size
    )
    return source.function()


class _BoundedSkipper(Skipper):
    """Steps over values, and counts the turns of its loops."""

    def __init__(self, source: Source, cursor: Cursor, give_up: Callable[[], None]):
        super().__init__(source, cursor)
        self._give_up = give_up

    @contextmanager
    def each(self, count: str) -> Iterator[None]:
        with super().each(count):
            self.source.line("left -= 1")
            with self.source.block("if left < 0:"):
                self._give_up()
            yield


class _Prober:
    """Writes the lines that read error codes and step over all other values.

    Args:
        arrive: the line that waits until all bytes stepped over have arrived.
        answer: the keyword that gives the function's answer: "return" or "yield".
    """

    def __init__(self, source: Source, cursor: Cursor, arrive: str, answer: str):
        self.source, self.cursor = source, cursor
        self.skip = _BoundedSkipper(source, cursor, lambda: self._answer(False))
        self._arrive, self._how = arrive, answer
        # for each array that is being read, the variable with the number of elements still to come
        self._to_come: list[str] = []

    def frame(
        self, message: Message, version: int, header: int, max_elements: int, head: int, *, stops_early: bool = True
    ) -> None:
        """Writes the whole function. `head`: the bytes before the header's tags."""
        struct = layout(message, version)
        self.source.line(f"codes, left = [], {max_elements}")
        self.cursor.step(head)
        if header:
            self.skip.tags()
        self._slots(struct, struct.slots[: _behind_codes(struct)], is_last=stops_early)
        if any(map(_leads, struct.tagged)):
            self._tags(struct)
        self.cursor.flush()
        self._answer(True)

    def _answer(self, is_all: bool) -> None:
        self.source.line(self._arrive)
        self.source.line(f"{self._how} codes, {is_all}")

    def _struct(self, struct: Struct, is_last: bool) -> None:
        """Writes the lines for a struct. `is_last`: only further elements of its array can have codes behind it."""
        self._slots(struct, struct.slots, is_last)
        if any(map(_leads, struct.tagged)):
            self._tags(struct)
        elif struct.flexible:
            self.skip.tags()
        self.cursor.flush()

    def _slots(self, struct: Struct, slots: Iterable[Slot], is_last: bool) -> None:
        last = _behind_codes(struct) - 1
        for place, slot in enumerate(slots):
            self._slot(slot, is_last and place == last)

    def _slot(self, slot: Slot, is_last: bool) -> None:
        if not _leads(slot):
            self.skip.slot(slot)
        elif slot.struct is None:
            self._code(slot)
            if is_last and self._to_come:
                with self.source.block(f"if not ({' or '.join(self._to_come)}):"):
                    self._answer(True)
        elif slot.array:
            self._array(slot, slot.struct, is_last)
        else:
            with self.cursor.present(slot):
                self._struct(slot.struct, is_last)

    def _array(self, slot: Slot, struct: Struct, is_last: bool) -> None:
        count = self.skip.length(slot)
        if not is_last:
            with self.skip.each(count):
                self._struct(struct, is_last)
            return
        to_come = self.source.fresh("to_come")
        self._to_come.append(to_come)
        self.source.line(f"{to_come} = {count}")
        with self.skip.each(to_come):
            self.source.line(f"{to_come} -= 1")
            self._struct(struct, is_last)
        self._to_come.pop()

    def _code(self, slot: Slot) -> None:
        self.cursor.length(slot.code or "", slot.size)
        self.source.line("if n: codes.append(n)")

    def _tags(self, struct: Struct) -> None:
        """Reads a tag buffer that may hold codes. An entry whose size is not its value's is stepped over."""
        tag = self.source.fresh("tag")
        self.cursor.count()
        with self.skip.each("n"):
            self.cursor.count()
            self.source.line(f"{tag} = n")
            self.cursor.count()
            for slot in filter(_leads, struct.tagged):
                with self.source.block(f"if {tag} == {slot.tag} and n == {slot.size}:"):
                    self._code(slot)
                    self.source.line("continue")
            self.source.line("at += n")


def _behind_codes(struct: Struct) -> int:
    """The number of fields up to the last that is or holds a code; all, if a tagged field has one."""
    if any(map(_leads, struct.tagged)):
        return len(struct.slots) + 1
    return max((place for place, slot in enumerate(struct.slots, 1) if _leads(slot)), default=0)


def _leads(slot: Slot) -> bool:
    """True if the field is an error code or may hold one."""
    return any(map(_leads, slot.struct)) if slot.struct else is_error_code(slot.name)
