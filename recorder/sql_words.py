"""The words of `sql` that are no SQL, `tables` and `describe NAME`, and what shells of other databases call them."""

from __future__ import annotations

TABLES, DESCRIBE = "tables", "describe"
_TABLES = frozenset({("tables",), ("show", "tables"), (".tables",), ("\\d",), ("\\d+",), ("\\dt",), ("\\dt+",)})
# what stands before a name
_DESCRIBE = _TABLES | {
    *(("describe",), ("desc",), ("describe", "table"), ("desc", "table"), (".schema",)),
    *(("show", "columns", "from"), ("show", "columns", "in")),
}
_QUOTES = "\"'`"


def asked(text: str) -> tuple[str, ...] | None:
    """(TABLES,) or (DESCRIBE, NAME), if a text asks for that; None for any other. The name has no quotes."""
    words = text.strip().rstrip("; ").split()
    begun = tuple(word.lower() for word in words)
    if begun in _TABLES:
        return (TABLES,)
    return (DESCRIBE, _unquoted(words[-1])) if words and begun[:-1] in _DESCRIBE else None


def _unquoted(name: str) -> str:
    is_quoted = len(name) > 1 and name[0] in _QUOTES and name[-1] == name[0]
    return name[1:-1] if is_quoted else name
