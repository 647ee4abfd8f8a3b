"""Values as short texts, for people who read differences."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

# Characters of a value, which fit in a line of a table. Settings and messages may be of any size.
MOST_CHARACTERS = 120
# Characters of a name in a path: a path has up to five names, and its end matters most.
MOST_IN_NAMES = 40


def shown(value: Any) -> str:
    """A value as in JSON, with bytes as hex, at most MOST_CHARACTERS of it."""
    return _cut(_text(value, quoted=True), MOST_CHARACTERS)


def shown_name(values: Iterable[Any]) -> str:
    """The values that name an element, without quotes."""
    return " ".join(_cut(_text(value, quoted=False), MOST_IN_NAMES) for value in values)


def _cut(text: str, most: int) -> str:
    """The beginning of a text, with an ellipsis in place of the rest."""
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
        # an element takes at least one character, and two more separate it from the next
        return "[" + ", ".join(_text(one, quoted) for one in value[: MOST_CHARACTERS // 3]) + "]"
    return json.dumps(value)
