"""Tests of the tables of fields: frames written from the tables alone equal the codec's."""

from dataclasses import asdict
from typing import Any

from hypothesis import given

from proxy.wire.kafka07 import RequestType, encode_request, encode_response, messages
from proxy.wire.kafka07.layouts import BYTES, COUNT, MESSAGE, OFFSETS_COUNT, REQUESTS, RESPONSES, Field
from tests.proxy.wire.kafka07.values import REQUESTS as ANY_REQUEST
from tests.proxy.wire.kafka07.values import answered, integer, sized

SIZES = {"int8": 1, "int16": 2, "int32": 4, "int64": 8}


def written(fields: tuple[Field, ...], values: dict[str, Any]) -> bytes:
    """Writes the fields in their order. A length among them covers all that follows."""
    if fields[0].name == "length":
        return sized(written(fields[1:], values), SIZES[fields[0].type])
    return b"".join(field_written(field, values[field.name]) for field in fields)


def field_written(field: Field, value: Any) -> bytes:
    match field.type:
        case "string":
            return sized(value.encode(), 2)
        case "[]" if isinstance(value, bytes):
            return sized(value, 4) if field.size == BYTES else value
        case "[]":
            count = integer(len(value), 2) if field.size == COUNT else b""
            return count + b"".join(written(field.fields, one) for one in value)
        case "[]int64":
            assert field.size == OFFSETS_COUNT
            return integer(len(value), 4) + b"".join(integer(one, 8) for one in value)
        case number:
            return integer(value, SIZES[number])


@given(ANY_REQUEST)
def test_requests_are_written_by_their_tables(request: Any) -> None:
    layout = REQUESTS[request.type]
    assert integer(request.type, 2) + written(layout, asdict(request)) == encode_request(request)


@given(answered())
def test_responses_are_written_by_their_tables(exchange: tuple[Any, Any]) -> None:
    request, response = exchange
    values = asdict(response)
    layout = RESPONSES[request.type]
    # an error may be alone
    fields = layout if values.get("offsets", ()) is not None else layout[:1]
    assert written(fields, values) == encode_response(response)


def test_each_request_that_is_answered_has_a_table() -> None:
    assert set(REQUESTS) == set(RequestType)
    assert set(RESPONSES) == {asked for asked in RequestType if asked.awaits_response}


def test_a_message_is_as_its_table_says() -> None:
    for magic in (0, 1):
        (told,) = messages.shallow(messages.message(b"payload", magic=magic))
        layout = [field for field in MESSAGE if magic or field.name != "attributes"]
        size = sum(SIZES.get(field.type, 0) for field in layout)
        assert told.next_offset == size + len(b"payload")
