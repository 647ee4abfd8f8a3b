"""The codecs that are compared: this project, kafka-python, kio, aiokafka, and franz-go's kmsg.

Each by its public functions, bound beforehand. All build every value. What they build differs: dicts here, objects with
slots there, kio's frozen dataclasses with enums, datetimes and UUIDs. kio reads in Rust and writes in Python; aiokafka
knows older versions only; kmsg is Go, a process of its own that times itself (`kmsg/main.go`).
"""

import base64
import io
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import aiokafka.protocol
import kafka.protocol.admin
import kafka.protocol.consumer
import kafka.protocol.metadata
import kafka.protocol.producer
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from bench.processes import HERE
from bench.wire_messages import Message
from proxy.wire.keys import LIST_OFFSETS

OURS, KAFKA_PYTHON, KIO, AIOKAFKA, KMSG = "proxy.wire", "kafka-python", "kio", "aiokafka", "franz-go"
_ROOMS = (kafka.protocol.admin, kafka.protocol.consumer, kafka.protocol.metadata, kafka.protocol.producer)


@dataclass(frozen=True, slots=True)
class Codec:
    """`decode()` reads the message's bytes; `encode()` writes values that stand ready in this codec's own form."""

    name: str
    decode: Callable[[], Any]
    encode: Callable[[], bytes | bytearray]


def codecs(message: Message) -> tuple[Codec, ...]:
    """Those in this process that know the message's version."""
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


def newest_of_aiokafka(message: Message) -> int | None:
    """The newest version that it has a class for; None: it has none."""
    kind, key = message.kind.capitalize(), message.key
    versions = [version for found_kind, found_key, version in _AIOKAFKA if (found_kind, found_key) == (kind, key)]
    return max(versions, default=None)


def of_aiokafka(message: Message) -> Codec:
    """Its codec; of its requests, which it only sends, the same struct reads. KeyError: it doesn't know the version."""
    body, known = message.body, _AIOKAFKA[message.kind.capitalize(), message.key, message.version]
    decode = known.decode
    value = decode(io.BytesIO(body))
    return Codec(AIOKAFKA, lambda: decode(io.BytesIO(body)), lambda: value.encode())


def _classes_of_aiokafka() -> dict[tuple[str, int, int], Any]:
    rooms = [import_module(f"aiokafka.protocol.{room.name}") for room in iter_modules(aiokafka.protocol.__path__)]
    named = [(found[1], one) for room in rooms for name, one in vars(room).items() if (found := _VERSIONED.match(name))]
    return {(kind, one.API_KEY, one.API_VERSION): one for kind, one in named}


_VERSIONED = re.compile(r"\w+(Request|Response)_v\d+$")
_AIOKAFKA = _classes_of_aiokafka()
# aiokafka 0.14 takes the leader's epoch of ListOffsets requests for 64 bits
for _version in (4, 5):
    _AIOKAFKA.pop(("Request", LIST_OFFSETS, _version), None)


class Kmsg:
    """The process with franz-go's codec. RuntimeError: it can't read a message, or has ended."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self._numbers: dict[tuple[str, int], int] = {}

    def add(self, message: Message) -> bytes:
        """Tells it of a message; returns the bytes that it makes of the values that it has read."""
        self._numbers[message.name, message.version] = len(self._numbers)
        body = base64.b64encode(message.body).decode()
        is_response = message.kind == "response"
        said = self._ask({"response": is_response, "key": message.key, "version": message.version, "body": body})
        return bytes.fromhex(said)

    def ns(self, message: Message, direction: str, seconds: float) -> float:
        """Nanoseconds of a processor that a call takes."""
        number = self._numbers[message.name, message.version]
        return float(self._ask({"message": number, "direction": direction, "ns": round(seconds * 1e9)}))

    def _ask(self, question: dict[str, object]) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        if not (said := self._process.stdout.readline().strip()):
            raise RuntimeError(f"franz-go's codec ended at {question}")
        return said


@contextmanager
def kmsg(folder: Path) -> Iterator[Kmsg]:
    """franz-go's codec, built into `folder`. RuntimeError: there is no Go, or the module can't be had."""
    if shutil.which("go") is None:
        raise RuntimeError("there is no Go on this machine")
    program = folder / "kmsg"
    built = subprocess.run(["go", "build", "-o", program, "."], cwd=HERE / "kmsg", capture_output=True, text=True)
    if built.returncode:
        raise RuntimeError(built.stderr.strip().splitlines()[-1])
    process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield Kmsg(process)
    finally:
        process.kill()
        process.communicate()
