"""Tests of a frame's body as a tree, and of frames without one."""

from __future__ import annotations

from proxy.tools.body import Body, body
from proxy.tools.tree import Shown
from proxy.wire.apis import KINDS, MessageKind
from proxy.wire.budget import Budget
from proxy.wire.catalog import encode_request, encode_response
from proxy.wire.keys import METADATA
from tests.tables import each_row

REQUEST = encode_request(METADATA, 1, 1, "app", {"topics": [{"name": "orders"}]})
RESPONSE = encode_response(METADATA, 1, 1, {"controller_id": 7})


def of(frame: bytes, kind: MessageKind = "request", version: int = 1, masked_from: int | None = None) -> Body:
    return body(frame, kind, METADATA, version, Shown(budget=Budget()), masked_from=masked_from)


def test_both_kinds_of_frames_have_a_tree() -> None:
    assert of(REQUEST) == Body({"topics": [{"name": "orders"}]})
    assert (of(RESPONSE, "response").values or {})["controller_id"] == 7


@each_row("kind", KINDS)
@each_row("version", [-1, 99, 1 << 15, 1 << 70], ids=["negative", "unknown", "int32", "huge"])
def test_a_version_that_no_message_has_is_a_reason(kind: MessageKind, version: int) -> None:
    assert of(REQUEST, kind, version).values is None
    assert of(REQUEST, kind, version).why


def test_bytes_that_are_cut_are_a_reason() -> None:
    assert of(REQUEST[:-3]).why.startswith("can't be decoded: ")


def test_bytes_after_the_end_are_named_beside_the_values() -> None:
    assert of(REQUEST + b"xy") == Body(
        {"topics": [{"name": "orders"}]}, "2 bytes more behind its end: fields may be wrong"
    )


def test_a_frame_that_is_masked_from_its_head_on_is_not_decoded() -> None:
    assert of(REQUEST, masked_from=8).why == "masked whole: it may hold a secret"


def test_a_body_beyond_its_budget_is_shown_in_part() -> None:
    found = body(REQUEST, "request", METADATA, 1, Shown(budget=Budget(1)))
    assert found.values is not None
    assert found.why.startswith("not decoded to its end: ")
