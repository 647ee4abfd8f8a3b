"""The codecs that are compared: this project, kafka-python, kio. Each by its public functions, bound beforehand.

All build every value. What they build differs: dicts here, objects with slots there, kio's frozen dataclasses with
enums, datetimes and UUIDs. kio reads in Rust and writes in Python.
"""

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import kafka.protocol.admin
import kafka.protocol.consumer
import kafka.protocol.metadata
import kafka.protocol.producer
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from bench.wire_messages import Message

OURS, KAFKA_PYTHON, KIO = "proxy.wire", "kafka-python", "kio"
_ROOMS = (kafka.protocol.admin, kafka.protocol.consumer, kafka.protocol.metadata, kafka.protocol.producer)


@dataclass(frozen=True, slots=True)
class Codec:
    """`decode()` reads the message's bytes; `encode()` writes values that stand ready in this codec's own form."""

    name: str
    decode: Callable[[], Any]
    encode: Callable[[], bytes | bytearray]


def codecs(message: Message) -> tuple[Codec, ...]:
    return ours(message), kafka_python(message), kio(message)


def ours(message: Message) -> Codec:
    body, found = message.body, message.codec
    decode, encode = found.decode, found.encode
    values, _ = decode(body)
    return Codec(OURS, lambda: decode(body)[0], lambda: encode(values))


def kafka_python(message: Message) -> Codec:
    """It encodes objects made by their constructors: these have all fields in their slots, which is faster than what
    decoding leaves.
    """
    body, version = message.body, message.version
    known: Any = next(found for room in _ROOMS if (found := getattr(room, message.codec.message.name, None)))
    decode = known.decode
    values = _constructed(known, decode(body, version=version), version)
    return Codec(KAFKA_PYTHON, lambda: decode(body, version=version), lambda: values.encode(version=version))


def _constructed(kind: Any, decoded: Any, version: int) -> Any:
    values = {}
    for field in kind._struct.fields.values():
        if field.for_version_q(version):
            value = getattr(decoded, field.name)
            if field.is_struct_array() and value is not None:
                value = [_constructed(type(one), one, version) for one in value]
            values[field.name] = value
    return kind(version=version, **values)


def kio(message: Message) -> Codec:
    load = load_request_schema if message.kind == "request" else load_response_schema
    entity = load(message.key, message.version)
    body, read, write = message.body, entity_reader(entity), entity_writer(entity)
    value, _ = read(body, 0)

    def encode() -> bytes:
        out = io.BytesIO()
        write(out, value)
        return out.getvalue()

    return Codec(KIO, lambda: read(body, 0)[0], encode)
