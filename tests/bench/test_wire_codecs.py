"""Tests that the compared codecs do the same work: all read equal values from the messages, and write equal bytes."""

from collections.abc import Mapping
from datetime import timedelta
from enum import Enum
from typing import Any
from uuid import UUID

import pytest

from bench.wire_codecs import KAFKA_PYTHON, KIO, OURS, Codec, codecs, newest_of_aiokafka, of_aiokafka
from bench.wire_messages import Message, messages
from proxy.wire.compile.layout import Slot, Struct, layout
from tests.tables import each_row

every_message = each_row("message", messages(), ids=lambda message: message.name)


@pytest.mark.real
@every_message
def test_all_codecs_read_the_same_values(message: Message) -> None:
    struct = layout(message.codec.message, message.version)
    for codec in codecs(message):
        assert plain(struct, codec.decode()) == plain(struct, message.values), codec.name


@every_message
def test_all_codecs_write_the_same_bytes(message: Message) -> None:
    for codec in codecs(message):
        assert bytes(codec.encode()) == message.body, codec.name


def test_three_codecs_are_compared() -> None:
    found: tuple[Codec, ...] = codecs(messages()[-2])
    assert [codec.name for codec in found] == [OURS, KAFKA_PYTHON, KIO]


def test_aiokafka_writes_the_same_bytes_in_the_versions_that_it_knows() -> None:
    known = [message.at(version) for message in messages() if (version := newest_of_aiokafka(message)) is not None]
    assert len(known) == len(messages())
    for message in known:
        assert of_aiokafka(message).encode() == message.body, message.name


def plain(struct: Struct, values: Any) -> dict[str, Any]:
    """Returns the fields of a dict, of an object with slots or of a dataclass; absent fields have their defaults."""
    return {slot.name: _plain(slot, _get(values, slot)) for slot in struct}


def _get(values: Any, slot: Slot) -> Any:
    if isinstance(values, Mapping):
        return values.get(slot.name, slot.default)
    # kio names times without their unit; kafka-python has one name for all operations
    names = (slot.name, slot.name.removesuffix("_ms"), slot.name.removeprefix("topic_"))
    return getattr(values, next(name for name in names if hasattr(values, name)))


def _plain(slot: Slot, value: Any) -> Any:
    if value is None and not slot.nullable:
        return slot.default  # kafka-python's None: for the zero id, absent structs, operations not requested
    if slot.array and value is not None:
        return [_plain(slot.element, one) for one in value]
    if slot.struct and value is not None:
        return plain(slot.struct, value)
    match value:
        case UUID():
            return value.bytes
        case Enum():
            return value.value
        case timedelta():
            return value // timedelta(milliseconds=1)
        case _:
            return value
