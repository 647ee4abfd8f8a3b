"""Tests against kafka-python's classes, which a codec of its own reads from Kafka's definitions: bytes are equal.

kafka-python knows some fifty apis, with old minimum versions. All its versions are compared, in both directions. It
differs in these points:

- It drops unknown tagged fields. A tagged struct that is absent is None; a given one is written even with default
  values, so the tests give it only others.
- Authorized operations, an int32 on the wire, are often the set of its bits, and None for the lowest int32 (not asked
  for).
- It reads the body of an ApiVersions response with an error as version 0, as a client must. The tests give no errors.
"""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from kafka.protocol import admin, consumer, metadata, producer, sasl
from kafka.protocol.api_message import ApiMessage

from proxy.wire.catalog import Codec
from proxy.wire.compile.layout import Slot, Struct, layout
from tests.proxy.wire.interpreter import default_of
from tests.strategies import EVERY_MESSAGE, extremes, must_codec, values_of, without_unknown_tags

ROOMS = (admin, consumer, metadata, producer, sasl)  # importing them defines the classes
NOT_ASKED_FOR = -(2**31)
# our names -> its names, if they differ
NAMES = {
    "topic_authorized_operations": "authorized_operations",
    "cluster_authorized_operations": "authorized_operations",
    # its name until 4.3
    "generation_id_or_member_epoch": "generation_id",
}
FEW, MANY = 2, 20


def _classes(above: Any) -> Iterator[Any]:
    for one in above.__subclasses__():
        yield one
        yield from _classes(one)


# A class of one version is made on demand, below the class of the message.
CLASSES = {(one.type, one.API_KEY): one for one in _classes(ApiMessage) if one._class_version is None}
KNOWN = [
    (kind, key, version)
    for kind, key, version in EVERY_MESSAGE
    if (kind, key) in CLASSES and version <= CLASSES[kind, key].max_version
]


def samples(codec: Codec, count: int) -> Iterator[dict[str, Any]]:
    for values in (codec.decode(codec.encode({}))[0], extremes(codec), *(values_of(codec, n) for n in range(count))):
        if codec.message.name == "ApiVersionsResponse":
            values["error_code"] = 0
        yield without_unknown_tags(values)


def name_of(slot: Slot, container: Any) -> str:
    return slot.name if slot.name in container._struct.fields else NAMES[slot.name]


def ours(struct: Struct, version: int, container: Any) -> dict[str, Any]:
    """Returns its values as ours."""
    found = {}
    for slot in struct:
        name = name_of(slot, container)
        found[slot.name] = _ours(slot, version, container._struct.fields[name], getattr(container, name))
    return found


def _ours(slot: Slot, version: int, field: Any, value: Any) -> Any:
    if field.type_str == "bitfield":
        return NOT_ASKED_FOR if value is None else sum(-(2**31) if bit == 31 else 1 << bit for bit in value)
    if value is None and slot.struct and slot.tag is not None:
        return default_of(slot.field, version)
    if isinstance(value, list):
        return [_ours(slot, version, field, one) for one in value]
    if slot.struct and value is not None:
        return ours(slot.struct, version, value)
    return value.bytes if isinstance(value, UUID) else value


def theirs(struct: Struct, version: int, container: Any, values: dict[str, Any]) -> Any:
    """Returns our values in its class."""
    found = {}
    for slot in struct:
        name, value = name_of(slot, container), values[slot.name]
        if slot.tag is None or slot.struct is None or value != default_of(slot.field, version):
            found[name] = _theirs(slot, version, container._struct.fields[name], value)
    return container(version=version, **found)


def _theirs(slot: Slot, version: int, field: Any, value: Any) -> Any:
    if field.type_str == "bitfield":
        return None if value == NOT_ASKED_FOR else {bit for bit in range(32) if value & 1 << bit}
    if isinstance(value, list):
        return [_theirs(slot, version, field, one) for one in value]
    if slot.struct and value is not None:
        return theirs(slot.struct, version, field.data_class, value)
    return UUID(bytes=value) if slot.type == "uuid" else value


def compare(codec: Codec, values: dict[str, Any]) -> None:
    known, struct = CLASSES[codec.message.kind, codec.message.key], layout(codec.message, codec.version)
    data = codec.encode(values)
    assert theirs(struct, codec.version, known, values).encode(version=codec.version) == data, codec
    assert ours(struct, codec.version, known.decode(data, version=codec.version)) == values, codec
    assert codec.decode(data) == (values, len(data)), codec


@pytest.mark.real
def test_kafka_python_writes_and_reads_every_version_it_knows_as_we_do() -> None:
    for message in KNOWN:
        for values in samples(must_codec(*message), FEW):
            compare(must_codec(*message), values)


@pytest.mark.long
def test_kafka_python_writes_and_reads_many_values_as_we_do() -> None:
    for message in KNOWN:
        for values in samples(must_codec(*message), MANY):
            compare(must_codec(*message), values)


def test_kafka_python_knows_most_messages_of_clients() -> None:
    assert len(KNOWN) >= 524
    assert len({key for _, key, _ in KNOWN}) >= 52
