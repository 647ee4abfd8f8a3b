"""The source of one function: its lines, its variables without collisions, its constants; finally the function itself.

The text stays in `linecache` under a name such as `<decode MetadataResponse v12>`, so that tracebacks and
`inspect.getsource` show it.
"""

import keyword
import linecache
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from struct import Struct
from typing import Any

from proxy.wire import varints
from proxy.wire.compile import runtime

# Names that the written functions use themselves; the variable of a field with such a name gets a number.
TAKEN = frozenset(
    {"at", "buf", "codes", "decode", "encode", "end", "fault", "left", "misfit", "n", "probe", "project", "row", "rows"}
    | {"bytes", "len", "list", "range", "size", "spans", "spend", "start", "str", "type", "values", "walk", "whole"}
    | vars(runtime).keys()
    | vars(varints).keys()
)


class Source:
    """The text of one function, line by line, and its constants."""

    def __init__(self, title: str, head: str):
        self.title = title
        self.constants: dict[str, object] = {**vars(runtime), **vars(varints)}
        self._lines = [head]
        self._depth = 1
        self._names = set(TAKEN)

    def line(self, text: str) -> None:
        """Adds a line at the present depth."""
        self._lines.append("    " * self._depth + text)

    def first(self, text: str) -> None:
        """Adds a line before all others."""
        self._lines.insert(1, "    " + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Indents the lines written within below `head`."""
        self.line(head)
        self._depth += 1
        before = len(self._lines)
        yield
        if len(self._lines) == before:
            self.line("pass")
        self._depth -= 1

    def fresh(self, name: str) -> str:
        """A new variable of that name, or of that name and a number."""
        number, found = 1, name
        while found in self._names or keyword.iskeyword(found):
            number, found = number + 1, f"{name}_{number + 1}"
        self._names.add(found)
        return found

    def constant(self, name: str, value: object) -> str:
        """Makes `value` known to the function as `name`; returns the name."""
        self.constants[name] = value
        return name

    def unpack(self, codes: str) -> str:
        """The name of a reader of these `struct` codes, big-endian: (buffer, offset) -> tuple."""
        return self.constant("read_" + _spelled(codes), Struct(">" + codes).unpack_from)

    def rows(self, codes: str) -> str:
        """The name of a reader of a whole buffer as rows of these codes: (buffer) -> iterator of tuples."""
        return self.constant("rows_" + _spelled(codes), Struct(">" + codes).iter_unpack)

    def pack(self, codes: str) -> str:
        """The name of a writer of these `struct` codes, big-endian: (*values) -> bytes."""
        return self.constant("pack_" + _spelled(codes), Struct(">" + codes).pack)

    def function(self) -> Callable[..., Any]:
        """Compiles the function. Its text is kept for tracebacks."""
        text = "\n".join(self._lines) + "\n"
        name = f"<{self.title}>"
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        exec(compile(text, name, "exec"), self.constants)
        function = self.constants[text.split("(", 1)[0].removeprefix("def ")]
        assert callable(function)
        return function


def _spelled(codes: str) -> str:
    return codes.replace("?", "bool_")
