"""One frame's body as a tree: a body that can't be decoded is a result with its reason, not an error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from proxy.tools.tree import Shown, message_tree
from proxy.wire import catalog
from proxy.wire.apis import MessageKind
from proxy.wire.errors import OverBudget, WireError, in_bytes
from proxy.wire.headers import request_head, response_head


@dataclass(frozen=True, slots=True)
class Body:
    """A decoded body. `values`: a tree of dicts, lists, numbers, text, bytes and Masked; None if it can't be decoded.

    `why`: the reason if `values` is None or incomplete, or if bytes follow the body; otherwise "".
    """

    values: dict[str, Any] | None
    why: str = ""


def body(
    frame: bytes, kind: MessageKind, key: int, version: int, shown: Shown, *, masked_from: int | None = None
) -> Body:
    """Decodes a frame without its length. `masked_from`: the offset of its first masked byte."""
    try:
        return _body(frame, kind, key, version, shown, masked_from)
    except WireError as error:
        return Body(None, f"can't be decoded: {error}")


def _body(frame: bytes, kind: MessageKind, key: int, version: int, shown: Shown, masked_from: int | None) -> Body:
    codec = catalog.codec(kind, key, version) if kind == "request" else catalog.codec_of_response(frame, key, version)
    if codec is None:
        return Body(None, f"api {key} version {version} is not in the catalog")
    start = request_head(frame).body if kind == "request" else response_head(frame, key, version).body
    if masked_from is not None and masked_from <= start:
        return Body(None, "masked whole: it may hold a secret")
    try:
        values, end = codec.decode(frame, start, budget=shown.budget)
        why = left_over(len(frame) - end)
    except OverBudget as error:
        values, why = error.values or {}, f"not decoded to its end: {error}"
    return Body(message_tree(codec.message, codec.version, values, shown), why)


def left_over(number: int) -> str:
    """A remark on that many bytes behind a body: the sender may have written another layout. Empty for no byte."""
    return f"{in_bytes(number)} more behind its end: fields may be wrong" if number else ""
