"""Writes the generator behind a walk: it steps over a message that arrives in pieces, up to one of its fields.

The generator is sent chunks. It yields None to ask for the next chunk, and finally the offset in the newest chunk where
the field begins. It keeps only an offset, which may lie far ahead of the bytes that have arrived: a record of any size
is one addition.
"""

from collections.abc import Callable
from typing import Any

from proxy.wire.compile.cursor import Cursor
from proxy.wire.compile.layout import layout
from proxy.wire.compile.projector import TAGS
from proxy.wire.compile.skipper import Skipper
from proxy.wire.compile.source import Source
from proxy.wire.language import Message

MORE = "while at >= size: at -= size; buf = yield; size = len(buf)"


class PieceCursor(Cursor):
    """Reads a message that may be cut anywhere. Only steps are ever pending, no reads."""

    rest_of_varint = "if n > 127: n, buf, at, size = yield from split_uvarint(n, buf, at, size)"
    rest_of_integer = "if n > 127: buf, at, size = yield from split({}, buf, at, size)"

    def flush(self) -> None:
        if self.pending:
            self.source.line(f"at += {self.pending}")
            self._codes, self.pending = [], 0

    def length(self, code: str, size: int) -> None:
        self.flush()
        if size == 1:
            self.source.line(MORE)
            self.source.line("n = buf[at]" if code == "B" else "n = (buf[at] ^ 128) - 128")
            self.source.line("at += 1")
            return
        read = self.source.unpack(code)
        self.source.line(f"if at + {size} <= size: (n,), at = {read}(buf, at), at + {size}")
        self.source.line(f"else: n, buf, at, size = yield from split_int({size}, buf, at, size)")

    def raw(self, length: str, target: str) -> None:
        self.flush()
        # nearly always the chunk has all of it
        self.source.line(f"if at + {length} <= size: {target}, at = bytes(buf[at : at + {length}]), at + {length}")
        self.source.line(f"else: {target}, buf, at, size = yield from split_bytes({length}, buf, at, size)")


def walker(message: Message, version: int, stop: str, header: int | None) -> Callable[..., Any]:
    """`walk() -> generator`; `header` is the response header's version to step over first, None for a body alone.

    Errors: ValueError if `stop` is neither a field of this version outside its tag buffer nor "tags" of a flexible one.
    """
    struct = layout(message, version)
    names = [slot.name for slot in struct.slots] + [TAGS] * struct.flexible
    if stop not in names:
        raise ValueError(f"{message.name} v{version} has no {stop!r} to stop at: {', '.join(names)}")
    source = Source(f"walk {message.name} v{version} to {stop}", "def walk():")
    cursor = PieceCursor(source)
    skip = Skipper(source, cursor)
    source.line("buf = yield")
    source.line("at, size = 0, len(buf)")
    if header is not None:
        cursor.step(4)
    if header:
        skip.tags()
    for slot in struct.slots[: names.index(stop)]:
        skip.slot(slot)
    cursor.flush()
    source.line("while at > size: at -= size; buf = yield; size = len(buf)")
    source.line("yield at")
    return source.function()
