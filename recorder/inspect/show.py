"""A frame as text or JSON: its head, its body as a tree, its bytes as a hex dump."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from proxy.tools import plain
from proxy.tools.plain import INDENT, as_lines
from proxy.wire.errors import in_bytes
from recorder.capture import frames as c
from recorder.inspect.body import Body
from recorder.inspect.exchanges import error_names
from recorder.inspect.lines import frame_id, moment

Row = Mapping[str, Any]
_WIDTH = 16


def as_text(row: Row, body: Body, most: int) -> Iterator[str]:
    """Lines; of each value of bytes `most` are shown."""
    yield from _head(row)
    if body.why:
        yield f"{INDENT}({body.why})"
    if body.values is not None:
        yield from as_lines(body.values, 1, most)
    elif row[c.FRAME]:
        yield from (f"{INDENT}error: {name}" for name in _errors(row, body))
        yield f"{INDENT}its bytes: --format hex"


def as_json(row: Row, body: Body, most: int) -> dict[str, Any]:
    """The head, `body`, `why` if there is something to say about it, and `errors` if it can't be decoded but has some.

    Of each value of bytes the first `most`.
    """
    head = {name: value for name, value in row.items() if name not in (c.FRAME, c.AT) and value is not None}
    told: dict[str, Any] = {"id": frame_id(row), "at": moment(row[c.AT_NS]), **head}
    told["body"] = plain.as_json(body.values, most)
    errors = _errors(row, body)
    return told | ({"why": body.why} if body.why else {}) | ({"errors": errors} if errors else {})


def _errors(row: Row, body: Body) -> list[str]:
    """Names of the error codes in a response that can't be decoded to its end: they may stand before what is wrong."""
    return error_names(row) if row[c.KIND] == c.RESPONSE and body.values is None else []


def hex_dump(frame: bytes, masked: Sequence[Mapping[str, int]], most: int) -> Iterator[str]:
    """Lines of 16 bytes (offset, hex, text) of the first `most` bytes. Masked bytes are `**`, not zeros."""
    hidden = [range(span["start"], span["start"] + span["length"]) for span in masked]
    shown = frame[:most]
    for start in range(0, len(shown), _WIDTH):
        line = range(start, min(start + _WIDTH, len(shown)))
        covered = [any(at in span for span in hidden) for at in line]
        codes = ["**" if gone else f"{shown[at]:02x}" for at, gone in zip(line, covered, strict=True)]
        text = ["*" if gone else _letter(shown[at]) for at, gone in zip(line, covered, strict=True)]
        yield f"{start:08x}  {' '.join(codes):<{3 * _WIDTH - 1}}  {''.join(text)}"
    if len(frame) > most:
        yield f"... {in_bytes(len(frame) - most)} more"


def _letter(code: int) -> str:
    return chr(code) if 32 <= code < 127 else "."


def _head(row: Row) -> Iterator[str]:
    version = "" if row[c.API_VERSION] is None else f" version {row[c.API_VERSION]}"
    api = row[c.API] or ("" if row[c.API_KEY] is None else f"api {row[c.API_KEY]}")
    made = " (made by the proxy)" if row[c.MADE_BY] == c.BY_PROXY else ""
    yield f"{frame_id(row)}  {api} {row[c.KIND]}{version}{made}"
    yield f"{INDENT}at {moment(row[c.AT_NS])}, client {row[c.CLIENT]}, node {_or_unknown(row[c.NODE])}"
    facts = {"correlation id": row[c.CORRELATION_ID], "client id": row[c.CLIENT_ID], "principal": row[c.PRINCIPAL]}
    told = [f"{name} {value}" for name, value in facts.items() if value is not None]
    yield INDENT + ", ".join([*told, in_bytes(row[c.SIZE])])
    if row[c.NOTE]:
        yield f"{INDENT}note: {row[c.NOTE]}"


def _or_unknown(value: Any) -> Any:
    return "unknown" if value is None else value
