"""Tests of the fields of 0.7's messages as text. tests/proxy/wire/kafka07 compares them with the codec."""

from typing import Any

from proxy.tools.layout07 import as_json, as_text, kinds
from proxy.wire.kafka07 import RequestType


def test_every_message_has_a_title_and_a_line_for_each_field() -> None:
    for asked in RequestType:
        for kind in kinds(asked):
            title, columns, *lines = as_text(asked, kind)
            assert title == f"{asked.api} {kind}  type {int(asked)}"
            assert columns.split() == ["field", "type", "size", "meaning"]
            names = [line.split()[0] for line in lines]
            assert names[: len(as_json(asked, kind)["fields"])][0] == as_json(asked, kind)["fields"][0]["name"]
            assert len(names) == names_in(as_json(asked, kind)["fields"])


def names_in(fields: list[dict[str, Any]]) -> int:
    return sum(1 + names_in(field.get("fields", [])) for field in fields)


def test_a_request_without_a_response_is_shown_as_never_answered() -> None:
    assert list(as_text(RequestType.PRODUCE, "response")) == ["0.7/produce response  type 0  never answered"]
    assert as_json(RequestType.PRODUCE, "response")["fields"] is None
    assert kinds(RequestType.MULTIPRODUCE) == ("request",)
