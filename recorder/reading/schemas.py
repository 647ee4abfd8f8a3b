"""Decodes records' keys and values that a serializer of a schema registry has written.

Confluent's wire format: a byte 0, the schema's id (4 bytes), for Protobuf the indexes of the message in its file, and
the data. fastavro decodes Avro, Google's library Protobuf (`protoc` compiles schemas, in a process of its own); data
of JSON Schema are text already. All bytes that are not decoded are shown as they are, with the reason.

Schemas and data may be hostile. fastavro calls itself for each level of the data, and makes values of no bytes, so
Avro schemas whose data could be endless are not used (`avro_limits`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache, lru_cache
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from proxy.wire.primitives import read_uvarint
from recorder.reading.avro_limits import Endless, check
from recorder.reading.elements import shown
from recorder.reading.schema_sources import AVRO, JSON, PROTOBUF, FolderSource, NoSchema, Registry, Schema, Source

_MAGIC, _HEAD = 0, 5
# schemas that are asked for: a hostile capture may name any number
MAX_SCHEMAS = 1000
# bytes that are decoded: a byte may become a value that takes some hundred bytes of memory
MAX_DATA = 1 << 20
# letters of a decoded value: few bytes may be many fields with long names
MAX_TEXT = 1 << 20
# bytes of a decimal: making its digits takes time that grows with their square
MAX_DECIMAL = 1 << 10
# values that are not decoded anew: a record's are asked for several times in a row, and each may take some megabytes
_REMEMBERED = 16
_PROTOC_SECONDS = 30
Decode = Callable[[bytes], Any]


class Undecodable(Exception):
    """Bytes that their schema does not fit. The message says why, in one line."""


class Value(NamedTuple):
    """A key or a value as text. `why`: why it is not decoded although it names a schema."""

    text: str | None
    why: str | None = None


class Schemas:
    """Decodes what names a schema. `source`: the schemas."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._decoders: dict[int, Decode | str] = {}
        self.value = lru_cache(_REMEMBERED)(self._value)

    def text(self, data: bytes | None) -> str | None:
        """Bytes as text: decoded if they name a schema, else as `elements.shown` has them."""
        return self.value(data).text

    def _value(self, data: bytes | None) -> Value:
        if data is None or len(data) < _HEAD or data[0] != _MAGIC:
            return Value(shown(data))
        number = int.from_bytes(data[1:_HEAD], "big")
        if len(data) > MAX_DATA:
            return Value(shown(data), f"schema {number}: more than {MAX_DATA >> 20} MiB are not decoded")
        decoder = self._decoder(number)
        if isinstance(decoder, str):
            return Value(shown(data), f"schema {number}: {decoder}")
        try:
            return Value(_as_text(decoder(data[_HEAD:])))
        except Undecodable as error:
            return Value(shown(data), f"schema {number}: {error}")
        except Exception as error:
            # whatever a library makes of foreign bytes
            return Value(shown(data), f"schema {number}: its data don't fit it ({type(error).__name__})")

    def _decoder(self, number: int) -> Decode | str:
        """What decodes data of a schema; or why nothing does."""
        if number not in self._decoders:
            if len(self._decoders) >= MAX_SCHEMAS:
                return f"more than {MAX_SCHEMAS} schemas are named"
            self._decoders[number] = self._made(number)
        return self._decoders[number]

    def _made(self, number: int) -> Decode | str:
        try:
            schema = self._source.schema(number)
            make = _MAKERS.get(schema.kind)
            return make(schema) if make else "it is of an unknown kind"
        except (NoSchema, Endless, Undecodable) as error:
            return str(error)
        except Exception as error:
            return f"it can't be read ({type(error).__name__})"


def schemas_at(place: str) -> Schemas:
    """The schemas of a registry (http://, https://) or of a folder. Errors: ValueError."""
    if place.startswith(("http://", "https://")):
        return Schemas(Registry(place))
    # unlike `Path.is_dir`, this takes any text
    if "://" in place or not os.path.isdir(place):
        raise ValueError("is neither the URL of a schema registry nor a folder")
    return Schemas(FolderSource(Path(place)))


