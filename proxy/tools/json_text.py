"""A tree as JSON, written piece by piece: each value becomes text only when it is written.

Once the allowance is used up, no further value is begun and all open ones are closed, so the output stays valid JSON.
"""

from __future__ import annotations

import json
from base64 import b64encode
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from proxy.terminal import harmless_json
from proxy.tools.plain import error_name, readable
from proxy.tools.tree import Masked
from proxy.wire.budget import Allowance

# Bytes of a long value that become text at a time: a multiple of base64's group of three.
_AT_ONCE = 3 << 14
# The JSON of a name is cached if the name is no longer than a field's; a peer may invent longer ones.
_LONGEST_KEPT = 64
_encoded = json.JSONEncoder(ensure_ascii=False).encode


def pieces(value: Any, allowance: Allowance, *, most: int | None = None, indent: int | None = None) -> Iterator[str]:
    """The tree as `json.dumps` would write it. Bytes become {length, base64}, with `text` if they are readable text.

    The `error_code` of an error is followed by its `error_name`.

    Args: allowance: pays for the characters. most: the number of bytes written of each bytes value; None for all.
    """
    return _Writer(allowance, most, indent).pieces(value)


@dataclass(slots=True)
class _Open:
    """An object or array that is being written.

    `members`: the remaining members, with their names. `end`: the closing bracket. `between`: the comma before the next
    member. `line`: line break and indent before a member. `last_line`: line break and indent before `end`.
    """

    members: Iterator[tuple[str, Any]]
    end: str
    line: str = ""
    last_line: str = ""
    between: str = ""

    def closed(self) -> str:
        return (self.last_line if self.between else "") + self.end


class _Writer:
    """Keeps open objects and arrays on a stack; nested generators would pass each piece through every depth."""

    def __init__(self, allowance: Allowance, most: int | None, indent: int | None) -> None:
        self._allowance, self._most = allowance, most
        self._indent = None if indent is None else " " * indent
        self._comma = ", " if indent is None else ","

    def pieces(self, value: Any) -> Iterator[str]:
        stack = [_Open(iter([("", value)]), "")]
        while stack:
            begun = self._next(stack[-1], len(stack))
            if begun is None:
                yield stack.pop().closed()
                continue
            yield begun[0]
            if isinstance(begun[1], _Open):
                stack.append(begun[1])
            elif begun[1] is not None:
                yield from self._rest_of_text(begun[1])

    def _next(self, inner: _Open, depth: int) -> tuple[str, _Open | Iterator[str] | None] | None:
        """The text that begins the next member, and its open rest; None if no member or too little text is left."""
        member = next(inner.members, None)
        if member is None:
            return None
        name, value = member
        begun, opened = self._begun(value, depth)
        if begun is None or not self._allowance.try_take(len(inner.line) + len(name)):
            return None
        text = f"{inner.between}{inner.line}{name}{begun}"
        inner.between = self._comma
        return text, opened

    def _begun(self, value: Any, depth: int) -> tuple[str | None, _Open | Iterator[str] | None]:
        """The text that begins the value, and its open rest, which is None for a leaf.

        A leaf's text is whole. It is None if the allowance does not suffice.
        """
        if isinstance(value, dict):
            return "{", self._open(((_name(name), one) for name, one in _named_errors(value)), "}", depth)
        if isinstance(value, list):
            return "[", self._open((("", one) for one in value), "]", depth)
        if isinstance(value, Masked):
            return self._begun({"masked": value.length}, depth)
        if isinstance(value, bytes | bytearray | memoryview):
            return "{", self._open(((_name(name), one) for name, one in self._octets(bytes(value))), "}", depth)
        if isinstance(value, Iterator):
            return '"', value
        text = _written(value)
        return text if self._allowance.try_take(len(text)) else None, None

    def _open(self, members: Iterator[tuple[str, Any]], end: str, depth: int) -> _Open:
        if self._indent is None:
            return _Open(members, end)
        return _Open(members, end, "\n" + self._indent * depth, "\n" + self._indent * (depth - 1))

    def _rest_of_text(self, parts: Iterator[str]) -> Iterator[str]:
        """The parts of a long text, as far as the allowance suffices, and the closing quote."""
        for part in parts:
            text = _written(part)[1:-1]
            if not self._allowance.try_take(len(text)):
                break
            yield text
        yield '"'

    def _octets(self, value: bytes) -> Iterator[tuple[str, Any]]:
        """The members for a value of bytes. Uses up the allowance if it can't suffice for the base64 text."""
        shown = value if self._most is None else value[: self._most]
        yield "length", len(value)
        if 4 * len(shown) > 3 * self._allowance.left:
            self._allowance.exhaust()
            return
        yield "base64", _whole_if_short(lambda part: b64encode(part).decode(), shown)
        if readable(value, self._most):
            yield "text", _whole_if_short(getincrementaldecoder("utf-8")().decode, shown)
        if len(shown) < len(value):
            yield "cut", True


def _whole_if_short(written: Callable[[bytes], str], value: bytes) -> str | Iterator[str]:
    if len(value) <= _AT_ONCE:
        return written(value)
    return (written(value[at : at + _AT_ONCE]) for at in range(0, len(value), _AT_ONCE))


def _named_errors(values: dict[Any, Any]) -> Iterator[tuple[str, Any]]:
    """The members; the `error_code` of an error is followed by its `error_name`."""
    for name, value in values.items():
        yield str(name), value
        if error := error_name(str(name), value):
            yield str(name).removesuffix("code") + "name", error


def _name(name: str) -> str:
    return _kept_name(name) if len(name) <= _LONGEST_KEPT else f"{_written(name)}: "


@lru_cache(1024)
def _kept_name(name: str) -> str:
    return f"{_written(name)}: "


def _written(value: Any) -> str:
    if type(value) is int:
        return str(value)
    text = _encoded(value)
    return text if text.isascii() and text.isprintable() else harmless_json(text)
