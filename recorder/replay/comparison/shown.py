"""Values as short text, for people who read what differs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

# A line of a table; config values and messages may be of any size.
MOST_CHARACTERS = 120
# A path has up to five names of elements, and what it ends with matters most.
MOST_IN_NAMES = 40


def shown(value: Any) -> str:
    """A value as in JSON, bytes as hex, and no more than MOST_CHARACTERS of it."""
    return _cut(_text(value, quoted=True), MOST_CHARACTERS)


def shown_name(values: Iterable[Any]) -> str:
    """What names an element, without quotes."""
    return " ".join(_cut(_text(value, quoted=False), MOST_IN_NAMES) for value in values)


def _cut(text: str, most: int) -> str:
    """The beginning of a text, with an ellipsis for the rest."""
    return text if len(text) <= most else text[: most - 1] + "…"


def _text(value: Any, quoted: bool) -> str:
    if isinstance(value, bytes):
        return value[:MOST_CHARACTERS].hex()
    if isinstance(value, str):
        start = value[:MOST_CHARACTERS]
        return json.dumps(start, ensure_ascii=False) if quoted else start
    if isinstance(value, dict):
        return "{…}"
    if isinstance(value, list | tuple):
        # an element takes one character at least, and what separates two
        return "[" + ", ".join(_text(one, quoted) for one in value[: MOST_CHARACTERS // 3]) + "]"
    return json.dumps(value)
