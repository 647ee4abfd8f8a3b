"""A tree as JSON, written piece by piece: a value becomes text when its turn comes, and is gone once it is written.

When an allowance has no more text, nothing more is begun and all that is open is closed: what there is stays JSON.
"""

from __future__ import annotations

import json
from base64 import b64encode
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator
from typing import Any

from proxy.terminal import harmless_json
from proxy.tools.plain import error_name, readable
from proxy.tools.tree import Masked
from proxy.wire.budget import Allowance

# Bytes of a long value that become text at a time: a multiple of the three that base64 takes together.
_AT_ONCE = 3 << 14


def pieces(value: Any, allowance: Allowance, *, most: int | None = None, indent: int | None = None) -> Iterator[str]:
    """The tree as `json.dumps` would write it. Bytes become {length, base64}, with `text` where that can be read.

    Behind the `error_code` of an error stands its `error_name`.

    Args: allowance: of characters; most: bytes of each value of bytes that are written, None for all of them.
    """
    return _Writer(allowance, most, indent).value(value, 0)


class _Writer:
    def __init__(self, allowance: Allowance, most: int | None, indent: int | None) -> None:
        self._allowance, self._most = allowance, most
        self._indent = None if indent is None else " " * indent

    def value(self, value: Any, depth: int) -> Iterator[str]:
        """Its text; nothing where there is not even enough left for its beginning."""
        if isinstance(value, dict):
            return self._inside("{}", ((_name(name), one) for name, one in _named_errors(value)), depth)
        if isinstance(value, list):
            return self._inside("[]", (("", one) for one in value), depth)
        if isinstance(value, Masked):
            return self.value({"masked": value.length}, depth)
        if isinstance(value, bytes | bytearray | memoryview):
            return self._inside("{}", ((_name(name), one) for name, one in self._octets(bytes(value))), depth)
        return self._quoted(value) if isinstance(value, Iterator) else self._leaf(value)

    def _leaf(self, value: Any) -> Iterator[str]:
        text = _written(value)
        if self._allowance.allows(len(text)):
            yield text

    def _quoted(self, parts: Iterator[str]) -> Iterator[str]:
        """A text that is made part by part, as far as there is text left."""
        yield '"'
        for part in parts:
            text = _written(part)[1:-1]
            if not self._allowance.allows(len(text)):
                break
            yield text
        yield '"'

    def _inside(self, brackets: str, values: Iterable[tuple[str, Any]], depth: int) -> Iterator[str]:
        """Each value behind what stands before it."""
        yield brackets[0]
        between, line = "", self._line(depth + 1)
        for before, value in values:
            found = self.value(value, depth + 1)
            first = next(found, None)
            if first is None or not self._allowance.allows(len(line) + len(before)):
                break
            yield f"{between}{line}{before}{first}"
            yield from found
            between = "," if self._indent is not None else ", "
        yield (self._line(depth) if between else "") + brackets[1]

    def _line(self, depth: int) -> str:
        return "" if self._indent is None else "\n" + self._indent * depth

    def _octets(self, value: bytes) -> Iterator[tuple[str, Any]]:
        """A text is not begun that there is not enough left for."""
        shown = value if self._most is None else value[: self._most]
        yield "length", len(value)
        if 4 * len(shown) > 3 * self._allowance.left:
            self._allowance.exhaust()
            return
        yield "base64", (b64encode(part).decode() for part in _parts(shown))
        if readable(value, self._most):
            decoder = getincrementaldecoder("utf-8")()
            yield "text", map(decoder.decode, _parts(shown))
        if len(shown) < len(value):
            yield "cut", True


def _named_errors(values: dict[Any, Any]) -> Iterator[tuple[str, Any]]:
    """The members; behind the `error_code` of an error its `error_name`."""
    for name, value in values.items():
        yield str(name), value
        if error := error_name(str(name), value):
            yield str(name).removesuffix("code") + "name", error


def _parts(value: bytes) -> Iterator[bytes]:
    return (value[at : at + _AT_ONCE] for at in range(0, len(value), _AT_ONCE))


def _name(name: str) -> str:
    return f"{_written(name)}: "


def _written(value: Any) -> str:
    return harmless_json(json.dumps(value, ensure_ascii=False))
