"""Writes the generator behind a search: it finds the secrets in a frame that arrives in pieces.

The generator is sent the pieces, calls `found` with (start, stop) of each value to hide, and returns the offset of the
message's end. `here.base` is the number of bytes before the newest piece. No byte is kept but a setting's name.

A field marked `secret` is always hidden. A field marked `sensitive` is a setting's value: it is hidden unless the
`name` beside it is a plain setting's, and `is_sensitive`, beside it or further out, is false or missing. Unknown tags
are errors, because they may hold secrets.
"""

from collections.abc import Callable
from typing import Any

from proxy.wire.compile.cursor import Cursor
from proxy.wire.compile.layout import Slot, Struct, layout
from proxy.wire.compile.skipper import Skipper
from proxy.wire.compile.source import Source
from proxy.wire.compile.walker import PieceCursor
from proxy.wire.language import Message
from proxy.wire.plain_settings import PLAIN_SETTINGS

NAME, FLAG = "name", "is_sensitive"
SECRET, SENSITIVE = "secret", "sensitive"
# no plain setting has a longer name
LONGEST_NAME = max(map(len, PLAIN_SETTINGS))
# a frame's length and its correlation id; before the latter, a request has its api's key and version
REQUEST_HEAD, RESPONSE_HEAD = 12, 8


def searcher(message: Message, version: int, header: int) -> Callable[..., Any]:
    """`search(here, found) -> generator`, over a whole frame with its length. `header`: the version of its header."""
    source = Source(f"search {message.name} v{version}", "def search(here, found):")
    source.constant("PLAIN", frozenset(name.encode() for name in PLAIN_SETTINGS))
    cursor = PieceCursor(source)
    search = Searcher(source, cursor)
    source.line("buf = yield")
    source.line("at, size = 0, len(buf)")
    if message.kind == "request":
        search.request_header(header)
    else:
        search.response_header(header)
    search.struct(layout(message, version))
    source.line("while at > size: at -= size; buf = yield; size = len(buf)")
    source.line("return here.base + at")
    return source.function()


class Searcher(Skipper):
    """Writes the lines that step over values and report the secrets among them."""

    def __init__(self, source: Source, cursor: Cursor):
        super().__init__(source, cursor)
        # the variable of the nearest `is_sensitive`
        self._flag: str | None = None

    def request_header(self, version: int) -> None:
        """Steps over the header; from version 2 on there are tags behind the client id."""
        self.cursor.step(REQUEST_HEAD)
        self.cursor.length("h", 2)
        self.source.line("if n > 0: at += n")
        if version >= 2:
            self.tags()

    def response_header(self, version: int) -> None:
        """Steps over the header; from version 1 on there are tags."""
        self.cursor.step(RESPONSE_HEAD)
        if version >= 1:
            self.tags()

    def struct(self, struct: Struct) -> None:
        outer, place, name = self._flag, None, ""
        is_setting = any(SENSITIVE in slot.field.marks for slot in struct.slots)
        awaits_flag = is_setting and any(slot.name == FLAG for slot in struct.slots)
        for slot in struct.slots:
            if SECRET in slot.field.marks:
                self._secret(slot)
            elif SENSITIVE in slot.field.marks:
                place = self._place(slot)
            elif is_setting and slot.name == NAME:
                name = self.text(slot, LONGEST_NAME)
            elif is_setting and slot.name == FLAG:
                self._flag, awaits_flag = self._bool(slot), False
            else:
                self.slot(slot)
            if place and not awaits_flag:
                self._judge(*place, name)
                place = None
        if struct.flexible:
            self._known_tags(struct)
        self.cursor.flush()
        self._flag = outer

    def _secret(self, slot: Slot) -> None:
        length = self.length(slot)
        with self.source.block(f"if n > {int(slot.compact)}:"):
            self.source.line("start = here.base + at")
            self.source.line(f"at += {length}")
            self.source.line("found((start, here.base + at))")

    def _place(self, slot: Slot) -> tuple[str, str]:
        """Steps over a value; returns the variables of its start and stop, which are equal if it is empty."""
        start, stop = self.source.fresh("start"), self.source.fresh("stop")
        length = self.length(slot)
        self.source.line(f"{start} = here.base + at")
        self.source.line(f"if n > {int(slot.compact)}: at += {length}")
        self.source.line(f"{stop} = here.base + at")
        return start, stop

    def _judge(self, start: str, stop: str, name: str) -> None:
        flag = f"{self._flag} or " if self._flag else ""
        self.source.line(f"if {start} < {stop} and ({flag}{name} not in PLAIN): found(({start}, {stop}))")

    def text(self, slot: Slot, longest: int) -> str:
        """Reads a text; returns the variable of its bytes, which is None for a long text."""
        target, length = self.source.fresh(slot.name), self.length(slot)
        least = int(slot.compact)
        with self.source.block(f"if {least} < n <= {longest + least}:"):
            self.cursor.raw(length, target)
        with self.source.block("else:"):
            self.source.line(f"{target} = None")
            self.source.line(f"if n > {least}: at += {length}")
        return target

    def _bool(self, slot: Slot) -> str:
        target = self.source.fresh(slot.name)
        self.cursor.length("B", slot.size)
        self.source.line(f"{target} = n")
        return target

    def _known_tags(self, struct: Struct) -> None:
        """Reads the tag buffer of a struct; an unknown tag is an error."""
        self.cursor.count()
        with self.source.block("for _ in range(n):"):
            tag, end = self.source.fresh("tag"), self.source.fresh("tag_end")
            self.cursor.count()
            self.source.line(f"{tag} = n")
            self.cursor.count()
            self.source.line(f"{end} = here.base + at + n")
            for slot in struct.tagged:
                with self.source.block(f"if {tag} == {slot.tag}:"):
                    self.slot(slot)
                    self.cursor.flush()
                    self.source.line(f"if here.base + at != {end}: raise unknown_tag({tag})")
                    self.source.line("continue")
            self.source.line(f"raise unknown_tag({tag})")
