"""Tests against kio, an independent codec generated from Kafka's definitions: equal bytes, in both directions.

kio lacks old minimum versions and the newest versions; all versions that it has are compared. Its times are datetimes
and its error codes an enum, so the tests use values that these can hold. Fields are matched by position, which the
drift test compares. It differs in two points: it omits a tagged field that was written with its default, and an unknown
tagged field ends its reading.
"""

import dataclasses
import io
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, cast
from uuid import UUID

import pytest
from kio.index import UnknownAPIKey, UnknownEntity, load_payload_module
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.serial._introspect import classify_field
from kio.static.constants import EntityType

from proxy.wire.apis import MessageKind
from proxy.wire.headers import request_header_version, response_header_version
from proxy.wire.language import Field
from tests.proxy.wire.interpreter import Writer
from tests.strategies import EVERY_MESSAGE, must_codec, values_of

KINDS: dict[MessageKind, Literal[EntityType.request, EntityType.response]] = {
    "request": EntityType.request,
    "response": EntityType.response,
}
SEEDS = range(3)


def kio_entity(kind: MessageKind, key: int, version: int) -> Any:
    """Returns kio's class of that message; None if it has none."""
    try:
        module = load_payload_module(key, version, KINDS[kind])
    except (UnknownAPIKey, UnknownEntity):
        return None
    return getattr(module, must_codec(kind, key, version).message.name)


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
# kio's type -> conversions to our value, and back
VALUES: Mapping[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "timedelta_i32": (lambda number: number * MILLISECOND, lambda time: time // MILLISECOND),
    "timedelta_i64": (lambda number: number * MILLISECOND, lambda time: time // MILLISECOND),
    "datetime_i64": (
        lambda number: None if number == -1 else EPOCH + number * MILLISECOND,
        lambda time: -1 if time is None else (time - EPOCH) // MILLISECOND,
    ),
    "error_code": (ErrorCode, lambda code: code.value),
    "uuid": (
        lambda data: UUID(bytes=data) if any(data) else None,
        lambda uuid: uuid.bytes if uuid else bytes(16),
    ),
}
AS_IT_IS = (lambda value: value, lambda value: value)


def pairs(fields: tuple[Field, ...], version: int, entity: Any) -> list[tuple[Field, Any]]:
    """Returns our fields of that version with kio's."""
    return list(zip((one for one in fields if version in one.versions), dataclasses.fields(entity), strict=True))


def theirs(fields: tuple[Field, ...], version: int, entity: Any, values: Mapping[str, Any]) -> Any:
    """Returns our values in kio's class."""

    def one(ours: Field, kios: Any, value: Any) -> Any:
        if ours.fields and value is not None:
            return theirs(ours.fields, version, classify_field(kios).type_, value)
        return VALUES.get(kios.metadata.get("kafka_type"), AS_IT_IS)[0](value)

    found = pairs(fields, version, entity)
    return entity(**{kios.name: each(one, ours, kios, values[ours.name]) for ours, kios in found})


def ours_of(fields: tuple[Field, ...], version: int, entity: Any) -> dict[str, Any]:
    """Returns kio's values as ours."""

    def one(ours: Field, kios: Any, value: Any) -> Any:
        if ours.fields and value is not None:
            return ours_of(ours.fields, version, value)
        return VALUES.get(kios.metadata.get("kafka_type"), AS_IT_IS)[1](value)

    found = pairs(fields, version, type(entity))
    return {ours.name: each(one, ours, kios, getattr(entity, kios.name), list) for ours, kios in found}


def each(one: Callable[..., Any], ours: Field, kios: Any, value: Any, array: type = tuple) -> Any:
    """Returns the value, or each element of an array that is not null."""
    if ours.is_array:
        return None if value is None else array(one(ours, kios, element) for element in value)
    return one(ours, kios, value)


def written(value: Any) -> bytes:
    out = io.BytesIO()
    entity_writer(type(value))(out, value)
    return out.getvalue()


@pytest.mark.real
def test_kio_writes_and_reads_every_version_it_knows_as_we_do() -> None:
    compared = 0
    for message in EVERY_MESSAGE:
        if entity := kio_entity(*message):
            codec = must_codec(*message)
            fields, version = codec.message.fields, codec.version
            for values in (codec.decode(codec.encode({}))[0], *(values_of(codec, seed, tame=True) for seed in SEEDS)):
                data = codec.encode(values)
                assert written(theirs(fields, version, entity, values)) == data, message
                read, size = entity_reader(entity)(data, 0)
                assert (ours_of(fields, version, read), size) == (values, len(data)), message
            compared += 1
    assert compared > 550


def test_kio_leaves_out_a_tagged_field_that_holds_its_default() -> None:
    codec = must_codec("response", 18, 3)
    values, _ = codec.decode(codec.encode({}))
    eager = Writer(codec.message, 3, eager=True).write(values)
    read, size = entity_reader(cast(Any, kio_entity("response", 18, 3)))(eager, 0)
    assert size == len(eager) > len(written(read)) == len(codec.encode(values))
    assert codec.decode(eager) == (values, len(eager))


def test_kio_stops_at_an_unknown_tagged_field() -> None:
    data = must_codec("request", 18, 3).encode({"_tags": {90: b"new"}})
    with pytest.raises(KeyError):
        entity_reader(cast(Any, kio_entity("request", 18, 3)))(data, 0)


@pytest.mark.real
def test_header_versions_are_those_of_kio() -> None:
    rule = {"request": request_header_version, "response": response_header_version}
    for kind, key, version in EVERY_MESSAGE:
        if entity := kio_entity(kind, key, version):
            header = entity.__header_schema__.__version__
            assert rule[kind](key, version) == header, (kind, key, version)
