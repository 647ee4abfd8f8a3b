"""kio, an independent codec generated from Kafka's definitions, reads our bytes and writes the same again.

It knows no old floors and none of the newest versions; those it knows are all compared. Its times are datetimes and
its error codes an enum, hence tame values.
"""

import io
from typing import Any, Literal

from kio.index import UnknownAPIKey, UnknownEntity, load_payload_module
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from proxy.wire.apis import Kind
from proxy.wire.headers import request_header_version, response_header_version
from tests.strategies import EVERY_MESSAGE, must_codec, values_of

KINDS: dict[Kind, Literal[EntityType.request, EntityType.response]] = {
    "request": EntityType.request,
    "response": EntityType.response,
}


def kio_entity(kind: Kind, key: int, version: int) -> Any:
    """kio's class of that message; None where it knows none."""
    try:
        module = load_payload_module(key, version, KINDS[kind])
    except (UnknownAPIKey, UnknownEntity):
        return None
    return getattr(module, must_codec(kind, key, version).message.name)


def rewritten(entity: Any, data: bytes) -> tuple[bytes, int]:
    """What kio writes after reading `data`, and how many bytes it read."""
    value, size = entity_reader(entity)(data, 0)
    out = io.BytesIO()
    entity_writer(entity)(out, value)
    return out.getvalue(), size


def test_kio_reads_every_version_it_knows_and_writes_the_same_bytes() -> None:
    compared = 0
    for message in EVERY_MESSAGE:
        if entity := kio_entity(*message):
            codec = must_codec(*message)
            data = codec.encode(values_of(codec, "kio", tame=True))
            assert rewritten(entity, data) == (data, len(data)), message
            compared += 1
    assert compared > 550


def test_header_versions_are_those_of_kio() -> None:
    rule = {"request": request_header_version, "response": response_header_version}
    for kind, key, version in EVERY_MESSAGE:
        if entity := kio_entity(kind, key, version):
            header = entity.__header_schema__.__version__
            assert rule[kind](key, version) == header, (kind, key, version)