def _as_text(value: Any) -> str:
    pieces, size = [], 0
    for piece in json.JSONEncoder(ensure_ascii=False, default=_plain).iterencode(value):
        pieces.append(piece)
        size += len(piece)
        if size > MAX_TEXT:
            raise Undecodable(f"its data make more than {MAX_TEXT} letters")
    return "".join(pieces)


def _plain(value: Any) -> Any:
    return shown(value) if isinstance(value, bytes) else str(value)


def _avro(schema: Schema) -> Decode:
    import fastavro

    _bound_decimals()
    named: dict[str, Any] = {}
    every = [*map(json.loads, (*schema.references.values(), schema.text))]
    check(every)
    for each in every:
        parsed = fastavro.parse_schema(each, named_schemas=named)

    def decode(data: bytes) -> Any:
        stream = BytesIO(data)
        value = fastavro.schemaless_reader(stream, parsed)
        return _whole(value, len(data) - stream.tell())

    return decode


@cache
def _bound_decimals() -> None:
    """Lets fastavro refuse decimals that are too large."""
    from fastavro.read import LOGICAL_READERS

    def bounded(read: Callable[..., Any]) -> Callable[..., Any]:
        def decimal(data: bytes, *schemas: Any) -> Any:
            if len(data) > MAX_DECIMAL:
                raise Undecodable(f"a decimal has more than {MAX_DECIMAL} bytes")
            return read(data, *schemas)

        return decimal

    for name in ("bytes-decimal", "fixed-decimal"):
        LOGICAL_READERS[name] = bounded(LOGICAL_READERS[name])


def _whole(value: Any, left: int) -> Any:
    if left:
        raise Undecodable(f"{left} bytes are left behind its data")
    return value


def _json(_schema: Schema) -> Decode:
    return json.loads


def _protobuf(schema: Schema) -> Decode:
    from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

    files = descriptor_pb2.FileDescriptorSet.FromString(_compiled(schema))
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    own = pool.FindFileByName(files.file[-1].name)

    def decode(data: bytes) -> Any:
        indexes, body = _indexes(data)
        found = [*own.message_types_by_name.values()][indexes[0]]
        for index in indexes[1:]:
            found = found.nested_types[index]
        message = message_factory.GetMessageClass(found).FromString(body)
        return json_format.MessageToDict(message, preserving_proto_field_name=True, descriptor_pool=pool)

    return decode


def _indexes(data: bytes) -> tuple[list[int], bytes]:
    """The indexes of a message in its file, from the outermost one on, and the bytes behind them."""
    count, at = _zigzag(data, 0)
    if not 0 <= count <= len(data):
        raise Undecodable("its message has no indexes")
    indexes = []
    for _ in range(count):
        index, at = _zigzag(data, at)
        if index < 0:
            raise Undecodable("an index of its message is below 0")
        indexes.append(index)
    return indexes or [0], data[at:]


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    value, at = read_uvarint(data, at)
    return value >> 1 ^ -(value & 1), at


def _compiled(schema: Schema) -> bytes:
    """The descriptors of a schema and of all that it needs. Errors: Undecodable."""
    with TemporaryDirectory(prefix="kafka-wiretap-schema-") as kept:
        folder = Path(kept)
        own = folder / "schema" / "__schema.proto"
        for name, text in {**schema.references, own.name: schema.text}.items():
            path = (own.parent / name).resolve()
            if not path.is_relative_to(own.parent):
                raise Undecodable("it imports a file outside its folder")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        out = folder / "out"
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{own.parent}", "--include_imports"]
        # its errors have the schema's own words
        done = subprocess.run(
            [*command, f"--descriptor_set_out={out}", own.name], capture_output=True, timeout=_PROTOC_SECONDS
        )
        if done.returncode:
            raise Undecodable("protoc does not take it")
        return out.read_bytes()


_MAKERS: dict[str, Callable[[Schema], Decode]] = {AVRO: _avro, JSON: _json, PROTOBUF: _protobuf}
